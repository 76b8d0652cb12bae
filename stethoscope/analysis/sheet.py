"""Columns of one kind of number while they are being filled: what model.grid.Grid is a picture of.

A column is changed in place until a picture shows it, and then, with the next change, as a copy. One that says the same
in every row is one cell: of thousands of devices most columns stand still as long as all is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.alike import is_equal
from stethoscope.model.grid import is_uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Rows = npt.NDArray[np.intp] | slice

_BITS = {1: np.uint8, 4: np.uint32, 8: np.uint64}


class Sheet:
    """The columns of one kind of number of a table; each is as long as there is room for rows."""

    __slots__ = ("_fresh", "columns", "fill")

    def __init__(self, dtypes: Sequence[npt.DTypeLike], fill: float) -> None:
        """Start with a column of each type, without rows; `fill` stands in rows of which nothing was heard."""
        self.fill = fill
        self.columns: list[Array] = [np.empty(0, dtype) for dtype in dtypes]
        self._fresh = set[int]()
        """Columns that were changed since they were looked at."""

    def grow(self, kept: int, room: int) -> None:
        """Have room for so many rows, of which the first `kept` stay."""
        for number, former in enumerate(self.columns):
            if not kept or (is_uniform(former) and _is(former[0], self.fill)):
                self.columns[number] = np.broadcast_to(np.array(self.fill, former.dtype), (room,))
                continue
            column = np.full(room, self.fill, former.dtype)
            column[:kept] = former[:kept]
            self.columns[number] = column
            self._fresh.add(number)

    def own(self, number: int) -> Array:
        """Return a column to be changed."""
        column = self.columns[number]
        if not column.flags.writeable:
            column = self.columns[number] = column.copy()
        self._fresh.add(number)
        return column

    def put(self, number: int, rows: Rows, cells: Array | float) -> bool:
        """Set cells of a column; return False where that changes nothing, and a column that is shown stays the same.

        Of one that was changed since it was shown, it is not looked whether this changes it once more."""
        column = self.columns[number]
        if not column.flags.writeable:
            if _are(column[rows], cells):
                return False
            column = self.own(number)
        column[rows] = cells
        return True

    def change(self, number: int, column: Array) -> None:
        """Set all cells of a column, and their type."""
        self.columns[number] = column
        self._fresh.add(number)

    def rest(self, *, alike: bool = False) -> None:
        """Let nobody change the columns as they are, and those that say the same in every row become one cell; where
        they may be `alike`, those that say the same as another become that one."""
        for number in self._fresh:
            column = self.columns[number]
            bits = column.view(_BITS[column.itemsize])
            size = bits.size
            if size > 1 and bits[0] == bits[-1] == bits[size // 2] and (bits == bits[0]).all():
                column = self.columns[number] = np.broadcast_to(column[:1].copy(), column.shape)
            column.flags.writeable = False
        if alike and self._fresh:
            self._join()
        self._fresh.clear()

    def _join(self) -> None:
        """Let columns that say the same be the same array."""
        known: dict[tuple[str, bytes], list[Array]] = {}
        for number, column in enumerate(self.columns):
            if column.size <= 1 or is_uniform(column):
                continue
            alike = known.setdefault((column.dtype.char, column[:: max(1, column.size // 3)].tobytes()), [])
            same = next((other for other in alike if is_equal(other, column)), None)
            if same is None:
                alike.append(column)
            else:
                self.columns[number] = same


def _is(cell: Any, fill: float) -> bool:
    return bool(cell == fill) or (cell != cell and fill != fill)


def _are(before: Array, cells: Array | float) -> bool:
    if not isinstance(cells, np.ndarray):
        return bool(((before != before) if cells != cells else (before == cells)).all())
    same = before == cells
    if before.dtype.kind == "f":
        same |= (before != before) & (cells != cells)
    return bool(same.all())
