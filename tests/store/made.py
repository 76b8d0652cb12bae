"""Recordings made in virtual time from the simulated fleet, as a recorder would have written them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.clock import FixedClock
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.session.recorder import Recorder
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import Speaker
from stethoscope.store.outlets import FileOutlet, Outlet
from tests.sim.worlds import twin

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.collect.source import Sink

TICK_S = 2.0
STARTED = 1_773_454_447.0
"""2026-03-14T02:14:07Z."""
BOOTED = 5_000.0
"""Monotonic seconds of the recorder at the start."""


@dataclass(frozen=True)
class Known:
    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = TICK_S
    expected_gpus: int | None = 8


class Fleet:
    """A source whose lines come from the twin, one tick after the other."""

    simulated = True

    def __init__(self, *events: str, name: str = "twin", **settings: object) -> None:
        self.fleet = name
        self.world = twin(*events, **settings)
        self.nodes = tuple(Known(node) for node in self.world.layout.nodes)
        self._speakers: dict[str, Speaker] = {}

    async def run(self, sink: Sink) -> None:
        raise AssertionError("it is told by hand")

    def ask_full(self, node: str | None = None) -> None:
        """Nothing is asked for."""

    def tell(self, sink: Sink, t_s: float, wall: float, mono: float) -> None:
        """Give `sink` what all nodes say at scenario time `t_s`."""
        said = self.world.advance_to(t_s)
        readings = Readings(self.world)
        for number, node in enumerate(self.nodes):
            name = node.name
            if self.world.link(number) != "up":
                if self._speakers.pop(name, None) is not None:
                    sink.on_link(name, Link(LinkState.UNREACHABLE, since=wall, detail="no answer"))
                continue
            if name not in self._speakers:
                self._speakers[name] = Speaker(self.world, number, TICK_S)
                sink.on_link(name, Link(LinkState.LIVE, since=wall))
                sink.on_frame(Frame(name, wall, mono, self._speakers[name].hello()))
            lines = [self._speakers[name].event(line) for line in said if line.sink == "kernel" and line.node == name]
            for raw in [self._speakers[name].frame(readings), *lines]:
                sink.on_frame(Frame(name, wall, mono, raw))


def record(
    path: Path, *events: str, until_s: float, outlet: Outlet | None = None, close: bool = True, **settings: object
) -> Recorder:
    """Record a fleet for `until_s` seconds, writing every second, into `path`."""
    clock = FixedClock(STARTED - BOOTED)
    clock.advance(BOOTED)
    source = Fleet(*events, **settings)
    recorder = Recorder(source, clock, outlet or FileOutlet(path))
    recorder.open()
    t_s = 0.0
    while t_s <= until_s:
        source.tell(recorder, t_s, clock.wall(), clock.monotonic())
        recorder._drain()
        clock.advance(TICK_S)
        t_s += TICK_S
    assert recorder._writer is not None
    if close:
        recorder._writer.close()
    else:
        recorder._writer.abandon()
    return recorder
