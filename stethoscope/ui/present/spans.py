"""What a screen is made of before it has colours: rows of spans, each a text and how loud it is."""

from __future__ import annotations

import re
import unicodedata
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Level(IntEnum):
    """How a place stands; a higher number is shown before a lower one."""

    NORMAL = 0
    MISSING = 1
    PLANNED = 2
    STALE = 3
    WARNING = 4
    LOST = 5
    HUNG = 6
    CRITICAL = 7


class Tone(IntEnum):
    """How a span looks; `ui.theme` is the only place that knows the colours. The first eight are the levels."""

    NORMAL = 0
    MISSING = 1
    PLANNED = 2
    STALE = 3
    WARNING = 4
    LOST = 5
    HUNG = 6
    CRITICAL = 7
    PLAIN = 8
    QUIET = 9
    STRONG = 10
    RULE = 11
    KEY = 12
    TITLE = 13
    HEAT_0 = 14
    HEAT_1 = 15
    HEAT_2 = 16
    HEAT_3 = 17
    HEAT_4 = 18
    HEAT_5 = 19
    HEAT_6 = 20
    HEAT_7 = 21
    FAINT = 22
    """A block of magnitude that is like its peers: there, but not to be seen first."""


HEAT_LEVELS = 8
WORDS: dict[Level, str] = {
    Level.NORMAL: "normal",
    Level.MISSING: "missing",
    Level.PLANNED: "planned",
    Level.STALE: "stale",
    Level.WARNING: "warning",
    Level.LOST: "lost",
    Level.HUNG: "hung",
    Level.CRITICAL: "critical",
}


class Glyphs(NamedTuple):
    """One set of characters, each a single cell wide."""

    levels: str
    """Indexed by Level."""
    heat: str
    """Magnitude from low to high, HEAT_LEVELS characters."""
    rule: str
    dot: str
    """Between the parts of a line."""
    ellipsis: str
    dash: str
    up: str
    down: str
    spark: str
    """Heights of the bars of a trend, from low to high."""
    differ: str
    """In the place of the median of values that are not alike."""

    def level(self, level: int) -> str:
        """Return the glyph of a level."""
        return self.levels[level]


UNICODE = Glyphs("·?•~▲–‖✖", "░░▒▒▓▓██", "─", "·", "…", "–", "↑", "↓", "▁▂▃▄▅▆▇█", "≠")
ASCII = Glyphs(".?o~!-#X", "01234567", "-", "|", ">", "-", "^", "v", "_.-=+*%#", "/")
_TO_ASCII = str.maketrans(
    {
        "·": "|",
        "…": ">",
        "–": "-",
        "−": "-",
        "→": ">",
        "─": "-",
        "‖": "#",
        "✖": "X",
        "▲": "!",
        "•": "o",
        "┐": "\\",
        "│": "|",
        "┘": "/",
    }
)


class Span(NamedTuple):
    """A piece of a row."""

    text: str
    tone: Tone = Tone.PLAIN
    selected: bool = False
    """The cursor stands on it."""


Row = tuple[Span, ...]


_TONES = tuple(Tone)
_LEVELS = _TONES[: len(Level)]
_HEAT = _TONES[Tone.HEAT_0 : Tone.HEAT_0 + HEAT_LEVELS]


def heat_tone(level: int) -> Tone:
    """Return the tone of a magnitude 0 .. HEAT_LEVELS - 1."""
    return _HEAT[level]


def level_tone(level: int) -> Tone:
    """Return the tone of a level."""
    return _LEVELS[level]


def width(text: str) -> int:
    """Return how many cells of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    cells = 0
    for character in text:
        if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def cut(text: str, cells: int, ellipsis: str = "…") -> str:
    """Return `text` shortened to at most `cells`, with an ellipsis at its end when something was cut."""
    if width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    kept: list[str] = []
    used = 0
    for character in text:
        size = width(character)
        if used + size > cells - 1:
            break
        kept.append(character)
        used += size
    return "".join(kept) + ellipsis


def pad(text: str, cells: int, ellipsis: str = "…") -> str:
    """Return `text` cut or filled with blanks to exactly `cells`."""
    text = cut(text, cells, ellipsis)
    return text + " " * (cells - width(text))


def row_width(row: Row) -> int:
    """Return the cells that a row takes."""
    return sum(width(span.text) for span in row)


def fit(parts: Iterable[Span], cells: int, ellipsis: str) -> Row:
    """Return a row cut to `cells`."""
    kept: list[Span] = []
    for span in parts:
        size = width(span.text)
        if size > cells:
            kept.append(span._replace(text=cut(span.text, cells, ellipsis)))
            break
        kept.append(span)
        cells -= size
    return tuple(kept)


def spread(left: Row, right: Row, cells: int) -> Row:
    """Return one row with `left` at its start and `right` at its end; `right` gives way when both do not fit."""
    gap = cells - row_width(left) - row_width(right)
    return (*left, Span(" " * gap), *right) if gap >= 2 else left


def plain(row: Row) -> str:
    """Return the text of a row."""
    return "".join(span.text for span in row)


def to_ascii(text: str) -> str:
    """Return `text` of the same width with the signs that the program itself uses replaced by ASCII ones; other
    scripts stay."""
    if "°C" in text:
        # The cell that this saves goes behind the words, before the next column.
        text = _WORDS.sub(lambda words: words[0].replace("°C", "C") + " " * words[0].count("°C"), text)
    return text.translate(_TO_ASCII)


_WORDS = re.compile(r"\S+(?: \S+)*")
"""Words with one space between them, as far as the next column."""
