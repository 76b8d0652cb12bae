"""Medians of groups: exact values, too few peers, and agreement with a plain loop."""

from __future__ import annotations

import math
import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.peers import group_medians

NAN = math.nan


def test_median_of_odd_and_even_groups() -> None:
    values = np.array([1.0, 5.0, 3.0, 2.0, 9.0, 10.0, 20.0, 40.0, 30.0])
    groups = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    assert group_medians(values, groups).tolist() == [3.0] * 5 + [25.0] * 4


def test_fewer_than_four_values_say_nothing() -> None:
    medians = group_medians(np.array([1.0, 2.0, 3.0, NAN]), np.array([0, 0, 0, 0]))
    assert np.isnan(medians).all()


def test_rows_without_a_value_or_group() -> None:
    values = np.array([NAN, 1.0, 1.0, 3.0, 3.0, 7.0])
    medians = group_medians(values, np.array([0, 0, 0, 0, 0, -1]))
    assert medians[:5].tolist() == [2.0] * 5
    assert math.isnan(medians[5])


@given(
    st.lists(
        st.tuples(st.one_of(st.just(NAN), st.floats(-1e6, 1e6, allow_nan=False)), st.integers(-1, 4), st.booleans()),
        max_size=60,
    )
)
def test_agrees_with_a_plain_loop(rows: list[tuple[float, int, bool]]) -> None:
    values = np.array([value for value, _, _ in rows])
    groups = np.array([group for _, group, _ in rows], dtype=np.int64)
    medians = group_medians(values, groups)
    for row, group in enumerate(groups):
        own = [v for v, g in zip(values, groups, strict=True) if g == group and not math.isnan(v)]
        if group < 0 or len(own) < 4:
            assert math.isnan(medians[row])
        else:
            assert medians[row] == statistics.median(own)
