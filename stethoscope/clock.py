"""The only place that asks the machine for the time; everything else gets a clock or a `now`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for people and records, monotonic time for ages and rates."""

    def wall(self) -> float:
        """Return seconds since 1970-01-01T00:00:00Z."""

    def monotonic(self) -> float:
        """Return seconds that never go back; the zero means nothing."""


class SystemClock:
    """The clocks of this machine."""

    def wall(self) -> float:
        """Return seconds since 1970-01-01T00:00:00Z."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of the system's monotonic clock."""
        return time.monotonic()


class FixedClock:
    """A clock that moves only when told to: for tests, replays and pictures."""

    def __init__(self, wall: float = 1_773_454_447.0) -> None:
        """Start at `wall` seconds since 1970 (default 2026-03-14T02:14:07Z), monotonic 0."""
        self._start = wall
        self._elapsed_s = 0.0

    def wall(self) -> float:
        """Return the set time, in seconds since 1970."""
        return self._start + self._elapsed_s

    def monotonic(self) -> float:
        """Return the seconds that were added so far."""
        return self._elapsed_s

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds`."""
        self._elapsed_s += seconds


class ReplayClock:
    """The clocks of a recording: they stand where the replay has set them."""

    def __init__(self) -> None:
        """Stand at zero."""
        self._wall = self._mono = 0.0

    def wall(self) -> float:
        """Return the recorder's wall time, in seconds since 1970."""
        return self._wall

    def monotonic(self) -> float:
        """Return the seconds since the start of the recording; they go back when the replay does."""
        return self._mono

    def set(self, wall: float, mono: float) -> None:
        """Stand at this moment."""
        self._wall, self._mono = wall, mono


def iso(wall: float) -> str:
    """Return `wall` (seconds since 1970) as `2026-03-14T02:14:07Z`."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_iso(text: str) -> float | None:
    """Return the seconds since 1970 that `iso` wrote, None for a text that is no time."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def hms(wall: float) -> str:
    """Return the UTC time of day of `wall` (seconds since 1970) as `02:14:07`."""
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S")


def duration(seconds: float) -> str:
    """Return a span as people say it: `3 s`, `41 s`, `5 m`, `2 h`, `3 d`; tenths below ten seconds."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 5_970:
        return f"{seconds / 60:.0f} m"
    if seconds < 170_000:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"
