"""The night's list as what its records add up to: the same for every console that reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.clock import from_iso, iso
from stethoscope.model.night import (
    LONGEST_NOTE,
    MOST_LOGGED,
    MOST_NOTES,
    MOST_SPANS,
    Acknowledged,
    Ended,
    Entry,
    Found,
    Hush,
    Logged,
    Looked,
    Note,
    Noted,
    Snoozed,
    Whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.finding import Finding, Severity
    from stethoscope.model.night import Records

KEEP_S = 86_400.0
"""What ended longer ago is forgotten."""
MOST = 4000
"""Findings of a night; beyond that those that ended first are forgotten."""
LAPSE_S = 900.0
"""A finding of before that is not found again within so long a look has ended, at some time when nobody looked."""
GAP_S = 3600.0
"""A finding that nobody saw for longer has come again when it is found."""
AGAIN_S = 30.0
"""A finding is not told again sooner, where only its places and words changed."""
SKEW_S = 60.0
"""So far apart two consoles may see the same finding end."""
TRIM_EVERY_S = 60.0


class Night:
    """The list; `entries` is replaced, never changed, so that it can be given out."""

    def __init__(self, who: str = "") -> None:
        """Begin with nothing; `who` names this console among those that write records."""
        self.entries: dict[str, Entry] = {}
        self._who = who
        self._mine: dict[str, tuple[_Like, float]] = {}
        """What is active as this console sees it: what it is like, and when that was told."""
        self._began: float | None = None
        self._trimmed = 0.0

    # ---- what the rules say

    def take(self, findings: Iterable[Finding], wall: float) -> list[tuple[str, Records]]:
        """Take what the rules found at `wall`; return what that changes, each with its word: `new`, `back` (it had
        cleared), `still` (as before this console looked, or before another finding told it), `changed`, `cleared`,
        `folded` (another finding tells it now)."""
        if self._began is None:
            self._began = wall
        entries = dict(self.entries)
        told: list[tuple[str, Records]] = []
        active: dict[str, Finding] = {}
        ended: dict[str, Finding] = {}
        for finding in findings:
            (active if finding.state == "active" else ended)[finding.id] = finding
        for id_, finding in active.items():
            like = _Like.of(finding)
            mine, entry = self._mine.get(id_), entries.get(id_)
            if mine is not None and entry is not None and wall - (entry.cleared_at or 0.0) < SKEW_S:
                # Another console saw it end a moment before this one does.
                continue
            if mine is None or entry is None or not entry.is_active:
                record = Found(at=wall, finding=finding, since=_seconds(finding.since, wall))
                entries[id_] = after = found(entry, record)
                is_known = entry is not None and after.times == entry.times
                told.append(("still" if is_known else "new" if after.times == 1 else "back", record))
            elif mine[0] != like and (mine[0][:2] != like[:2] or wall - mine[1] >= AGAIN_S):
                record = Found(at=wall, finding=finding, since=entry.since)
                entries[id_] = found(entry, record)
                told.append(("changed", record))
            else:
                # Values in it change all the time; that is shown, and not told.
                entries[id_] = replace(entry, finding=_since(finding, entry.since), seen=wall)
                continue
            self._mine[id_] = like, wall
        for id_ in [id_ for id_ in self._mine if id_ not in active]:
            del self._mine[id_]
            last = ended.get(id_)
            end = wall if last is None or last.cleared_at is None else _seconds(last.cleared_at, wall)
            record_end = Ended(at=wall, id=id_, end=end, why="folded" if last is None else "cleared")
            if id_ in entries and entries[id_].is_active:
                entries[id_] = over(entries[id_], record_end)
                told.append((record_end.why, record_end))
        told += self._lapse(entries, wall)
        self.entries = entries
        if wall - self._trimmed >= TRIM_EVERY_S:
            self.trim(wall)
        return told

    def findings(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return findings with the time since which they are active as the list knows it, where that is longer."""
        return tuple(
            _since(finding, self.entries[finding.id].since)
            if finding.id in self._mine and finding.id in self.entries
            else finding
            for finding in findings
        )

    def _lapse(self, entries: dict[str, Entry], wall: float) -> list[tuple[str, Records]]:
        """End what was active before this console looked, and is not found again."""
        assert self._began is not None
        if wall - self._began < LAPSE_S:
            return []
        told: list[tuple[str, Records]] = []
        for id_, entry in entries.items():
            if entry.is_active and id_ not in self._mine and entry.seen < self._began:
                record = Ended(at=wall, id=id_, end=entry.seen, why="lapsed")
                entries[id_] = over(entry, record)
                told.append(("cleared", record))
        return told

    # ---- what is read and done

    def apply(self, record: Records) -> None:
        """Take one record, of this console or another."""
        entries = dict(self.entries)
        self._apply(entries, record)
        self.entries = entries

    def apply_all(self, records: Iterable[Records]) -> None:
        """Take records in their order."""
        entries = dict(self.entries)
        for record in records:
            self._apply(entries, record)
        self.entries = entries

    def begin_again(self, records: Iterable[Records]) -> None:
        """Let the list be what `records` add up to, which hold all that was in it."""
        before, self.entries = self.entries, {}
        self.apply_all(records)
        # What trembles is not written: as this console sees it, it is newer.
        fresh = {id_: before[id_].finding for id_ in self._mine if id_ in before and id_ in self.entries}
        self.entries |= {id_: replace(self.entries[id_], finding=finding) for id_, finding in fresh.items()}

    def _apply(self, entries: dict[str, Entry], record: Records) -> None:
        if isinstance(record, Whole):
            entries[record.entry.id] = record.entry
        elif isinstance(record, Found):
            entries[record.finding.id] = found(entries.get(record.finding.id), record)
        elif isinstance(record, Looked):
            if record.who != self._who:
                for id_, entry in entries.items():
                    if entry.is_active and entry.seen < record.at:
                        entries[id_] = replace(entry, seen=record.at)
        elif record.id in entries:
            entry = entries[record.id]
            entries[record.id] = over(entry, record) if isinstance(record, Ended) else said(entry, record)

    def trim(self, wall: float) -> None:
        """Forget what ended long ago, and the oldest of very many."""
        self._trimmed = wall
        kept = [entry for entry in self.entries.values() if wall - _last(entry) <= KEEP_S]
        if len(kept) > MOST:
            kept = sorted(kept, key=lambda entry: (not entry.is_active, -_last(entry)))[:MOST]
        if len(kept) < len(self.entries):
            there = {entry.id for entry in kept}
            self.entries = {id_: entry for id_, entry in self.entries.items() if id_ in there}

    def whole(self, wall: float) -> list[Records]:
        """Return records that add up to this list."""
        self.trim(wall)
        return [Whole(at=wall, entry=entry) for entry in self.entries.values()]


def found(entry: Entry | None, record: Found) -> Entry:
    """Return what becomes of `entry` when its finding is active."""
    finding, since = record.finding, min(record.since, record.at)
    if entry is None:
        first = Entry(_since(finding, since), record.at, ((since, None),), worst=finding.severity)
        return replace(first, logged=_logged(first, record))
    spans, times, end = entry.spans, entry.times, entry.cleared_at
    if end is None and record.at - entry.seen > GAP_S:
        # Nobody looked for long: it ended then, as far as anybody knows, and came again.
        spans, end = (*spans[:-1], (entry.since, entry.seen)), entry.seen
    if end is not None and record.at < end:
        # Of two consoles the slower one tells of what has ended meanwhile.
        return entry
    if end is None:
        spans = (*spans[:-1], (min(entry.since, since), None))
    elif entry.ended == "folded" or (since <= end and entry.ended == "lapsed"):
        # It was there all the time.
        spans = (*spans[:-1], (entry.since, None))
    else:
        spans, times = (*spans, (max(since, end), None))[-MOST_SPANS:], times + 1
    worst = min(entry.worst, finding.severity, key=lambda severity: severity.rank)
    entry = replace(entry, spans=spans)
    return replace(
        entry,
        finding=_since(finding, spans[-1][0]),
        seen=max(entry.seen, record.at),
        times=times,
        worst=worst,
        ended="",
        logged=_logged(entry, record),
    )


def _logged(entry: Entry, record: Found) -> tuple[Logged, ...]:
    """Return the log of `entry` with what `record` puts there, unless that was done since it came."""
    if any(line.at >= entry.since for line in entry.logged):
        return entry.logged
    return (*entry.logged, *(Logged(record.at, text) for text in record.finding.log))[-MOST_LOGGED:]


def over(entry: Entry, record: Ended) -> Entry:
    """Return what becomes of `entry` when it is active no longer."""
    if not entry.is_active or record.at < entry.since:
        return entry
    end = max(record.end, entry.since)
    finding = replace(entry.finding, state="cleared", cleared_at=iso(end))
    return replace(entry, finding=finding, spans=(*entry.spans[:-1], (entry.since, end)), ended=record.why)


def said(entry: Entry, record: Acknowledged | Snoozed | Noted) -> Entry:
    """Return what becomes of `entry` when somebody says something about it."""
    if isinstance(record, Noted):
        note = Note(record.at, record.by, record.text[:LONGEST_NOTE])
        return entry if note in entry.notes else replace(entry, notes=(*entry.notes, note)[-MOST_NOTES:])
    hush = Hush(record.at, record.by, record.severity, record.nodes)
    if isinstance(record, Acknowledged):
        return replace(entry, acknowledged=None if record.undo else hush)
    if record.undo:
        return replace(entry, snoozed=None)
    return replace(entry, snoozed=replace(hush, until=record.until, as_was=record.as_was))


class _Like(NamedTuple):
    """What must be told of a finding when it changes: not the values, which tremble."""

    severity: Severity
    cause: str
    where: tuple[str, ...]
    offers: tuple[str, ...]

    @classmethod
    def of(cls, finding: Finding) -> _Like:
        return cls(finding.severity, finding.cause, finding.where, finding.offers)


def _since(finding: Finding, since: float) -> Finding:
    text = iso(since)
    return finding if finding.since <= text else replace(finding, since=text)


def _last(entry: Entry) -> float:
    return entry.seen if entry.cleared_at is None else entry.cleared_at


def _seconds(text: str, otherwise: float) -> float:
    seconds = from_iso(text)
    return otherwise if seconds is None else seconds
