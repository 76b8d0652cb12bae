"""Lines of many nodes that are folded at once: where each of their cells goes, as arrays.

What numpy takes for a call does not depend on how many cells it is about, and one line has few of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


@dataclass(frozen=True)
class Batch:
    """Lines of one kind about different blocks of one table, in the order in which they came."""

    lines: Sequence[Line]
    rows: Ints = field(init=False)
    """All rows of all blocks; a place in it is what is called the position of a row."""
    starts: Ints = field(init=False)
    """Position of the first row of each line, and ..."""
    counts: Ints = field(init=False)
    """... how many rows there are."""

    def __post_init__(self) -> None:
        counts = np.array([line.count for line in self.lines])
        starts = counts.cumsum() - counts
        firsts = np.array([line.first for line in self.lines])
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "rows", np.arange(counts.sum()) + (firsts - starts).repeat(counts))

    @cached_property
    def at(self) -> slice | Ints:
        """Return `rows` as the fastest index."""
        first, count = self.lines[0].first, self.lines[0].count
        return slice(first, first + count) if len(self.lines) == 1 else self.rows

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
    def columns(self) -> Ints:
        """Return the column of each list."""
        return np.fromiter(chain.from_iterable([line.columns for line in self.lines]), np.intp)

    @cached_property
    def line_of(self) -> Ints:
        """Return the number of the line of each list."""
        return np.arange(len(self.lines)).repeat([len(line.lists) for line in self.lines])

    @cached_property
    def lists(self) -> list[Sequence[Cell]]:
        """Return all lists, line by line."""
        return [*chain.from_iterable([line.lists for line in self.lines])]

    @cached_property
    def _listed(self) -> tuple[Ints, Ints, Ints | None]:
        """Return where the list positions of each line begin, how many there are, and the position of the row that each
        is for, None when these are all in their order."""
        if all(line.order is None for line in self.lines):
            return self.starts, self.counts, None
        named = [
            np.arange(line.count) + start if line.order is None else np.array(line.order, np.intp) + start
            for line, start in zip(self.lines, self.starts.tolist(), strict=True)
        ]
        counts = np.array([positions.size for positions in named])
        return counts.cumsum() - counts, counts, np.concatenate(named)

    def spread(self, line_of: Ints, columns: Ints) -> tuple[Ints, Ints]:
        """Return the column, and the position of the row, of each cell of lists of these lines for these columns."""
        starts, counts, listed = self._listed
        lengths = counts[line_of]
        begins = lengths.cumsum() - lengths
        places = np.arange(lengths.sum()) + (starts[line_of] - begins).repeat(lengths)
        return columns.repeat(lengths), places if listed is None else listed[places]

    def any_of(self, flags: Flags) -> Flags:
        """Tell for each line whether one of its positions has a flag set in a row of `flags`."""
        found: Flags = np.logical_or.reduceat(np.logical_or.reduce(flags, axis=0), self.starts)
        return found

    def tell(self, changed: Flags) -> None:
        """Tell those that want to know which of the lines changed something."""
        for line, has_changed in zip(self.lines, changed.tolist(), strict=True):
            if has_changed and line.changed is not None:
                line.changed()
