"""The night's list: what became of every finding that was ever active, and what people said about it.

Times are seconds since 1970. What happens is told by records, which consoles write beside each other; the list is what
they add up to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from stethoscope.clock import iso
from stethoscope.model.finding import Finding, Severity

MOST_SPANS = 12
"""Times that a finding came which are kept one by one."""
MOST_NOTES = 50
LONGEST_NOTE = 400
LOOKED_S = 60.0
"""How often a console tells that it is looking."""
MOST_LOGGED = 50
"""Lines of the log that are kept with a finding."""
SPREADS = 2
"""A finding that is acknowledged is loud again on more than so many times the nodes."""


class Standing(StrEnum):
    """How much a finding wants to be seen."""

    LOUD = "loud"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class Hush:
    """Somebody has seen the finding (acknowledged), or wants to hear of it later (snoozed)."""

    at: float
    by: str
    severity: Severity
    """How urgent it was then: worse than that it is loud again."""
    nodes: int
    """On how many nodes it was then."""
    until: float | None = None
    """When a snooze ends; None for when the finding changes."""
    as_was: str = ""
    """What it was like then, where a snooze ends when that changes."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line that somebody wrote about a finding."""

    at: float
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class Logged:
    """One line that a rule put into the log when it found this."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One finding of the night."""

    finding: Finding
    """As it was seen last."""
    seen: float
    """When it was seen to be active last."""
    spans: tuple[tuple[float, float | None], ...]
    """From when to when it was active, the last MOST_SPANS times; None while it is."""
    times: int = 1
    worst: Severity = Severity.NONE
    """How urgent it was at the most."""
    ended: str = ""
    """Why it is not active: `cleared`, `folded` into another finding, or `lapsed`: nobody was looking."""
    acknowledged: Hush | None = None
    snoozed: Hush | None = None
    notes: tuple[Note, ...] = field(default=())
    logged: tuple[Logged, ...] = field(default=())
    """What its rule put into the log, once for each time that it came."""

    @property
    def id(self) -> str:
        """Return the id of the finding."""
        return self.finding.id

    @property
    def is_active(self) -> bool:
        """Tell whether it is active, as far as is known."""
        return self.spans[-1][1] is None

    @property
    def since(self) -> float:
        """Return since when it is active, or was the last time."""
        return self.spans[-1][0]

    @property
    def cleared_at(self) -> float | None:
        """Return when it ended, None while it is active."""
        return self.spans[-1][1]

    @property
    def nodes(self) -> int:
        """Return on how many nodes it is."""
        return nodes_of(self.finding)

    @property
    def as_is(self) -> str:
        """Return what it is like, in short: equal as long as it has not changed."""
        finding = self.finding
        return f"{finding.severity.value} {finding.nodes} {len(finding.where)} {self.times}"

    def standing(self, now: float) -> Standing:
        """Return how much it wants to be seen at `now`."""
        if not self.is_active:
            return Standing.CLEARED
        snoozed, acknowledged = self.snoozed, self.acknowledged
        if snoozed is not None and not self._is_worse(snoozed):
            until = snoozed.until
            if now < until if until is not None else snoozed.as_was == self.as_is:
                return Standing.SNOOZED
        if acknowledged is not None and not self._is_worse(acknowledged):
            return Standing.ACKNOWLEDGED
        return Standing.LOUD

    def is_loud(self, now: float) -> bool:
        """Tell whether it wants to be seen at once."""
        return self.standing(now) is Standing.LOUD

    def _is_worse(self, hush: Hush) -> bool:
        return self.finding.severity.rank < hush.severity.rank or self.nodes > SPREADS * max(1, hush.nodes)

    def as_json(self, now: float) -> dict[str, Any]:
        """Return the JSON form: that of the finding, and what the night knows of it."""
        cleared = self.cleared_at
        return {
            **self.finding.as_json(),
            "state": "active" if cleared is None else "cleared",
            "since": iso(self.since),
            "cleared_at": None if cleared is None else iso(cleared),
            "ended": self.ended or None,
            "standing": self.standing(now).value,
            "times": self.times,
            "spans": [[iso(since), None if end is None else iso(end)] for since, end in self.spans],
            "highest": self.worst.value,
            "acknowledged": _hush_json(self.acknowledged),
            "snoozed": _hush_json(self.snoozed, until=True),
            "notes": [{"at": iso(note.at), "by": note.by, "text": note.text} for note in self.notes],
            "log": [{"at": iso(line.at), "text": line.text} for line in self.logged],
        }


def nodes_of(finding: Finding) -> int:
    """Return on how many nodes a finding is."""
    return len({place.partition("/")[0] for place in finding.where})


def _hush_json(hush: Hush | None, *, until: bool = False) -> dict[str, Any] | None:
    if hush is None:
        return None
    said: dict[str, Any] = {"at": iso(hush.at), "by": hush.by, "severity": hush.severity.value}
    if until:
        said["until"] = "changed" if hush.until is None else iso(hush.until)
    return said


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """Something that happened; `at` is when it was noted."""

    at: float


class Found(Record, frozen=True, kw_only=True, tag="found"):
    """A finding is active, new or other than before."""

    finding: Finding
    since: float


class Ended(Record, frozen=True, kw_only=True, tag="ended"):
    """It is active no longer."""

    id: str
    end: float
    why: str = "cleared"


class Looked(Record, frozen=True, kw_only=True, tag="looked"):
    """Somebody looked, and what is not told to have ended was still there."""

    who: str


class Acknowledged(Record, frozen=True, kw_only=True, tag="acknowledged"):
    """Somebody has seen it, as it was then; with `undo` not any more."""

    id: str
    by: str
    severity: Severity = Severity.NONE
    nodes: int = 0
    undo: bool = False


class Snoozed(Record, frozen=True, kw_only=True, tag="snoozed"):
    """Somebody wants to hear of it later: at `until`, or when it changes; with `undo` now."""

    id: str
    by: str
    severity: Severity = Severity.NONE
    nodes: int = 0
    until: float | None = None
    as_was: str = ""
    undo: bool = False


class Noted(Record, frozen=True, kw_only=True, tag="noted"):
    """Somebody wrote a line about it."""

    id: str
    by: str
    text: str


class Whole(Record, frozen=True, kw_only=True, tag="whole"):
    """All that records of before added up to, of one finding."""

    entry: Entry


Records = Found | Ended | Looked | Acknowledged | Snoozed | Noted | Whole
