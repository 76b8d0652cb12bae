"""Shapes of lines: what stands in front of a message, by position, for all lines that differ in their digits alone.

Floods repeat themselves. The forms below take every digit for any other, so that what was read once is where it was in
each further line of the shape; a form that depends on which digit it is, or on what the lines above said, makes none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from stethoscope.parse.prefix_forms import (
    ANGLE,
    BRACKET,
    DIGIT,
    EMBEDDED,
    IDENT,
    PAREN,
    WORD,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.logs import Origin
    from stethoscope.parse.logtime import Calendar

_ROUNDS = 10
_PROMPT_AT = 40
_KEPT_SECONDS = 256


_OTHER_STARTS = frozenset(" >&`'\"./{")
"""Of forms that are rare, or say nothing by themselves."""
_DIGITS, _SIGNS = frozenset("0123456789"), frozenset("[(<")
_NAMES = ("rank", "nccl")


@dataclass(slots=True)
class Stamp:
    """Where a stamp stands in a line: its date and time, the digits of its fraction, its zone."""

    has_year: bool
    date: slice
    clock: slice
    fraction: slice | None
    zone: slice | None
    second: Callable[[bytes], Any]
    """The bytes that name the second, as a key."""
    seconds: dict[Any, float] = field(default_factory=dict)
    """Those that were read lately -> wall seconds."""

    def wall(self, raw: bytes, calendar: Calendar, near: float | None) -> float | None:
        """Return the wall seconds, None for a day or time that does not exist; `near` is the stamp before it."""
        key = self.second(raw)
        wall = self.seconds.get(key)
        if wall is None or not (self.has_year or calendar.near(wall, near)):
            wall = self._read(raw, calendar, near)
            if wall is None:
                return None
            if len(self.seconds) > _KEPT_SECONDS:
                self.seconds.clear()
            self.seconds[key] = wall
        return wall if self.fraction is None else wall + float(b"0." + raw[self.fraction])

    def _read(self, raw: bytes, calendar: Calendar, near: float | None) -> float | None:
        date = raw[self.date].decode()
        if not self.has_year:
            return calendar.at_without_year(int(date[-4:-2]), int(date[-2:]), raw[self.clock].decode(), None, near)
        zone = raw[self.zone].decode() if self.zone is not None else None
        return calendar.second(raw[self.date.start : self.clock.stop].decode(), zone)


@dataclass(slots=True, eq=False)
class Who:
    """Who printed lines with certain bytes in front."""

    key: str
    origin: Origin
    is_named: bool
    is_kernel: bool
    shell_host: str | None
    """The prompt above when it was read, which may name the host."""


@dataclass(slots=True)
class Shape:
    """Where the prefixes of a line stand."""

    text_at: int
    """Where the message begins."""
    stamps: tuple[Stamp, ...]
    writer: Callable[[bytes], Any]
    """The bytes that name the writer, as a key."""
    is_kernel: bool
    writers: dict[Any, Who] = field(default_factory=dict)


def shape_of(text: str, is_message: Callable[[str], bool], kernel: tuple[str, ...]) -> Shape | None:
    """Return the shape of a line of harmless ASCII, None when it has none.

    `is_message` tells that what is left of it begins something of its own, `kernel` how the driver's messages begin.
    """
    at, stamps, names = 0, [], []
    for _ in range(_ROUNDS):
        rest = text[at:]
        if rest[:1] in _OTHER_STARTS:
            return None
        match = any_digit(_start(rest)).match(rest)
        form = match.lastgroup if match is not None else None
        if match is None or form is None:
            break
        end = at + match.end()
        if form == "iso":
            stamps.append(_stamp(match, "b", at))
            ident = IDENT.match(text[end:])
            if ident is not None:
                if not ident["kernel"]:
                    return None
                names.append(slice(end, end + ident.end()))
                end += ident.end()
        elif form == "glog":
            if match["g_date"] and match["g_t"]:
                stamps.append(_stamp(match, "g_", at))
        elif form in _NAMES:
            names.append(slice(at, end))
        else:
            return None
        at = end
    else:
        return None
    message = text[at:]
    if not stamps or not message or "@" in message[:_PROMPT_AT] or not is_message(message):
        return None
    if any(match.start() > 0 for match in EMBEDDED.finditer(message)):
        return None
    return Shape(at, tuple(stamps), parts(names), message.startswith(kernel))


def _start(text: str) -> str:
    start = text[:1]
    return "0" if start in _DIGITS else start if start in _SIGNS else ""


@cache
def any_digit(start: str) -> re.Pattern[str]:
    """Return the form of lines that begin with `[`, `(`, `<`, `0` or a word, with any digit for some."""
    form = {"[": BRACKET, "(": PAREN, "<": ANGLE}.get(start) or (DIGIT if start == "0" else WORD)
    pattern = form.pattern.replace(r"20\d\d", r"\d{4}").replace(r"[1-3]\d{9}", r"\d{10}")
    return re.compile(pattern.replace(">1 ", r">\d ").replace("(?:0x", r"(?:\dx"))


def parts(spans: list[slice]) -> Callable[[bytes], Any]:
    """Return what takes the bytes at these places out of a line, as a key."""
    return itemgetter(*spans) if spans else itemgetter(slice(0, 0))


def _stamp(match: re.Match[str], name: str, at: int) -> Stamp:
    def span(group: str) -> slice | None:
        start, end = match.span(group)
        return slice(at + start, at + end) if start >= 0 else None

    has_year = name == "b"
    clock, fraction = span(f"{name}t"), span(f"{name}f")
    date = span("g_date") if not has_year else slice(at + match.start("by"), at + match.end("bd"))
    zone = span("bz") if has_year else None
    assert clock is not None
    assert date is not None
    whole = [slice(date.start, clock.stop)] if zone is None else [slice(date.start, clock.stop), zone]
    return Stamp(has_year, date, clock, fraction, zone, parts(whole))
