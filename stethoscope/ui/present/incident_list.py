"""The incidents as lines: what is being written, what was found, and files that cannot be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.clock import hms
from stethoscope.model.incident import END, HIT, Status
from stethoscope.ui.present.assess import SEVERITY_LEVELS
from stethoscope.ui.present.incident_text import STATUS_TONES, labelled, stamp, took_words
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, fit, level_tone, pad, row_width, spread, width
from stethoscope.ui.present.wrapped import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.model.incident import Hit, Incident, Search, Trouble
    from stethoscope.store.drafts import Draft
    from stethoscope.ui.present.spans import Glyphs

INCIDENT, DRAFT, TROUBLE, SUGGESTION = "incident", "draft", "trouble", "suggestion"
ALL, FAULTS = "all", "files with faults"
FILTERS = (ALL, "open", "mitigated", "resolved", "reference", FAULTS)
"""What the list is narrowed to, in the order in which tab goes through it."""
_NARROW, _WIDE = 100, 120
"""Below so many cells the sign alone says whether it is over; from so many on there is room for what fixed it."""
_ID, _STATUS = 20, 9
_WORD = re.compile(r'"([^"]*)"|(\S+)')


class ListLine(NamedTuple):
    """One line."""

    row: Row
    kind: str = ""
    """What it leads to; empty where it leads nowhere."""
    id: str = ""
    """Of the incident or the draft, the path of a broken file, the suggested query."""


class Listed(NamedTuple):
    """What the list is made of."""

    search: Search | None
    """None before the first answer."""
    drafts: Sequence[Draft] = ()
    troubles: Sequence[Trouble] = ()
    query: str = ""
    only: str = ALL
    why: str = ""
    """Why nothing can be said."""
    elsewhere: frozenset[str] = frozenset()
    """Keys of the drafts that another console has in its form."""
    read: tuple[int, int] = (0, 0)
    """How many files were read, and of how many, while the first list waits for them."""


def query_of(text: str, only: str) -> str:
    """Return the query for what is typed, narrowed to one status."""
    return text if only in (ALL, FAULTS) else f"{text} status:{only}".strip()


def list_lines(listed: Listed, glyphs: Glyphs, cells: int) -> list[ListLine]:
    """Return the lines."""
    lines: list[ListLine] = []
    if listed.only == FAULTS:
        lines += _trouble_lines(listed.troubles, glyphs, cells)
        return lines or [_quiet("no file has a fault")]
    if listed.drafts and not listed.query and listed.only in (ALL, "open"):
        lines.append(ListLine((Span(" Not recorded yet  ", Tone.TITLE), Span(f"{len(listed.drafts)}", Tone.QUIET))))
        lines += [_draft_line(draft, glyphs, cells, draft.key in listed.elsewhere) for draft in listed.drafts]
        lines.append(ListLine(()))
    search = listed.search
    if listed.why:
        return [*lines, *(ListLine((Span(f"   {line}", Tone.WARNING),)) for line in wrap(listed.why, cells - 4))]
    if search is None:
        done, total = listed.read
        return [*lines, _quiet(f"reading {done:,} of {total:,}" if total else "reading the files")]
    for note in search.notes:
        lines.append(ListLine(fit((Span(f"   {note}", Tone.WARNING),), cells, glyphs.ellipsis)))
    if search.suggestion:
        row = (Span("   did you mean  ", Tone.QUIET), Span(search.suggestion, Tone.KEY))
        lines.append(ListLine(fit(row, cells, glyphs.ellipsis), SUGGESTION, search.suggestion))
    words = words_of(listed.query)
    for hit in search.hits:
        lines.append(ListLine(_hit_row(hit.incident, words, glyphs, cells), INCIDENT, hit.incident.id))
        if words and hit.snippet and not _says_all(hit.incident.title, hit.snippet):
            lines.append(ListLine(snippet_row(hit.snippet, glyphs, cells)))
    if len(search.hits) < search.total:
        lines.append(_quiet(f"and {search.total - len(search.hits):,} more: type what they say"))
    if not search.hits:
        narrowed = bool(listed.query) or listed.only != ALL
        words_none = "nothing fits; escape clears the search" if narrowed else _NOTHING
        lines.append(_quiet(words_none))
    if listed.troubles and not listed.query and listed.only == ALL:
        lines.append(ListLine(()))
        lines += _trouble_lines(listed.troubles, glyphs, cells)
    return lines


_NOTHING = "nothing is recorded yet: i on a verdict, a finding or a log records it, ctrl+n by hand"


def _quiet(words: str) -> ListLine:
    return ListLine((Span(f"   {words}", Tone.QUIET),))


def _draft_line(draft: Draft, glyphs: Glyphs, cells: int, is_elsewhere: bool) -> ListLine:
    what = "edited" if draft.expected else "new"
    when = "being typed elsewhere" if is_elsewhere else f"kept {hms(draft.saved)} UTC"
    lead = f" {glyphs.differ} {pad(when, _ID + 5)}{pad(what, _STATUS)}  "
    title = cut(draft.name, cells - width(lead), glyphs.ellipsis)
    tones = (Tone.QUIET, Tone.QUIET) if is_elsewhere else (Tone.WARNING, Tone.STRONG)
    return ListLine((Span(lead, tones[0]), Span(title, tones[1])), DRAFT, draft.key)


def _trouble_lines(troubles: Sequence[Trouble], glyphs: Glyphs, cells: int) -> list[ListLine]:
    if not troubles:
        return []
    count = len({trouble.path for trouble in troubles})
    heading = (Span(" Files with faults  ", Tone.TITLE), Span(f"{count:,}", Tone.QUIET))
    lines = [ListLine(heading)]
    for trouble in troubles:
        place = f"{trouble.path}:{trouble.line}" if trouble.line else trouble.path
        row = (Span(f" {glyphs.level(Level.WARNING)} {place}  ", Tone.WARNING), Span(trouble.message, Tone.PLAIN))
        lines.append(ListLine(fit(row, cells, glyphs.ellipsis), TROUBLE, trouble.path))
    return lines


def _hit_row(one: Incident, words: Sequence[str], glyphs: Glyphs, cells: int) -> Row:
    level = SEVERITY_LEVELS[one.severity]
    is_over = one.status in (Status.RESOLVED, Status.REFERENCE)
    tone = Tone.QUIET if is_over else level_tone(level)
    sign = glyphs.level(Level.NORMAL if is_over else level)
    severity = one.severity.value if one.severity.value.startswith("P") else "  "
    lead: Row = (Span(f" {sign} {severity} ", tone), Span(pad(one.id, _ID, glyphs.ellipsis) + "  ", Tone.QUIET))
    if cells >= _NARROW:
        lead = (*lead, Span(pad(one.status.value, _STATUS) + "  ", STATUS_TONES[one.status]))
    room = cells - row_width(lead)
    title = one.title or "(no title)"
    if cells >= _WIDE and one.resolution:
        fixed = " ".join(one.resolution.split())
        shown = cut(title, max(room * 3 // 5, room - width(fixed) - 2), glyphs.ellipsis)
        rest = (Span("  "), *highlighted(cut(fixed, room - width(shown) - 2, glyphs.ellipsis), words, Tone.QUIET))
        return (*lead, *highlighted(shown, words, Tone.QUIET if one.is_reference else Tone.PLAIN), *rest)
    shown = cut(title, room, glyphs.ellipsis)
    return (*lead, *highlighted(shown, words, Tone.QUIET if one.is_reference else Tone.PLAIN))


def snippet_row(snippet: str, glyphs: Glyphs, cells: int) -> Row:
    """Return text around what fits, with that loud."""
    spans: list[Span] = [Span(" " * 6)]
    for number, part in enumerate(" ".join(snippet.split()).split(HIT)):
        hit, end, rest = part.partition(END)
        if number and end:
            spans += [Span(hit, Tone.KEY), Span(rest, Tone.QUIET)]
        else:
            spans.append(Span(part.replace(END, ""), Tone.QUIET))
    return fit(spans, cells, glyphs.ellipsis)


def _says_all(text: str, snippet: str) -> bool:
    """Tell whether a snippet says no more than a text that is shown beside it."""
    return " ".join(snippet.replace(HIT, "").replace(END, "").split()).strip(". …") in text


def words_of(query: str) -> list[str]:
    """Return the words of a query that stand in texts: fields and what is left out are none."""
    words: list[str] = []
    for quoted, word in _WORD.findall(query):
        if quoted:
            words.append(quoted)
        elif not word.startswith("-") and ":" not in word and word not in ("OR", "AND"):
            words.append(word.strip("*\"'()"))
    return [word for word in words if word]


def highlighted(text: str, words: Sequence[str], tone: Tone) -> Iterator[Span]:
    """Return a text with the words of a query loud, whatever their case."""
    if not words:
        yield Span(text, tone)
        return
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    at = 0
    for match in re.finditer(pattern, text, re.IGNORECASE):
        if match.start() > at:
            yield Span(text[at : match.start()], tone)
        yield Span(match[0], Tone.KEY)
        at = match.end()
    yield Span(text[at:], tone)


def list_title(listed: Listed, total: int, directory: str, cells: int, glyphs: Glyphs) -> Row:
    """Return the top line: how many there are, how many fit, where they lie, and what the list is narrowed to."""
    counted = f"{total:,}"
    if listed.search is not None and (listed.query or listed.only not in (ALL, FAULTS)):
        counted = f"{listed.search.total:,} of {total:,}"
    broken = len({trouble.path for trouble in listed.troubles})
    right = (Span(f"{listed.only} ", Tone.KEY if listed.only != ALL else Tone.QUIET),)
    faults = Span(f" {glyphs.dot} {broken} with faults", Tone.WARNING) if broken else Span("")
    left = (
        Span(" Incidents  ", Tone.TITLE),
        Span(counted, Tone.QUIET),
        faults,
        Span(f"  {directory}", Tone.QUIET),
    )
    return spread(fit(left, cells - row_width(right) - 2, glyphs.ellipsis), right, cells)


def detail_rows(hit: Hit | None, glyphs: Glyphs, cells: int, lines: int, trouble: str = "") -> list[Row]:
    """Return what is known of the chosen incident in a few lines, or what is wrong with the chosen file."""
    if hit is None:
        told = [(Span(f" {line}", Tone.WARNING),) for line in wrap(trouble, cells - 2)] if trouble else []
        return [*told, *[()] * lines][:lines]
    one, rows = hit.incident, []
    when = f"{stamp(one.at)} UTC" if one.at is not None else ""
    parts = [
        one.status.value,
        when,
        *took_words(one),
        one.root_cause,
        ", ".join(one.places[:4]),
        f"job {one.job}" if one.job else "",
    ]
    rows += labelled(" was", f" {glyphs.dot} ".join(part for part in parts if part), cells - 1)[:2]
    rows += labelled(" fixed by", " ".join(one.resolution.split()) or "nobody has written it down", cells - 1)
    if hit.snippet and not _says_all(" ".join(one.resolution.split()), hit.snippet):
        rows.append(snippet_row(hit.snippet, glyphs, cells))
    return [fit(row, cells, glyphs.ellipsis) for row in [*rows, *[()] * lines][:lines]]
