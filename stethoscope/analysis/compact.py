"""Numbers of very many things in the least memory that holds them exactly: most counters stand at little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stethoscope.model.grid import is_uniform

if TYPE_CHECKING:
    from stethoscope.model.fleet import Floats

_MOST_CODES = 256
_FIRST = 64
"""So many cells tell of most columns that they need more digits."""
_SAMPLE = 1024
"""So many cells are looked at first, to tell whether there can be few different ones."""


class Compact:
    """A column of 64-bit floats that is read and written seldom, as a whole."""

    __slots__ = ("_cells", "_table")

    def __init__(self) -> None:
        """Start without cells."""
        self._cells: npt.NDArray[Any] = np.empty(0)
        self._table: Floats | None = None
        """What the cells are numbers of, where few different ones are in the column."""

    @classmethod
    def of(cls, column: Floats) -> Compact:
        """Return a column with these cells."""
        compact = cls()
        compact.keep(column)
        return compact

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._cells)

    @property
    def nbytes(self) -> int:
        """Return the memory of the cells."""
        table = 0 if self._table is None else self._table.nbytes
        return table + (self._cells.itemsize if is_uniform(self._cells) else self._cells.nbytes)

    def at(self, places: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return the cells of these places, as an array of its own."""
        cells = self._cells[places]
        found: Floats = cells.astype(np.float64) if self._table is None else self._table[cells]
        return found

    def whole(self) -> Floats:
        """Return all cells, as an array that may be changed and given to `keep`."""
        return self._cells.astype(np.float64) if self._table is None else self._table[self._cells]

    def keep(self, column: Floats) -> None:
        """Take these cells in the place of all before."""
        self._table = None
        if column.size > 1 and _is_same(column, column[:1]):
            self._cells = np.broadcast_to(column[:1].copy(), column.shape)
            return
        for dtype in (np.float16, np.float32):
            if not _is_same(_short(column[:_FIRST], dtype).astype(np.float64), column[:_FIRST]):
                continue
            short = _short(column, dtype)
            if _is_same(short.astype(np.float64), column):
                self._cells = short
                return
        self._cells = column
        if column.size > _MOST_CODES and np.unique(column[:: 1 + column.size // _SAMPLE]).size <= _MOST_CODES:
            table, codes = np.unique(column, return_inverse=True)
            if table.size <= _MOST_CODES:
                self._table, self._cells = table, codes.astype(np.uint8)


def _short(column: Floats, dtype: type[np.floating[Any]]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        return column.astype(dtype)


def _is_same(one: Floats, other: Floats) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())
