"""A column of very many 32-bit floats in little memory, any rows of which can be read without the others.

The halves of its cells lie apart, each of two bytes, and of one byte where they have few different values: those of a
percentage, and the upper halves of nearly everything. Where 16-bit floats are exactly the same there is only one half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    Words = npt.NDArray[np.uint16]

LEAST_ROWS = 1024
"""Shorter columns take as much as this has to note about itself."""
_MOST_CODES = 256
_SAMPLE = 512
"""So many cells are looked at first, to tell whether there can be few different ones."""
_FIRST = 64
"""So many cells tell of most columns that they changed."""


class _Halves:
    """Words of 16 bits, one for each row."""

    __slots__ = ("_cells", "_table")

    def __init__(self, words: Words) -> None:
        self._cells: npt.NDArray[Any] = words
        self._table: Words | None = None
        if len(set(words[:: 1 + words.size // _SAMPLE].tolist())) > _MOST_CODES:
            return
        places = words.astype(np.intp)
        table = np.flatnonzero(np.bincount(places))
        if table.size <= _MOST_CODES:
            codes = np.zeros(int(table[-1]) + 1, dtype=np.uint8)
            codes[table] = np.arange(table.size, dtype=np.uint8)
            self._table = table.astype(np.uint16)
            self._cells = np.broadcast_to(np.uint8(0), words.shape) if table.size == 1 else codes.take(places)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the words."""
        table = 0 if self._table is None else self._table.nbytes
        return table + (0 if self._cells.strides == (0,) else self._cells.nbytes)

    def at(self, rows: Any) -> Words:
        """Return the words of some rows."""
        cells: Words = self._cells[rows]
        return cells if self._table is None else self._table[cells]


class Packed:
    """A column that is read by `column[rows]`, as an array of 32-bit floats is."""

    __slots__ = ("_high", "_low", "size")

    def __init__(self, column: npt.NDArray[np.float32]) -> None:
        """Take the values of a column of LEAST_ROWS rows at least."""
        self.size = column.size
        self._low: _Halves | None = None
        if _is_short(column[:_FIRST]) and _is_short(column):
            self._high = _Halves(column.astype(np.float16).view(np.uint16))
        else:
            bits = column.view(np.uint32)
            self._high = _Halves((bits >> 16).astype(np.uint16))
            self._low = _Halves(bits.astype(np.uint16))

    @property
    def nbytes(self) -> int:
        """Return the bytes that the cells take."""
        return self._high.nbytes + (0 if self._low is None else self._low.nbytes)

    def __getitem__(self, rows: Any) -> Any:
        """Return what an array would give for `rows`."""
        high = self._high.at(rows)
        if self._low is None:
            return high.view(np.float16).astype(np.float32)
        return (high.astype(np.uint32) << 16 | self._low.at(rows)).view(np.float32)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return all rows as an array of its own."""
        if copy is False:
            raise ValueError("a packed column cannot be shown as an array without a copy")
        whole: npt.NDArray[Any] = self[:]
        return whole if dtype is None else whole.astype(dtype)

    def says(self, column: npt.NDArray[np.float32]) -> bool:
        """Tell whether a column has the very same cells, those that are missing included."""
        if column.size != self.size:
            return False
        bits = column.view(np.uint32)
        return all(
            bool((self[rows].view(np.uint32) == bits[rows]).all()) for rows in (slice(0, _FIRST), slice(_FIRST, None))
        )


def _is_short(column: npt.NDArray[np.float32]) -> bool:
    """Tell whether 16-bit floats are exactly the same."""
    with np.errstate(over="ignore"):
        again = column.astype(np.float16).astype(np.float32)
    return bool((again.view(np.uint32) == column.view(np.uint32)).all())
