"""The night's list as lines: what is loud, what somebody has seen, what cleared, and what is only information."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.clock import hms
from stethoscope.model.finding import Severity
from stethoscope.model.night import Standing
from stethoscope.ui.present.finding_words import cause_words, sign, standing_words, times_words
from stethoscope.ui.present.findings import together
from stethoscope.ui.present.lines import finding_place, since_text
from stethoscope.ui.present.spans import Row, Span, Tone, cut, fit, pad, row_width, spread, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.night import Entry
    from stethoscope.ui.present.spans import Glyphs

INFORMATION = "information"
SORTS = ("worst", "newest")
_SECTIONS = {
    Standing.LOUD.value: "Active",
    Standing.ACKNOWLEDGED.value: "Acknowledged",
    Standing.SNOOZED.value: "Snoozed",
    Standing.CLEARED.value: "Cleared",
    INFORMATION: "Information",
}
MOST = 300
"""Findings of a section that are listed."""
_NARROW = 100


class ListRow(NamedTuple):
    """One line."""

    row: Row
    id: str = ""
    """That of its finding; empty for a heading."""
    section: str = ""


def section_of(entry: Entry, now: float) -> str:
    """Return the section in which a finding stands."""
    standing = entry.standing(now)
    if standing is Standing.LOUD and entry.finding.severity.rank > Severity.P2.rank:
        return INFORMATION
    return standing.value


def fits(entry: Entry, words: str) -> bool:
    """Tell whether every one of `words` stands somewhere in what is known of a finding."""
    finding = entry.finding
    known = [
        finding.id, finding.severity.value, finding.nodes, finding.summary, finding.cause, finding.root_cause or "",
        finding.message, *finding.where, *(note.text for note in entry.notes), *(note.by for note in entry.notes),
    ]  # fmt: skip
    text = "\n".join(known).lower()
    return all(word in text for word in words.lower().split())


def list_rows(
    entries: Iterable[Entry],
    now: float,
    glyphs: Glyphs,
    cells: int,
    *,
    sort: str = SORTS[0],
    words: str = "",
    held: Mapping[str, str] | None = None,
) -> list[ListRow]:
    """Return the lines, those that fit `words`; findings in `held` stay in the section that stands there."""
    sections: dict[str, list[Entry]] = {name: [] for name in _SECTIONS}
    every = list(entries)
    fitting = [entry for entry in every if fits(entry, words)]
    for entry in fitting:
        sections[(held or {}).get(entry.id) or section_of(entry, now)].append(entry)
    place_cells = min(
        34 if cells >= _NARROW else 20, max([width(finding_place(e.finding)) for e in fitting], default=0)
    )
    rows: list[ListRow] = []
    for name, title in _SECTIONS.items():
        some = _ordered(sections[name], sort, is_loud=name == Standing.LOUD.value)
        if some:
            rows.append(ListRow((Span(f" {title}  ", Tone.TITLE), Span(f"{len(some):,}", Tone.QUIET)), section=name))
            shown = some[:MOST]
            rows += [ListRow(_row(entry, now, name, glyphs, cells, place_cells), entry.id, name) for entry in shown]
            if len(shown) < len(some):
                words_left = f"   and {len(some) - len(shown):,} more: / shows those in which words stand"
                rows.append(ListRow((Span(words_left, Tone.QUIET),), section=name))
    if not rows:
        said = "no finding fits the filter; escape clears it" if every else "nothing was found tonight"
        rows.append(ListRow((Span(f"   {said}", Tone.QUIET),)))
    return rows


def _ordered(entries: list[Entry], sort: str, *, is_loud: bool) -> list[Entry]:
    if sort == "newest":
        return sorted(entries, key=lambda entry: (-(entry.cleared_at or entry.since), entry.id))
    some = sorted(entries, key=lambda e: (e.finding.severity.rank, e.since if e.is_active else -e.since, e.id))
    if not is_loud:
        return some
    by_id = {entry.id: entry for entry in some}
    return [by_id[finding.id] for finding in together(entry.finding for entry in some)]


def _row(entry: Entry, now: float, section: str, glyphs: Glyphs, cells: int, place_cells: int) -> Row:
    finding, quiet = entry.finding, entry.standing(now) is not Standing.LOUD
    text, tone = sign(finding, glyphs, quiet=quiet)
    if not entry.is_active:
        text = f" {glyphs.level(0)}{text[2:]}"
    since = since_text(finding.cleared_at or finding.since, now) if quiet else since_text(finding.since, now)
    beside = [times_words(entry.times), cause_words(finding), standing_words(entry, now, under=section)]
    beside += [f"{len(entry.notes)} note{'s' if len(entry.notes) > 1 else ''}"] if entry.notes else []
    room = cells - width(text) - place_cells - 11
    more = "".join(f" {glyphs.dot} {words}" for words in beside if words)
    # Who has it says more than the end of a long sentence.
    summary = cut(finding.summary, max(room - width(more), min(room, 24)), glyphs.ellipsis)
    parts = (
        Span(f"{text} ", tone),
        Span(pad(finding_place(finding), place_cells, glyphs.ellipsis) + "  ", Tone.QUIET if quiet else Tone.STRONG),
        Span(f"{since:>5}  ", Tone.QUIET),
        Span(summary, tone),
        Span(cut(more, max(0, room - width(summary)), glyphs.ellipsis), Tone.QUIET),
    )
    return fit(parts, cells, glyphs.ellipsis)


def list_title(
    entries: Iterable[Entry], now: float, fleet: str, cells: int, glyphs: Glyphs, *, sort: str, words: str
) -> Row:
    """Return the top line: how many there are of each kind, and how they are shown."""
    counts = Counter(section_of(entry, now) for entry in entries)
    said = [f"{counts[name]:,} {title.lower()}" for name, title in _SECTIONS.items() if counts[name]]
    name = Span(cut(fleet, 24, glyphs.ellipsis), Tone.PLAIN)
    order = f"{sort} first" + (f'   filter "{cut(words, 24, glyphs.ellipsis)}"' if words else "")
    last = Span(f"{order} ", Tone.KEY if words else Tone.QUIET)
    for parts, right in (
        (said, (last, Span(f"  {hms(now)} UTC ", Tone.QUIET))),
        (said, (last,)),
        (said[:2], (last,)),
        ([], (last,)),
    ):
        counted = Span(f"  {f' {glyphs.dot} '.join(parts)}", Tone.QUIET)
        left = (Span(" Findings  ", Tone.TITLE), name, counted)
        if row_width((*left, *right)) + 2 <= cells:
            return spread(left, right, cells)
    return fit((Span(" Findings  ", Tone.TITLE), last), cells, glyphs.ellipsis)
