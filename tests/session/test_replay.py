"""Replay: the recording alone decides what is found; seeking, pausing and speed change nothing about it."""

from __future__ import annotations

import msgspec
import pytest

from stethoscope.analysis.rules import Engine
from stethoscope.clock import FixedClock, iso
from stethoscope.errors import UsageError
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.model.scheduler import SchedulerReading, SchedulerState
from stethoscope.session.open import session_maker
from stethoscope.session.player import Player
from stethoscope.session.recorder import Recorder
from stethoscope.session.replay import ReplaySession, check_recording, parse_at
from stethoscope.session.session import Session
from stethoscope.store.format import BlockData, FleetEntry, NodeEntry, RecordType
from stethoscope.store.outlets import FileOutlet, RingOutlet
from stethoscope.store.ring import RingLimits
from stethoscope.store.tape import Tape, open_tape
from stethoscope.store.writer import Writer, create
from stethoscope.ui.present.report import report_json
from tests.store.made import BOOTED, STARTED, Fleet, record

FAULTS = (
    "at: 60s, fault: node_down, where: gpu-004, params: {back_after: 90}",
    "at: 100s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2",
)


@pytest.fixture(scope="module", autouse=True)
def _no_user_configuration(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    path = tmp_path_factory.mktemp("tape") / "a.sthr"
    record(path, *FAULTS, until_s=400)
    return open_tape(path)


@pytest.fixture(scope="module")
def make(_no_user_configuration: object):  # type: ignore[no-untyped-def]
    return session_maker()


class Pace(FixedClock):
    """A clock of the machine that goes on by itself with each look, so that slices end."""

    def __init__(self, step_s: float = 0.0) -> None:
        super().__init__()
        self._step_s = step_s

    def monotonic(self) -> float:
        self.advance(self._step_s)
        return super().monotonic()


def found(session) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    return [(finding.rule, finding.nodes) for finding in session.snapshot().findings if finding.state == "active"]


def arrive(replay: ReplaySession) -> None:
    for _ in range(100_000):
        if not replay.advance():
            return
    raise AssertionError("it never arrives")


def answer(tape: Tape, make, at: float) -> bytes:  # type: ignore[no-untyped-def]
    return msgspec.json.encode(report_json(check_recording(tape, make, at)))


def test_the_same_recording_gives_the_same_answer_to_the_byte(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    first = answer(tape, make, 200)
    assert answer(open_tape(tape.reels[0].recording.path), session_maker(), 200) == first
    said = msgspec.json.decode(first)
    assert said["at"] == iso(STARTED + 200)
    assert said["summary"]["seconds"] == 200.0
    assert {finding["rule"] for finding in said["findings"]} >= {"gpu_lost"}


def test_what_was_found_live_is_found_again(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    clock = FixedClock(STARTED - BOOTED)
    clock.advance(BOOTED)
    source = Fleet(*FAULTS)
    live = make(source, clock)
    player = Player(tape, make)
    for t_s in range(0, 300, 2):
        live.evaluate()
        source.tell(live, t_s, clock.wall(), clock.monotonic())
        clock.advance(1)
        live.evaluate()
        clock.advance(1)
        player.play(t_s + 1.0)
        assert found(player.session) == found(live), t_s
    mine, theirs = player.session.snapshot(latest=True), live.snapshot(latest=True)
    for scope in Scope:
        assert (mine.tables[scope].reasons == theirs.tables[scope].reasons).all()
    assert [node.frames for node in mine.nodes] == [node.frames for node in theirs.nodes]
    assert [node.boot_id for node in mine.nodes] == [node.boot_id for node in theirs.nodes]
    assert player.session.lost_lines == 0


def test_speed_and_slices_change_nothing(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    whole = Player(tape, make)
    whole.play(250)
    cut = Player(tape, make)
    turn = iter(range(10**9))
    while not cut.play(250, lambda: next(turn) % 3 > 0):
        pass
    assert cut.session.snapshot(latest=True).findings == whole.session.snapshot(latest=True).findings
    slow = Player(tape, make)
    for step in range(1, 2501):
        slow.play(step / 10)
    assert slow.session.snapshot(latest=True).findings == whole.session.snapshot(latest=True).findings


def test_it_plays_at_its_speed_and_stands_still_when_told_to(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    pace = FixedClock()
    replay = ReplaySession(tape, make, pace=pace)
    replay.advance()
    pace.advance(0.5)
    replay.advance()
    assert replay.clock.monotonic() == 0.5
    assert replay.clock.wall() == STARTED + 0.5
    replay.change_speed(3)
    pace.advance(0.5)
    replay.advance()
    assert (replay.clock.monotonic(), replay.state.speed) == (4.5, 8.0)
    replay.toggle_pause()
    pace.advance(0.5)
    replay.advance()
    assert (replay.clock.monotonic(), replay.state.paused) == (4.5, True)
    replay.change_speed(-99)
    assert replay.state.speed == 0.125
    replay.change_speed(99)
    assert replay.state.speed == 64
    replay.toggle_pause()
    for _ in range(100):
        pace.advance(0.5)
        replay.advance()
    assert (replay.clock.monotonic(), replay.state.ended, replay.state.share) == (400.0, True, 1.0)


def test_ages_are_those_of_the_recording(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    replay = ReplaySession(tape, make, at=301.5, pace=FixedClock())
    arrive(replay)
    snapshot = replay.snapshot()
    assert snapshot.node("gpu-001").age_s(replay.clock.monotonic()) == 1.5
    assert snapshot.node("gpu-001").clock_offset_s == pytest.approx(0, abs=1)
    assert snapshot.wall == STARTED + 301.5


def test_a_replay_has_a_mark_and_a_past_of_its_own(tape: Tape, make, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    replay = ReplaySession(tape, make, at=200, pace=FixedClock())
    arrive(replay)
    assert replay.history.seconds > 60
    mark = replay.set_mark()
    replay.seek_by(100)
    arrive(replay)
    snapshot = replay.snapshot()
    assert replay.mark is mark
    sent = mark.since(snapshot, Scope.PORT, "ib_port_xmit_data", snapshot.rows(snapshot.nodes[0], Scope.PORT).start)
    assert isinstance(sent, int)
    replay.seek_by(-200)
    arrive(replay)
    before = replay.snapshot()
    assert mark.since(before, Scope.PORT, "ib_port_xmit_data", 0) == Missing(Reason.WAITING)
    assert replay.history.series(Scope.NODE, "cpu_util", 0)[0].max() < 110, "what was later is not there"
    replay.clear_mark()
    assert replay.mark is None
    assert list(tmp_path.iterdir()) == []


def test_going_back_starts_again_with_enough_before(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    replay = ReplaySession(tape, make, at=390, pace=FixedClock())
    arrive(replay)
    before = replay.state.restarts
    replay.seek_by(-100)
    assert replay.state.seeking
    arrive(replay)
    assert replay.clock.monotonic() == 290
    assert replay.state.restarts > before
    straight = Player(tape, make)
    straight.play(290)
    assert found(replay) == found(straight.session)
    mine, theirs = replay.snapshot(), straight.session.snapshot(latest=True)
    for scope in Scope:
        assert (mine.tables[scope].reasons == theirs.tables[scope].reasons).all()
    assert [node.bad_lines for node in mine.nodes] == [node.bad_lines for node in theirs.nodes]


def test_what_began_in_the_middle_knows_links_and_greetings(tmp_path, make) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "a.sthr"
    record(path, "at: 10s, fault: node_down, where: gpu-004", until_s=300)
    tape = open_tape(path)
    player = Player(tape, make)
    player.begin(tape.lead_in(250, 75, 0))
    assert player.began == 120
    player.play(250)
    snapshot = player.session.evaluate()
    assert snapshot.node("gpu-004").link.state is LinkState.UNREACHABLE
    assert snapshot.node("gpu-004").link.since == STARTED + 10
    assert snapshot.node("gpu-001").boot_id
    assert snapshot.node("gpu-004").frame_wall == STARTED
    assert len(snapshot.node("gpu-004").gpus) == 8
    assert [node.bad_lines for node in snapshot.nodes] == [0] * len(snapshot.nodes)
    assert ("node_lost", "gpu-004") in found(player.session)


def test_the_picture_stands_while_another_place_is_sought(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    replay = ReplaySession(tape, make, at=50, pace=Pace(0.03))
    arrive(replay)
    held, at = replay.snapshot(), replay.clock.monotonic()
    replay.seek_to(390)
    assert replay.advance()
    assert (replay.snapshot(), replay.clock.monotonic()) == (held, at)
    replay.toggle_pause()
    assert not replay.state.seeking
    assert 50 < replay.clock.monotonic() < 390


def test_the_next_change_is_found(tape: Tape, make) -> None:  # type: ignore[no-untyped-def]
    replay = ReplaySession(tape, make, at=40, pace=FixedClock())
    arrive(replay)
    replay.toggle_pause()
    seen = []
    for _ in range(4):
        replay.next_change()
        arrive(replay)
        seen.append((replay.clock.monotonic(), found(replay)))
    assert [t for t, _ in seen][:2] == [61.0, 101.0], seen
    assert ("node_lost", "gpu-004") in seen[0][1]
    assert ("gpu_lost", "gpu-002") in [entry for _, entries in seen for entry in entries]
    for _ in range(20):
        replay.next_change()
        arrive(replay)
    assert replay.state.ended


def test_a_ring_is_played_across_its_segments(tmp_path, make) -> None:  # type: ignore[no-untyped-def]
    outlet = RingOutlet(tmp_path, RingLimits(segment_s=50))
    record(tmp_path / "unused", *FAULTS, until_s=200, outlet=outlet)
    assert len(list(tmp_path.iterdir())) == 5
    tape = open_tape(tmp_path)
    player = Player(tape, make)
    player.play(200)
    assert player.restarts == 1
    assert [node.bad_lines for node in player.session.snapshot(latest=True).nodes] == [0] * 6
    assert ("gpu_lost", "gpu-002") in found(player.session)


def test_readings_of_the_scheduler_are_kept(tmp_path, make) -> None:  # type: ignore[no-untyped-def]
    clock = FixedClock(STARTED)
    source = Fleet()
    recorder = Recorder(source, clock, FileOutlet(tmp_path / "a.sthr"))
    recorder.open()
    live = Session(source, make(source, clock)._state.catalogue, clock, taps=(recorder,))
    live.on_link("gpu-001", Link(LinkState.LIVE, STARTED))
    live.on_scheduler(SchedulerReading({"gpu-001": SchedulerState(("idle", "drain"), "bad fan", "root")}))
    recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    player = Player(open_tape(tmp_path / "a.sthr"), make)
    player.play(10)
    assert player.session.snapshot(latest=True).nodes[0].scheduler == live.snapshot(latest=True).nodes[0].scheduler
    assert player.session.lost_lines == 0


def test_a_hostile_file_is_played_to_its_end(tmp_path, make) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "a.sthr"
    writer = Writer(create(path), FleetEntry("f", (NodeEntry("a"),)))
    made = BlockData()
    payloads = [b"", b"\xff\x00", b'{"t":"full","seq":-1}', b"[" * 5000, b'{"state":"live","since":1e400}',
                b'{"state":"nonsense","since":1}', b'{"state":"live","since":1,"detail":"\\u001b[31m"}',
                b'{"kind":"scheduler","value":{"nodes":{"a":{"words":["\\u001b"]}}}}', b'{"kind":"x","value":1}',
                b'{"kind":"scheduler","value":7}', b'{"records":"many"}']  # fmt: skip
    for type_ in RecordType:
        for number, payload in enumerate(payloads):
            made.add(type_, 0, 9e9 * number, 9e9 * number, payload)
    writer.write(made)
    writer.close()
    player = Player(open_tape(path), make)
    player.play(1e12)
    snapshot = player.session.snapshot(latest=True)
    assert snapshot.nodes[0].link.detail.isprintable()
    assert player.session.lost_lines == 0


def test_times_are_read_as_people_write_them(tape: Tape) -> None:
    assert parse_at("02:16:07", tape) == 120
    assert parse_at("02:16", tape) == 113
    assert parse_at("2026-03-14T02:14:57Z", tape) == 50
    assert parse_at("2026-03-14T02:14:57", tape) == 50
    assert parse_at("2026-03-14T03:14:57+01:00", tape) == 50
    assert parse_at("+2m", tape) == 120
    assert parse_at("-1m", tape) == 340
    for text, words in [
        ("25:00", "not a time of day"), ("03:00:00", "was not recorded"), ("+2h", "outside of the recording"),
        ("2025-01-01", "was not recorded: the recording is from 2026-03-14T02:14:07Z to 2026-03-14T02:20:47Z"),
        ("yesterday", "is no time"), ("+soon", "+soon"),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=words.replace("+", r"\+")):
            parse_at(text, tape)


def test_rules_are_read_once(make) -> None:  # type: ignore[no-untyped-def]
    one, other = make(Fleet(), FixedClock()), make(Fleet(), FixedClock())
    assert isinstance(one._rules, Engine)
    assert one._rules is not other._rules
    assert one._rules._rules == other._rules._rules
