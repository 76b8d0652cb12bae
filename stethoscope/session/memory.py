"""Tuning of the garbage collector and of threads for thousands of connections.

A full collection over the objects of 2,000 connections stops the loop for some 160 ms. These objects live as long as
the session: once the nodes are connected they are frozen, and no collection looks at them again. What connecting and
the first readings needed meanwhile is then given back to the system, which the C library does not do by itself.

Arrays of whole fleets come and go by the megabyte. Left alone, the C library soon takes them from one heap together
with everything small, and the holes between hold as much memory as a third of what is used.
"""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from stethoscope.heap import give_back, part_large

if TYPE_CHECKING:
    import asyncio

_THRESHOLDS = (5_000, 80, 50)
"""Collecting the youngest stops the loop for a microsecond per object: many short stops, so that keys do not wait."""
_CALM_THRESHOLDS = (40_000, 40, 50)
"""The same once a large fleet is connected: what lines, tables and pictures need comes and goes, ten thousand objects
up and down, and nearly all of it is gone before it is looked at. Collecting it every 5,000 took half a percent of a
core, and ten milliseconds of a key that draws much. So many are not reached as a rule, ..."""
_MANY_YOUNG = 20_000
"""... because with so many it is collected between two rounds of tending, and not while a key is answered."""
_SETTLED_SHARE = 0.02
"""Share of nodes still connecting at which the wave of connections is over."""
_LARGE_FLEET = 1024
"""From so many nodes on lines alone keep thousands of objects coming and going."""
_WORTH_FREEZING = 100
"""Nodes that must have connected anew before it is worth freezing again."""
_TIDY_AFTER = (1, 240, 1200)
"""Rounds of tending behind the end of a wave after which what is there is frozen and memory is given back: again when
everything was read once, which brings as many objects as connecting did."""
_TRIM_EVERY = 240
"""Rounds after which memory is given back again: what the rules work with comes and goes."""


class MemoryTuning:
    """Raises the thresholds of the collector while a session runs, freezes what the connect wave has made, and looks
    for garbage less often from then on."""

    def __init__(self) -> None:
        """Change nothing yet."""
        self._before: tuple[int, int, int] | None = None
        self._pending_since_freeze = 0
        self._rounds = 0
        """Rounds of tending since the last freeze, 0 before the first."""
        self._executor: ThreadPoolExecutor | None = None

    def start(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        """Raise the thresholds, and give `loop` a default executor of `threads` threads, which ends with the loop."""
        if self._before is None:
            self._before = gc.get_threshold()
            gc.set_threshold(*_THRESHOLDS)
            part_large()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(threads, thread_name_prefix="session")
            loop.set_default_executor(self._executor)

    def tend(self, pending: int, nodes: int) -> None:
        """Freeze when a wave of connections is over; `pending` nodes of `nodes` are still connecting."""
        self._pending_since_freeze = max(self._pending_since_freeze, pending)
        worth = min(_WORTH_FREEZING, nodes)
        if worth and self._pending_since_freeze >= worth and pending <= nodes * _SETTLED_SHARE:
            self._pending_since_freeze = 0
            self._rounds = 1
        elif self._rounds:
            self._rounds += 1
        if self._rounds and nodes >= _LARGE_FLEET and gc.get_count()[0] > _MANY_YOUNG:
            gc.collect(0)
        if self._rounds in _TIDY_AFTER:
            # What nobody can reach would stay for ever.
            gc.collect(0)
            gc.freeze()
            if nodes >= _LARGE_FLEET:
                gc.set_threshold(*_CALM_THRESHOLDS)
        elif not self._rounds or self._rounds % _TRIM_EVERY:
            return
        if self._executor is not None:
            # In a thread, so that only who needs new memory just then has to wait.
            self._executor.submit(give_back)

    def stop(self) -> None:
        """Put the collector back as it was."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            gc.unfreeze()
            self._before = None
