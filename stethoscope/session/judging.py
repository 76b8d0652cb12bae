"""Rules that look at snapshots one after the other, those of large fleets in a thread of their own."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from stethoscope.heap import give_back

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot

MANY_NODES = 256
"""Above so many nodes a look takes so long that lines and keys would wait for it."""
_EARLY = 8
"""So many looks of a large fleet come while its nodes are still heard of one by one."""


class Rules(Protocol):
    """What turns snapshots into findings."""

    def evaluate(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
        """Return the active findings and those cleared lately, the most urgent first."""


class Judging:
    """Shows snapshots to rules, which remember what they saw: never two at once, and none behind a later one."""

    def __init__(self, rules: Rules) -> None:
        """Show nothing yet."""
        self._rules = rules
        self._one_at_once = Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._seen_mono = -math.inf
        self._looks = 0

    def findings(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
        """Return what is found in `snapshot`, and what was cleared lately."""
        with self._one_at_once:
            self._seen_mono = snapshot.mono
            return self._rules.evaluate(snapshot)

    async def findings_beside(self, snapshot: FleetSnapshot) -> tuple[Finding, ...] | None:
        """Return the same, None where the rules saw a later snapshot meanwhile; of a large fleet the caller's loop goes
        on while they look."""
        if len(snapshot.nodes) <= MANY_NODES:
            return self.findings(snapshot)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="rules")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._findings_in_order, snapshot)

    def _findings_in_order(self, snapshot: FleetSnapshot) -> tuple[Finding, ...] | None:
        with self._one_at_once:
            if snapshot.mono < self._seen_mono:
                return None
            self._seen_mono = snapshot.mono
            if self._looks < _EARLY:
                # Devices that are heard of one by one make every column a long one for a while.
                self._looks += 1
                give_back()
            found = self._rules.evaluate(snapshot)
        give_back()
        return found

    def stop(self) -> None:
        """Let the thread end behind what it does."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None
