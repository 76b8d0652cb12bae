"""The log lines that are kept: a node that floods its log takes nothing from the others, and no flood washes an Xid
away."""

from __future__ import annotations

from collections import deque
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.model.event import LogEvent

KEPT = 2_000
"""Lines of all nodes together, Xids apart: the newest."""
KEPT_OF_NODE = 200
"""Lines of one node among them."""
KEPT_XIDS = 16
"""Xids of one GPU, beside all other lines."""

_Numbered = tuple[int, "LogEvent"]


class EventLog:
    """The newest lines of every node, in the order in which they came."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._next = 0
        self._xids: dict[tuple[str, str | None], deque[_Numbered]] = {}
        self._others: dict[int, LogEvent] = {}
        self._numbers: dict[str, deque[int]] = {}
        self._shown: tuple[LogEvent, ...] | None = ()

    def add(self, event: LogEvent) -> None:
        """Take one line; what it displaces is of its own node, unless all nodes together have too many."""
        self._shown = None
        number, self._next = self._next, self._next + 1
        if event.xid is not None:
            self._xids.setdefault((event.node, event.pci), deque(maxlen=KEPT_XIDS)).append((number, event))
            return
        own = self._numbers.setdefault(event.node, deque())
        own.append(number)
        self._others[number] = event
        if len(own) > KEPT_OF_NODE:
            del self._others[own.popleft()]
        elif len(self._others) > KEPT:
            oldest = next(iter(self._others))
            self._numbers[self._others.pop(oldest).node].popleft()

    def newest(self) -> tuple[LogEvent, ...]:
        """Return all that is kept, the oldest first; the same tuple while nothing comes."""
        if self._shown is None:
            lines = merge(*self._xids.values(), self._others.items(), key=itemgetter(0))
            self._shown = tuple(event for _, event in lines)
        return self._shown
