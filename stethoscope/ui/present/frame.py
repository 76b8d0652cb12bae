"""The lines that need no data: what the first picture of the console consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import hms
from stethoscope.ui.present.spans import Row, Span, Tone, row_width, spread, width

if TYPE_CHECKING:
    from stethoscope.ui.present.spans import Glyphs

_NARROW = 100
LEAST = (40, 10)
"""The smallest terminal that shows anything useful: columns, lines."""


def opening_line(title: str, words: str, wall: float, cells: int) -> Row:
    """Return the top line before there is a snapshot: what is being done."""
    name = Span(" stethoscope  " if cells >= _NARROW else " ", Tone.QUIET)
    left = (name, Span(title, Tone.TITLE), Span(f"  {words}", Tone.QUIET))
    return spread(left, (Span(f"{hms(wall)} UTC ", Tone.QUIET),), cells)


def rule(cells: int, glyphs: Glyphs, words: str = "") -> Row:
    """Return the thin line between two regions, with a few quiet words near its right end."""
    if not words:
        return (Span(glyphs.rule * cells, Tone.RULE),)
    words = f" {words} "
    return (
        Span(glyphs.rule * max(0, cells - width(words) - 2), Tone.RULE),
        Span(words, Tone.QUIET),
        Span(glyphs.rule * 2, Tone.RULE),
    )


def position(first: int, height: int, lines: int, glyphs: Glyphs) -> str:
    """Return which of `lines` lines are visible (`21-40 of 74`), or nothing when all are."""
    if height <= 0 or lines <= height:
        return ""
    last = min(lines, first + height)
    return f"{first + 1}{glyphs.dash}{last} of {lines} {glyphs.down if last < lines else glyphs.up}"


def filter_rule(cells: int, glyphs: Glyphs, fits: int, nodes: int, hidden: int) -> Row:
    """Return the line above the filter's input: how many nodes fit, and how many with something wrong do not."""
    words = f"{fits:,} of {nodes:,} nodes"
    if hidden:
        words += f" {glyphs.dot} {hidden:,} with something wrong hidden"
    return rule(cells, glyphs, words)


def footer(keys: list[tuple[str, str]], cells: int) -> Row:
    """Return the line of keys, as many as fit."""
    row: list[Span] = [Span(" ")]
    for key, word in keys:
        more = [Span(key, Tone.KEY), Span(f" {word}   ", Tone.QUIET)]
        if row_width(tuple(row + more)) > cells + 2:
            break
        row += more
    return tuple(row)


def too_small(cells: int, lines: int) -> list[Row]:
    """Return what is shown instead of a screen when the terminal is too small for one."""
    texts = (f" {cells}x{lines} is too small", f" needs {LEAST[0]}x{LEAST[1]}", " q quit")
    return [(Span(text[:cells], Tone.PLAIN),) for text in texts]
