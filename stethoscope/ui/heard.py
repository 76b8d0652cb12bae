"""What the terminal is told beside the picture: a bell for a new P0, and a title that says how the fleet stands.

A console in a window that nobody looks at is heard and seen in the list of windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot

_KEEP, _RESTORE = "\x1b[22;2t", "\x1b[23;2t"
"""The terminal remembers its title, and takes it back (xterm; others ignore both)."""


class Heard:
    """Rings and titles through `write`; what is switched off does nothing."""

    def __init__(self, write: Callable[[str], object], *, bell: bool, title: bool) -> None:
        """Remember the terminal's own title."""
        self._write = write
        self._bell, self._title = bell, title
        self._said = ""
        if title:
            write(_KEEP)

    def found(self, findings: Iterable[Finding]) -> None:
        """Ring once when there is a P0 among new findings."""
        if self._bell and any(finding.severity is Severity.P0 for finding in findings):
            self._write("\x07")

    def show(self, snapshot: FleetSnapshot) -> None:
        """Say in the title what is found, when that is something new; what somebody has seen is only counted."""
        if not self._title:
            return
        counts = dict.fromkeys((Severity.P0, Severity.P1, Severity.P2), 0)
        seen = 0
        for finding in snapshot.findings:
            if finding.state == "active" and finding.severity in counts:
                entry = snapshot.night.get(finding.id)
                if entry is None or entry.is_loud(snapshot.wall):
                    counts[finding.severity] += 1
                else:
                    seen += 1
        words = " ".join(f"{severity.value}:{count}" for severity, count in counts.items() if count) or "quiet"
        words += f" ({seen} seen)" if seen else ""
        title = clean(f"{words} {snapshot.fleet} - stethoscope", 80)
        if title != self._said:
            self._said = title
            self._write(f"\x1b]2;{title}\x07")

    def end(self) -> None:
        """Give the terminal its title back."""
        if self._title:
            self._write(_RESTORE)
