"""Prints rows in the colours of the terminal, or in none, without the time that a library for it takes to load."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from stethoscope.text import clean
from stethoscope.ui.present.spans import ASCII, UNICODE, Glyphs, Row, Tone, plain, to_ascii

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CODES = {
    Tone.CRITICAL: "1;31",
    Tone.WARNING: "33",
    Tone.PLANNED: "36",
    Tone.NORMAL: "2",
    Tone.QUIET: "2",
    Tone.RULE: "2",
    Tone.STRONG: "1",
    Tone.TITLE: "1",
}
_PIPED = 100
_NARROWEST = 50


def print_rows(
    build: Callable[[Glyphs, int, bool], Iterable[Row]], *, ascii_only: bool = False, err: bool = False
) -> None:
    """Print the rows that `build` makes of the characters that the output (with `err` standard error) can show, its
    width in cells, and whether it is a terminal."""
    output = sys.stderr if err else sys.stdout
    ascii_only = ascii_only or "utf" not in (output.encoding or "").lower()
    is_terminal = output.isatty()
    coloured = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    cells = max(_NARROWEST, shutil.get_terminal_size((_PIPED, 24)).columns)
    lines = []
    for row in build(ASCII if ascii_only else UNICODE, cells, is_terminal):
        text = "".join(_painted(span.text, span.tone) for span in row) if coloured else plain(row)
        lines.append(to_ascii(text).replace("×", "x") if ascii_only else text)
    text = "".join(line.rstrip() + "\n" for line in lines)
    encoding = output.encoding or "utf-8"
    # Logs are in any script, the output need not be.
    output.write(text.encode(encoding, "replace").decode(encoding))
    output.flush()


def _painted(text: str, tone: Tone) -> str:
    text = clean(text, max(len(text), 1))
    code = _CODES.get(tone)
    return f"\x1b[{code}m{text}\x1b[0m" if code and text.strip() else text
