"""What stands in the lists of a line: numbers, words in their place, and null, as arrays for a block of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import WIRE_REASONS, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, Totals
    from stethoscope.model.wire import Cell

NUMBERS = {int, float}
UNCHANGED = 255
"""Beside the codes of Reason: the cell says nothing new."""
_CODES = {word: int(reason) for word, reason in WIRE_REASONS.items()}
_ERROR = int(Reason.ERROR)


def rows_of(first: int, count: int, order: Sequence[int] | None) -> npt.NDArray[np.intp]:
    """Return the rows of a block that the positions of its lists stand for, all of them in order without `order`."""
    return np.arange(first, first + count) if order is None else np.array(order, np.intp) + first


def grid_of(
    columns: Sequence[int] | npt.NDArray[np.intp], rows: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the index of the cells where `columns` and `rows` cross."""
    return np.array(columns, np.intp)[:, None], rows[None, :]


def numbers_of(flat: Sequence[Cell]) -> list[float]:
    """Return each cell as a number, NaN where it is none."""
    return [np.nan if cell is None or cell.__class__ is str else cell for cell in flat]  # type: ignore[misc]


def codes_of(flat: Sequence[Cell], *, full: bool) -> Codes:
    """Return the reason of each cell; null is an error in a full line and "unchanged" in a delta."""
    null = _ERROR if full else UNCHANGED
    codes = [_CODES.get(cell, _ERROR) if cell.__class__ is str else null if cell is None else 0 for cell in flat]
    return np.array(codes, np.uint8)


def totals_of(flat: Sequence[Cell], *, full: bool) -> tuple[Totals, Codes]:
    """Return each cell as a total, 0 where it is none, and the reason of each: a total is a whole number that is not
    negative."""
    codes = codes_of(flat, full=full)
    totals = np.array([cell if cell.__class__ is int and cell >= 0 else 0 for cell in flat], np.uint64)
    for number in np.flatnonzero((totals == 0) & (codes == 0)).tolist():
        if flat[number] != 0 or flat[number].__class__ is float:
            codes[number] = _ERROR
    return totals, codes
