"""What a session tells of at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding


@dataclass(frozen=True, slots=True)
class Change:
    """What happened since the last push: everything else is pulled."""

    findings: tuple[Finding, ...] = ()
    """Findings that are new."""
    loud: tuple[Finding, ...] = ()
    """Findings that nobody has seen, or that became worse since: those that want to be seen now."""
    links: tuple[str, ...] = ()
    """Nodes whose link changed its state."""
