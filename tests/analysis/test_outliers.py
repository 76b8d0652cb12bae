"""Robust outliers: exact small cases, and what must hold for any noise, scale and place of zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis import lineup as lineup_module
from stethoscope.analysis.lineup import NORMAL, Grouping, Lineup
from stethoscope.analysis.outliers import Limits, Outliers, outliers
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN

NAN = math.nan
FIVE = Limits(5.0, share=0.05)


def look(values: list[float], limits: Limits = FIVE, *, per_node: int = 1) -> list[int]:
    """Return the verdicts of one group, `per_node` rows on each node."""
    return found(np.array(values), limits, per_node).verdicts.tolist()


def found(values: np.ndarray, limits: Limits, per_node: int = 1) -> Outliers:
    groups = np.zeros(len(values), dtype=np.int64)
    return outliers(Lineup(values, Grouping.of(groups, np.arange(len(values)) // per_node)), limits)


def test_one_that_is_slower_than_all_others() -> None:
    assert look([1980.0] * 7 + [1400.0]) == [FALSE] * 7 + [TRUE]


def test_what_it_is_compared_with() -> None:
    result = found(np.array([1980.0] * 7 + [1400.0]), FIVE)
    assert result.medians.tolist() == [1980.0] * 8
    # The floor of the scale is a fifth of 5 % of the median.
    assert result.distances[7] == pytest.approx(-580 / 19.8)


def test_a_difference_that_does_not_matter() -> None:
    assert look([1980.0] * 7 + [1900.0]) == [FALSE] * 8


def test_equal_rows_without_any_floor() -> None:
    assert look([3.0] * 8, Limits(5.0)) == [FALSE] * 8
    assert look([3.0] * 7 + [3.1], Limits(5.0)) == [FALSE] * 7 + [TRUE]


def test_a_step_of_the_tool_is_no_outlier() -> None:
    assert look([60.0] * 7 + [64.0], Limits(5.0, resolution=1.0)) == [FALSE] * 8
    assert look([60.0] * 7 + [65.0], Limits(5.0, resolution=1.0)) == [FALSE] * 7 + [TRUE]


def test_direction() -> None:
    values = [100.0] * 10 + [50.0, 200.0]
    assert look(values, Limits(5.0, share=0.05, high=False))[10:] == [TRUE, FALSE]
    assert look(values, Limits(5.0, share=0.05, low=False))[10:] == [FALSE, TRUE]
    assert look(values)[10:] == [TRUE, TRUE]


def test_three_peers_say_nothing() -> None:
    assert look([100.0, 100.0, 10.0]) == [UNKNOWN] * 3
    assert look([100.0, 100.0, 10.0, NAN]) == [UNKNOWN] * 4
    assert look([100.0, 100.0, 100.0, 10.0, NAN]) == [FALSE] * 3 + [TRUE, UNKNOWN]


def test_no_value_and_no_group() -> None:
    groups = np.array([0, 0, 0, 0, 0, -1])
    lineup = Lineup(np.array([1.0, 1.0, 1.0, 1.0, math.inf, 9.0]), Grouping.of(groups, np.arange(6)))
    result = outliers(lineup, Limits(5.0, share=0.05))
    assert result.verdicts.tolist() == [FALSE] * 4 + [UNKNOWN, UNKNOWN]
    assert outliers(Lineup(np.empty(0), Grouping.of(np.empty(0, int), np.empty(0, int))), FIVE).verdicts.tolist() == []
    assert look([NAN, NAN]) == [UNKNOWN, UNKNOWN]


def test_half_of_the_fleet_is_never_odd() -> None:
    assert look([500.0] * 16 + [120.0] * 16) == [FALSE] * 32


def test_three_of_six_cannot_be_told_from_the_others() -> None:
    assert TRUE not in look([500.0] * 3 + [120.0] * 3)


def test_an_outlier_of_two_kinds() -> None:
    values = [500.0, 505.0, 495.0, 502.0] * 4 + [120.0, 122.0, 118.0, 121.0] * 4 + [60.0, 300.0, 700.0]
    # What lies between the two is not judged.
    assert look(values)[32:] == [TRUE, UNKNOWN, TRUE]
    assert look(values)[:32] == [FALSE] * 32


def test_the_one_that_works_while_all_others_wait() -> None:
    assert look([120.0, 122.0, 118.0, 121.0] * 8 + [480.0]) == [FALSE] * 32 + [TRUE]


def test_a_node_of_four_is_odd_as_a_whole() -> None:
    values = [500.0, 505.0, 495.0, 502.0, 498.0, 501.0, 499.0, 503.0] * 3 + [250.0] * 8
    assert look(values, per_node=8) == [FALSE] * 24 + [TRUE] * 8


def test_a_node_of_two_is_not() -> None:
    assert TRUE not in look([500.0] * 8 + [250.0] * 8, per_node=8)


def test_groups_do_not_mix() -> None:
    values = np.array([10.0] * 6 + [100.0] * 6 + [100.0])
    groups = np.array([0] * 6 + [1] * 6 + [0])
    result = outliers(Lineup(values, Grouping.of(groups, np.arange(13))), FIVE)
    assert np.flatnonzero(result.verdicts == TRUE).tolist() == [12]
    assert result.medians[12] == 10.0


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1.0, 1e9]), st.integers(4, 300))
def test_noise_of_any_scale_has_no_outlier(seed: int, scale: float, count: int) -> None:
    draw = np.random.default_rng(seed)
    noise = np.clip(draw.normal(size=count), -3.5, 3.5) * scale
    # A group of four may look tight by chance; the floor of what matters is for that.
    assert TRUE not in found(noise, Limits(5.0, amount=3.6 * scale)).verdicts


@given(st.integers(0, 2**32 - 1), st.integers(32, 400), st.booleans())
def test_a_row_twenty_deviations_away_is_found(seed: int, count: int, high: bool) -> None:
    draw = np.random.default_rng(seed)
    values = draw.normal(size=count)
    values[count // 3] = 20.0 if high else -20.0
    verdicts = found(values, Limits(5.0, amount=6.0)).verdicts
    assert np.flatnonzero(verdicts == TRUE).tolist() == [count // 3]


@given(
    st.lists(st.tuples(st.integers(-1000, 1000), st.integers(-1, 2), st.integers(0, 5)), min_size=1, max_size=60),
    st.sampled_from([0.25, 1.0, 8.0]),
    st.sampled_from([0.0, -4096.0, 65536.0]),
)
def test_scale_and_zero_do_not_matter(rows: list[tuple[int, int, int]], scale: float, zero: float) -> None:
    values = np.array([float(value) for value, _, _ in rows])
    groups = np.array([group for _, group, _ in rows])
    grouping = Grouping.of(groups, np.array([owner for _, _, owner in rows]))
    plain = outliers(Lineup(values, grouping), Limits(5.0, amount=16.0, resolution=2.0))
    limits = Limits(5.0, amount=16.0 * scale, resolution=2.0 * scale)
    moved = outliers(Lineup(values * scale + zero, grouping), limits)
    assert moved.verdicts.tolist() == plain.verdicts.tolist()


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-30, 30), st.integers(-1, 3), st.integers(0, 5)), min_size=1, max_size=90
    ),
    st.floats(0.0, 20.0),
)
def test_rows_that_were_put_in_order_for_others_are_judged_alike(
    rows: list[tuple[int | None, int, int]], amount: float
) -> None:
    values = np.array([value for value, _, _ in rows], dtype=np.float64)
    groups, owners = np.array([group for _, group, _ in rows]), np.array([owner for _, _, owner in rows])
    grouping, limits = Grouping.of(groups, owners), Limits(5.0, amount=amount)
    shared = Lineup(values, grouping)
    others = shared.ranked
    assert len(others.places) == np.isfinite(values[groups >= 0]).sum()
    assert_alike(outliers(Lineup(values, grouping), limits), outliers(shared, limits))


@given(
    st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 1)), min_size=1, max_size=90),
    st.floats(0.0, 40.0),
)
def test_large_groups_are_judged_as_if_they_were_in_order(rows: list[tuple[int, int]], amount: float) -> None:
    values, groups = np.array([value for value, _ in rows], dtype=np.float64), np.array([group for _, group in rows])
    grouping, limits = Grouping.of(groups, np.arange(len(rows))), Limits(5.0, amount=amount)
    ordered = outliers(Lineup(values, grouping), limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lineup_module, "LARGE", 0)
        assert_alike(outliers(Lineup(values, grouping), limits), ordered)


@given(st.lists(st.floats(-1e9, 1e9, allow_nan=False) | st.integers(-3, 3), min_size=1, max_size=60))
def test_the_scale_is_that_of_all_distances_in_order(values: list[float]) -> None:
    ordered = np.sort(np.array(values, dtype=np.float64))
    runs = Lineup(ordered, Grouping.of(np.zeros(len(values), int), np.arange(len(values)))).ranked
    middle = np.median(ordered)
    expected = NORMAL * np.median(np.abs(ordered - middle))
    assert runs.parts.scales(ordered, np.array([middle]), plain=True).tolist() == [expected]


def assert_alike(one: Outliers, other: Outliers) -> None:
    np.testing.assert_array_equal(one.verdicts, other.verdicts)
    np.testing.assert_array_equal(one.medians, other.medians)
    np.testing.assert_array_equal(one.distances, other.distances)


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=4, max_size=80), st.integers(1, 8))
def test_never_more_than_a_quarter(values: list[float], per_node: int) -> None:
    verdicts = found(np.array(values), Limits(5.0), per_node).verdicts
    assert (verdicts == TRUE).sum() <= len(values) / 4


@given(st.lists(st.integers(0, 300), min_size=1, max_size=80), st.randoms())
def test_the_order_of_rows_does_not_matter(values: list[int], random: object) -> None:
    rows = np.array(values, dtype=float)
    order = np.random.default_rng(getattr(random, "randint")(0, 2**31)).permutation(len(rows))  # noqa: B009
    assert found(rows[order], FIVE).verdicts.tolist() == found(rows, FIVE).verdicts[order].tolist()


def test_rows_that_stand_in_order_are_numbered_once() -> None:
    owners = np.arange(16, dtype=np.int32) // 2
    by_eight, all_of_them = Grouping.of(np.arange(16) // 8, owners), Grouping.of(np.zeros(16, int), owners)
    assert by_eight.order is all_of_them.order
    assert by_eight.owners is owners
    assert (by_eight.order.tolist(), by_eight.parts.counts.tolist()) == ([*range(16)], [8, 8])
    other = Grouping.of(np.arange(16)[::-1] // 8, owners)
    assert (other.order.tolist(), other.owners.tolist()) == (
        [*range(8, 16), *range(8)],
        [4, 4, 5, 5, 6, 6, 7, 7, 0, 0, 1, 1, 2, 2, 3, 3],
    )
