"""Pauses between attempts."""

from __future__ import annotations

from stethoscope.collect.backoff import PATIENT_S, Backoff


def test_doubles_to_a_minute() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.failed() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_jitter_halves_at_the_most() -> None:
    backoff = Backoff(lambda: 0.0)
    assert [backoff.failed() for _ in range(3)] == [0.5, 1, 2]


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(lambda: 1.0)
    assert {backoff.failed() for _ in range(5000)} == {1, 2, 4, 8, 16, 32, 60}


def test_what_repeating_does_not_cure_waits_ten_minutes() -> None:
    assert 0.9 * PATIENT_S <= Backoff(lambda: 0.0).failed(patient=True) <= 1.1 * PATIENT_S == 660.0


def test_what_may_only_have_been_late_is_tried_again_soon_and_then_ever_more_rarely() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.failed(slow=True) for _ in range(7)] == [15, 30, 60, 120, 240, 480, 600]


def test_a_flapping_link_goes_on_waiting_longer_and_a_steady_one_starts_anew() -> None:
    backoff = Backoff(lambda: 1.0)
    for _ in range(4):
        backoff.failed(live_s=3.0)
    assert backoff.failed(live_s=59.0) == 16
    assert backoff.failed(live_s=60.0) == 1
    assert backoff.failed() == 2
    backoff.clear()
    assert backoff.failed() == 1
