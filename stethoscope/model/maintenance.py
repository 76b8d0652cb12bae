"""Windows of maintenance: somebody works on a node, and what is found there meanwhile is no news."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Maintenance:
    """One window; findings that begin or last in it are information."""

    start: float
    """Wall seconds."""
    end: float
    reason: str = ""
    rules: tuple[str, ...] = ()
    """Only findings of these rules; of all rules when empty."""

    def covers(self, rule: str, wall: float) -> bool:
        """Tell whether a finding of `rule` at `wall` falls into it."""
        return self.start <= wall < self.end and (not self.rules or rule in self.rules)
