"""Findings: one line about what is wrong, where, since when, and the facts it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How urgent: P0 now, P1 today, P2 planned."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    INFO = "info"
    NONE = "none"

    @property
    def rank(self) -> int:
        """Return 0 for the most urgent, growing."""
        return _ORDER.index(self)


_ORDER = [Severity.P0, Severity.P1, Severity.P2, Severity.INFO, Severity.NONE]


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence, in the form of the JSON contract."""

    fact: str
    value: int | float | str | None
    """A count that was kept is read back as one: 1, not 1.0."""
    expected: str
    where: str
    at: str
    source: str

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "fact": self.fact,
            "value": self.value,
            "expected": self.expected,
            "where": self.where,
            "at": self.at,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong at one or more places."""

    id: str
    rule: str
    severity: Severity
    where: tuple[str, ...]
    nodes: str
    """Folded node set."""
    since: str
    """ISO 8601 UTC."""
    summary: str
    """What is wrong, without the place: `fell off the bus`."""
    state: str = "active"
    cleared_at: str | None = None
    confidence: float = 1.0
    root_cause: str | None = None
    evidence: tuple[Fact, ...] = field(default=())
    cause: str = ""
    """What the places share: a place such as `leaf/leaf-01-3` or `job/4242`, or words such as `driver 550.90.07`."""
    explained: int = 0
    """How many other findings this one stands for."""
    offers: tuple[str, ...] = ()
    """What can be started from here: `triage`."""
    message: str = ""
    """What the rule's alert says, filled in."""
    held: tuple[str, ...] = ()
    """Calls that the rule asks for and that were not made."""
    log: tuple[str, ...] = ()
    """What the rule puts into the log, once a finding."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contract."""
        return {
            "id": self.id,
            "rule": self.rule,
            "severity": self.severity.value,
            "state": self.state,
            "where": list(self.where),
            "nodes": self.nodes,
            "since": self.since,
            "cleared_at": self.cleared_at,
            "summary": self.summary,
            "confidence": self.confidence,
            "root_cause": self.root_cause,
            "evidence": [fact.as_json() for fact in self.evidence],
            "cause": self.cause or None,
            "explained": self.explained,
            "offers": list(self.offers),
            "message": self.message or None,
            "held": list(self.held),
        }
