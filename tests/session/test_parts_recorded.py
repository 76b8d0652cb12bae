"""What is told rarely, through a recording: wherever one begins to play, it stands as it stood, with its true age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stethoscope.clock import FixedClock
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.session.player import LEAD_S, Player
from stethoscope.session.recorder import Recorder
from stethoscope.session.session import Session
from stethoscope.session.standing import OVERDUE_S, Packer, StandingLines
from stethoscope.store.format import PARTS_S, STANDING_AT, RecordType
from stethoscope.store.outlets import FileOutlet, Outlet, RingOutlet
from stethoscope.store.recordings import Recording
from stethoscope.store.ring import RingLimits
from stethoscope.store.tape import Tape, open_tape
from tests.analysis.test_parts import CATALOGUE, GPUS, Spec, value

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.collect.source import Sink
    from stethoscope.model.fleet import FleetSnapshot

START, BOOTED = 1_773_454_447.0, 5_000.0
TICK_S, FULL_S, WHOLE_S = 5.0, 60.0, 300.0


class Told:
    """A source that is told by hand."""

    fleet, simulated = "told", True
    nodes = (Spec("n1", tick_s=TICK_S), Spec("n2", tick_s=TICK_S))

    async def run(self, sink: Sink) -> None:
        raise AssertionError("it is told by hand")

    def ask_full(self, node: str | None = None) -> None:
        """Nothing is asked for."""


def make(source: Any, clock: Any) -> Session:
    return Session(source, CATALOGUE, clock)


class Node:
    """What the probe of one node says, second by second."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started: float | None = None
        self.told: dict[str, tuple[float, dict[str, Any]]] = {}

    def lines(self, t: float, *, down: tuple[float, float] | None) -> list[bytes]:
        if down and down[0] <= t < down[1]:
            self.started = None
            return []
        said = []
        if self.started is None:
            self.started, self.told, self.seq = t, {}, -1
            said.append(self.line(wire.Hello, t, boot_id="b", kernel="6.1"))
        if (t - self.started) % FULL_S == 0:
            said.append(self.line(wire.Full, t, gpus=GPUS, node={"load1": 1}, gpu={"gpu_temp": [60, 61]}))
        elif t % TICK_S == 0:
            said.append(self.line(wire.Delta, t, node={"load1": t}))
        for group, every_s, first_s, fields in self.parts(t):
            if t >= self.started + first_s and (t - self.started - first_s) % every_s == 0:
                at, before = self.told.get(group, (-1e9, {}))
                if fields == before and t < at + WHOLE_S - 1:
                    said.append(self.line(wire.Part, t, name=group, s=every_s, same=True))
                else:
                    self.told[group] = t, fields
                    said.append(self.line(wire.Part, t, name=group, s=every_s, **fields))
        return said

    def parts(self, t: float) -> list[tuple[str, float, float, dict[str, Any]]]:
        killed = 100 + int(t // 450)
        stat = f"   8       0 sda {1000 + int(t)} 0 8 {int(t) * 3} {2000} 0 8 0 0 {int(t) * 200} 0 0 0 0 0 0 0"
        links = {"nvlink_state": [[1, 1], []], "nvlink_crc_errors": [[int(t // 700), 0], []]}
        return [
            ("host", 30.0, 1.0, {"files": {"/proc/vmstat": f"oom_kill {killed}\n"}}),
            ("disks", 30.0, 3.0, {"files": {"/proc/diskstats": stat, "/sys/block/sda/device/model": "X9"}}),
            ("gpu", 30.0, 6.0, {"links": links, "words": {"driver_version": "550.1"}}),
            ("identity", 300.0, 8.0, {"files": {"/proc/version": "Linux version 6.1.2-x (a)"}}),
            ("mounts", 600.0, 10.0, {"files": {}}),
        ]  # fmt: skip

    def line(self, kind: type[Any], t: float, **fields: Any) -> bytes:
        self.seq += 1
        return wire.encode(kind(seq=self.seq, mono=9_000.0 + t, wall=START + t, **fields))


def record(outlet: Outlet, until_s: int, *, down: tuple[float, float] | None = None) -> Session:
    """Record two nodes, the second of which is `down` for a while; return the session that saw it live."""
    clock = FixedClock(START - BOOTED)
    clock.advance(BOOTED)
    source = Told()
    recorder = Recorder(source, clock, outlet)
    live = Session(source, CATALOGUE, clock, taps=(recorder,))
    recorder.open()
    nodes = [Node("n1"), Node("n2")]
    for t in range(until_s + 1):
        for node in nodes:
            own_down = down if node.name == "n2" else None
            was_up = node.started is not None
            lines = node.lines(float(t), down=own_down)
            if was_up != (node.started is not None):
                state = LinkState.UNREACHABLE if was_up else LinkState.LIVE
                live.on_link(node.name, Link(state, clock.wall()))
            for raw in lines:
                live.on_frame(Frame(node.name, clock.wall(), clock.monotonic(), raw))
        recorder._drain()
        clock.advance(1.0)
    assert recorder._writer is not None
    recorder._writer.close()
    clock.advance(-1.0)
    live.snapshot(latest=True)
    return live


def at(tape: Tape, t: float, begin: float) -> FleetSnapshot:
    player = Player(tape, make)
    player.begin(begin)
    player.play(t)
    assert player.session.lost_lines == 0, player.session.last_defect
    return player.session.snapshot(latest=True)


def assert_alike(one: FleetSnapshot, other: FleetSnapshot) -> None:
    for scope in Scope:
        rows, others = (
            [row for node in snapshot.nodes for row in snapshot.rows(node, scope)] for snapshot in (one, other)
        )
        for name in ("values", "reasons", "totals", "total_reasons"):
            mine, theirs = getattr(one.tables[scope], name)[:, rows], getattr(other.tables[scope], name)[:, others]
            np.testing.assert_array_equal(mine, theirs, err_msg=f"{scope} {name}")
    for left, right in zip(one.nodes, other.nodes, strict=True):
        for name in ("devices", "about", "words", "gpu_words", "processes", "tasks", "gpus"):
            assert getattr(left, name) == getattr(right, name), (left.name, name)
        assert not left.link.state.is_live or ages(one, left.index) == pytest.approx(ages(other, right.index))
        assert left.link.state is right.link.state


def ages(snapshot: FleetSnapshot, node: int) -> dict[str, float]:
    return {group: snapshot.mono - part.mono for group, part in snapshot.nodes[node].parts.items()}


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    path = tmp_path_factory.mktemp("parts") / "a.sthr"
    record(FileOutlet(path), 1500)
    return open_tape(path)


def test_what_was_seen_live_is_played_again(tmp_path: Path) -> None:
    live = record(FileOutlet(tmp_path / "a.sthr"), 700)
    played = at(open_tape(tmp_path / "a.sthr"), 700.0, 0.0)
    assert_alike(played, live.snapshot())
    assert value(played, "n1/disk/sda", "disk_io_util") == pytest.approx(20)
    assert value(played, "n1/nvlink/0/0", "nvlink_state") == 1
    assert [node.bad_lines for node in played.nodes] == [0, 0]


@pytest.mark.parametrize("t", [100.0, 321.5, 460.0, 605.0, 777.0, 1000.0, 1234.5, 1500.0])
def test_after_a_seek_all_is_there_with_its_true_age(tape: Tape, t: float) -> None:
    begin = tape.lead_in(t, LEAD_S, 0)
    assert begin > 0 or t < 150
    straight, sought = at(tape, t, 0.0), at(tape, t, begin)
    assert_alike(straight, sought)
    assert [node.bad_lines for node in sought.nodes] == [0, 0]
    assert sought.nodes[0].words == {"driver_version": "550.1", "kernel": "6.1.2-x"}


def test_what_a_file_begins_with_is_enough_for_it(tmp_path: Path) -> None:
    record(RingOutlet(tmp_path, RingLimits(segment_s=250)), 1200)
    whole = open_tape(tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    t = 3 * 251.0 + 120
    straight = at(whole, t, 0.0)
    alone = open_tape(files[3])
    shift = START + t - alone.wall_span[0]
    sought = at(alone, shift, 0.0)
    for place, id_ in (("n1", "oom_kills"), ("n1/disk/sda", "disk_io_util"), ("n1/nvlink/0/0", "nvlink_state")):
        assert value(sought, place, id_) == value(straight, place, id_)
    assert sought.nodes[0].words == straight.nodes[0].words
    assert ages(sought, 0) == pytest.approx(ages(straight, 0))
    assert ages(sought, 0)["mounts"] > 250


def test_parts_of_an_earlier_run_are_not_those_of_this_one(tmp_path: Path) -> None:
    record(FileOutlet(tmp_path / "a.sthr"), 800, down=(400.0, 640.0))
    tape = open_tape(tmp_path / "a.sthr")
    for t in (500.0, 645.0, 700.0, 790.0):
        assert_alike(at(tape, t, tape.lead_in(t, LEAD_S, 0)), at(tape, t, 0.0))
    assert value(at(tape, 500.0, tape.lead_in(500.0, LEAD_S, 0)), "n2", "oom_kills") is Reason.UNREACHABLE


def test_the_same_without_the_whole_before_it_means_nothing(tmp_path: Path) -> None:
    clock = FixedClock(START)
    recorder = Recorder(Told(), clock, FileOutlet(tmp_path / "a.sthr"))
    recorder.open()
    node = Node("n1")
    node.seq = 4
    recorder.on_link("n1", Link(LinkState.LIVE, START))
    for t, kind, fields in (
        (0.0, wire.Full, {"gpus": GPUS}),
        (1.0, wire.Part, {"name": "host", "s": 30.0, "same": True}),
        (2.0, wire.Delta, {}),
    ):
        recorder.on_frame(Frame("n1", START + t, t, node.line(kind, t, **fields)))
    recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    snapshot = at(open_tape(tmp_path / "a.sthr"), 2.0, 0.0)
    found = snapshot.tables[Scope.NODE].get("oom_kills", 0)
    assert found == Missing(Reason.WAITING)
    assert snapshot.nodes[0].parts == {}


def test_parts_are_written_again_when_they_were_not_for_long(tape: Tape) -> None:
    (reel,) = tape.reels
    records = [r for block in Recording(reel.recording.path).blocks() for r in block]
    standing = [r for r in records if r.type == RecordType.STANDING_PART]
    assert standing
    told = {STANDING_AT.unpack_from(r.payload)[1] - BOOTED for r in standing}
    assert {r.payload[STANDING_AT.size :].count(b'"mounts"') for r in standing} == {1}  # others come whole before
    assert told <= {10.0, 610.0, 1210.0}


def test_what_stands_is_bounded(tmp_path: Path) -> None:
    parts = StandingLines(tmp_path)
    for number in range(100):
        parts.see(0, 1.0, 2.0, wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, name=f"g{number}")))
    parts.see(0, 1.0, 2.0, wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, name="g1", files={"/x": "y" * 600_000})))
    parts.see(0, 1.0, 2.0, wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, name="unknown", same=True)))
    assert len(list(parts.due(3.0, is_first=True))) == 31
    assert list(parts.due(3.0 + OVERDUE_S, is_first=False)) == []
    assert len(list(parts.due(3.5 + OVERDUE_S, is_first=False))) == 31
    parts.forget(0)
    assert (parts.nbytes, OVERDUE_S < PARTS_S - 60) == (0, True)


def test_the_last_full_line_of_who_says_nothing_any_more_stands(tmp_path: Path) -> None:
    lines = StandingLines(tmp_path)
    said = [b'{"t":"full","seq":%d,"node":{"load1":%d}}' % (number, number) for number in range(5)]
    said.append(b'{"t":"full","x":"' + np.random.default_rng(1).bytes(2**21).hex().encode() + b'"}')
    for node, line in enumerate(said):
        lines.see_full(node, 1.0, 2.0, b'{"t":"full"}')
        lines.see_full(node, 3.0 + node, 4.0 + node, line)
    lines.forget(3)
    told = [*lines.silent(99.0, 92.5)]
    assert [node for node, _ in told] == [0, 1, 2]
    assert [*lines.silent(200.0, 90.0)] == [
        (node, STANDING_AT.pack(3.0 + node, 4.0 + node) + line) for node, line in enumerate(said)
    ]
    assert [*lines.due(500.0, is_first=True)] == []


def test_a_part_that_a_disk_has_lost_is_left_out(tmp_path: Path) -> None:
    parts = StandingLines(tmp_path)
    for node in range(3):
        parts.see(node, 1.0, 2.0, wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, name="host", files={"/x": "y"})))
        parts.see(node, 3.0, 4.0, wire.encode(wire.Part(seq=2, mono=3.0, wall=3.0, name="host", same=True)))
    told = [*parts.due(5.0, is_first=True)]
    assert [(node, STANDING_AT.unpack_from(line)) for node, line in told] == [
        (node, at) for node in range(3) for at in ((1.0, 2.0), (3.0, 4.0))
    ]
    file = parts._aside._file
    assert file is not None
    file.truncate(0)
    assert [*parts.due(6.0, is_first=True)] == []
    parts.see(1, 7.0, 8.0, wire.encode(wire.Part(seq=3, mono=7.0, wall=7.0, name="host")))
    assert [node for node, _ in parts.due(9.0, is_first=True)] == [1]


def test_lines_that_are_packed_at_once_are_those_that_are_packed_one_by_one() -> None:
    lines = [b'{"t":"part","name":"net","files":{"/proc/net/dev":"%d"}}' % number for number in (1, 1, 2**40, 7)]
    packer = Packer(lines[0])
    packed = packer.compress_all(lines)
    assert packed == [packer.compress(line) for line in lines]
    assert [packer.decompress(line) for line in packed] == lines
    assert packer.compress_all([]) == []
