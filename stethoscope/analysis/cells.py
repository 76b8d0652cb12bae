"""What stands in the lists of lines: numbers, words in their place, and null, as arrays."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING, cast

import numpy as np

from stethoscope.model.metric import WIRE_REASONS, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stethoscope.model.wire import Cell

UNCHANGED = 255
"""Beside the codes of Reason: the cell says nothing new."""
_CODES = {word: int(reason) for word, reason in WIRE_REASONS.items()}
_ERROR = int(Reason.ERROR)


def rows_of(first: int, count: int, order: Sequence[int] | None) -> npt.NDArray[np.intp]:
    """Return the rows of a block that the positions of its lists stand for, all of them in order without `order`."""
    return np.arange(first, first + count) if order is None else np.array(order, np.intp) + first


def numbers_of(lists: Sequence[Sequence[Cell]]) -> tuple[bytes, bytes]:
    """Return the cells of the lists of one line, one list behind the other, as the bytes of floats, NaN where one is
    none; and the codes of reasons that words give, 0 elsewhere, none where there are no words. What null means is left
    open."""
    flat = [*chain.from_iterable(lists)]
    try:
        # None of WIRE_REASONS can be read as a number, and there are no other words; null becomes NaN.
        return np.fromiter(flat, np.float64, len(flat)).tobytes(), b""
    except ValueError:
        flat, codes = _without_words(lists)
    try:
        return np.fromiter(flat, np.float64, len(flat)).tobytes(), codes
    except ValueError:
        codes = bytes([_code_of(cell) or code for cell, code in zip(flat, codes, strict=True)])
        return np.array([None if cell.__class__ is str else cell for cell in flat], np.float64).tobytes(), codes


def totals_of(lists: Sequence[Sequence[Cell]], *, full: bool) -> tuple[bytes, bytes]:
    """Return the cells of the lists of one line, one list behind the other, as the bytes of totals of 64 bits, 0 where
    one is none; and the code of the reason of each, none where all are totals: whole numbers that are not negative.
    null is an error in a full line and "unchanged" in a delta."""
    whole = _whole([*chain.from_iterable(lists)])
    if whole is not None:
        return whole, b""
    flat, codes = _without_words(lists, instead=0)
    whole = _whole(flat)
    if whole is not None:
        return whole, codes
    null = _ERROR if full else UNCHANGED
    totals = [cell if isinstance(cell, int) and cell >= 0 else -1 for cell in flat]
    reasons = [
        code if total >= 0 else null if cell is None else _code_of(cell) or _ERROR
        for total, cell, code in zip(totals, flat, codes, strict=True)
    ]
    return np.array([max(total, 0) for total in totals], np.uint64).tobytes(), bytes(reasons)


def _code_of(cell: Cell) -> int:
    return _CODES.get(cell, _ERROR) if isinstance(cell, str) else 0


def _whole(flat: Sequence[Cell]) -> bytes | None:
    """Return totals where there is nothing else, as nearly always."""
    whole = cast("Sequence[int]", flat)
    try:
        totals = array("q", whole).tobytes()
    except (TypeError, OverflowError):
        return None
    return totals if min(whole, default=0) >= 0 else None


def _without_words(lists: Sequence[Sequence[Cell]], instead: Cell = None) -> tuple[list[Cell], bytes]:
    """Return the cells of lists with another one in those that say one word for all devices, and the codes of reasons
    of what was replaced."""
    flat: list[Cell] = []
    codes = bytearray()
    for cells in lists:
        word, count = cells[0] if cells else None, len(cells)
        if word.__class__ is str and cells.count(word) == count:
            flat += [instead] * count
            codes += bytes([_code_of(word)]) * count
        else:
            flat += cells
            codes += bytes(count)
    return flat, bytes(codes)
