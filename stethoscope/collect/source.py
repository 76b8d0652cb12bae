"""The seam between what collects (SSH, this machine, a recording) and the session that makes sense of it."""

from __future__ import annotations

from typing import Protocol

from stethoscope.model.frame import Frame, Link
from stethoscope.model.nodespec import NodeSpec
from stethoscope.model.scheduler import SchedulerReading


class Sink(Protocol):
    """Where a source puts what it gets; both calls return at once and never raise."""

    def on_frame(self, frame: Frame) -> None:
        """Take one raw line of a node."""

    def on_link(self, node: str, link: Link) -> None:
        """Take the new state of the link to a node."""


class Source(Protocol):
    """Something that yields frames of named nodes until it is cancelled."""

    fleet: str
    """Name for the top line."""
    simulated: bool
    """The nodes are played; everything that shows them says so."""

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """Return the nodes, in the order of the fleet."""

    async def run(self, sink: Sink) -> None:
        """Connect, stream into `sink`, reconnect; return only when cancelled, having ended what it started."""

    def ask_full(self, node: str | None = None) -> None:
        """Ask one node, or all, for a frame with every value."""


class Scheduler(Protocol):
    """What tells how the scheduler sees the nodes; it never raises for what goes wrong out there."""

    every_s: float
    """Seconds between two looks."""

    async def read(self) -> SchedulerReading:
        """Return how things stand now, or why that cannot be said."""

    async def close(self) -> None:
        """Let go of what was opened."""
