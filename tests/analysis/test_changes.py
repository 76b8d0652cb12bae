"""Change points: silent for noise of any kind and scale, on time for a step, tolerant of what comes back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.changes import Detector

EVERY_S = 5.0


def play(samples: np.ndarray, detector: Detector | None = None) -> tuple[Detector, np.ndarray]:
    """Show samples `[time, row]`, one every 5 s; return the detector, and when it first found a change of each row."""
    detector = detector or Detector(6.0, 60.0)
    rows = samples.shape[1]
    detector.fit(np.ones(rows, dtype=bool))
    found = np.full(rows, math.nan)
    for number, values in enumerate(samples):
        detector.take(values, np.full(rows, number * EVERY_S), np.ones(rows, dtype=bool))
        found[np.isnan(found) & ~np.isnan(detector.at)] = number * EVERY_S
    return detector, found


def noise(kind: str, shape: tuple[int, int], seed: int = 7) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return {
        "normal": lambda: draw.normal(size=shape),
        "uniform": lambda: draw.uniform(size=shape),
        "Laplace": lambda: draw.laplace(size=shape),
        "one-sided": lambda: draw.exponential(size=shape),
        "heavy tails": lambda: draw.standard_t(3, size=shape),
        "rare ones": lambda: (draw.uniform(size=shape) < 0.05).astype(float),
        "whole numbers": lambda: np.round(0.5 * draw.normal(size=shape)),
        "none": lambda: np.zeros(shape),
    }[kind]()


@pytest.mark.parametrize(
    "kind", ["normal", "uniform", "Laplace", "one-sided", "heavy tails", "rare ones", "whole numbers", "none"]
)
@pytest.mark.parametrize(("scale", "zero"), [(1.0, 0.0), (1e-7, 1.0), (1e6, -1e9)])
def test_noise_is_no_change(kind: str, scale: float, zero: float) -> None:
    _, found = play(noise(kind, (720, 100)) * scale + zero)
    assert np.isnan(found).all()


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1.0, 1e8]), st.floats(10, 1000), st.booleans())
def test_a_step_is_found_in_time(seed: int, scale: float, height: float, up: bool) -> None:
    samples = np.random.default_rng(seed).normal(size=(160, 8))
    samples[100:] += height if up else -height
    detector, found = play(samples * scale)
    assert not np.isnan(found).any()
    # A minute after it happened, give or take two samples, and with its time to two samples.
    assert np.abs(found - 560.0).max() <= 2 * EVERY_S
    assert np.abs(detector.at - 500.0).max() <= 2 * EVERY_S
    assert np.allclose(detector.before, 0.0, atol=1.5 * scale)
    # One sample of before may be counted among thirteen.
    assert np.allclose(detector.after, (height if up else -height) * scale, atol=(1.5 + height / 12) * scale)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 2.0, 1024.0]), st.sampled_from([0.0, -64.0, 4096.0]))
def test_scale_and_zero_do_not_matter(seed: int, scale: float, zero: float) -> None:
    draw = np.random.default_rng(seed)
    # Sixteenths, so that the arithmetic is the same whatever is added.
    samples = np.round(16 * draw.normal(size=(120, 4))) / 16 + np.where(np.arange(120) > 60, 20.0, 0.0)[:, None]
    plain, _ = play(samples)
    moved, _ = play(samples * scale + zero)
    assert np.array_equal(moved.at, plain.at, equal_nan=True)


def test_a_checkpoint_is_no_change() -> None:
    samples = 500 + 10 * noise("normal", (2000, 50))
    for start in range(100, 2000, 360):
        samples[start : start + 11] = 120
    _, found = play(samples)
    assert np.isnan(found).all()


def test_longer_phases_are_learned() -> None:
    samples = 500 + 10 * noise("normal", (1600, 20))
    changed_at = []
    detector = Detector(6.0, 60.0)
    detector.fit(np.ones(20, dtype=bool))
    for start in range(100, 1600, 360):
        samples[start : start + 36] = 120
    for number, values in enumerate(samples):
        detector.take(values, np.full(20, number * EVERY_S), np.ones(20, dtype=bool))
        if not np.isnan(detector.at).all():
            changed_at.append(number)
    # Three minutes of evaluation are a change the first time, and undone after; from then on they are usual.
    assert changed_at
    assert max(changed_at) < 100 + 36 + 54
    assert np.isnan(detector.at).all()


def test_what_changes_back_is_undone() -> None:
    samples = 500 + noise("normal", (300, 5))
    samples[100:160] -= 100
    detector, found = play(samples)
    assert not np.isnan(found).any()
    assert np.isnan(detector.at).all()


def test_a_stray_sample_ends_nothing() -> None:
    samples = 500 + noise("normal", (200, 5))
    samples[100:] -= 100
    samples[104] = 500
    detector, _ = play(samples)
    assert detector.at.tolist() == [500.0] * 5


def test_less_than_its_share_is_no_change() -> None:
    samples = 500 + 0.1 * noise("normal", (200, 5))
    samples[100:] -= 20
    _, found = play(samples, Detector(6.0, 60.0, share=0.1))
    assert np.isnan(found).all()


def test_a_step_of_the_tool_is_no_change() -> None:
    samples = np.full((200, 5), 60.0)
    samples[100:] = 61.0
    _, found = play(samples, Detector(6.0, 60.0, resolution=1.0))
    assert np.isnan(found).all()


def test_rows_without_a_new_sample_stay_as_they_are() -> None:
    detector = Detector(6.0, 60.0)
    detector.fit(np.ones(2, dtype=bool))
    for number in range(20):
        detector.take(np.array([1.0, math.nan]), np.full(2, number * EVERY_S), np.array([number % 2 == 0, True]))
    assert detector.knows.tolist() == [False, False]
    for number in range(20, 40):
        detector.take(np.array([1.0, 1.0]), np.full(2, number * EVERY_S), np.ones(2, dtype=bool))
    assert detector.knows.tolist() == [True, True]
    detector.forget(np.array([True, False]))
    assert detector.knows.tolist() == [False, True]
    detector.fit(np.array([False, True, True]))
    assert detector.knows.tolist() == [False, False, False]
    assert detector.nbytes > 0
