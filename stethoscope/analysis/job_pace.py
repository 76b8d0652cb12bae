"""The pace of a job against its own healthy past: how fast it usually is, by how much it is slower now, and since when.

Slow steps do not enter the past, so that a slow-down which lasts does not become usual; warm-up, and steps with a
checkpoint or an evaluation before them, are left out on both sides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.analysis.job_entries import Entry

LEAST, KEPT = 5, 200
"""Healthy steps that make a past, and how many of the last ones are kept."""
SLOW = 0.9
"""A step below this share of the usual speed is a slow one."""
RECENT = 3
"""Steps at least whose median is the pace of now: one slow step is no change ..."""
RECENT_S, MOST_RECENT = 60.0, 50
"""... and all of the last minute, up to so many."""
_AGAIN = 0.92
"""From this share on a slow job is as fast as usual again."""
_RUN = 0.6
"""Share of slow steps from the first one of a slow-down on."""

_SURE = 30.0
"""So many times the noise, squared, are the steps whose median is asked: where steps swing, more than a few."""

Key = tuple[str, float]


class _Past:
    """The last healthy speeds, and their median."""

    def __init__(self) -> None:
        self.order: deque[float] = deque()
        self.sorted: list[float] = []

    def add(self, speed: float) -> None:
        self.order.append(speed)
        insort(self.sorted, speed)
        if len(self.order) > KEPT:
            del self.sorted[bisect_left(self.sorted, self.order.popleft())]

    @property
    def median(self) -> float | None:
        count = len(self.sorted)
        if count < LEAST:
            return None
        return (self.sorted[(count - 1) // 2] + self.sorted[count // 2]) / 2

    @property
    def spread(self) -> float:
        """Return by how much faster than usual one of six steps is: the noise of the job, as a share."""
        usual = self.median
        return self.sorted[int(0.84 * (len(self.sorted) - 1))] / usual - 1.0 if usual else 0.0

    def copy(self) -> _Past:
        made = _Past()
        made.order, made.sorted = self.order.copy(), self.sorted.copy()
        return made


class Pace:
    """Walks through entries in their order."""

    def __init__(self) -> None:
        """Know no past."""
        self._pasts: dict[Key, _Past] = {}
        self._key: Key | None = None
        self._ratios: deque[tuple[float, float | None]] = deque(maxlen=MOST_RECENT)
        """Speed over the usual one, and when, of the last steps."""
        self._now: float | None = None
        self._is_slow = False
        self._slow_at: float | None = None

    def copy(self) -> Pace:
        """Return one that goes on from here by itself."""
        made = Pace()
        made._pasts = {key: past.copy() for key, past in self._pasts.items()}
        made._key, made._ratios = self._key, self._ratios.copy()
        made._now, made._is_slow, made._slow_at = self._now, self._is_slow, self._slow_at
        return made

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        key, speed = speed_of(entry)
        if entry.is_apart or speed is None:
            return
        if key != self._key:
            # Another batch, or another number that is printed: what was before compares with nothing of now.
            self._key = key
            self._ratios.clear()
            self._now, self._is_slow, self._slow_at = None, False, None
        past = self._pasts.setdefault(key, _Past())
        usual = past.median
        if usual is None:
            past.add(speed)
            return
        ratio = speed / usual
        self._ratios.append((ratio, entry.at))
        if ratio >= SLOW:
            past.add(speed)
        least = max(RECENT, min(MOST_RECENT, ceil((_SURE * past.spread) ** 2)))
        recent = self._recent(least)
        self._now = median(recent) if len(recent) >= least else None
        if self._now is not None and self._now < SLOW and not self._is_slow:
            self._is_slow, self._slow_at = True, self._began()
        elif self._now is not None and self._now >= _AGAIN:
            self._is_slow, self._slow_at = False, None

    def _recent(self, least: int) -> list[float]:
        """Return the ratios of the last `least` steps, and of as many more as the last minute has."""
        last_at = self._ratios[-1][1]
        found: list[float] = []
        for ratio, at in reversed(self._ratios):
            is_late = at is not None and last_at is not None and last_at - at <= RECENT_S
            if len(found) >= least and not is_late:
                break
            found.append(ratio)
        return found

    def _began(self) -> float | None:
        """Return when the first slow step was from which on most are slow."""
        slow = [ratio < SLOW for ratio, _ in self._ratios]
        for at, is_slow in enumerate(slow):
            if is_slow and sum(slow[at:]) >= _RUN * (len(slow) - at):
                return self._ratios[at][1]
        return None

    @property
    def change(self) -> float | None:
        """Return by how much the pace of now is above the usual one: -0.33 is a third slower; None while too little is
        known."""
        return None if self._now is None else self._now - 1.0

    @property
    def slow_since(self) -> float | None:
        """Return the wall seconds of the first of the slow steps that go on now."""
        return self._slow_at if self._is_slow else None

    @property
    def usual(self) -> tuple[str, float] | None:
        """Return what is compared (samples, tokens or steps per second), and how much of it is usual."""
        past = self._pasts.get(self._key) if self._key is not None else None
        usual = past.median if past is not None else None
        return None if usual is None or self._key is None else (self._key[0], usual)


def speed_of(entry: Entry) -> tuple[Key, float | None]:
    """Return the speed of a step, and what it compares with: the same kind of speed at the same batch size."""
    batch = float(f"{entry.batch or 0:.2g}")
    if entry.samples_per_s is not None:
        return ("samples", batch), entry.samples_per_s
    if entry.tokens_per_s is not None:
        return ("tokens", batch), entry.tokens_per_s
    return ("steps", batch), None if entry.step_time_s is None else 1.0 / entry.step_time_s
