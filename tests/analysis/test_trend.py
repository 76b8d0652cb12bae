"""Slope and standard deviation, kept slot by slot, are those of the samples of the window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.samples import Samples
from stethoscope.analysis.trend import Trend
from stethoscope.model.metric import Kind, Metric, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

METRIC = Metric("made", "made", Scope.GPU, "C", Kind.GAUGE)
WINDOW_S = 60.0


@dataclass
class Moment:
    """What a ring reads of a moment."""

    mono: float
    row: Sequence[float]

    def values(self, _metric: str) -> Any:
        return np.array(self.row, dtype=np.float64)


def played(samples: Sequence[tuple[float, Sequence[float]]], window_s: float = WINDOW_S) -> Trend:
    kept = Samples(METRIC, "last")
    trend = Trend(kept, window_s, Scope.GPU)
    rows = {Scope.GPU: np.ones(len(samples[0][1]), dtype=bool)}
    kept.fit(rows)
    trend.fit(rows)
    for at, row in samples:
        moment: Any = Moment(at, row)
        kept.take(moment)
        trend.take(moment)
    return trend


def of_window(samples: Sequence[tuple[float, float]], mono: float) -> tuple[float, float]:
    """Return slope and deviation of the last sample of each slot of the window, worked out at once."""
    slots = {int(at // 5): (at, value) for at, value in samples if not math.isnan(value)}
    times = {int(at // 5): at for at, _ in samples}
    kept = [(times[slot], value) for slot, (_, value) in slots.items() if times[slot] >= mono - WINDOW_S - 1e-6]
    if len(kept) < 3 or mono - min(at for at, _ in kept) < 0.75 * WINDOW_S - 1e-6:
        return math.nan, math.nan
    at, value = np.array(kept).T
    slope = np.polyfit(at - at[0], value, 1)[0] if np.ptp(at) else math.nan
    return float(slope), float(np.std(value))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.floats(1.0, 12.0), st.one_of(st.just(math.nan), st.floats(-1e4, 1e4, allow_nan=False)), st.floats(0, 90)
        ),
        min_size=1, max_size=60,
    )
)  # fmt: skip
def test_sums_kept_are_those_of_the_window(steps: list[tuple[float, float, float]]) -> None:
    mono, samples = 1000.0, []
    for step_s, value, other in steps:
        mono += step_s
        samples.append((mono, (value, other + 1e6)))
    trend = played(samples)
    slope, deviation = trend.slope(mono), trend.stddev(mono)
    for row in range(2):
        expected = of_window([(at, values[row]) for at, values in samples], mono)
        assert slope[row] == pytest.approx(expected[0], abs=1e-4, rel=1e-4, nan_ok=True)
        assert deviation[row] == pytest.approx(expected[1], abs=1e-2, rel=1e-4, nan_ok=True)


def test_a_steady_creep_has_its_slope_and_a_gap_does_not_matter() -> None:
    samples = [(at, [60 + at / 60, math.nan if 20 < at < 40 else 70.0]) for at in range(0, 120, 2)]
    trend = played(samples)
    assert trend.slope(118).tolist() == pytest.approx([1 / 60, 0.0])
    assert trend.stddev(118)[1] == 0.0


def test_too_few_samples_say_nothing() -> None:
    assert np.isnan(played([(0.0, [1.0]), (5.0, [2.0]), (10.0, [3.0])]).slope(10.0)).all()
    assert np.isnan(played([(0.0, [1.0]), (55.0, [2.0])]).slope(55.0)).all()


def test_a_long_pause_starts_again() -> None:
    trend = played([(at, [float(at)]) for at in range(0, 60, 5)] + [(1000.0, [1.0]), (1030.0, [1.0]), (1060.0, [7.0])])
    assert trend.slope(1060.0)[0] == pytest.approx(0.1)


def test_rows_that_stand_for_another_device_start_again() -> None:
    trend = played([(at, [float(at), 5.0]) for at in range(0, 70, 5)])
    trend.fit({Scope.GPU: np.array([True, False, True])})
    assert trend._sums[0].tolist()[0] == 0.0
    assert trend._sums.shape == (6, 3)
