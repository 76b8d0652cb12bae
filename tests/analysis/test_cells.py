"""Lists of lines as arrays: every kind of cell, alone and among others."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.analysis.cells import UNCHANGED, numbers_of, totals_of
from stethoscope.model.metric import WIRE_REASONS, Reason

ERROR = int(Reason.ERROR)
HUNG = next(word for word, reason in WIRE_REASONS.items() if reason is Reason.HUNG)


def test_no_word_in_place_of_a_number_reads_as_one() -> None:
    for word in WIRE_REASONS:
        with pytest.raises(ValueError, match="could not convert"):
            np.array([word], np.float64)


@pytest.mark.parametrize(("full", "null"), [(True, ERROR), (False, UNCHANGED)])
def test_every_kind_of_cell_as_a_number(full: bool, null: int) -> None:
    numbers, codes = numbers_of([1, 2.5, None, -(2**63), 2**64 - 1], full=full)
    np.testing.assert_array_equal(numbers, [1, 2.5, np.nan, -(2.0**63), 2.0**64])
    assert codes.tolist() == [0, 0, null, 0, 0]
    numbers, codes = numbers_of([1, HUNG, None, "no word"], full=full)
    np.testing.assert_array_equal(numbers, [1, np.nan, np.nan, np.nan])
    assert codes.tolist() == [0, int(Reason.HUNG), null, ERROR]


@pytest.mark.parametrize(("full", "null"), [(True, ERROR), (False, UNCHANGED)])
def test_every_kind_of_cell_as_a_total(full: bool, null: int) -> None:
    for cells, totals, codes in (
        ([0, 7, 2**63 - 1], [0, 7, 2**63 - 1], [0, 0, 0]),
        ([7, 2**64 - 1], [7, 2**64 - 1], [0, 0]),
        ([7, -1], [7, 0], [0, ERROR]),
        ([7, None], [7, 0], [0, null]),
        ([7, 1.5, HUNG, None], [7, 0, 0, 0], [0, ERROR, int(Reason.HUNG), null]),
        ([], [], []),
    ):
        found, given = totals_of(cells, full=full)
        assert (found.dtype, found.tolist(), given.tolist()) == (np.uint64, totals, codes)
        found += np.uint64(0)
