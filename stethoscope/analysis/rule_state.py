"""What the engine remembers of one rule: which rows are active, and since when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import filled
from stethoscope.analysis.windows import Flags, fitted

if TYPE_CHECKING:
    from stethoscope.model.fleet import Floats


@dataclass(slots=True)
class RuleState:
    """What is remembered of one rule, by row of its scope."""

    active: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    is_active: bool = False
    """Whether any row is; as long as none is, nothing is kept by row."""
    holds: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Whether the condition is true at this moment; a finding outlasts it for a while."""
    headlines: dict[int, str] = field(default_factory=dict)
    """Of each active row, as it was when the condition was true last."""
    since: Floats = field(default_factory=lambda: np.empty(0))
    """Wall seconds at which the condition became true."""
    false_since: Floats = field(default_factory=lambda: np.empty(0))
    """Monotonic seconds since when an active row has been false, NaN while it is not."""
    quiet_until: Floats | None = None
    """Monotonic seconds up to which an active row says nothing, because what explained it ended; None for no row."""
    told: tuple[Flags, tuple[int, ...]] | None = None
    """Rows that findings of its own were about last, as flags and as numbers."""
    folded: set[str] = field(default_factory=set)
    """Headlines that are folded at present."""

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        if not self.is_active:
            self.calm(len(changed))
            return
        self.active = fitted(self.active, changed, False).astype(bool)
        self.since = fitted(self.since, changed, np.nan).astype(np.float64)
        self.false_since = fitted(self.false_since, changed, np.nan).astype(np.float64)
        if self.quiet_until is not None:
            self.quiet_until = fitted(self.quiet_until, changed, -np.inf).astype(np.float64)
        self.is_active = bool(self.active.any())

    def calm(self, rows: int) -> None:
        """Take that nothing is active on so many rows."""
        if self.active.size != rows or self.active.flags.writeable:
            self.active = self.holds = filled(rows, value=False, dtype=np.bool_)
            self.since = self.false_since = filled(rows, np.nan, np.float64)
        self.is_active = False
        self.quiet_until = None
        self.holds = self.active
        self.headlines.clear()
