"""Findings as lines of text and as JSON, for `findings` and `check`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.night import found
from stethoscope.clock import from_iso, hms, iso
from stethoscope.model.finding import Severity
from stethoscope.model.ids import node_of
from stethoscope.model.night import Entry, Found, Standing
from stethoscope.ui.present.curve import curve_of
from stethoscope.ui.present.finding_words import alert_of, cause_words, evidence_text, standing_words, times_words
from stethoscope.ui.present.lines import finding_place, since_text
from stethoscope.ui.present.spans import Glyphs, Row, Span, Tone, level_tone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from stethoscope.analysis.history import History
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric

SCHEMA = "stethoscope.findings/1"
_INDENT = "       "
_MOST_FACTS = 4


def entries_of(snapshot: FleetSnapshot) -> list[Entry]:
    """Return what the rules find in a snapshot, each with what the night knows of it."""
    active = [finding for finding in snapshot.findings if finding.state == "active"]
    return [snapshot.night.get(finding.id) or _alone(finding, snapshot.wall) for finding in active]


def _alone(finding: Finding, wall: float) -> Entry:
    since = from_iso(finding.since)
    return found(None, Found(at=wall, finding=finding, since=wall if since is None else since))


def order(entries: Iterable[Entry], now: float) -> list[Entry]:
    """Return entries as they are listed: what is loud first, the most urgent first, what ended last."""
    places = list(Standing)
    return sorted(
        entries,
        key=lambda entry: (
            places.index(entry.standing(now)),
            entry.finding.severity.rank,
            entry.since if entry.is_active else -(entry.cleared_at or 0.0),
            entry.id,
        ),
    )


def finding_line(finding: Finding, wall: float, glyphs: Glyphs, *, entry: Entry | None = None) -> Row:
    """Return one finding as one line, without its evidence."""
    from stethoscope.ui.present.assess import SEVERITY_LEVELS

    standing = entry.standing(wall) if entry is not None else Standing.LOUD
    is_over = standing is Standing.CLEARED
    level = 0 if is_over else SEVERITY_LEVELS[finding.severity]
    is_quiet = finding.severity.rank > Severity.P2.rank or standing is not Standing.LOUD
    parts = [finding.summary]
    nodes = len({node_of(where) for where in finding.where})
    if nodes > 1:
        parts.append(f"{nodes:,} nodes")
    if len(finding.where) > nodes:
        parts.append(f"{len(finding.where):,} places")
    if not is_over:
        parts.append(f"{since_text(finding.since, wall)} ago")
    if entry is not None:
        parts += [words for words in (times_words(entry.times), standing_words(entry, wall)) if words]
    if said := cause_words(finding):
        parts.append(said)
    tone = Tone.QUIET if is_quiet else level_tone(level)
    return (
        Span(f"{glyphs.level(level)} {finding.severity.value:<4} ", level_tone(level) if not is_quiet else Tone.QUIET),
        Span(finding_place(finding), Tone.QUIET if is_quiet else Tone.STRONG),
        Span(f" {parts[0]}", tone),
        Span("".join(f" {glyphs.dot} {part}" for part in parts[1:]), Tone.QUIET),
    )


def evidence_rows(
    finding: Finding,
    catalogue: Mapping[str, Metric],
    since: float,
    glyphs: Glyphs,
    snapshot: FleetSnapshot | None = None,
    history: History | None = None,
) -> list[Row]:
    """Return what a finding rests on, a line each, with its curve where there is one."""
    rows: list[Row] = []
    said: set[str] = set()
    many = len({fact.where for fact in finding.evidence}) > 1
    for fact in finding.evidence:
        text = evidence_text(fact, catalogue)
        text += f" {glyphs.dot} {fact.where}" if many and fact.where else ""
        if snapshot is not None:
            curve = curve_of(snapshot, history, fact.fact, fact.where, since, glyphs)
            text += f" {glyphs.dot} {curve.text}" if curve is not None else ""
        if text not in said and len(said) < _MOST_FACTS:
            said.add(text)
            rows.append((Span(f"{_INDENT}{text}", Tone.QUIET),))
    return rows


def report_rows(
    entries: Iterable[Entry],
    wall: float,
    glyphs: Glyphs,
    catalogue: Mapping[str, Metric],
    snapshot: FleetSnapshot | None = None,
    history: History | None = None,
) -> list[Row]:
    """Return findings with their evidence, notes and ids; curves where there is a history beside the snapshot."""
    rows: list[Row] = []
    for entry in order(entries, wall):
        finding = entry.finding
        rows.append(finding_line(finding, wall, glyphs, entry=entry))
        if entry.is_active:
            rows += evidence_rows(finding, catalogue, entry.since, glyphs, snapshot, history)
        if alert := alert_of(finding):
            rows.append((Span(f"{_INDENT}alert: {alert}", Tone.QUIET),))
        rows += [(Span(f"{_INDENT}held back, not called: {held}", Tone.QUIET),) for held in finding.held]
        rows += [(Span(f"{_INDENT}{hms(line.at)} log: {line.text}", Tone.QUIET),) for line in entry.logged]
        rows += [(Span(f"{_INDENT}{hms(note.at)} {note.by}: {note.text}", Tone.PLAIN),) for note in entry.notes]
        rows.append((Span(f"{_INDENT}id {entry.id}", Tone.QUIET),))
    return rows


def sum_row(entries: Collection[Entry], fleet: str, wall: float, glyphs: Glyphs, *, extra: Iterable[str] = ()) -> Row:
    """Return the line that counts what is listed."""
    counts = _severities(entries)
    found = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    standings = Counter(entry.standing(wall) for entry in entries)
    quiet = [f"{standings[kind]} {kind.value}" for kind in list(Standing)[1:] if standings[kind]]
    parts = [fleet, found or "nothing found", *quiet, *extra, f"{hms(wall)} UTC"]
    return (Span(f" {glyphs.dot} ".join(parts), Tone.STRONG),)


def _severities(entries: Iterable[Entry]) -> dict[str, int]:
    counts = Counter(entry.finding.severity.value for entry in entries if entry.is_active)
    return {severity.value: counts[severity.value] for severity in Severity if severity is not Severity.NONE}


def report_json(entries: Collection[Entry], fleet: str, wall: float, source: str) -> dict[str, Any]:
    """Return the document of `stethoscope.findings/1`; `source` is `look`, `recording` or `night`."""
    listed = order(entries, wall)
    active = [entry.finding.severity for entry in listed if entry.is_active]
    return {
        "schema": SCHEMA,
        "fleet": fleet,
        "at": iso(wall),
        "source": source,
        "findings": [entry.as_json(wall) for entry in listed],
        "summary": {
            "findings": _severities(listed),
            "standing": {kind.value: sum(entry.standing(wall) is kind for entry in listed) for kind in Standing},
            "worst": min(active, key=lambda severity: severity.rank).value if active else "none",
        },
    }


def event_json(word: str, entry: Entry, fleet: str, wall: float) -> dict[str, Any]:
    """Return one line of `--follow --json`."""
    return {
        "schema": SCHEMA,
        "fleet": fleet,
        "at": iso(wall),
        "event": "active" if word == "still" else word,
        "finding": entry.as_json(wall),
    }


def event_row(word: str, entry: Entry, wall: float, glyphs: Glyphs) -> Row:
    """Return one line of `--follow`."""
    said = "active" if word == "still" else word
    row = (Span(f"{hms(wall)} {said:<8} ", Tone.QUIET), *finding_line(entry.finding, wall, glyphs, entry=entry))
    alert = alert_of(entry.finding) if word in ("new", "back", "still") else ""
    return (*row, Span(f" {glyphs.dot} alert: {alert}", Tone.QUIET)) if alert else row
