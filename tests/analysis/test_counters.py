"""Rates and increments of counters: never negative, never from nothing, exact in their sum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.counters import MIN_INTERVAL_S, CounterRules, Step, step
from stethoscope.model.metric import Kind, Metric, Reason, Scope


def counter(bits: int | None = None, pins: tuple[int, ...] = ()) -> Metric:
    return Metric("c", "C", Scope.PORT, "events", Kind.COUNTER, bits=bits, pins=pins, rate_unit="/s")


PLAIN = counter()
BITS_32 = counter(bits=32)
STICKY = counter(pins=(255,))


def one(metric: Metric, before: int, now: int, since: float = 10.0, mono: float = 12.0, carry: int = 0) -> Step:
    rules = CounterRules.of([metric])
    cell = (np.array([[before]], np.uint64), np.array([[now]], np.uint64), np.array([[since]]))
    return step(rules, *cell, mono, np.array([[carry]], np.uint64))


def rate(result: Step) -> float | Reason:
    reason = Reason(int(result.reasons[0, 0]))
    if reason is Reason.PRESENT:
        return float(result.rates[0, 0])
    assert np.isnan(result.rates[0, 0])
    return reason


def test_a_rate_is_the_change_per_second_of_the_nodes_own_clock() -> None:
    result = one(PLAIN, 100, 150)
    assert rate(result) == 25.0
    assert result.increments[0, 0] == 50


def test_totals_beyond_the_precision_of_floats_are_exact() -> None:
    result = one(PLAIN, 2**63, 2**63 + 1)
    assert result.increments[0, 0] == 1
    assert rate(result) == 0.5


def test_the_first_reading_gives_neither_rate_nor_increment() -> None:
    result = one(PLAIN, 0, 12_345, since=-np.inf)
    assert rate(result) is Reason.ONE_READING
    assert result.increments[0, 0] == 0


def test_after_a_restart_of_the_probe_the_increment_counts_but_gives_no_rate() -> None:
    result = one(PLAIN, 10, 25, since=np.nan)
    assert rate(result) is Reason.ONE_READING
    assert result.increments[0, 0] == 15


def test_a_counter_that_went_back_was_reset() -> None:
    result = one(PLAIN, 1_000_000, 7)
    assert rate(result) is Reason.RESET
    assert result.increments[0, 0] == 7


def test_a_counter_at_the_end_of_its_width_wraps() -> None:
    result = one(BITS_32, 2**32 - 10, 30)
    assert rate(result) == 20.0
    assert result.increments[0, 0] == 40


@pytest.mark.parametrize(("before", "now"), [(1_000, 0), (2**31, 5), (2**32 - 10, 2**31)])
def test_a_fall_that_is_no_wrap_is_a_reset(before: int, now: int) -> None:
    assert rate(one(BITS_32, before, now)) is Reason.RESET


def test_a_counter_at_its_pin_has_no_rate() -> None:
    assert rate(one(STICKY, 255, 255)) is Reason.SATURATED


def test_a_counter_that_just_reached_its_pin_moved() -> None:
    assert rate(one(STICKY, 253, 255)) == 1.0


def test_a_quiet_counter_below_its_pin_is_at_rest() -> None:
    assert rate(one(STICKY, 254, 254)) == 0.0


def test_zero_is_not_a_pin() -> None:
    rules = CounterRules.of([counter(pins=(255, 65_535)), PLAIN])
    zeros = np.zeros((2, 1), np.uint64)
    assert (step(rules, zeros, zeros, np.zeros((2, 1)), 5.0, zeros).reasons == Reason.PRESENT).all()


@pytest.mark.parametrize("mono", [10.0, 10.0 + MIN_INTERVAL_S / 2, 9.0])
def test_too_short_an_interval_leaves_the_rate_as_it_was(mono: float) -> None:
    result = one(PLAIN, 100, 150, since=10.0, mono=mono)
    assert not result.timed[0, 0]
    assert result.increments[0, 0] == 50


def test_the_rate_after_too_short_an_interval_covers_both() -> None:
    assert rate(one(PLAIN, 150, 190, since=10.0, mono=12.0, carry=50)) == 45.0


def test_a_pinned_counter_that_moved_in_a_short_interval_still_has_a_rate() -> None:
    assert rate(one(STICKY, 255, 255, since=10.0, mono=12.0, carry=1)) == 0.5


events = st.lists(
    st.tuples(st.sampled_from(["count", "count", "count", "reset"]), st.integers(0, 2**26), st.floats(0.06, 600)),
    min_size=1,
    max_size=40,
)


@given(metric=st.sampled_from([PLAIN, BITS_32, STICKY]), start=st.integers(0, 2**32 - 1), events=events)
def test_rates_are_never_negative_and_increments_sum_up(
    metric: Metric, start: int, events: list[tuple[str, int, float]]
) -> None:
    rules = CounterRules.of([metric])
    total, mono, counted, summed = start, 100.0, 0, 0
    since, carry, basis = np.array([[mono]]), np.zeros((1, 1), np.uint64), 0
    before = np.array([[total]], np.uint64)
    for what, amount, dt in events:
        mono += dt
        if what == "reset" and amount < total < 2**32 - 2**28:
            total = amount
        else:
            total += amount
        counted += amount
        if metric.bits:
            total %= 2**metric.bits
        now = np.array([[total]], np.uint64)
        result = step(rules, before, now, since, mono, carry)
        summed += int(result.increments[0, 0])
        present = result.reasons[0, 0] == Reason.PRESENT
        assert present == (not np.isnan(result.rates[0, 0]))
        before, carry = now, carry + result.increments
        if result.timed[0, 0]:
            if present:
                assert result.rates[0, 0] == pytest.approx((counted - basis) / (mono - since[0, 0]))
            since, carry, basis = np.array([[mono]]), np.zeros((1, 1), np.uint64), counted
    assert summed == counted


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.floats(allow_nan=True, allow_infinity=False)), min_size=2),
    st.sampled_from([PLAIN, BITS_32, STICKY]),
)
def test_whatever_a_node_sends_no_rate_is_negative(readings: list[tuple[int, float]], metric: Metric) -> None:
    for (before, since), (now, mono) in itertools.pairwise(readings):
        result = one(metric, before, now, since, mono)
        present = (result.reasons == Reason.PRESENT) & result.timed
        assert not (result.rates[present] < 0).any()
