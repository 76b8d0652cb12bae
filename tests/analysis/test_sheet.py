"""Columns that are changed in place until somebody looks at them, and are one cell where every row says the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.sheet import Sheet
from stethoscope.model.grid import is_uniform

cells = st.sampled_from([np.nan, 0.0, 1.0, 2.5])
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 1), st.lists(st.tuples(st.integers(0, 3), cells), max_size=4)),
        st.tuples(st.just("rest"), st.just(0), st.just([])),
        st.tuples(st.just("fill"), st.integers(0, 1), st.tuples(cells).map(list)),
    ),
    max_size=12,
)


@given(changes)
def test_a_sheet_says_what_an_array_says_and_what_was_shown_stays(said: list[tuple[str, int, list[object]]]) -> None:
    sheet, array, kept = Sheet([np.float64, np.float32], np.nan), np.full((2, 4), np.nan), []
    sheet.grow(0, 4)
    for kind, column, what in said:
        if kind == "put":
            rows = dict(what)  # type: ignore[arg-type]
            at, new = np.array([*rows], np.intp), np.array([*rows.values()], np.float64)
            sheet.put(column, at, new)
            array[column, at] = new
        elif kind == "fill":
            sheet.put(column, slice(0, 4), what[0])  # type: ignore[arg-type]
            array[column] = what[0]
        else:
            sheet.rest()
            kept.append(([*sheet.columns], array.copy()))
    kept.append((sheet.columns, array))
    for columns, expected in kept:
        for column, one in zip(columns, expected, strict=True):
            np.testing.assert_array_equal(column, one)


def test_a_column_is_one_cell_as_soon_as_all_rows_say_the_same() -> None:
    sheet = Sheet([np.float64], np.nan)
    sheet.grow(0, 3)
    assert is_uniform(sheet.columns[0])
    for row in range(3):
        assert not is_uniform(sheet.columns[0]) or row == 0
        sheet.put(0, slice(row, row + 1), 4.0)
    sheet.rest()
    assert is_uniform(sheet.columns[0])
    sheet.grow(3, 5)
    assert sheet.columns[0].tolist() == pytest.approx([4.0] * 3 + [np.nan] * 2, nan_ok=True)


def test_what_changes_nothing_leaves_a_column_that_is_shown_as_it_is() -> None:
    sheet = Sheet([np.float64], 0)
    sheet.grow(0, 3)
    sheet.put(0, slice(1, 3), np.array([5.0, np.nan]))
    sheet.rest()
    shown = sheet.columns[0]
    assert not sheet.put(0, slice(1, 3), np.array([5.0, np.nan]))
    assert sheet.columns[0] is shown
    assert sheet.put(0, slice(1, 2), 6.0)
    assert (sheet.columns[0] is shown, shown[1]) == (False, 5.0)


def test_columns_that_say_the_same_are_one_until_one_changes() -> None:
    sheet = Sheet([np.float64, np.float64, np.float32, np.float64], 0)
    sheet.grow(0, 4)
    for number in range(4):
        sheet.put(number, slice(1, 3), np.array([5.0, np.nan]))
    sheet.put(3, slice(2, 3), 7.0)
    sheet.rest(alike=True)
    first, second, third, fourth = sheet.columns
    assert second is first
    assert third is not first
    assert fourth.tolist() == [0, 5, 7, 0]
    sheet.put(1, slice(0, 1), 1.0)
    sheet.rest(alike=True)
    assert sheet.columns[0] is first
    np.testing.assert_array_equal(sheet.columns[0], [0, 5, np.nan, 0])
    np.testing.assert_array_equal(sheet.columns[1], [1, 5, np.nan, 0])
