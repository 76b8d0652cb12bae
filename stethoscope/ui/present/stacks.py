"""Who is where as rows: the verdict, then the tree of all stacks, the odd ones out first."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.analysis.stacks import trunk_of
from stethoscope.ui.present.decoded import verdict_rows
from stethoscope.ui.present.decoded_read import read_rows
from stethoscope.ui.present.spans import Span, Tone, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.analysis.stacks import Place
    from stethoscope.parse.stacks import Frame
    from stethoscope.session.stacks import StacksDecoded
    from stethoscope.ui.present.spans import Glyphs, Row

_MOST_PLACES = 12
_MOST_FRAMES = 6


def stacks_rows(answer: StacksDecoded, glyphs: Glyphs, cells: int, *, every: bool = False) -> list[Row]:
    """Return the whole answer for a terminal of `cells`; with `every`, all places and all of their frames."""
    rows = verdict_rows(answer.decoded, glyphs, cells)
    rows += _tree(answer.places, glyphs, cells, every=every)
    return [*rows, (), *read_rows(answer.decoded, glyphs, cells)]


def _tree(places: Sequence[Place], glyphs: Glyphs, cells: int, *, every: bool) -> Iterator[Row]:
    total = sum(len(place.processes) for place in places)
    title = Span("Who is where ", Tone.TITLE)
    note = Span(f" {total:,} at {len(places):,} place{'s' if len(places) > 1 else ''}", Tone.QUIET)
    yield ()
    yield (title, Span(glyphs.rule * max(0, cells - width(title.text) - width(note.text)), Tone.RULE), note)
    trunk = trunk_of(places)
    if trunk:
        yield from _wrapped("all", " < ".join(frame.text for frame in trunk), cells, Tone.QUIET)
    shown = places if every else places[:_MOST_PLACES]
    for place in shown:
        yield from _wrapped(place.who, place.what, cells, Tone.STRONG)
        yield from _frames(place.frames[: len(place.frames) - len(trunk)], every=every)
    if len(places) > len(shown):
        rest = sum(len(place.processes) for place in places[len(shown) :])
        yield (Span(f"  and {rest:,} more at {len(places) - len(shown):,} places: --all", Tone.QUIET),)


def _frames(frames: Sequence[Frame], *, every: bool) -> Iterator[Row]:
    shown = frames if every else frames[:_MOST_FRAMES]
    for frame in shown:
        yield (Span(f"      {frame.text}", Tone.QUIET),)
    if len(frames) > len(shown):
        yield (Span(f"      and {len(frames) - len(shown)} outer frames", Tone.QUIET),)


def _wrapped(label: str, text: str, cells: int, tone: Tone) -> Iterator[Row]:
    head = f"  {label}: "
    lines = textwrap.wrap(text, max(20, cells - min(len(head), cells // 2)), break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield (Span(head if not number else " " * min(len(head), cells // 2), Tone.PLAIN), Span(line, tone))
