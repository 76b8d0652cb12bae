"""Lists of lines as arrays: every kind of cell, alone and among others."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.analysis.cells import UNCHANGED, numbers_of, totals_of
from stethoscope.model.metric import WIRE_REASONS, Reason

ERROR = int(Reason.ERROR)
IS_HUNG = int(Reason.HUNG)
HUNG = next(word for word, reason in WIRE_REASONS.items() if reason is Reason.HUNG)


def test_no_word_in_place_of_a_number_reads_as_one() -> None:
    for word in WIRE_REASONS:
        with pytest.raises(ValueError, match="could not convert"):
            np.array([word], np.float64)


def test_every_kind_of_cell_as_a_number() -> None:
    for lists, expected, codes in (
        ([[1, 2.5, None], [-(2**63), 2**64 - 1, 0]], [1, 2.5, np.nan, -(2.0**63), 2.0**64, 0], []),
        ([[1, 2], [HUNG, HUNG], [3, None]], [1, 2, np.nan, np.nan, 3, np.nan], [0, 0, IS_HUNG, IS_HUNG, 0, 0]),
        ([[1, HUNG, None, "no word"]], [1, np.nan, np.nan, np.nan], [0, IS_HUNG, 0, ERROR]),
        ([["", ""], [HUNG, 7]], [np.nan, np.nan, np.nan, 7], [ERROR, ERROR, IS_HUNG, 0]),
        ([[], [], ["no word"]], [np.nan], [ERROR]),
        ([(5,), (HUNG,)], [5, np.nan], [0, IS_HUNG]),
    ):
        numbers, words = numbers_of(lists)  # type: ignore[arg-type]
        np.testing.assert_array_equal(np.frombuffer(numbers), expected)
        assert [*words] == codes
    with pytest.raises(OverflowError):
        numbers_of([[1, 10**400]])


@pytest.mark.parametrize(("full", "null"), [(True, ERROR), (False, UNCHANGED)])
def test_every_kind_of_cell_as_a_total(full: bool, null: int) -> None:
    for lists, totals, codes in (
        ([[0, 7], [2**63 - 1, 1]], [0, 7, 2**63 - 1, 1], []),
        ([[7, 2**64 - 1]], [7, 2**64 - 1], [0, 0]),
        ([[7, -1], [3, 4]], [7, 0, 3, 4], [0, ERROR, 0, 0]),
        ([[7, None]], [7, 0], [0, null]),
        ([[7, 8], [HUNG, HUNG]], [7, 8, 0, 0], [0, 0, IS_HUNG, IS_HUNG]),
        ([["no word"], [None]], [0, 0], [ERROR, null]),
        ([[7, 1.5, HUNG, None]], [7, 0, 0, 0], [0, ERROR, IS_HUNG, null]),
        ([[], []], [], []),
    ):
        found, given = totals_of(lists, full=full)  # type: ignore[arg-type]
        assert np.frombuffer(found, np.uint64).tolist() == totals
        assert [*given] == codes
    with pytest.raises(OverflowError):
        totals_of([[2**64, 1]], full=full)
