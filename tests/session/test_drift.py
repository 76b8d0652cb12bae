"""A look for drift lasts until every node has told, failed, or the time is over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.errors import DataError
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.session.drift import drift_of_recording, look_for_drift
from stethoscope.session.open import open_session, session_maker
from stethoscope.store.tape import open_tape
from tests.session.plain import Spec
from tests.store.made import record

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.collect.source import Sink
    from stethoscope.session.drift import DriftResult


@dataclass
class TellingSource:
    """Nodes that send a full frame when they start and their parts a second later."""

    clock: FixedClock
    kernels: dict[str, str]
    mute: set[str] = field(default_factory=set)
    """Nodes whose parts never come."""
    refused: set[str] = field(default_factory=set)
    fails: Exception | None = None
    fleet: str = "fake"
    simulated: bool = False

    @property
    def nodes(self) -> tuple[Spec, ...]:
        return tuple(Spec(name) for name in self.kernels)

    async def run(self, sink: Sink) -> None:
        for name in self.kernels:
            if name in self.refused:
                sink.on_link(name, Link(LinkState.REFUSED, since=0.0))
            else:
                sink.on_link(name, Link(LinkState.LIVE, since=0.0))
                self._send(sink, name, wire.Full(seq=0, mono=1.0, wall=1.0, node={"load1": 1.0}))
        if self.fails is not None:
            raise self.fails
        for step in range(10_000):
            # The clock of the test runs ten times faster than that of the machine.
            await asyncio.sleep(0.01)
            self.clock.advance(0.1)
            if step == 10:
                for name in self.kernels.keys() - self.mute - self.refused:
                    version = f"Linux version {self.kernels[name]} (x)"
                    files = {"/proc/version": version}
                    self._send(sink, name, wire.Part(seq=1, mono=2.0, wall=2.0, name="identity", s=300.0, files=files))
                    self._send(sink, name, wire.Part(seq=2, mono=2.0, wall=2.0, name="tuning", s=300.0))

    def _send(self, sink: Sink, name: str, line: wire.Line) -> None:
        sink.on_frame(Frame(name, self.clock.wall(), self.clock.monotonic(), wire.encode(line)))

    def ask_full(self, node: str | None = None) -> None:
        pass


def look(source: TellingSource, timeout_s: float = 20.0) -> DriftResult:
    session = open_session(source, source.clock, single_look=True)
    return asyncio.run(look_for_drift(session, timeout_s=timeout_s))


def test_it_ends_when_all_have_told() -> None:
    source = TellingSource(FixedClock(), {"a": "6.1", "b": "6.1", "c": "5.15"})
    result = look(source)
    (row,) = result.table.differing
    assert [(held.value, held.nodes) for held in row.held] == [("6.1", ("a", "b")), ("5.15", ("c",))]
    assert result.table.told == ("a", "b", "c")
    assert 1 <= result.seconds < 5
    assert result.is_reached


def test_a_node_that_cannot_be_reached_is_not_waited_for() -> None:
    result = look(TellingSource(FixedClock(), {"a": "6.1", "b": "6.1"}, refused={"b"}))
    assert result.seconds < 5
    assert [(untold.why, untold.nodes) for untold in result.table.untold] == [("refused", ("b",))]
    assert look(TellingSource(FixedClock(), {"a": "6.1"}, refused={"a"})).is_reached is False


def test_the_time_ends_it_and_it_says_who_has_not_told() -> None:
    result = look(TellingSource(FixedClock(), {"a": "6.1", "b": "6.1"}, mute={"b"}), timeout_s=5)
    assert 5 <= result.seconds < 7
    assert [(untold.why, untold.nodes) for untold in result.table.untold] == [("waiting", ("b",))]


def test_what_ends_the_source_ends_the_look() -> None:
    with pytest.raises(DataError, match="no node"):
        look(TellingSource(FixedClock(), {"a": "6.1"}, mute={"a"}, fails=DataError("no node")))


def test_progress_is_told() -> None:
    source, said = TellingSource(FixedClock(), {"a": "6.1", "b": "6.1"}), list[tuple[int, int]]()
    session = open_session(source, source.clock, single_look=True)
    asyncio.run(look_for_drift(session, on_progress=lambda done, nodes, _: said.append((done, nodes))))
    assert (said[0], said[-1]) == ((0, 2), (2, 2))


def test_a_recording_is_asked_like_a_fleet(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    record(path, until_s=100)
    result = drift_of_recording(open_tape(path), session_maker(), 90)
    assert result.is_reached
    assert result.snapshot.wall > 0
    assert not result.table.differing
