"""Columns of numbers that are read together, like an array with two axes: a column that says the same in every row
takes no memory, and one that did not change is the same array in two grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Grid:
    """Arrays of one length that nobody changes; `grid[column]`, `grid[column, rows]` and what else an array allows
    give what an array of them all would give. A few columns cost no more than themselves, all of them a copy."""

    __slots__ = ("_columns", "_dtype", "_rows")

    def __init__(self, columns: Sequence[Array], rows: int, dtype: npt.DTypeLike) -> None:
        """Show the first `rows` cells of each of `columns`; `dtype` is what all of them together are."""
        self._columns = columns
        self._rows = rows
        self._dtype = np.dtype(dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of columns and of rows."""
        return len(self._columns), self._rows

    @property
    def size(self) -> int:
        """Return the number of cells."""
        return len(self._columns) * self._rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return what all columns together are."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory behind the cells that are shown."""
        return sum(column.itemsize * (1 if is_uniform(column) else self._rows) for column in self._columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __getitem__(self, key: Any) -> Any:
        """Return what an array of all columns would give for `key`."""
        column, rows = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(column, (int, np.integer)):
            whole = self._columns[int(column)]
            if whole.size != self._rows:
                whole = whole[: self._rows]
            # Without rows it is the same array as long as nothing changes: what was made of it still stands.
            return whole if key is column else whole[rows]
        if isinstance(rows, slice) and not isinstance(column, slice):
            numbers = np.arange(len(self._columns))[column]
            return self._stacked([self._columns[number][: self._rows][rows] for number in numbers.tolist()])
        if isinstance(column, slice):
            return self._stacked([one[: self._rows][rows] for one in self._columns[column]])
        return np.asarray(self)[key]

    def behind(self, column: int) -> tuple[Array, ...]:
        """Return the arrays that a column is read from: the same ones as long as nothing changes."""
        return (self._columns[column],)

    def _stacked(self, columns: Sequence[Array]) -> Array:
        if not columns:
            return np.empty((0, self._rows), self._dtype)
        return np.stack(columns, dtype=self._dtype, casting="unsafe")

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return all columns as one array of its own."""
        if copy is False:
            raise ValueError("columns that are apart cannot be shown as one array without a copy")
        whole = self._stacked([column[: self._rows] for column in self._columns])
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def copy(self) -> Array:
        """Return all columns as one array that may be changed."""
        return self.__array__()

    def astype(self, dtype: npt.DTypeLike) -> Array:
        """Return all columns as one array of other numbers."""
        return self.__array__(dtype)

    def __eq__(self, other: object) -> Any:
        """Compare cell by cell."""
        return self.__array__() == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        """Compare cell by cell."""
        return self.__array__() != np.asarray(other)

    __hash__ = None  # type: ignore[assignment]

    def __truediv__(self, other: Any) -> Any:
        """Divide each cell."""
        return self.__array__() / other


class Differences(Grid):
    """What two grids of totals differ by, cell by cell, as unsigned numbers: how far a counter has come since a base
    that is kept in place of the difference, because it changes only where the counter does not simply go on."""

    __slots__ = ("_bases",)

    def __init__(self, totals: Sequence[Array], bases: Sequence[Array], rows: int) -> None:
        """Show `totals` less `bases`, column by column."""
        super().__init__(totals, rows, np.uint64)
        self._bases = Grid(bases, rows, np.uint64)

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory of the bases."""
        return self._bases.nbytes

    def __getitem__(self, key: Any) -> Any:
        """Return what an array of all differences would give for `key`."""
        column = key[0] if isinstance(key, tuple) else key
        if isinstance(column, (int, np.integer)):
            with np.errstate(over="ignore"):
                # In their own width, in which a base may be beyond its total.
                return np.subtract(super().__getitem__(key), self._bases[key]).astype(np.uint64)
        return self.__array__()[key]

    def behind(self, column: int) -> tuple[Array, ...]:
        """Return the totals and the bases of a column."""
        return (*super().behind(column), *self._bases.behind(column))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return all differences as one array of its own."""
        whole = self._stacked([self[column] for column in range(len(self))])
        return whole if dtype is None else whole.astype(dtype, copy=False)


def is_uniform(column: Array) -> bool:
    """Tell whether a column is one cell that stands for all rows."""
    return column.size > 1 and column.strides == (0,)
