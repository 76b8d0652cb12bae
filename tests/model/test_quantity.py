"""Units as people say them."""

from __future__ import annotations

import pytest

from stethoscope.model.quantity import as_said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (120 / 3600, "/s", (120.0, "/h")),
        (0.1, "/s", (0.1, "/s")),
        (0, "/s", (0, "/s")),
        (1, "events", (1, "event")),
        (2, "events", (2, "events")),
        (1, "MHz", (1, "MHz")),
        (88, "C", (88, "°C")),
        (15, "code", (15, "")),
        (850, "KB/s", (850, "KB/s")),
        (36_000, "KB/s", (36.0, "MB/s")),
        (4_043_553, "KB/s", (4.043553, "GB/s")),
    ],
)
def test_units_are_said_as_people_say_them(value: float, unit: str, said: tuple[float, str]) -> None:
    assert as_said(value, unit) == (pytest.approx(said[0]), said[1])
