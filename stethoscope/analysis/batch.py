"""Lines of many nodes that are folded at once: which cells they give for each column, and for which rows.

What numpy takes for a call does not depend on how many cells it is about, and one line has few of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stethoscope.analysis.cells import UNCHANGED, numbers_of, totals_of
from stethoscope.model.metric import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.fleet import Codes
    from stethoscope.model.wire import Cell

    Ints = npt.NDArray[np.intp]
    Flags = npt.NDArray[np.bool_]

_ERROR = int(Reason.ERROR)


class Named(NamedTuple):
    """What lines that name the same metrics in the same order are about; there is one object for all of them."""

    gauges: tuple[int, ...]
    """Columns of the table, and ..."""
    counters: tuple[int, ...]
    gauge_lists: tuple[int, ...]
    """... the place of their lists in a line."""
    counter_lists: tuple[int, ...]


NOTHING = Named((), (), (), ())
"""A line that names no metric."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """What one line says about the rows of one block. Its lists are arrays: these are made while the lists are still in
    the processor's caches, and take less memory."""

    first: int
    count: int
    """Rows of the block, one or more."""
    order: Sequence[int] | None
    """Which row of the block each position of a list is for, None when they are alike."""
    named: Named
    numbers: bytes
    """Floats of the lists of all gauges, one behind the other, NaN where a cell is none, and ..."""
    words: bytes
    """... codes of what stood in their place (`cells.numbers_of`), empty without such."""
    totals: bytes
    """Unsigned integers of the lists of all counters, and ..."""
    reasons: bytes
    """... the code of each, empty when all are totals (`cells.totals_of`)."""
    mono: float
    full: bool
    complete: bool
    changed: Callable[[], None] | None
    """Called when the line changed something."""

    @classmethod
    def of(
        cls, first: int, count: int, order: Sequence[int] | None, named: Named, lists: Sequence[Sequence[Cell]],
        mono: float, full: bool, complete: bool, changed: Callable[[], None] | None,
    ) -> Line:  # fmt: skip
        """Return a line with these lists, all of one length; OverflowError where a number is too large to be one."""
        numbers = words = totals = reasons = b""
        if named.gauges:
            numbers, words = numbers_of([lists[place] for place in named.gauge_lists] if named.counters else lists)
        if named.counters:
            own = [lists[place] for place in named.counter_lists] if named.gauges else lists
            totals, reasons = totals_of(own, full=full)
        return cls(first, count, order, named, numbers, words, totals, reasons, mono, full, complete, changed)


@dataclass(slots=True)
class Waiting:
    """Lines of one kind that were not folded yet."""

    lines: dict[int, Line] = field(default_factory=dict)
    """By the first row of their blocks."""
    rows: int = 0


@dataclass(slots=True)
class Said:
    """What the lines of a batch give for one column."""

    lines: list[int]
    """Number of each line that names the column."""
    cells: list[npt.NDArray[Any]]
    """Numbers or totals of these lines, one line after the other, in one piece for each kind of line, and ..."""
    codes: list[Codes]
    """... the reason of each cell, or UNCHANGED."""


@dataclass(frozen=True)
class Batch:
    """Lines of one kind about different blocks of one table; those that name the same columns follow one another."""

    lines: Sequence[Line]
    rows: Ints = field(init=False)
    """All rows of all blocks; a place in it is what is called the position of a row."""
    starts: Ints = field(init=False)
    """Position of the first row of each line, and ..."""
    counts: Ints = field(init=False)
    """... how many rows there are."""
    said: dict[int, Said] = field(init=False)
    """By column: what the lines give for it."""
    _positions: dict[tuple[int, ...], Ints] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        kinds: dict[tuple[int, int], list[Line]] = {}
        for line in self.lines:
            length = line.count if line.order is None else len(line.order)
            kinds.setdefault((id(line.named), length), []).append(line)
        object.__setattr__(self, "lines", [*chain.from_iterable(kinds.values())])
        counts = np.array([line.count for line in self.lines])
        starts = counts.cumsum() - counts
        firsts = np.array([line.first for line in self.lines])
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "rows", np.arange(counts.sum()) + (firsts - starts).repeat(counts))
        object.__setattr__(self, "said", _said(kinds))

    @cached_property
    def monos(self) -> npt.NDArray[np.float64]:
        """Return the node's clock, in seconds, at each position."""
        return np.array([line.mono for line in self.lines]).repeat(self.counts)

    @cached_property
    def complete(self) -> Flags:
        """Tell for each position whether what its line does not name has not changed."""
        return np.array([line.complete for line in self.lines]).repeat(self.counts)

    @cached_property
    def line_at(self) -> Ints:
        """Return the number of the line at each position."""
        return np.arange(len(self.lines)).repeat(self.counts)

    @cached_property
    def _listed(self) -> tuple[Ints, Ints]:
        """Return the position that each cell of a list is for, of the lists of all lines, and the number of the
        line."""
        if all(line.order is None for line in self.lines):
            return np.arange(self.rows.size), self.line_at
        named = [
            np.arange(line.count) + start if line.order is None else np.array(line.order, np.intp) + start
            for line, start in zip(self.lines, self.starts.tolist(), strict=True)
        ]
        return np.concatenate(named), np.arange(len(named)).repeat([one.size for one in named])

    def positions(self, lines: Sequence[int]) -> Ints:
        """Return the position of each cell that lists of these lines have."""
        places, line_of = self._listed
        if len(lines) == len(self.lines):
            return places
        key = tuple(lines)
        if key not in self._positions:
            wanted = np.zeros(len(self.lines), np.bool_)
            wanted[list(key)] = True
            self._positions[key] = places[wanted[line_of]]
        return self._positions[key]

    def silent(self, column: int) -> Ints:
        """Return the rows that the lists of those lines would be for that do not name a column."""
        one = self.said.get(column)
        named = frozenset(one.lines) if one is not None else frozenset[int]()
        if len(named) == len(self.lines):
            return self.rows[:0]
        return self.rows[self.positions([number for number in range(len(self.lines)) if number not in named])]

    def any_of(self, flags: Flags) -> Flags:
        """Tell for each line whether one of its positions has its flag set."""
        found = np.zeros(len(self.lines), np.bool_)
        found[self.line_at[flags]] = True
        return found

    def tell(self, changed: Flags) -> None:
        """Tell those that want to know which of the lines changed something."""
        for line, has_changed in zip(self.lines, changed.tolist(), strict=True):
            if has_changed and line.changed is not None:
                line.changed()


def _said(kinds: Mapping[tuple[int, int], Sequence[Line]]) -> dict[int, Said]:
    said: dict[int, Said] = {}
    first = 0
    for (_, length), lines in kinds.items():
        named, numbers, count = lines[0].named, range(first, first + len(lines)), len(lines)
        first = numbers.stop
        if named.gauges:
            cells = _turned(np.frombuffer(b"".join([line.numbers for line in lines])), count, length)
            codes = _codes([line.words for line in lines], len(named.gauges), length)
            missing = np.isnan(cells)
            if missing.any():
                # null becomes NaN, which no number is.
                codes[missing & (codes == 0)] = _ERROR if lines[0].full else UNCHANGED
            _take(said, named.gauges, numbers, cells, codes)
        if named.counters:
            totals = _turned(np.frombuffer(b"".join([line.totals for line in lines]), np.uint64), count, length)
            _take(said, named.counters, numbers, totals, _codes([line.reasons for line in lines], len(totals), length))
    return said


def _turned(cells: npt.NDArray[Any], lines: int, length: int) -> npt.NDArray[Any]:
    """Return a row for each list of lines that have as many of them each."""
    lists = cells.size // (lines * length)
    return cells.reshape(lines, lists, length).swapaxes(0, 1).reshape(lists, -1)


def _codes(given: Sequence[bytes], lists: int, length: int) -> Codes:
    if not any(given):
        return np.zeros((lists, len(given) * length), np.uint8)
    none = bytes(lists * length)
    return _turned(np.frombuffer(bytearray().join([own or none for own in given]), np.uint8), len(given), length)


def _take(said: dict[int, Said], columns: Sequence[int], numbers: range, cells: npt.NDArray[Any], codes: Codes) -> None:
    for column, own, reasons in zip(columns, cells, codes, strict=True):
        if column in said:
            one = said[column]
            one.lines.extend(numbers)
            one.cells.append(own)
            one.codes.append(reasons)
        else:
            said[column] = Said([*numbers], [own], [reasons])
