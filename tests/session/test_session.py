"""The session: lines in, snapshots out, and nothing a node sends ends it."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.model import wire
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Scope
from stethoscope.model.night import Standing
from stethoscope.session.mark import MarkFile
from stethoscope.session.session import (
    AGE_S,
    EVALUATE_MANY_S,
    MANY_NODES,
    REBUILD_S,
    SEEN_S,
    TEND_S,
    Change,
    Session,
)
from tests.builders import catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.collect.source import Sink
    from stethoscope.model.fleet import FleetSnapshot


@dataclass
class Spec:
    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = 2.0
    expected_gpus: int | None = None


class Played:
    """A source that the test plays by hand."""

    fleet = "played"
    simulated = True
    nodes = (Spec("n1"), Spec("n2"))

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.started = asyncio.Event()
        self.ended = False

    async def run(self, sink: Sink) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True

    def ask_full(self, node: str | None = None) -> None:
        self.asked.append(node)


def line(load: float, seq: int = 0, node: str = "n1") -> Frame:
    return Frame(node, 0.0, 0.0, wire.encode(wire.Full(seq=seq, mono=1.0 + seq, wall=1.0, node={"load1": load})))


def load(snapshot: FleetSnapshot) -> object:
    return snapshot.tables[Scope.NODE].get("load1", 0)


def finding(id_: str, state: str = "active") -> Finding:
    return Finding(id_, "rule", Severity.P1, ("n1",), "n1", "2026-03-14T02:14:07Z", "wrong", state)


class Judge:
    """Rules that say what the test wants."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        self.looks = 0
        self.broken = False

    def evaluate(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
        self.looks += 1
        if self.broken:
            raise ZeroDivisionError("of a rule")
        return self.findings


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


def test_a_snapshot_shows_what_came(clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    session.on_link("n1", Link(LinkState.LIVE, 0.0))
    session.on_frame(line(3.0))
    snapshot = session.snapshot()
    assert load(snapshot) == 3.0
    assert (snapshot.fleet, snapshot.simulated, snapshot.wall) == ("played", True, clock.wall())
    assert [node.name for node in snapshot.nodes] == ["n1", "n2"]


def test_a_snapshot_is_built_again_only_after_a_while(clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    session.on_frame(line(2.0))
    first = session.snapshot()
    session.on_frame(line(3.0, 1))
    assert session.snapshot() is first
    assert load(session.snapshot(latest=True)) == 3.0
    session.on_frame(line(4.0, seq=2))
    clock.advance(REBUILD_S)
    second = session.snapshot()
    assert load(second) == 4.0
    clock.advance(REBUILD_S)
    assert session.snapshot() is second
    clock.advance(AGE_S)
    assert session.snapshot() is not second


def test_the_first_values_do_not_wait_until_a_snapshot_is_due(clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    empty = session.snapshot()
    session.on_frame(Frame("n1", 0.0, 0.0, wire.encode(wire.Hello(seq=0, mono=1.0, wall=1.0))))
    assert session.snapshot() is empty
    assert not session.heard.is_set()
    session.on_frame(line(3.0, seq=1))
    assert session.heard.is_set()
    assert load(session.snapshot()) == 3.0


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe\x00", b'{"t":"full"}', b"[" * 100_000, b'{"t":"hello","seq":1e400}']
)
def test_a_broken_line_costs_only_itself(raw: bytes, clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    session.on_frame(Frame("n1", 0.0, 0.0, raw))
    session.on_frame(line(3.0))
    assert session.snapshot().node("n1").bad_lines == 1
    assert load(session.snapshot()) == 3.0
    assert session.lost_lines == 0


def test_a_line_of_a_kind_that_is_no_more_is_no_broken_line_and_leaves_no_gap(clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    session.on_frame(line(3.0))
    old = b'{"t":"result","seq":1,"mono":11.0,"wall":1.0,"id":1,"probe":"mlxlink","status":"ok","text":"light"}'
    session.on_frame(Frame("n1", 0.0, 0.0, old))
    session.on_frame(line(4.0, seq=2))
    node = session.snapshot(latest=True).node("n1")
    assert (node.bad_lines, session.lost_lines) == (0, 0)
    assert load(session.snapshot(latest=True)) == 4.0


def test_a_defect_costs_one_line_and_is_counted(clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    session.on_frame(line(3.0, node="nobody"))
    session.on_frame(Frame("nobody", 0.0, 0.0, b"{"))
    session.on_link("nobody", Link(LinkState.LIVE, 0.0))
    assert session.lost_lines == 2
    assert session.last_defect == "KeyError: 'nobody'"


def test_nodes_that_missed_a_line_are_asked_for_all(clock: FixedClock) -> None:
    source = Played()
    session = Session(source, catalogue(), clock)
    session.on_frame(line(3.0))
    session.on_frame(Frame("n1", 0.0, 0.0, wire.encode(wire.Delta(seq=9, mono=3.0, wall=1.0))))
    session.tend()
    session.tend()
    assert source.asked == ["n1"]


def test_rules_look_once_a_second_and_new_findings_are_pushed_once(clock: FixedClock) -> None:
    judge = Judge(finding("f1"), finding("f0", state="cleared"))
    session = Session(Played(), catalogue(), clock, judge)
    pushed: list[Change] = []
    session.subscribe(pushed.append)
    session.tend()
    clock.advance(0.5)
    session.tend()
    assert judge.looks == 1
    judge.findings = (finding("f1"), finding("f2"))
    clock.advance(0.6)
    session.tend()
    assert judge.looks == 2
    assert [[found.id for found in change.findings] for change in pushed] == [["f1"], ["f2"]]
    assert [found.id for found in session.snapshot().findings] == ["f1", "f2"]


def test_what_somebody_has_seen_is_loud_again_only_when_it_is_worse(clock: FixedClock) -> None:
    judge = Judge(finding("f1"))
    session = Session(Played(), catalogue(), clock, judge)
    pushed: list[Change] = []
    session.subscribe(pushed.append)

    def loud() -> list[str]:
        clock.advance(2)
        session.tend()
        told = [found.id for change in pushed for found in change.loud]
        pushed.clear()
        return told

    assert loud() == ["f1"]
    session.night.acknowledge("f1", clock.wall())
    assert loud() == []
    assert session.snapshot().night["f1"].standing(clock.wall()) is Standing.ACKNOWLEDGED
    judge.findings = ()
    loud()
    judge.findings = (finding("f1"),)
    assert loud() == []
    judge.findings = (replace(finding("f1"), severity=Severity.P0),)
    assert loud() == ["f1"]
    session.night.snooze("f1", clock.wall(), clock.wall() + 5)
    assert loud() == []
    clock.advance(10)
    assert loud() == ["f1"]


def test_broken_rules_keep_the_findings(clock: FixedClock) -> None:
    judge = Judge(finding("f1"))
    session = Session(Played(), catalogue(), clock, judge)
    session.tend()
    judge.broken = True
    clock.advance(2)
    session.tend()
    assert [found.id for found in session.snapshot().findings] == ["f1"]
    assert session.last_defect == "ZeroDivisionError: of a rule"


def test_link_changes_are_pushed_as_one_batch(clock: FixedClock) -> None:
    session = Session(Played(), catalogue(), clock)
    pushed: list[Change] = []
    stop = session.subscribe(pushed.append)
    for state in (LinkState.CONNECTING, LinkState.LIVE):
        session.on_link("n1", Link(state, 0.0))
        session.on_link("n2", Link(state, 0.0))
    session.tend()
    session.tend()
    assert pushed == [Change(links=("n1", "n2"))]
    stop()
    stop()
    session.on_link("n1", Link(LinkState.CLOSED, 0.0))
    session.tend()
    assert len(pushed) == 1


async def test_cancelling_ends_the_source_and_puts_the_collector_back() -> None:
    before = gc.get_threshold()
    source = Played()
    session = Session(source, catalogue())
    running = asyncio.create_task(session.run())
    await source.started.wait()
    assert gc.get_threshold() != before
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert source.ended
    assert gc.get_threshold() == before
    assert len(asyncio.all_tasks()) == 1


async def test_a_source_that_fails_ends_the_session_with_its_error() -> None:
    class Failing(Played):
        async def run(self, sink: Sink) -> None:
            raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        await Session(Failing(), catalogue()).run()


async def test_requests_go_out_while_it_runs() -> None:
    asked = asyncio.Event()

    class Listening(Played):
        def ask_full(self, node: str | None = None) -> None:
            asked.set()

    session = Session(Listening(), catalogue())
    running = asyncio.create_task(session.run())
    session.on_frame(Frame("n1", 0.0, 0.0, wire.encode(wire.Delta(seq=9, mono=3.0, wall=1.0))))
    await asyncio.wait_for(asked.wait(), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_session_that_remembers_keeps_what_values_were(clock: FixedClock) -> None:
    session, forgetful = (Session(Played(), catalogue(), clock, remember=remember) for remember in (True, False))
    for number, value in enumerate((3.0, 4.0, 5.0)):
        for each in (session, forgetful):
            each.on_frame(line(value, seq=number))
            each.snapshot(latest=True)
        clock.advance(5)
    ages, values = session.history.series(Scope.NODE, "load1", 0)
    assert (ages.tolist(), values.tolist()) == ([10, 5, 0], [3, 4, 5])
    assert len(forgetful.history) == 0


def test_what_values_of_a_large_fleet_were_is_kept_in_a_step_of_its_own(clock: FixedClock) -> None:
    class Large(Played):
        nodes = tuple(Spec(f"n{number}") for number in range(MANY_NODES + 1))  # type: ignore[assignment]

    session = Session(Large(), catalogue(), clock, remember=True)
    for number, value in enumerate((3.0, 4.0)):
        session.on_frame(line(value, seq=number))
        session.snapshot(latest=True)
        assert len(session.history) == number
        session.tend()
        session.tend()
        assert len(session.history) == number + 1
        clock.advance(60)
    ages, values = session.history.series(Scope.NODE, "load1", 1)
    assert (ages.tolist(), values.tolist()) == ([60, 0], [3, 4])


def test_a_snapshot_that_was_prepared_is_the_same(clock: FixedClock) -> None:
    sessions = [Session(Played(), catalogue(), clock) for _ in range(2)]
    for number in range(3):
        shown = []
        for session, is_prepared in zip(sessions, (True, False), strict=True):
            session.on_frame(line(1.0 + number, seq=number))
            steps = session.prepare() if is_prepared else iter(())
            for step, _ in enumerate(steps):
                # A line that comes between two steps counts too.
                if step == 1:
                    session.on_frame(line(9.0, seq=number))
            if not is_prepared:
                session.on_frame(line(9.0, seq=number))
            shown.append(session.snapshot(latest=True))
        prepared, plain = shown
        assert prepared.nodes == plain.nodes
        assert load(prepared) == load(plain) == 9.0
        clock.advance(5)


def test_the_mark_of_a_session_is_there_in_the_next_one(clock: FixedClock, tmp_path: Path) -> None:
    session = Session(Played(), catalogue(), clock, marks=MarkFile("played", tmp_path))
    assert session.mark is None
    session.on_frame(line(1.0))
    assert session.set_mark() is session.mark
    later = Session(Played(), catalogue(), clock, marks=MarkFile("played", tmp_path))
    assert later.mark is not None
    assert (later.mark.wall, [*later.mark.nodes]) == (clock.wall(), ["n1"])
    later.clear_mark()
    assert Session(Played(), catalogue(), clock, marks=MarkFile("played", tmp_path)).mark is None


def test_a_mark_that_cannot_be_read_is_told_once(clock: FixedClock, tmp_path: Path) -> None:
    file = MarkFile("played", tmp_path)
    file.path.write_bytes(b"junk")
    session = Session(Played(), catalogue(), clock, marks=file)
    assert [notice.partition(":")[0] for notice in session.take_notices()] == ["the mark is not used, M sets another"]
    assert session.take_notices() == []


async def test_rules_look_at_what_a_large_fleet_has_on_the_screen() -> None:
    class Large(Played):
        nodes = tuple(Spec(f"n{number}") for number in range(MANY_NODES + 1))  # type: ignore[assignment]

    class Seeing:
        def __init__(self) -> None:
            self.seen: list[float] = []

        def evaluate(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
            self.seen.append(snapshot.mono)
            return ()

    rules, clock = Seeing(), FixedClock()
    first = clock.monotonic()
    session = Session(Large(), catalogue(), clock, rules)
    running = asyncio.create_task(session.run())

    async def looks(count: int) -> None:
        async with asyncio.timeout(10):
            while len(rules.seen) < count:
                await asyncio.sleep(0.01)

    await looks(1)
    clock.advance(EVALUATE_MANY_S)
    # Nothing was made for the screen: there is time to wait for that.
    await asyncio.sleep(2 * TEND_S)
    assert rules.seen == [first]
    clock.advance(0.25)
    on_screen = session.snapshot()
    clock.advance(SEEN_S / 2)
    await looks(2)
    assert rules.seen == [first, on_screen.mono]
    # Without a screen they look all the same.
    clock.advance(EVALUATE_MANY_S + AGE_S + 0.25)
    await looks(3)
    assert rules.seen[2] == clock.monotonic()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
