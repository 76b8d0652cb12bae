"""The findings pane of the fleet screen: worst first, what shares a cause together, the quiet ones below."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.model.night import Standing
from stethoscope.ui.present.assess import SEVERITY_LEVELS, worst_findings
from stethoscope.ui.present.finding_words import cause_words, standing_words
from stethoscope.ui.present.lines import finding_place, since_text
from stethoscope.ui.present.numbers import fact_text
from stethoscope.ui.present.spans import Row, Span, Tone, cut, fit, level_tone, pad, row_width, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.finding import Finding
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.spans import Glyphs

_NARROW = 100
_WIDE = 88
"""Cells, less those of marks at the end, from which evidence has room."""
_MARK = "one cause?"


def finding_rows(assessment: Assessment, wall: float, cells: int, limit: int, glyphs: Glyphs) -> list[Row]:
    """Return the pane: one line each, worst first, then what somebody has seen, then what cleared lately; the last
    line says how many did not fit."""
    snapshot = assessment.snapshot
    # What is only information stands on the node's screen and in `check`: here it would never leave.
    findings = [finding for finding in worst_findings(snapshot) if finding.severity.rank <= Severity.P2.rank]
    by_standing: dict[Standing, list[Finding]] = {}
    for finding in findings:
        by_standing.setdefault(standing_of(assessment, finding, wall), []).append(finding)
    loud = together(by_standing.get(Standing.LOUD, []))
    quiet = [*by_standing.get(Standing.ACKNOWLEDGED, []), *by_standing.get(Standing.SNOOZED, [])]
    cleared = [finding for finding in snapshot.findings if finding.state == "cleared"]
    cleared = [finding for finding in cleared if finding.severity.rank <= Severity.P2.rank]
    shown = [*loud, *quiet, *cleared][:limit]
    if not shown:
        return []
    more = _more(len(loud) - limit, quiet[max(0, limit - len(loud)) :], by_standing, glyphs)
    where_cells = min(30 if cells >= _NARROW else 20, max(width(finding_place(finding)) for finding in shown))
    marks = _marks(shown[: len(loud)], cells)
    rows: list[Row] = []
    for number, finding in enumerate(shown):
        is_last = more != "" and number == len(shown) - 1
        tail = (*((Span(more, Tone.QUIET),) if is_last else ()), *marks.get(number, ()))
        room = cells - row_width(tail)
        if number < len(loud):
            row = _loud_row(finding, snapshot.catalogue, wall, room, where_cells, glyphs)
        else:
            row = _quiet_row(assessment, finding, wall, room, where_cells, glyphs)
        row = fit(row, room, glyphs.ellipsis)
        rows.append((*row, Span(" " * (room - row_width(row))), *tail) if number in marks else (*row, *tail))
    return rows


def standing_of(assessment: Assessment, finding: Finding, wall: float) -> Standing:
    """Return how much a finding wants to be seen; one that the night does not know does."""
    entry = assessment.snapshot.night.get(finding.id)
    return Standing.LOUD if entry is None else entry.standing(wall)


def together(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in their order, but those that share a cause behind the first of them."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.cause or f"\n{finding.id}", []).append(finding)
    return [finding for group in groups.values() for finding in group]


def _marks(findings: list[Finding], cells: int) -> dict[int, tuple[Span, ...]]:
    """Return by line what stands at its end where findings below each other share a cause."""
    marks: dict[int, tuple[Span, ...]] = {}
    words = f" {_MARK} " if cells >= _NARROW else " "
    for number, finding in enumerate(findings):
        above = number > 0 and finding.cause != "" and findings[number - 1].cause == finding.cause
        below = number + 1 < len(findings) and finding.cause != "" and findings[number + 1].cause == finding.cause
        if above or below:
            corner = "│" if above and below else "┘" if above else "┐"
            said = words if below and not above else " " * len(words)
            marks[number] = (Span(f" {corner}{said}", Tone.STRONG),)
    return marks


def _more(loud: int, quiet: list[Finding], by_standing: Mapping[Standing, list[Finding]], glyphs: Glyphs) -> str:
    """Return how many of each kind are not shown."""
    parts = [f"+{loud} more"] if loud > 0 else []
    left = {finding.id for finding in quiet}
    counts = Counter({kind: sum(f.id in left for f in findings) for kind, findings in by_standing.items()})
    parts += [f"{counts[kind]} {kind.value}" for kind in (Standing.ACKNOWLEDGED, Standing.SNOOZED) if counts[kind]]
    return f"  {f' {glyphs.dot} '.join(parts)} " if parts else ""


def _loud_row(
    finding: Finding, catalogue: Mapping[str, Metric], wall: float, cells: int, where_cells: int, glyphs: Glyphs
) -> Row:
    level = SEVERITY_LEVELS[finding.severity]
    tone = level_tone(level)
    room = cells - where_cells - 16
    left = room - width(finding.summary) - 3
    beside = ""
    # Of many places the same is often known: said once. On narrow screens the cause alone has room.
    facts = dict.fromkeys(fact_text(fact, catalogue) for fact in finding.evidence) if cells >= _WIDE else {}
    for words in filter(None, [cause_words(finding), *facts]):
        more = f"{f' {glyphs.dot} ' if beside else '   '}{words}"
        if width(beside + more) > left and (beside or cells < _WIDE):
            break
        beside += more
    return (
        Span(f" {glyphs.level(level)} {finding.severity.value} ", tone),
        Span(pad(finding_place(finding), where_cells, glyphs.ellipsis) + "  ", Tone.STRONG),
        Span(f"{since_text(finding.since, wall):>5}  ", Tone.QUIET),
        Span(cut(finding.summary, room, glyphs.ellipsis), tone),
        Span(cut(beside, max(0, left), glyphs.ellipsis), Tone.QUIET),
    )


def _quiet_row(
    assessment: Assessment, finding: Finding, wall: float, cells: int, where_cells: int, glyphs: Glyphs
) -> Row:
    entry = assessment.snapshot.night.get(finding.id)
    is_cleared = finding.state == "cleared"
    level = 0 if is_cleared else SEVERITY_LEVELS[finding.severity]
    since = finding.cleared_at or finding.since if is_cleared else finding.since
    words = standing_words(entry, wall) if entry is not None else "cleared" if is_cleared else ""
    room = cells - where_cells - 16
    # Who has it says more than the end of a long sentence.
    beside = f" {glyphs.dot} {words}" if words else ""
    summary = cut(finding.summary, max(room - width(beside), min(room, 16)), glyphs.ellipsis)
    return (
        Span(f" {glyphs.level(level)} {finding.severity.value} ", Tone.QUIET),
        Span(pad(finding_place(finding), where_cells, glyphs.ellipsis) + "  ", Tone.QUIET),
        Span(f"{since_text(since, wall):>5}  ", Tone.QUIET),
        Span(summary + beside, Tone.QUIET),
    )
