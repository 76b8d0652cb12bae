"""Cuts blocks of a log into the lines that matter, and lines into what several writers put into them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.parse.prefix import LINE_LIMIT
from stethoscope.parse.prefix_forms import EMBEDDED, PROMPT
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stethoscope.parse.prefix import Peeled, PeelState

_BEFORE = 128
_MOST_PIECES = 16
_MOST_WINDOWS = 32
# What a person typed: a command that speaks of an error is none.
TYPED = re.compile(
    r"\$ \S|>>> \S|# (?:dmesg|grep|journalctl|cat|tail|less|echo|egrep|zgrep|rg|nvidia-smi|stethoscope) "
)


class Hit(NamedTuple):
    """A line with the anchors that are in it."""

    raw: bytes
    number: int
    """From 1."""
    start: int
    """Offset in its block."""
    anchors: list[int]


class LineCounter:
    """Counts the lines of a block, each once."""

    __slots__ = ("_data", "_number", "_to")

    def __init__(self, data: bytes, first: int) -> None:
        """Begin at the start of `data`, which is in line `first`."""
        self._data, self._number, self._to = data, first, 0

    def at(self, offset: int) -> int:
        """Return the number of the line that `offset`, not before the last one asked for, is in."""
        self._number += self._data.count(b"\n", self._to, offset)
        self._to = offset
        return self._number


def all_lines(data: bytes, hits: Sequence[tuple[int, int, int]], first: int) -> Iterator[Hit]:
    """Yield every line of `data`, which begins with line `first` of its file; `hits` are in the order of their ends."""
    start, at, count = 0, 0, len(hits)
    for number, raw in enumerate(data.split(b"\n"), first):
        end = start + len(raw)
        found: list[int] = []
        while at < count and hits[at][2] <= end:
            found.append(hits[at][0])
            at += 1
        if b"\r" in raw:
            yield from _overwritten(raw, number, start, hits[at - len(found) : at])
        elif raw:
            yield Hit(raw, number, start, found)
        start = end + 1


def hit_lines(data: bytes, hits: Sequence[tuple[int, int, int]], counter: LineCounter) -> Iterator[Hit]:
    """Yield the lines of `data` that have hits, as `all_lines` does."""
    at, count = 0, len(hits)
    while at < count:
        start = data.rfind(b"\n", 0, hits[at][2]) + 1
        end = data.find(b"\n", hits[at][2])
        if end < 0:
            end = len(data)
        begin = at
        while at < count and hits[at][2] <= end:
            at += 1
        number = counter.at(start)
        raw = data[start:end]
        if b"\r" in raw:
            for line in _overwritten(raw, number, start, hits[begin:at]):
                if line.anchors:
                    yield line
        else:
            yield Hit(raw, number, start, [hit[0] for hit in hits[begin:at]])


def _overwritten(raw: bytes, number: int, start: int, hits: Sequence[tuple[int, int, int]]) -> Iterator[Hit]:
    """Yield what carriage returns part: a progress bar draws itself over and over on one line."""
    at, count = 0, len(hits)
    for part in raw.split(b"\r"):
        end = start + len(part)
        found: list[int] = []
        while at < count and hits[at][2] <= end:
            found.append(hits[at][0])
            at += 1
        if part:
            yield Hit(part, number, start, found)
        start = end + 1


def pieces(peeled: Peeled, state: PeelState) -> list[Peeled]:
    """Return the line in the pieces that different writers put into it, each without its prefixes.

    A writer that does not finish its line (a progress bar) leaves the next one to go on behind it.
    """
    text = peeled.text
    if not ("] " in text and "NCCL " in text) and ".cpp:" not in text and "[rank" not in text:
        return [peeled]
    starts = [match.start() for match in EMBEDDED.finditer(text) if match.start() > 0][:_MOST_PIECES]
    # `[rank3]:[E...` and the like are the prefixes of one piece.
    starts = [at for n, at in enumerate(starts) if n == 0 or not EMBEDDED.fullmatch(text, starts[n - 1], at)]
    if not starts:
        return [peeled]
    found = [peeled._replace(text=text[: starts[0]])]
    for at, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = state.peel(text[at:end])
        found.append(piece if piece.at is not None else piece._replace(at=peeled.at, at_is_near=True))
    return found


def windows(raw: bytes, anchors: Iterable[bytes]) -> Iterator[str]:
    """Yield the surroundings of the anchors that lie behind what is read of a very long line."""
    if len(raw) <= LINE_LIMIT:
        return
    for anchor in list(dict.fromkeys(anchors))[:_MOST_WINDOWS]:
        at = raw.find(anchor, LINE_LIMIT - len(anchor))
        if at >= 0:
            yield clean(raw[max(0, at - _BEFORE) : at + LINE_LIMIT - _BEFORE], LINE_LIMIT)


def is_typed(text: str) -> bool:
    """Tell whether a line is a command behind a prompt: what it speaks of did not happen there."""
    return TYPED.match(text) is not None or ("@" in text and PROMPT.match(text) is not None)


def is_in_parts(data: bytes) -> bool:
    """Tell whether a block holds lines of containerd that come in parts."""
    head = data[:4096]
    if b" stdout " not in head and b" stderr " not in head:
        return False
    return b" stdout P " in data or b" stderr P " in data


def is_journal(data: bytes) -> bool:
    """Tell whether a block may begin with entries of the journal that take several lines."""
    head = data[:65536]
    return b"__REALTIME_TIMESTAMP=" in head or b" [s=" in head[:256]
