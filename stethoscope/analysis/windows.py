"""What rules remember of the past, one column per row: how long something has been true, and samples over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from stethoscope.model.fleet import Floats

Verdicts = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

FALSE, UNKNOWN, TRUE = 0, 1, 2
"""The three truth values; `all` is their minimum, `any` their maximum, `not` is 2 minus."""
SLOT_S = 5.0
"""Least time between two kept samples: a window of W seconds costs (W / 5 + 2) x 8 bytes per row of its metric, and of
one that is read every 30 s a sixth of that."""


def fitted(array: npt.NDArray[np.generic], changed: Flags, empty: float) -> npt.NDArray[np.generic]:
    """Return `array` with as many rows (its last axis) as `changed`, and `empty` where that is set."""
    size = len(changed)
    if array.shape[-1] != size:
        larger = np.full((*array.shape[:-1], size), empty, dtype=array.dtype)
        kept = min(size, array.shape[-1])
        larger[..., :kept] = array[..., :kept]
        array = larger
    if changed.any():
        array[..., changed] = empty
    return array


class Hold:
    """Remembers since when each row has been true, and when it was false last."""

    def __init__(self, window_s: float) -> None:
        """True means: true at every sample of the last `window_s` seconds."""
        self.window_s = window_s
        self._true_since = np.empty(0)
        self._false_at = np.empty(0)

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        self._true_since = fitted(self._true_since, changed, np.nan)  # type: ignore[assignment]
        self._false_at = fitted(self._false_at, changed, -np.inf)  # type: ignore[assignment]

    def forget(self) -> None:
        """Start counting again: samples were missed."""
        self._true_since[:] = np.nan

    def update(self, verdicts: Verdicts, mono: float) -> Verdicts:
        """Take the verdicts of this moment (seconds of the monotonic clock) and return those about the window."""
        true = verdicts == TRUE
        false = verdicts == FALSE
        started = np.isnan(self._true_since)
        self._true_since[true & started] = mono
        self._true_since[~true] = np.nan
        self._false_at[false] = mono
        held = true & (mono - self._true_since >= self.window_s - 1e-6)
        result = np.where(false | (mono - self._false_at < self.window_s), np.int8(FALSE), np.int8(UNKNOWN))
        result[held] = TRUE
        return result


class Ring:
    """Samples of one metric in slots of time, as many as the longest window over it needs.

    `keep` is what a slot holds of its samples: their first, min, max or last.
    """

    def __init__(self, keep: str, slot_s: float = SLOT_S, *, is_short: bool = False) -> None:
        """Start with no slot; `need` says how far back it must reach. When it `is_short`, samples have seven digits."""
        self._keep = keep
        self.slot_s = slot_s
        self._slots = 0
        self._data = np.empty((0, 0), np.float32 if is_short else np.float64)
        self._at: Floats = np.empty(0)
        self._newest = -1

    def need(self, window_s: float) -> None:
        """Reach back at least `window_s` seconds."""
        slots = int(np.ceil(window_s / self.slot_s)) + 2
        if slots > self._slots:
            kept = range(max(0, self._newest - self._slots + 1), self._newest + 1) if self._slots else range(0)
            data, at, before, self._slots = self._data, self._at, self._slots, slots
            self._data = np.full((slots, data.shape[1]), np.nan, data.dtype)
            self._at = np.full(slots, np.nan)
            for slot in kept:
                self._data[slot % slots], self._at[slot % slots] = data[slot % before], at[slot % before]

    @property
    def nbytes(self) -> int:
        """Return the memory of the samples."""
        return int(self._data.nbytes)

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        self._data = fitted(self._data, changed, np.nan)

    def forget(self) -> None:
        """Drop every sample."""
        self._data[:] = np.nan
        self._at[:] = np.nan
        self._newest = -1

    def as_kept(self, values: Floats) -> Floats:
        """Return `values` with the digits that a sample of them has: what did not change is equal."""
        return values.astype(self._data.dtype, copy=False).astype(np.float64, copy=False)

    def has(self, mono: float) -> bool:
        """Tell whether the slot of this moment has samples."""
        return self._newest == int(mono // self.slot_s) and not np.isnan(self._at[self._newest % self._slots])

    def put(self, values: Floats, mono: float) -> None:
        """Take the values of this moment, NaN for none."""
        slot = int(mono // self.slot_s)
        if slot != self._newest:
            first = max(self._newest + 1, slot - self._slots + 1)
            for skipped in range(first, slot + 1):
                self._data[skipped % self._slots] = np.nan
                self._at[skipped % self._slots] = np.nan
            self._newest = slot
        place = slot % self._slots
        kept = self._data[place]
        if np.isnan(self._at[place]) or self._keep != "first":
            self._at[place] = mono
        if self._keep == "min":
            np.fmin(kept, values, out=kept)
        elif self._keep == "max":
            np.fmax(kept, values, out=kept)
        elif self._keep == "first":
            np.copyto(kept, values, where=np.isnan(kept))
        else:
            np.copyto(kept, values, where=~np.isnan(values))

    @property
    def newest(self) -> int:
        """Return the number of the newest slot, -1 before the first."""
        return self._newest

    def at(self, slot: int) -> float | None:
        """Return when the samples of a slot came, None for a slot without any, or one that is no longer kept."""
        if not max(0, self._newest - self._slots + 1) <= slot <= self._newest:
            return None
        at = float(self._at[slot % self._slots])
        return None if np.isnan(at) else at

    def values(self, slot: int) -> Floats:
        """Return what a slot holds, NaN for none."""
        return np.asarray(self._data[slot % self._slots], np.float64)

    def slots(self, window_s: float, mono: float) -> list[tuple[int, float]]:
        """Return the slots with samples of the last `window_s` seconds and their times, the oldest first."""
        slots = range(max(0, self._newest - self._slots + 1), self._newest + 1)
        return [(slot, at) for slot in slots if (at := self.at(slot)) is not None and at >= mono - window_s - 1e-6]

    def _window(self, window_s: float, mono: float) -> list[int]:
        """Return the places of the slots with samples of the last `window_s` seconds, the oldest first."""
        return [slot % self._slots for slot, _ in self.slots(window_s, mono)]

    def oldest(self, window_s: float, mono: float) -> tuple[Floats, Floats]:
        """Return the oldest value of each row within the window, and the age of it in seconds; NaN where none is."""
        values = np.full(self._data.shape[1], np.nan)
        ages = np.full(self._data.shape[1], np.nan)
        for place in reversed(self._window(window_s, mono)):
            found = ~np.isnan(self._data[place])
            np.copyto(values, self._data[place], where=found)
            ages[found] = mono - self._at[place]
        return values, ages

    def over(self, window_s: float, mono: float) -> tuple[Floats, Floats]:
        """Return min, max or mean (what the ring was made for) of each row over the window, and the age in seconds of
        the oldest sample."""
        places = self._window(window_s, mono)
        samples = self._data[places]
        _, ages = self.oldest(window_s, mono)
        found = ~np.isnan(samples)
        if self._keep == "last":
            counts = found.sum(axis=0)
            sums = np.where(found, samples, 0.0).sum(axis=0)
            return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0), ages
        reduce = np.fmin if self._keep == "min" else np.fmax
        return reduce.reduce(samples, axis=0, initial=np.nan), ages
