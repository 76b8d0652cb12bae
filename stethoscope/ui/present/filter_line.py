"""The filter while it is typed: its text with the mistake marked, what can stand at the cursor, how many nodes fit, and
the filters that were used before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.ui.present.spans import Row, Span, Tone, cut, fit, row_width, spread, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.analysis.filter import FilterError
    from stethoscope.ui.present.spans import Glyphs

PROMPT = " / "
MOST_REMEMBERED = 50
"""Filters kept in the history."""
_ROOM = 20
"""Cells that the text, or the list of candidates, has at least: the words at its right give way."""
_WITH_MEANING = 60
"""Cells from which on there is room to say what a candidate stands for."""


@dataclass(frozen=True, slots=True)
class FilterLine:
    """A filter that is being typed."""

    text: str
    cursor: int
    """Place of the cursor, in characters."""
    error: FilterError | None = None
    """Why it cannot be read; the nodes shown are then those of the last text that could."""
    candidates: Sequence[str] = ()
    """What can stand in place of the word at the cursor."""
    chosen: int | None = None
    """Which of the candidates is chosen, None before one is."""
    meaning: str = ""
    """What the chosen candidate stands for."""
    fits: int = 0
    nodes: int = 0
    hidden: int = 0
    """Nodes with something wrong that do not fit."""

    @property
    def is_unfinished(self) -> bool:
        """Tell whether nothing is wrong but that more must be typed: at the end, or of the last word."""
        if self.error is None:
            return False
        end = len(self.text.rstrip())
        is_last_word = self.cursor >= len(self.text) == self.error.end and bool(self.candidates)
        return self.error.start >= end or is_last_word


def typed_row(line: FilterLine, cells: int, glyphs: Glyphs) -> Row:
    """Return the text with the cursor, what cannot be read in the tone of a warning, and how many nodes fit."""
    text, first = _window(line, cells)
    spans = [Span(PROMPT, Tone.KEY)]
    error = None if line.is_unfinished else line.error
    for place in range(first, len(text)):
        wrong = error is not None and error.start <= place < error.end
        tone = Tone.WARNING if wrong else Tone.PLAIN
        spans.append(Span(text[place], tone, selected=place == line.cursor))
    if line.cursor >= len(text):
        spans.append(Span(" ", Tone.PLAIN, selected=True))
    return spread(fit(_merged(spans), cells, glyphs.ellipsis), _count(line, cells, glyphs), cells)


def below_row(line: FilterLine, cells: int, glyphs: Glyphs) -> Row:
    """Return what helps to go on: the mistake, with a mark below its first character, else the candidates."""
    if line.error is not None and not line.is_unfinished:
        return _mistake(line, line.error, cells, glyphs)
    if line.candidates:
        return _candidates(line, cells, glyphs)
    words = line.error.message if line.error is not None else ""
    return (Span(cut(f"   {words}", cells, glyphs.ellipsis), Tone.QUIET),)


def remembered(history: Iterable[str], text: str) -> list[str]:
    """Return the history, newest first, with `text` as its newest; at most MOST_REMEMBERED, none of them twice."""
    text = text.strip()
    return list(dict.fromkeys([*([text] if text else []), *history]))[:MOST_REMEMBERED]


class Recall:
    """Goes back and forth through the history, from what was being typed."""

    def __init__(self, history: Sequence[str], typed: str) -> None:
        """Begin at `typed`; with a text only filters that begin with it are gone through."""
        self._texts = [typed, *(text for text in history if text != typed and text.startswith(typed))]
        self._at = 0

    def older(self) -> str:
        """Return the filter before the one at hand, the oldest at the end."""
        self._at = min(self._at + 1, len(self._texts) - 1)
        return self._texts[self._at]

    def newer(self) -> str:
        """Return the filter after the one at hand, what was typed at the end."""
        self._at = max(self._at - 1, 0)
        return self._texts[self._at]


def _window(line: FilterLine, cells: int) -> tuple[str, int]:
    """Return the text without what a terminal would obey, and its first character that is shown."""
    text = "".join(character if character.isprintable() else "?" for character in line.text)
    room = max(1, cells - len(PROMPT) - 1)
    first = 0
    while first < line.cursor and width(text[first : line.cursor + 1]) > room:
        first += 1
    return text, first


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1][1:] == span[1:]:
            merged[-1] = span._replace(text=merged[-1].text + span.text)
        else:
            merged.append(span)
    return merged


def _count(line: FilterLine, cells: int, glyphs: Glyphs) -> Row:
    if line.error is not None:
        words = f"before: {line.fits:,} of {line.nodes:,} nodes "
    else:
        words = f"{line.fits:,} of {line.nodes:,} nodes "
    hidden = f"{glyphs.dot} {line.hidden:,} with something wrong hidden " if line.hidden else ""
    if cells - width(words + hidden) < len(PROMPT) + max(_ROOM, width(line.text) + 3):
        hidden = ""
    return (Span(words, Tone.QUIET), Span(hidden, Tone.WARNING)) if hidden else (Span(words, Tone.QUIET),)


def _mistake(line: FilterLine, error: FilterError, cells: int, glyphs: Glyphs) -> Row:
    text, first = _window(line, cells)
    mark = len(PROMPT) + width(text[first : error.start])
    words = error.message
    if mark >= cells or error.start < first:
        return (Span(cut(f"   {words}", cells, glyphs.ellipsis), Tone.WARNING),)
    if mark + 2 + width(words) > cells and width(words) + 2 <= mark:
        return (Span(" " * (mark - width(words) - 1)), Span(f"{words} {glyphs.up}", Tone.WARNING))
    if mark + 2 + width(words) > cells:
        # The message begins where it fits; the mark in the line above it is the tone of the text.
        return (Span(cut(f"   {words}", cells, glyphs.ellipsis), Tone.WARNING),)
    return (Span(" " * mark), Span(f"{glyphs.up} {words}", Tone.WARNING))


def _candidates(line: FilterLine, cells: int, glyphs: Glyphs) -> Row:
    """Return the candidates that fit, so that the chosen one is among them, and what that one stands for."""
    chosen = line.chosen if line.chosen is not None and 0 <= line.chosen < len(line.candidates) else None
    if chosen is None or not line.meaning or cells < _WITH_MEANING:
        return _listed(line, chosen, cells, glyphs)
    words = cut(line.meaning, cells - _ROOM - width(line.candidates[chosen]) - 8, glyphs.ellipsis)
    row = _listed(line, chosen, cells - width(words) - 3, glyphs)
    return spread(row, (Span(f"{words} ", Tone.QUIET),), cells)


def _listed(line: FilterLine, chosen: int | None, cells: int, glyphs: Glyphs) -> Row:
    first = 0
    while chosen is not None and first < chosen:
        if 3 + sum(width(word) + 2 for word in line.candidates[first : chosen + 1]) <= cells - 2:
            break
        first += 1
    spans = [Span(f" {glyphs.ellipsis} " if first else "   ", Tone.QUIET)]
    for place, word in enumerate(line.candidates[first:], first):
        clean = "".join(character if character.isprintable() else "?" for character in word)
        is_last = place == len(line.candidates) - 1
        if place > first and row_width(tuple(spans)) + width(clean) + (0 if is_last else 3) > cells:
            spans.append(Span(glyphs.ellipsis, Tone.QUIET))
            break
        spans += [Span(clean, Tone.PLAIN, selected=place == chosen), Span("  ", Tone.QUIET)]
    return fit(spans, cells, glyphs.ellipsis)
