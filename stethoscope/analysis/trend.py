"""Straight lines through the samples of a window, for all rows at once and slot by slot: slope and standard
deviation."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.windows import fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.samples import Samples
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Scope

LEAST_SAMPLES = 3
REACH = 0.75
"""Samples must reach back over this share of the window, so that a gap at its edge does not matter."""
_REBUILD_SLOTS = 2048
"""After so many slots the sums are made anew: what rounding adds to them never counts."""
_N, _T, _TT, _V, _VV, _TV = range(6)
"""Rows of the sums: how many samples, their times, squares of times, values, squares of values, and products."""


class Trend:
    """Sums over the slots of one window, kept as slots come and go."""

    def __init__(self, samples: Samples, window_s: float, scope: Scope) -> None:
        """Read the slots of `samples`, which keeps the last value of each and takes its moments first."""
        samples.ring.need(window_s)
        self._ring = samples.ring
        self._window_s = window_s
        self._scope = scope
        self._sums = np.zeros((6, 0))
        self._origin: Floats = np.empty(0)
        """First value of each row: sums are of what lies above it, so that large values keep their digits."""
        self._slots: deque[tuple[int, float]] = deque()
        """Slots that are in the sums, with their times."""
        self._base = 0.0
        self._added = 0
        self._newest = -1

    @property
    def nbytes(self) -> int:
        """Return the memory of the sums."""
        return int(self._sums.nbytes + self._origin.nbytes)

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        self._sums = fitted(self._sums, changed[self._scope], 0.0)  # type: ignore[assignment]
        self._origin = fitted(self._origin, changed[self._scope], np.nan)  # type: ignore[assignment]

    def forget(self, *, samples: bool) -> None:
        """Drop the sums when the samples are dropped."""
        if samples:
            self._clear()

    def _clear(self) -> None:
        self._sums[:] = 0.0
        self._origin[:] = np.nan
        self._slots.clear()
        self._added = 0

    def take(self, moment: Moment) -> None:
        """Add the slots that have ended, and drop those that have left the window."""
        newest = self._ring.newest
        if newest != self._newest:
            if newest > self._newest + 1 or self._added > _REBUILD_SLOTS:
                self._clear()
                self._base = moment.mono
                for slot, at in self._ring.slots(self._window_s, moment.mono):
                    if slot < newest:
                        self._add(slot, at)
            else:
                ended = self._ring.at(self._newest)
                if ended is not None:
                    self._add(self._newest, ended)
            self._newest = newest
        while self._slots and self._slots[0][1] < moment.mono - self._window_s - 1e-6:
            slot, at = self._slots.popleft()
            self._sums -= self._terms(self._ring.values(slot), at)

    def _add(self, slot: int, at: float) -> None:
        values = self._ring.values(slot)
        np.copyto(self._origin, values, where=np.isnan(self._origin))
        self._sums += self._terms(values, at)
        self._slots.append((slot, at))
        self._added += 1

    def _terms(self, values: Floats, at: float) -> Floats:
        """Return what one slot adds to the sums; nothing where it has no value."""
        terms = np.empty_like(self._sums)
        time = at - self._base
        np.subtract(values, self._origin, out=terms[_V])
        known = ~np.isnan(terms[_V])
        terms[_V][~known] = 0.0
        terms[_N] = known
        np.multiply(terms[_N], time, out=terms[_T])
        np.multiply(terms[_T], time, out=terms[_TT])
        np.multiply(terms[_V], terms[_V], out=terms[_VV])
        np.multiply(terms[_V], time, out=terms[_TV])
        return terms

    def _now(self) -> Floats:
        """Return the sums with the slot that has not ended yet."""
        at = self._ring.at(self._newest)
        if at is None:
            return self._sums
        values = self._ring.values(self._newest)
        np.copyto(self._origin, values, where=np.isnan(self._origin))
        return np.asarray(self._sums + self._terms(values, at))

    def _enough(self, sums: Floats, mono: float) -> Flags:
        """Return which rows have samples enough, far enough back."""
        reaches = np.zeros(sums.shape[1], dtype=bool)
        for slot, at in self._ring.slots(self._window_s, mono):
            if mono - at < REACH * self._window_s - 1e-6:
                break
            reaches |= ~np.isnan(self._ring.values(slot))
        return np.asarray(reaches & (sums[_N] >= LEAST_SAMPLES))

    def slope(self, mono: float) -> Floats:
        """Return the slope of the straight line through the samples of each row, in units per second; NaN where there
        are too few."""
        sums = self._now()
        count, time, value = sums[_N], sums[_T], sums[_V]
        spread = count * sums[_TT] - time * time
        known = self._enough(sums, mono) & (spread > 0)
        slope = np.full(len(count), np.nan)
        np.divide(count * sums[_TV] - time * value, spread, out=slope, where=known)
        return slope

    def stddev(self, mono: float) -> Floats:
        """Return the standard deviation of the samples of each row from their mean; NaN where there are too few."""
        sums = self._now()
        count = sums[_N]
        deviation = np.full(len(count), np.nan)
        np.divide(sums[_VV] * count - sums[_V] ** 2, count**2, out=deviation, where=self._enough(sums, mono))
        # What is constant has a variance of 0 but for rounding.
        return np.asarray(np.sqrt(np.maximum(deviation, 0.0)))
