"""The pages of `xid` and `sxid`: text of 80 columns that a tired person reads from the top and may stop at any line."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stethoscope.analysis.xid import Reading
    from stethoscope.analysis.xid_together import Together
    from stethoscope.specs.codes import Code, Codes

WIDEST = 100
_INDENT = 10
_JOB = {
    "stops": "stops: start it again",
    "may_stop": "may have stopped: look at it",
    "goes_on": "goes on",
}
_NODE = {
    "drain": "take it out of service now",
    "watch": "stays; take it out when it comes back",
    "goes_on": "stays in service",
}
_COLOUR = {"P0": "1;31", "P1": "33", "P2": "36"}
_REPLACE = "Replace only when field diag fails or it comes back after a reset."


def is_coloured() -> bool:
    """Tell whether standard output is a terminal that wants colours (NO_COLOR, TERM=dumb: no)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def page(readings: Sequence[Reading], story: Together | None, codes: Codes, *, colour: bool) -> str:
    """Return the answer about `readings`; `story` when they are several."""
    parts = []
    if story is not None:
        parts.append(_story(story, colour=colour))
    seen: set[str] = set()
    for reading in readings:
        whole = reading.code.signature not in seen
        seen.add(reading.code.signature)
        parts.append("\n".join(_reading(reading, codes, colour=colour, whole=whole)))
    return "\n\n".join(parts)


def table(found: Iterable[Code], *, colour: bool) -> str:
    """Return one row for each code: number, severity, what it is."""
    rows = []
    width = _width()
    for code in found:
        title = f"{code.title}" if code.kind == "xid" else f"{code.title} ({code.unit})"
        room = width - 22 - (2 if code.kind == "sxid" else 0)
        number = f"{code.code:>{5 if code.kind == 'sxid' else 3}}"
        severity = _paint(f"{code.severity.value:<5}", _COLOUR.get(code.severity.value), colour=colour)
        rows.append(f"{number}  {severity}{code.category[:11]:<13}{title[:room]}".rstrip())
    return "\n".join(rows)


def _story(story: Together, *, colour: bool) -> str:
    severity = story.severity.value
    head = f"Together: {severity}"
    lines = [_paint(head, _COLOUR.get(severity), colour=colour)]
    if story.first is not None:
        named = ", which only another line names" if story.is_named else ""
        lines += _row("first", f"{story.first.label}, {story.first.title}{named}")
    if story.others:
        rest = ", ".join(code.label for code in story.others)
        lines += _row("beside it" if story.first is not None else "codes", rest)
    for says in story.says:
        lines += _row("", clean(says))
    return "\n".join(lines)


def _reading(reading: Reading, codes: Codes, *, colour: bool, whole: bool) -> Iterator[str]:
    code, severity = reading.code, reading.severity.value
    title = code.title if not code.unit else f"{codes.unit_words(code.unit)}: {code.title}"
    head = f"{code.label}  {title}"
    yield _paint(f"{severity:<{_INDENT - 1}} ", _COLOUR.get(severity), colour=colour) + _paint(
        f"\n{' ' * _INDENT}".join(textwrap.wrap(head, _width() - _INDENT)), "1", colour=colour
    )
    for says in reading.says:
        yield from _row("this line" if says is reading.says[0] else "", clean(says))
    if not whole:
        return
    if code.meaning:
        yield from _row("", code.meaning)
    if not code.known:
        yield from _row("", f"No table of this version has {code.label}; it is shown, not judged.")
    yield from _row("now", reading.action or code.action)
    yield from _row("job", _JOB[reading.job])
    yield from _row("node", _NODE[reading.node])
    for number, cause in enumerate(code.causes, 1):
        yield from _row("causes" if number == 1 else "", f"{number} {cause}", hang=2)
    if code.follows:
        yield from _row("follows", f"{_numbers(code.follows)}: look for these before it")
    beside = _beside(code)
    if beside:
        yield from _row("beside", beside)
    if code.rma:
        yield from _row("replace", code.rma)
    elif code.node == "drain":
        yield from _row("replace", _REPLACE)
    if code.printed:
        words = {"either": "Fatal when the port was shut, else Non-fatal", "none": "no word"}
        said = [
            f"{name.replace('nvswitch', 'NVSwitch ')}: {words.get(word, word)}" for name, word in code.printed.items()
        ]
        yield from _row("printed", f"{'; '.join(said)}. The word in your line decides.")
    for note in code.notes:
        yield from _row("note" if note is code.notes[0] else "", note)
    vendor = [f"{word} ({codes.vendor_words(word)})" for word in dict.fromkeys(code.vendor)]
    if vendor:
        yield from _row("vendor", "; then ".join(vendor))
    facts = [code.name, code.category if code.known else "", "/".join(code.families)]
    if code.recovery_since:
        facts.append(f"Xid 154 beside it since {code.recovery_since}")
    if any(facts):
        yield from _row("driver", ", ".join(fact for fact in facts if fact))


def _beside(code: Code) -> str:
    parts = [f"Xid {_numbers(code.with_xids)}"] if code.with_xids else []
    if code.with_sxids:
        parts.append(f"SXid {_numbers(code.with_sxids)}")
    return "; ".join(parts)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _row(name: str, text: str, hang: int = 0) -> list[str]:
    return textwrap.wrap(
        text, _width(), initial_indent=f"{name:<{_INDENT}}", subsequent_indent=" " * (_INDENT + hang),
        break_long_words=True, break_on_hyphens=False,
    )  # fmt: skip


def _paint(text: str, colour_code: str | None, *, colour: bool) -> str:
    return f"\x1b[{colour_code}m{text}\x1b[0m" if colour and colour_code else text


def _width() -> int:
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, WIDEST))
