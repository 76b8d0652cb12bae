"""Moments in options."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from stethoscope.specs.moment import moment_of

NEWEST = datetime.fromisoformat("2026-03-14T02:14:07Z").timestamp()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("02:14", "2026-03-14T02:14:00Z"),
        ("2:14:07", "2026-03-14T02:14:07Z"),
        ("02:15", "2026-03-13T02:15:00Z"),
        ("23:00", "2026-03-13T23:00:00Z"),
        ("2h", "2026-03-14T00:14:07Z"),
        ("1h30m", "2026-03-14T00:44:07Z"),
        ("2026-03-14", "2026-03-14T00:00:00Z"),
        ("2026-03-14T01:00", "2026-03-14T01:00:00Z"),
        ("2026-03-14 01:00:05", "2026-03-14T01:00:05Z"),
        ("2026-03-14T01:00:05Z", "2026-03-14T01:00:05Z"),
        ("2026-03-14T01:00:05+02:00", "2026-03-13T23:00:05Z"),
    ],
)
def test_moments(text: str, meant: str) -> None:
    assert moment_of(text, NEWEST) == datetime.fromisoformat(meant).timestamp()


def test_what_names_no_zone_is_of_the_one_asked_for() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert moment_of("03:00", NEWEST, berlin) == datetime.fromisoformat("2026-03-14T02:00:00Z").timestamp()
    assert moment_of("2026-07-01", NEWEST, berlin) == datetime.fromisoformat("2026-06-30T22:00:00Z").timestamp()


@pytest.mark.parametrize("text", ["", "now", "25:00", "02:60", "2026-13-01", "2026-02-30", "02:14 yesterday", "-5m"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        moment_of(text, NEWEST)
