"""What a monitor knows that was itself away: nothing, until it has heard a node twice again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import FleetSnapshot, Node

SLEPT_S = 30.0
"""Between two looks passes a second or two; after so long without one this machine slept, or its loop was blocked."""
FRAMES = 2
PATIENCE_S = 60.0
"""A node that was not heard by then is judged as ever: connections that broke meanwhile are made anew."""


class Awake:
    """Knows of which nodes nothing can be said yet."""

    def __init__(self) -> None:
        """Nothing was missed yet."""
        self._last: tuple[float, float] | None = None
        """Monotonic and wall seconds of the last look, and ..."""
        self._nodes: tuple[Node, ...] = ()
        """... the nodes as they were then."""
        self._woke: float | None = None
        self._frames = np.zeros(0, dtype=np.int64)
        """Frames that each node had sent before."""

    def look(self, snapshot: FleetSnapshot) -> Flags | None:
        """Return the nodes of which too little was heard since this machine was away; None when that is over."""
        if self._last is not None and snapshot.nodes:
            mono, wall = self._last
            # A suspended machine stops the monotonic clock too: then only the wall clock has moved on.
            passed_s = max(snapshot.mono - mono, snapshot.wall - wall)
            if passed_s > SLEPT_S and passed_s > 3 * min(node.tick_s for node in snapshot.nodes):
                self._woke = snapshot.mono
                self._frames = np.array([node.frames for node in self._nodes], dtype=np.int64)
        self._last, self._nodes = (snapshot.mono, snapshot.wall), snapshot.nodes
        if self._woke is None:
            return None
        if snapshot.mono - self._woke >= PATIENCE_S or len(self._frames) != len(snapshot.nodes):
            self._woke = None
            return None
        frames = np.array([node.frames for node in snapshot.nodes], dtype=np.int64)
        # A probe that was started anew counts from the beginning.
        waiting: Flags = (frames >= self._frames) & (frames < self._frames + FRAMES)
        if not waiting.any():
            self._woke = None
            return None
        return waiting
