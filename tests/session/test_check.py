"""One look at a fleet: when the second frame is asked for, when it ends, and what it says of who did not answer."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.errors import DataError
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.session.check import check
from stethoscope.session.open import open_session
from tests.session.plain import Spec

if TYPE_CHECKING:
    from stethoscope.collect.source import Sink
    from stethoscope.session.check import CheckResult


@dataclass
class FakeSource:
    """Nodes that send a full frame when they start and when they are asked; `ends` fail or stall instead."""

    clock: FixedClock
    names: list[str]
    links: dict[str, LinkState] = field(default_factory=dict)
    mute: set[str] = field(default_factory=set)
    """Nodes that answer no question."""
    symbol_errors: dict[str, list[int]] = field(default_factory=dict)
    latency: dict[str, list[wire.Cell]] = field(default_factory=dict)
    """What the driver's latency is in one frame after the other; the last stands."""
    flapping: set[str] = field(default_factory=set)
    """Nodes that are unreachable and are tried again all the time."""
    fails: Exception | None = None
    fleet: str = "fake"
    simulated: bool = False
    asked: list[tuple[str, float]] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[Spec, ...]:
        return tuple(Spec(name) for name in self.names)

    async def run(self, sink: Sink) -> None:
        self._sink = sink
        self._sent: dict[str, int] = {}
        for name in self.names:
            state = self.links.get(name, LinkState.LIVE)
            sink.on_link(name, Link(state, since=self.clock.wall(), detail="said so" * state.is_live))
            if state.is_live:
                self._send(name)
        if self.fails is not None:
            raise self.fails
        for turn in itertools.count():
            for name in self.flapping:
                failed = turn % 60 < 30
                state = LinkState.UNREACHABLE if failed else LinkState.CONNECTING
                sink.on_link(name, Link(state, since=self.clock.wall(), detail="no answer" * failed))
            # The clock of the test runs ten times faster than that of the machine.
            await asyncio.sleep(0.01)
            self.clock.advance(0.1)

    def _send(self, name: str) -> None:
        number = self._sent.get(name, 0)
        self._sent[name] = number + 1
        counts = self.symbol_errors.get(name, [0])
        latency = self.latency.get(name, [5.0])
        full = wire.Full(
            seq=number,
            mono=self.clock.monotonic(),
            wall=self.clock.wall(),
            gpus=[wire.GpuIdentity(0, "NVIDIA H100", "GPU-" + name, "0000:1b:00.0")],
            ports=[wire.PortIdentity("mlx5_0", 1, "InfiniBand")],
            node={"nvml_latency": latency[min(number, len(latency) - 1)]},
            gpu={"gpu_temp": [60]},
            port={"ib_symbol_error": [counts[min(number, len(counts) - 1)]]},
        )
        self._sink.on_frame(Frame(name, self.clock.wall(), self.clock.monotonic(), wire.encode(full)))

    def ask_full(self, node: str | None = None) -> None:
        assert node is not None
        self.asked.append((node, self.clock.monotonic()))
        if node not in self.mute:
            asyncio.get_running_loop().call_soon(self._send, node)


def look(source: FakeSource, timeout_s: float = 20.0) -> CheckResult:
    session = open_session(source, source.clock, single_look=True)
    return asyncio.run(check(session, timeout_s=timeout_s))


def test_two_full_frames_five_seconds_apart() -> None:
    source = FakeSource(FixedClock(), ["a", "b"])
    result = look(source)
    assert [name for name, _ in source.asked] == ["a", "b"]
    assert all(5.0 <= at < 7.0 for _, at in source.asked)
    assert (result.reached, result.unreached, result.seen_once) == (("a", "b"), (), ())
    assert (result.findings, result.defects) == ((), 0)
    assert 5.0 <= result.seconds < 10.0


def test_what_moves_between_the_two_frames_is_found() -> None:
    source = FakeSource(FixedClock(), ["a", "b"], symbol_errors={"b": [1000, 1200]})
    (finding,) = look(source).findings
    assert (finding.rule, finding.where) == ("ib_symbol_errors", ("b/ib/mlx5_0",))


def test_a_failed_link_is_not_waited_for() -> None:
    links = {"b": LinkState.UNREACHABLE, "c": LinkState.AUTH_REFUSED}
    result = look(FakeSource(FixedClock(), ["a", "b", "c"], links=links))
    assert (result.reached, result.unreached) == (("a",), ("b", "c"))
    assert result.seconds < 10.0
    assert [(f.rule, f.severity.value) for f in result.findings] == [
        ("node_not_visible", "P1"),
        ("node_unreachable", "P1"),
    ]


def test_a_node_that_is_still_connecting_when_time_is_out_was_not_reached() -> None:
    result = look(FakeSource(FixedClock(), ["a", "b"], links={"b": LinkState.CONNECTING}))
    (finding,) = result.findings
    assert (finding.rule, finding.where) == ("node_unreachable", ("b",))
    assert finding.summary == "not reached · still connecting after 20 s"
    assert 20.0 <= result.seconds < 22.0


def test_a_node_without_a_second_frame_is_named() -> None:
    result = look(FakeSource(FixedClock(), ["a", "b"], mute={"b"}), timeout_s=10.0)
    assert (result.reached, result.seen_once) == (("a", "b"), ("b",))


def test_a_driver_that_has_not_answered_is_waited_for() -> None:
    source = FakeSource(FixedClock(), ["a", "b"], latency={"b": ["waiting"]})
    result = look(source)
    assert (result.reached, result.seen_once) == (("a", "b"), ("b",))
    assert 20.0 <= result.seconds < 22.0


def test_a_driver_that_hangs_is_not_waited_for() -> None:
    result = look(FakeSource(FixedClock(), ["a"], latency={"a": ["waiting", "hung"]}))
    (finding,) = result.findings
    assert (finding.rule, finding.severity.value, result.seen_once) == ("driver_hung", "P0", ())
    assert result.seconds < 10.0


def test_nodes_that_are_tried_again_and_again_are_not_waited_for() -> None:
    links = dict.fromkeys(("b", "c"), LinkState.CONNECTING)
    result = look(FakeSource(FixedClock(), ["a", "b", "c"], links=links, flapping={"b", "c"}))
    assert (result.reached, result.unreached) == (("a",), ("b", "c"))
    assert result.seconds < 10.0
    assert [(f.rule, f.where, f.summary) for f in result.findings] == [
        ("node_unreachable", ("b",), "not reached · no answer"),
        ("node_unreachable", ("c",), "not reached · no answer"),
    ]


def test_a_connection_that_ends_again_and_again_is_a_finding() -> None:
    result = look(FakeSource(FixedClock(), ["a", "b"], links={"b": LinkState.CLOSED}))
    (finding,) = result.findings
    assert (finding.rule, finding.severity.value, finding.where) == ("node_not_visible", "P1", ("b",))
    assert result.seconds < 10.0


def test_nobody_answers() -> None:
    result = look(FakeSource(FixedClock(), ["a"], links={"a": LinkState.REFUSED}))
    assert (result.reached, result.unreached) == ((), ("a",))


def test_what_ends_the_source_ends_the_check() -> None:
    source = FakeSource(FixedClock(), ["a"], fails=DataError("broken", where="ssh_config:3"))
    with pytest.raises(DataError, match="ssh_config:3: broken"):
        look(source)


def test_progress_is_told() -> None:
    source = FakeSource(FixedClock(), ["a", "b"])
    told: list[tuple[int, int]] = []
    session = open_session(source, source.clock, single_look=True)
    asyncio.run(check(session, on_progress=lambda done, nodes, _: told.append((done, nodes))))
    assert told[0] == (0, 2)
    assert told[-1] == (2, 2)
