"""Text broken into lines by the cells that it takes, where a character may take two."""

from __future__ import annotations

import re

from stethoscope.ui.present.spans import width

_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6"
# A line may end behind every character of a script that sets no blanks, but its punctuation begins no line.
_PIECES = rf"\s+|[{_WIDE}][、。，．！？：；）」』】》〉”’]*|[^\s{_WIDE}]+"


def wrap(text: str, cells: int, first: str = "", rest: str = "") -> list[str]:
    """Return `text` as lines of at most `cells`, the first one behind `first`, the others behind `rest`; blanks
    between words stay as they are within a line, a longer word is broken. No text is one line."""
    lines: list[str] = []
    line, used, room = "", 0, max(1, cells - width(first))
    later = max(1, cells - width(rest))
    for piece in re.findall(_PIECES, text.strip()):
        size = width(piece)
        if used + size <= room:
            if line or not piece.isspace():
                line, used = line + piece, used + size
            continue
        if line:
            lines.append(line.rstrip())
            line, used, room = "", 0, later
        if piece.isspace():
            continue
        while size > room:
            head = _head(piece, room)
            lines.append(head)
            piece, room = piece[len(head) :], later
            size = width(piece)
        line, used = piece, size
    if line or not lines:
        lines.append(line.rstrip())
    return [f"{rest if number else first}{line}" for number, line in enumerate(lines)]


def _head(word: str, cells: int) -> str:
    used = 0
    for index, character in enumerate(word):
        used += width(character)
        if used > cells:
            return word[: max(1, index)]
    return word
