"""Spans of time."""

from __future__ import annotations

import pytest

from stethoscope.specs.duration import duration_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("4m30s", 270), ("500ms", 0.5), ("1.5", 1.5), (20, 20), ("1d", 86400)],
)
def test_a_duration_is_its_seconds(value: object, seconds: float) -> None:
    assert duration_s(value) == seconds


@pytest.mark.parametrize("value", ["", "m", "1 m", "-5s", "5x", "1:30", True, None, "1e3", "5m-", [1]])
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30s, 5m or 1h30m"):
        duration_s(value)
