"""Clocks, and times as people read them."""

from __future__ import annotations

import pytest

from stethoscope.clock import FixedClock, SystemClock, duration, hms, iso


def test_a_fixed_clock_moves_only_when_told() -> None:
    clock = FixedClock()
    assert (iso(clock.wall()), clock.monotonic()) == ("2026-03-14T02:14:07Z", 0.0)
    clock.advance(2.5)
    assert (clock.wall(), clock.monotonic()) == (1_773_454_449.5, 2.5)


def test_the_system_clock_does_not_go_back() -> None:
    clock = SystemClock()
    first = clock.monotonic()
    assert clock.monotonic() >= first
    assert clock.wall() > 1_700_000_000


def test_times_are_utc() -> None:
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert hms(1_773_454_447.9) == "02:14:07"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"), (0.04, "0.0 s"), (3, "3.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (41, "41 s"), (99, "99 s"),
        (100, "2 m"), (300, "5 m"), (5_969, "99 m"), (7_200, "2 h"), (169_000, "47 h"), (259_200, "3 d"),
    ],
)  # fmt: skip
def test_spans(seconds: float, words: str) -> None:
    assert duration(seconds) == words
