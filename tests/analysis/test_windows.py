"""What rules remember: how long something held, and samples in slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.alike import settled
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Hold, Ring

NONE = np.array([False])


def hold_one(window_s: float, samples: list[tuple[float, int]]) -> list[int]:
    hold = Hold(window_s)
    hold.fit(np.array([True]))
    return [int(hold.update(np.array([verdict], dtype=np.int8), at)[0]) for at, verdict in samples]


def test_true_after_the_window_and_not_before() -> None:
    assert hold_one(10, [(0, TRUE), (5, TRUE), (10, TRUE), (15, TRUE)]) == [UNKNOWN, UNKNOWN, TRUE, TRUE]


def test_one_false_sample_is_false_for_a_window() -> None:
    samples = [(0, FALSE), (5, TRUE), (9, TRUE), (10, TRUE), (14, TRUE), (15, TRUE)]
    assert hold_one(10, samples) == [FALSE, FALSE, FALSE, UNKNOWN, UNKNOWN, TRUE]


def test_unknown_starts_the_window_again_and_is_not_false() -> None:
    samples = [(0, TRUE), (10, TRUE), (12, UNKNOWN), (14, TRUE), (24, TRUE)]
    assert hold_one(10, samples) == [UNKNOWN, TRUE, UNKNOWN, UNKNOWN, TRUE]


def test_rows_come_and_go() -> None:
    hold = Hold(5)
    hold.fit(np.array([True, True]))
    hold.update(np.array([TRUE, TRUE], dtype=np.int8), 0)
    hold.fit(np.array([False, True, True]))
    assert hold.update(np.array([TRUE] * 3, dtype=np.int8), 5).tolist() == [TRUE, UNKNOWN, UNKNOWN]


def test_forgetting_starts_again() -> None:
    hold = Hold(5)
    hold.fit(np.array([True]))
    hold.update(np.array([TRUE], dtype=np.int8), 0)
    hold.forget()
    assert hold.update(np.array([TRUE], dtype=np.int8), 100).tolist() == [UNKNOWN]


def ring(keep: str, window_s: float, samples: list[tuple[float, float]]) -> Ring:
    made = Ring(keep)
    made.need(window_s)
    made.fit(np.array([True]))
    for at, value in samples:
        made.put(np.array([value]), at)
    return made


def test_oldest_value_within_the_window() -> None:
    made = ring("first", 20, [(at, at * 10) for at in range(0, 60, 2)])
    value, age = made.oldest(20, 58)
    assert (value[0], age[0]) == (400, 18)


def test_memory_is_bounded_by_the_window() -> None:
    made = ring("first", 60, [(at, at + 0.1) for at in range(0, 10_000, 2)])
    assert made.nbytes == (60 / 5 + 2) * 8


@pytest.mark.parametrize(("value", "each"), [(7.0, 2), (4097.0, 4)])
def test_what_fewer_bits_hold_exactly_takes_no_more(value: float, each: int) -> None:
    made = ring("first", 60, [(at, value + at // 5 % 2) for at in range(0, 10_000, 5)])
    assert made.nbytes == (60 / 5 + 1) * each + 8, "what is of now is what others have too"
    assert made.oldest(60, 9_995)[0].tolist() == [value + 1]


def test_a_gap_leaves_no_old_sample() -> None:
    made = ring("first", 20, [(0, 1), (5, 2), (500, 9)])
    value, age = made.oldest(20, 500)
    assert (value[0], age[0]) == (9, 0)


def test_min_max_and_mean() -> None:
    samples = [(0, 5.0), (2, 1.0), (6, 9.0), (11, 3.0)]
    assert ring("min", 30, samples).over(30, 11)[0].tolist() == [1.0]
    assert ring("max", 30, samples).over(30, 11)[0].tolist() == [9.0]
    assert ring("last", 30, samples).over(30, 11)[0].tolist() == [(1.0 + 9.0 + 3.0) / 3]


def test_a_missing_sample_does_not_wipe_its_slot() -> None:
    made = ring("first", 20, [(0, 7.0), (1, float("nan")), (6, float("nan"))])
    value, age = made.oldest(20, 6)
    assert (value[0], age[0]) == (7, 6)


def test_short_samples_know_what_did_not_change() -> None:
    ring = Ring("first", 30.0, is_short=True)
    ring.need(60.0)
    ring.fit(np.ones(2, dtype=bool))
    totals = np.array([2.0**31 + 1, 5.0])
    ring.put(totals, 0.0)
    then, ages = ring.oldest(60.0, 30.0)
    assert (ring.as_kept(totals) - then).tolist() == [0.0, 0.0]
    assert ages.tolist() == [30.0, 30.0]
    assert ring.nbytes == 2 * 4


class OneRow:
    """What a hold says of one row, step by step."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.false_at, self.last, self.last_at = -np.inf, UNKNOWN, -np.inf

    def update(self, verdict: int, at: float, window_s: float) -> int:
        if verdict == FALSE:
            self.false_at = -np.inf
        elif self.last == FALSE:
            self.false_at = self.last_at
        self.last, self.last_at = verdict, at
        if verdict != TRUE:
            self.since = None
            return FALSE if verdict == FALSE or at - self.false_at < window_s else UNKNOWN
        self.since = at if self.since is None else self.since
        if at - self.since >= window_s:
            return TRUE
        return FALSE if at - self.false_at < window_s else UNKNOWN


ANY = st.sampled_from([FALSE, UNKNOWN, TRUE])


@given(
    st.lists(
        st.one_of(
            ANY.map(lambda verdict: (verdict,) * 3), st.tuples(ANY, ANY, ANY), st.just("again"), st.just("forget")
        ),
        max_size=25,
    ),
    st.booleans(),
)
def test_all_rows_at_once_say_what_each_says_alone(steps: list[tuple[int, int, int] | str], short: bool) -> None:
    hold, rows, at = Hold(10.0), [OneRow() for _ in range(3)], 0.0
    hold.fit(np.array([True] * 3))
    verdicts = settled(np.array([UNKNOWN] * 3, dtype=np.int8))
    for step in steps:
        at += 4.0
        if step == "forget":
            hold.forget()
            for row in rows:
                row.since = None
        elif isinstance(step, tuple):
            verdicts = settled(np.array(step, dtype=np.int8)) if short else np.array(step, dtype=np.int8)
        told = hold.update(verdicts, at)
        assert told.tolist() == [row.update(int(v), at, 10.0) for row, v in zip(rows, verdicts, strict=True)]
