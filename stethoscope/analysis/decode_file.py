"""One log on its way through a scanner: blocks of bytes in, lines that matter out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.decode_lines import Hit, LineCounter, all_lines, is_in_parts, is_journal, windows
from stethoscope.parse.prefix import LINE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.decode import Scanner
    from stethoscope.analysis.decode_shapes import Shapes
    from stethoscope.model.logs import LogFile
    from stethoscope.parse.envelope import Inner, Unwrapper
    from stethoscope.parse.prefix import Peeled, PeelState

LOOK_AT_ALL = 8 * 1024 * 1024
"""Files up to this size have each line looked at, where all together are not too large (`Scanner`)."""
_LONGEST_LINE = 4 * 1024 * 1024
_OVERLAP = 256
_ABOVE = 4096
"""How far above a line that says neither its time nor its writer the lines that do are looked for, in bytes."""
_NEXT_TO = 4
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d|^\[ *\d+\.\d{6}\]|,\d+,-;")
_CLOCK_AT = 100
_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,32}[mK]")


class FileScan:
    """One file, or stream, on its way through a scanner."""

    def __init__(self, scanner: Scanner, file: LogFile, *, number: int, state: PeelState) -> None:
        """Begin at its first byte."""
        self.file = file
        self.number = number
        self.state = state
        self.taken = 0
        self._scanner = scanner
        self._rest = b""
        self._overlap = 0
        """How many bytes of `_rest` were looked at before: the end of a line that is too long to keep."""
        self.is_small = scanner.looks_at_all and file.size <= LOOK_AT_ALL
        self._unwrapper: Unwrapper | None = None
        self._shapes: Shapes | None = None
        self._peeled_to = 0
        """How far into the present block the lines were peeled."""

    def feed(self, block: bytes) -> None:
        """Take the next bytes; a line that is not whole yet waits for its end."""
        self.taken += len(block)
        if self.taken > LOOK_AT_ALL:
            self.is_small = False
        cut = _whole(block)
        if cut:
            # One copy of the block, not two: a large log is little more than copying.
            self._scan(b"".join((self._rest, memoryview(block)[:cut])))
            self._rest, self._overlap = block[cut:], 0
            return
        data = self._rest + block
        if cut := _whole(data):
            self._scan(data[:cut])
            self._rest, self._overlap = data[cut:], 0
        elif len(data) > _LONGEST_LINE:
            self._scan(data)
            self._rest = data[-_OVERLAP:]
            self._overlap = len(self._rest)
        else:
            self._rest = data

    def end(self, trouble: str = "") -> None:
        """Take what is left of the last line; `trouble` says why the file could not be read to its end."""
        if len(self._rest) > self._overlap:
            self._scan(self._rest)
            self.file.lines += 1
        if self._unwrapper is not None:
            self._scan_inner(list(self._unwrapper.rest()))
        self._rest, self._overlap, self._shapes = b"", 0, None
        self.file.trouble = trouble or self.file.trouble
        self.note()

    def note(self) -> None:
        """Bring up to date what is known of the file."""
        state, file = self.state, self.file
        file.first_at, file.last_at, file.kernel_lines = state.first_at, state.last_at, state.kernel_lines

    def _scan(self, data: bytes) -> None:
        if self._unwrapper is None and (not self.file.lines or data[:1] == b"{"):
            self._look_inside(data)
        if self._unwrapper is not None:
            self._scan_inner(list(self._unwrapper.lines(data, self.file.lines + 1)))
            self.file.lines += data.count(b"\n")
            return
        if not self._overlap and b"\x1b" in data and b"\x1b[" in data:
            # Colour can part the words that are looked for. One byte is found twenty times as fast as two.
            data = _COLOUR.sub(b"", data)
        scanner, first = self._scanner, self.file.lines + 1
        scanner.arm(is_fast=not self.is_small)
        self._peeled_to = 0
        if self.is_small:
            hits = [hit for hit in scanner.hits(data) if hit[2] > self._overlap]
            for line in all_lines(data, hits, first):
                self._line(line, look=True)
            self.file.lines += data.count(b"\n")
            return
        if self._shapes is None:
            from stethoscope.analysis.decode_shapes import Shapes

            self._shapes = Shapes(scanner, self)
        counter = LineCounter(data, first)
        for line in scanner.lines(data, counter, self._overlap):
            self._line(line, look=False, above=data)
        self.file.lines = counter.at(len(data)) - 1

    def _look_inside(self, data: bytes) -> None:
        """See whether the lines are wrapped in something, which the first block of a file shows."""
        in_parts = is_in_parts(data)
        if in_parts or data[:1] in (b"{", b"\x1e") or b"\n{" in data or data[:7] == b"data: {" or is_journal(data):
            from stethoscope.parse.envelope import unwrapper_of

            self._unwrapper = unwrapper_of(data, self.state.calendar, is_in_parts=in_parts)

    def _scan_inner(self, inner: Sequence[Inner]) -> None:
        data = b"\n".join(line.text for line in inner)
        self._scanner.arm(is_fast=False)
        for line in all_lines(data, self._scanner.hits(data), 0):
            if self.is_small or line.anchors:
                wrapped = inner[line.number]
                peeled = self.state.peel(line.raw, wrapped.outer)
                self._found(line._replace(number=wrapped.number), peeled, look=self.is_small)

    def _line(self, line: Hit, *, look: bool, above: bytes = b"") -> None:
        raw = line.raw
        shapes, plan = self._shapes, None
        if shapes is not None and above:
            plan = shapes.plan(raw, line.anchors)
            if plan is not None and shapes.take(plan, raw, line.number):
                self._peeled_to = line.start + len(raw)
                return
        peeled = self.state.peel(raw)
        if above and (peeled.at is None or peeled.at_is_near) and peeled.uptime_s is None:
            peeled = self._with_above(line, above)
        if shapes is not None and plan is not None:
            shapes.learn(plan, raw)
        self._peeled_to = line.start + len(raw)
        self._found(line, peeled, look=look)

    def _found(self, line: Hit, peeled: Peeled, *, look: bool) -> None:
        if look:
            self._scanner.look(peeled)
        if line.anchors:
            self._scanner.match(self, line.number, peeled, line.anchors)
            if len(line.raw) > LINE_LIMIT:
                for text in windows(line.raw, map(self._scanner.anchor, line.anchors)):
                    self._scanner.match(self, line.number, peeled._replace(text=text), line.anchors)

    def _with_above(self, line: Hit, data: bytes) -> Peeled:
        """Peel first what is above: the last line with a clock in it, which says when, and those next to this one, of
        which it may be a part."""
        start = max(data.rfind(b"\n", 0, max(0, line.start - _ABOVE)) + 1, self._peeled_to)
        above = data[start : line.start].split(b"\n")
        stamped = next((n for n in range(len(above) - 1, -1, -1) if _CLOCK.search(above[n], 0, _CLOCK_AT)), 0)
        for raw in (*above[stamped : stamped + 1], *above[max(stamped + 1, len(above) - _NEXT_TO) :]):
            self.state.peel(raw)
        return self.state.peel(line.raw)


def _whole(data: bytes) -> int:
    """Return how much of `data` is whole lines; a `\r` at its very end may be half of an end of line."""
    line = data.rfind(b"\n") + 1
    return max(line, data.rfind(b"\r", line, -1) + 1)
