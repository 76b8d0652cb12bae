"""Explanations of signatures and codes, and the list of them, as rows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.session.explain import explanation
from stethoscope.text import clean
from stethoscope.ui.present.decoded_events import SEVERITY_LEVELS
from stethoscope.ui.present.spans import Row, Span, Tone, cut, level_tone, pad, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.model.logs import Event
    from stethoscope.session.explain import Explanation, Listed
    from stethoscope.specs.codes import Codes
    from stethoscope.specs.signature import Signatures
    from stethoscope.ui.present.spans import Glyphs

_LABEL = 10
_WIDEST = 110


def explained_rows(
    id_: str, event: Event | None, signatures: Signatures, codes: Codes, glyphs: Glyphs, cells: int
) -> list[Row]:
    """Return the explanation of `id_`, below it the line that led to it."""
    found = explanation(id_, signatures, codes)
    if found is None:
        return [(Span(f" nothing is known of {clean(id_, 80)}", Tone.WARNING),)]
    rows = list(explanation_rows(found, glyphs, cells))
    if event is not None:
        rows += [(), *_line_rows(event, cells)]
    return rows


def explanation_rows(found: Explanation, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    """Yield what is said of one kind of line."""
    level = SEVERITY_LEVELS[found.severity]
    head = f"{glyphs.level(level)} {found.severity.value:<5}"
    room = min(cells, _WIDEST) - _LABEL - 1
    for number, line in enumerate(textwrap.wrap(found.title, room, break_on_hyphens=False)):
        yield (Span(f" {'' if number else head:<{_LABEL}}", level_tone(level)), Span(line, Tone.TITLE))
    yield (Span(f" {'':<{_LABEL}}"), Span(found.id, Tone.QUIET))
    for part in found.parts:
        label = part.label
        for text in part.texts:
            hang = 2 if len(part.texts) > 1 else 0
            for number, line in enumerate(textwrap.wrap(text, room - hang, break_on_hyphens=False)):
                yield (Span(f" {label:<{_LABEL}}", Tone.QUIET), Span((" " * hang if number else "") + line))
                label = ""


def _line_rows(event: Event, cells: int) -> Iterator[Row]:
    """Yield the line itself, when it was written, and what was read from it."""
    label = "the line"
    for line in textwrap.wrap(event.text, min(cells, _WIDEST) - _LABEL - 1, break_on_hyphens=False):
        yield (Span(f" {label:<{_LABEL}}", Tone.QUIET), Span(line, Tone.STRONG))
        label = ""
    if event.at is not None:
        until = f" to {iso(event.last_at)}" if event.last_at is not None and event.last_at > event.at else ""
        times = f", {event.count:,} times" if event.count > 1 else ""
        yield (Span(f" {'at':<{_LABEL}}", Tone.QUIET), Span(f"{iso(event.at)}{until}{times}"))
    if event.fields:
        said = ", ".join(f"{name} {value}" for name, value in event.fields.items())
        yield (Span(f" {'says':<{_LABEL}}", Tone.QUIET), Span(clean(said, 400)))


def listed_rows(found: Sequence[Listed], glyphs: Glyphs, cells: int, *, is_cut: bool = True) -> list[Row]:
    """Return one row for each kind of line: its id, how urgent it is, what it means."""
    room = (
        min(34, max((width(one.id) for one in found), default=0))
        if is_cut
        else max((width(one.id) for one in found), default=0)
    )
    rows: list[Row] = []
    for one in found:
        level = SEVERITY_LEVELS[one.severity]
        meaning = cut(one.meaning, cells - room - 12, glyphs.ellipsis) if is_cut else one.meaning
        rows.append(
            (
                Span(f"{glyphs.level(level)} {one.severity.value:<5}", level_tone(level)),
                Span(pad(one.id, room, glyphs.ellipsis) + "  ", Tone.STRONG if one.role == "cause" else Tone.PLAIN),
                Span(meaning, Tone.QUIET if one.role in ("context", "benign") else Tone.PLAIN),
            )
        )
    return rows
