"""The seam between what collects (SSH, this machine, a recording) and the session that makes sense of it."""

from __future__ import annotations

from typing import Protocol

from stethoscope.model.frame import Frame, Link


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
    nodes: tuple[NodeSpec, ...]

    async def run(self, sink: Sink) -> None:
        """Connect, stream into `sink`, reconnect; return only when cancelled, having ended what it started."""

    def ask_full(self, node: str | None = None) -> None:
        """Ask one node, or all, for a frame with every value."""


class NodeSpec(Protocol):
    """What is known of a node before it is reached."""

    name: str
    rack: str
    pod: str
    tick_s: float
    expected_gpus: int | None
