"""Lines of many nodes that are folded at once: which cells they give for each column, and for which rows.

What numpy takes for a call does not depend on how many cells it is about, and one line has few of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from stethoscope.model.wire import Cell

    Ints = npt.NDArray[np.intp]
    Flags = npt.NDArray[np.bool_]


class Line(msgspec.Struct, frozen=True, gc=False):
    """What one line says about the rows of one block."""

    first: int
    count: int
    """Rows of the block, one or more."""
    order: Sequence[int] | None
    """Which row of the block each position of a list is for, None when they are alike."""
    columns: Sequence[int]
    """Column of the table that each of the `lists` is for."""
    lists: Sequence[Sequence[Cell]]
    mono: float
    full: bool
    complete: bool
    changed: Callable[[], None] | None
    """Called when the line changed something."""


@dataclass(slots=True)
class Waiting:
    """Lines of one kind that were not folded yet."""

    lines: dict[int, Line] = field(default_factory=dict)
    """By the first row of their blocks."""
    rows: int = 0


class Said(NamedTuple):
    """What the lines of a batch give for one column."""

    lines: list[int]
    """Number of each line that names the column."""
    cells: list[Cell]
    """The cells of these lines, one line after the other."""


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
        kinds: dict[int, list[Line]] = {}
        for line in self.lines:
            # Lines of nodes of one kind have them from one place (`Group.columns_of`).
            kinds.setdefault(id(line.columns), []).append(line)
        object.__setattr__(self, "lines", [*chain.from_iterable(kinds.values())])
        counts = np.array([line.count for line in self.lines])
        starts = counts.cumsum() - counts
        firsts = np.array([line.first for line in self.lines])
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "rows", np.arange(counts.sum()) + (firsts - starts).repeat(counts))
        object.__setattr__(self, "said", _said(kinds.values()))

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


def _said(kinds: Iterable[Sequence[Line]]) -> dict[int, Said]:
    said: dict[int, Said] = {}
    first = 0
    for lines in kinds:
        numbers = range(first, first + len(lines))
        first = numbers.stop
        # What alike lines say is a table that is turned.
        for column, lists in zip(lines[0].columns, zip(*[line.lists for line in lines], strict=True), strict=True):
            if column in said:
                said[column].lines.extend(numbers)
                said[column].cells.extend(chain.from_iterable(lists))
            else:
                said[column] = Said([*numbers], [*chain.from_iterable(lists)])
    return said
