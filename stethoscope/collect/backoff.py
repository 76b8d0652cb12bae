"""When to try a node again: soon after the first failure, then ever more rarely, never in step with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S = 1.0
LONGEST_S = 60.0
PATIENT_S = 600.0
"""Pause after a failure that repeating does not cure: a refused key, a changed host key, no Python."""
SLOW_FIRST_S = 15.0
"""First pause after a program that was started and never spoke: the node may be busy, and what hangs there must not
pile up."""
STEADY_S = 60.0
"""A link that was live for so long starts again with a short pause."""


class Backoff:
    """The pauses of one node; `jitter` gives numbers from 0 to 1."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """Start without a failure."""
        self._jitter = jitter
        self.failures = 0

    def failed(self, *, patient: bool = False, slow: bool = False, live_s: float = 0.0) -> float:
        """Return the seconds to wait after one more failure; `live_s` is how long the link was live before it."""
        if live_s >= STEADY_S:
            self.failures = 0
        self.failures += 1
        if patient:
            return PATIENT_S * (0.9 + 0.2 * self._jitter())
        # Half fixed, half random: nodes behind one switch come back spread, and none comes back at once.
        first_s, longest_s = (SLOW_FIRST_S, PATIENT_S) if slow else (FIRST_S, LONGEST_S)
        span: float = min(longest_s, first_s * 2.0 ** min(self.failures - 1, 10))
        return span * (0.5 + 0.5 * self._jitter())

    def clear(self) -> None:
        """Forget the failures: a person asked for the next attempt."""
        self.failures = 0
