"""What stands in the lists of lines: numbers, words in their place, and null, as arrays."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, cast

import numpy as np

from stethoscope.model.metric import WIRE_REASONS, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, Floats, Totals
    from stethoscope.model.wire import Cell

UNCHANGED = 255
"""Beside the codes of Reason: the cell says nothing new."""
_CODES = {word: int(reason) for word, reason in WIRE_REASONS.items()}
_ERROR = int(Reason.ERROR)
_WHOLE = {int, type(None)}


def rows_of(first: int, count: int, order: Sequence[int] | None) -> npt.NDArray[np.intp]:
    """Return the rows of a block that the positions of its lists stand for, all of them in order without `order`."""
    return np.arange(first, first + count) if order is None else np.array(order, np.intp) + first


def numbers_of(flat: Sequence[Cell], *, full: bool) -> tuple[Floats, Codes]:
    """Return each cell as a number, NaN where it is none, and the reason of each; null is an error in a full line and
    "unchanged" in a delta."""
    null = _ERROR if full else UNCHANGED
    try:
        # None of WIRE_REASONS can be read as a number, and there are no other words.
        numbers, codes = np.array(flat, np.float64), np.zeros(len(flat), np.uint8)
    except ValueError:
        numbers = np.array([None if cell.__class__ is str else cell for cell in flat], np.float64)
        codes = np.array([_CODES.get(cell, _ERROR) if cell.__class__ is str else 0 for cell in flat], np.uint8)
    # null becomes NaN, which no number is.
    missing = np.isnan(numbers)
    if missing.any():
        codes[missing & (codes == 0)] = null
    return numbers, codes


def totals_of(flat: Sequence[Cell], *, full: bool) -> tuple[Totals, Codes]:
    """Return each cell as a total, 0 where it is none, and the reason of each: a total is a whole number that is not
    negative."""
    try:
        # Nearly always there are whole numbers alone, which this takes and nothing else.
        signed = np.frombuffer(array("q", cast("Sequence[int]", flat)), np.int64)
        if signed.min(initial=0) >= 0:
            return signed.view(np.uint64), np.zeros(signed.size, np.uint8)
    except (TypeError, OverflowError):
        pass
    null = _ERROR if full else UNCHANGED
    kinds = set(map(type, flat))
    if kinds <= _WHOLE:
        whole: Sequence[Any] = [cell or 0 for cell in flat]
        if min(whole, default=0) >= 0:
            codes = np.zeros(len(flat), np.uint8)
            if kinds != {int}:
                codes[np.array([cell is None for cell in flat])] = null
            return np.array(whole, np.uint64), codes
    totals = [cell if isinstance(cell, int) and cell >= 0 else -1 for cell in flat]
    reasons = [
        0 if total >= 0 else null if cell is None else _CODES.get(cell, _ERROR) if cell.__class__ is str else _ERROR
        for total, cell in zip(totals, flat, strict=True)
    ]
    return np.array([max(total, 0) for total in totals], np.uint64), np.array(reasons, np.uint8)
