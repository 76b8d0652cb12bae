"""Columns that are kept in little memory say what they were given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.compact import Compact

WALL = 1_790_000_000.0


def kept(column: list[float] | np.ndarray) -> Compact:
    compact = Compact()
    compact.keep(np.array(column, np.float64))
    return compact


@given(st.lists(st.floats() | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.0, np.nan, 7.0])))
def test_what_is_kept_is_what_was_given(column: list[float]) -> None:
    compact = kept(column)
    np.testing.assert_array_equal(compact.whole(), column)
    np.testing.assert_array_equal(compact.at(np.arange(len(column))[::2]), column[::2])
    assert len(compact) == len(column)


@pytest.mark.parametrize(
    ("column", "each"),
    [
        pytest.param(np.zeros(4000), 0, id="all alike"),
        pytest.param(np.full(4000, np.nan), 0, id="nothing known"),
        pytest.param(np.arange(4000) % 2000, 2, id="little numbers"),
        pytest.param(np.arange(4000) * 1000.0, 4, id="larger ones"),
        pytest.param(WALL + np.arange(4000) % 3, 1, id="few different times"),
        pytest.param(WALL + np.arange(4000) / 7, 8, id="many"),
    ],
)
def test_the_memory_is_what_the_numbers_need(column: np.ndarray, each: int) -> None:
    compact = kept(column)
    np.testing.assert_array_equal(compact.whole(), column)
    assert each * 4000 <= compact.nbytes <= each * 4000 + 32


def test_a_column_that_was_given_out_may_be_changed() -> None:
    compact = kept([1.0, 1.0, 1.0])
    column = compact.whole()
    column[1] = 2.5
    assert compact.whole().tolist() == [1.0, 1.0, 1.0]
    compact.keep(column)
    assert compact.whole().tolist() == [1.0, 2.5, 1.0]
