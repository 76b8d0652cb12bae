"""Numbers that a few of very many rows have, and all others not: those at rest take no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.alike import filled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats

Rows = npt.NDArray[np.intp]


class Few:
    """Columns of 64-bit floats that are read and written as if every row had a cell in each."""

    def __init__(self, rest: Mapping[str, float]) -> None:
        """Start without rows; `rest` says what each column has where nothing was written: NaN or a number."""
        self._rest = dict(rest)
        self._size = 0
        self._rows: Rows = np.empty(0, np.intp)
        """Those that are not at rest, in their order; and ..."""
        self._cells: dict[str, Floats] = {name: np.empty(0) for name in rest}
        """... what they have."""

    @property
    def nbytes(self) -> int:
        """Return the memory of the cells."""
        return self._rows.nbytes + sum(cells.nbytes for cells in self._cells.values())

    @property
    def rows(self) -> Rows:
        """Return which rows are not at rest."""
        return self._rows

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        self._size = len(changed)
        kept = self._rows < self._size
        kept[kept] = ~changed[self._rows[kept]]
        self._keep(kept)

    def forget(self, rows: Flags) -> None:
        """Let these rows rest."""
        self._keep(~rows[self._rows])

    def whole(self, name: str) -> Floats:
        """Return a column of all rows, which nobody may change."""
        column = filled(self._size, self._rest[name], np.float64)
        if self._rows.size:
            column = column.copy()
            column[self._rows] = self._cells[name]
        return column

    def at(self, rows: Rows) -> dict[str, Floats]:
        """Return what some rows have in each column, as arrays of their own."""
        places = np.searchsorted(self._rows, rows)
        known = np.flatnonzero(places < self._rows.size)
        known = known[self._rows[places[known]] == rows[known]]
        found = {}
        for name, cells in self._cells.items():
            found[name] = np.full(len(rows), self._rest[name])
            found[name][known] = cells[places[known]]
        return found

    def put(self, rows: Rows, cells: Mapping[str, Floats]) -> None:
        """Write what some rows, in their order, have in each column now."""
        own = {name: cells[name] for name in self._rest}
        moving = np.logical_or.reduce([_differ(column, self._rest[name]) for name, column in own.items()])
        others = np.isin(self._rows, rows, assume_unique=True, invert=True)
        together = np.concatenate((self._rows[others], rows[moving]))
        order = np.argsort(together, kind="stable")
        self._rows = together[order]
        for name, column in own.items():
            self._cells[name] = np.concatenate((self._cells[name][others], column[moving]))[order]

    def _keep(self, kept: Flags) -> None:
        if not kept.all():
            self._rows = self._rows[kept]
            self._cells = {name: cells[kept] for name, cells in self._cells.items()}


def _differ(column: Floats, rest: float) -> Flags:
    differ: Flags = ~np.isnan(column) if rest != rest else column != rest
    return differ
