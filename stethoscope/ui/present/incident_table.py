"""Lists of incidents for people: all of them, what a search found, what looks like something, and what is broken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.model.incident import END, HIT
from stethoscope.ui.present.incident_text import SEVERITY_TONES, STATUS_TONES
from stethoscope.ui.present.spans import Span, Tone, cut, fit, pad, width
from stethoscope.ui.present.wrapped import wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stethoscope.model.incident import Hit, Incident, Match, Trouble
    from stethoscope.ui.present.spans import Glyphs, Row

_MARKS = re.compile(r"(?:(?<=\s)|(?<=…)|^)(?:#{1,6}(?=\s)|(?:```|~~~)\w*)")
_ID = 21
_STATUS = 11
_CAUSE = 22
_WHERE = 26
_WIDE = 100
_WIDER = 140
_ROOMY = 400
"""From so many cells on nothing is cut: no eye reads such a row."""
_LEAST_TITLE = 24


def list_rows(incidents: Iterable[Incident], cells: int, glyphs: Glyphs) -> Iterator[Row]:
    """Yield a row for each incident: id, severity, status, what it was, and as far as there is room where and why."""
    incidents = list(incidents)
    wide, title = _widths(incidents)
    for one in incidents:
        yield _row(one, cells, glyphs, wide, title)


def _widths(incidents: Sequence[Incident]) -> tuple[int, int]:
    """Return the cells of the longest id and of the longest title."""
    return max([_ID, *(len(one.id) for one in incidents)]), max([0, *(width(one.title) for one in incidents)])


def _row(one: Incident, cells: int, glyphs: Glyphs, wide: int, longest: int) -> Row:
    spans = [
        Span(f"{pad(one.id, wide, glyphs.ellipsis)}  ", Tone.STRONG),
        Span(f"{one.severity.value:<5}", SEVERITY_TONES[one.severity]),
        Span(f"{one.status.value:<{_STATUS}}", STATUS_TONES[one.status]),
    ]
    room = cells - wide - 2 - 5 - _STATUS
    more: list[Span] = []
    if cells >= _WIDE:
        where = one.places[0] + (f" +{len(one.places) - 1}" if len(one.places) > 1 else "") if one.places else one.nodes
        more.append(
            Span(f"  {pad(where, max(_WHERE, width(where) if cells >= _ROOMY else 0), glyphs.ellipsis)}", Tone.QUIET)
        )
        room -= _WHERE + 2
    if cells >= _WIDER:
        more.append(Span(f"  {cut(one.root_cause, cells if cells >= _ROOMY else _CAUSE, glyphs.ellipsis)}", Tone.QUIET))
        room -= _CAUSE + 2
    title = one.title or "(no title)"
    room = max(min(room, longest), _LEAST_TITLE)
    return (*spans, Span(pad(title, room, glyphs.ellipsis) if more else cut(title, room, glyphs.ellipsis)), *more)


def hit_rows(hits: Iterable[Hit], cells: int, glyphs: Glyphs) -> Iterator[Row]:
    """Yield the rows of what a search found, best first: the incident, and below it the words that fit, in bold."""
    hits = list(hits)
    wide, title = _widths([hit.incident for hit in hits])
    for hit in hits:
        yield _row(hit.incident, cells, glyphs, wide, title)
        # What the title says already needs no second row.
        if hit.snippet.replace(HIT, "").replace(END, "").strip() not in ("", hit.incident.title):
            yield fit((Span("    "), *marked(hit.snippet)), cells, glyphs.ellipsis)


def marked(snippet: str) -> Iterator[Span]:
    """Yield the spans of a snippet: what fits stands out, what makes a heading or a block of code is left out."""
    for number, part in enumerate(" ".join(_MARKS.sub(" ", snippet).split()).split(HIT)):
        fits, end, rest = part.partition(END) if number else ("", "", part)
        if number and not end:
            fits, rest = "", part
        if fits:
            yield Span(fits, Tone.STRONG)
        if rest:
            yield Span(rest, Tone.QUIET)


def match_rows(matches: Iterable[Match], cells: int, glyphs: Glyphs) -> Iterator[Row]:
    """Yield the rows of what looks like something of now: how much, why, and what fixed it then."""
    for match in matches:
        one = match.incident
        head = (
            Span(f"{match.score:.2f}  ", Tone.QUIET),
            Span(one.id, Tone.STRONG),
            Span("  "),
            Span(one.severity.value, SEVERITY_TONES[one.severity]),
            Span("  "),
            Span(one.status.value, STATUS_TONES[one.status]),
            Span("  "),
        )
        room = cells - sum(width(span.text) for span in head)
        if room >= _LEAST_TITLE:
            yield (*head, Span(cut(one.title, room, glyphs.ellipsis)))
        else:
            yield head[:-1]
            yield (Span("      "), Span(cut(one.title, cells - 6, glyphs.ellipsis)))
        helps = "helps: " if one.is_reference else "fixed by "
        for name, text in (("because ", "; ".join(match.reasons)), (helps, one.resolution)):
            for line in wrap(" ".join(text.split()), cells, f"      {name}", "        ") if text else ():
                yield (Span(line, Tone.QUIET if name == "because " else Tone.PLAIN),)


def trouble_rows(troubles: Iterable[Trouble], cells: int) -> Iterator[Row]:
    """Yield the rows of files that cannot be read, or say something odd."""
    for trouble in troubles:
        place = f"{trouble.path}:{trouble.line}" if trouble.line else trouble.path
        for number, line in enumerate(wrap(f"{place}: {trouble.message}", cells, "", "    ")):
            yield (Span(line, Tone.WARNING if number == 0 else Tone.PLAIN),)


def draft_rows(drafts: Sequence[tuple[str, float, str]], cells: int, glyphs: Glyphs) -> Iterator[Row]:
    """Yield the rows of what was begun and not recorded: key, when it was kept, title."""
    for key, saved, title in drafts:
        text = f"{key}  {iso(saved)}  {title or '(no title)'}"
        yield (Span(cut(text, cells, glyphs.ellipsis)),)
