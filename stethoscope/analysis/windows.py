"""What rules remember of the past, one column per row: how long something has been true, and samples over time."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.alike import filled, is_equal, settled, shorter
from stethoscope.model.grid import is_uniform

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
    if is_uniform(array) and (array[0] == empty or (array[0] != array[0] and empty != empty)):
        return np.broadcast_to(array[:1], (size,))
    if not array.flags.writeable and (array.shape[-1] != size or changed.any()):
        array = array.copy()
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
        self._true_since: Floats = np.empty(0)
        """NaN where it is not true."""
        self._false_at: Floats = np.empty(0)
        """Of rows that are not false: when they were last, -inf for never, and for what is not asked."""
        self._last: Verdicts = np.empty(0, np.int8)
        self._last_mono = -np.inf
        self._is_idle = False
        """Whether the last verdicts were told as they came, and nothing is remembered that time would change."""
        self._is_counting = False
        """Whether it is known of all that were true last since when."""
        self._told: Verdicts = np.empty(0, np.int8)
        """What was returned last, where that was not what came."""

    @property
    def nbytes(self) -> int:
        """Return the memory of what is remembered."""
        return sum(array.nbytes for array in (self._true_since, self._false_at) if not is_uniform(array))

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        self._true_since = settled(fitted(self._true_since, changed, np.nan))
        self._false_at = settled(fitted(self._false_at, changed, -np.inf))
        self._last = fitted(self._last, changed, UNKNOWN)  # type: ignore[assignment]
        self._is_idle = self._is_counting = False

    def forget(self) -> None:
        """Start counting again: samples were missed."""
        self._true_since = filled(self._true_since.size, np.nan, np.float64)
        self._is_counting = False

    def update(self, verdicts: Verdicts, mono: float) -> Verdicts:
        """Take the verdicts of this moment (seconds of the monotonic clock) and return those about the window."""
        last, last_mono = self._last, self._last_mono
        self._last, self._last_mono = verdicts, mono
        if self._is_idle and verdicts is last:
            return verdicts
        self._is_idle = True
        if is_uniform(verdicts) and verdicts[0] == FALSE:
            self._true_since = filled(verdicts.size, np.nan, np.float64)
            self._false_at = filled(verdicts.size, -np.inf, np.float64)
            return verdicts
        whole = verdicts
        if all(is_uniform(array) for array in (verdicts, last, self._true_since, self._false_at)):
            # What all rows say, and said, is worked out for one.
            verdicts, last = verdicts[:1], last[:1]
            self._true_since, self._false_at = self._true_since[:1], self._false_at[:1]
        result = self._updated(verdicts, last, mono, last_mono)
        if verdicts is not whole:
            self._true_since = np.broadcast_to(self._true_since, whole.shape)
            self._false_at = np.broadcast_to(self._false_at, whole.shape)
        return whole if result is verdicts else self._told_again(settled(np.broadcast_to(result, whole.shape)))

    def _updated(self, verdicts: Verdicts, last: Verdicts, mono: float, last_mono: float) -> Verdicts:
        is_same = verdicts is last or is_equal(verdicts, last)
        false, false_at = verdicts == FALSE, self._false_at
        if not is_same:
            ended = (last == FALSE) & ~false
            if ended.any():
                false_at = np.where(ended, last_mono, false_at)
            if not _is_nothing(false_at):
                false_at = settled(np.where(false, -np.inf, false_at))
            self._false_at = false_at
        was_false = not _is_nothing(false_at)
        true = verdicts == TRUE
        any_true = bool(true.any())
        if any_true and not (is_same and self._is_counting):
            since = np.where(np.isnan(self._true_since), mono, self._true_since)
            self._true_since = settled(np.where(true, since, np.nan))
        elif not any_true and not _is_nothing(self._true_since):
            self._true_since = filled(verdicts.size, np.nan, np.float64)
        self._is_counting = any_true
        if not any_true and not was_false:
            # What is not false never was, or not within anybody's memory.
            return verdicts
        self._is_idle = False
        if was_false:
            false = false | (mono - false_at < self.window_s)
        result = np.where(false, np.int8(FALSE), np.int8(UNKNOWN))
        if any_true:
            # Since when is known of rows alone that are true.
            result[mono - self._true_since >= self.window_s - 1e-6] = TRUE
        return result

    def _told_again(self, result: Verdicts) -> Verdicts:
        """Return the array of last time where this one says the same: what was made of it stands then."""
        if not is_equal(result, self._told):
            self._told = result
        return self._told


def _is_nothing(times: Floats) -> bool:
    """Tell whether no row has a time, without a look at each."""
    return (times.size == 1 or is_uniform(times)) and not np.isfinite(times[0])


class Ring:
    """Samples of one metric in slots of time, as many as the longest window over it needs.

    `keep` is what a slot holds of its samples: their first, min, max or last.
    """

    def __init__(self, keep: str, slot_s: float = SLOT_S, *, is_short: bool = False) -> None:
        """Start with no slot; `need` says how far back it must reach. When it `is_short`, samples have seven digits."""
        self._keep = keep
        self.slot_s = slot_s
        self._slots = 0
        self._dtype = np.dtype(np.float32 if is_short else np.float64)
        self._blank: Floats = np.empty(0, self._dtype)
        self._data: list[Floats] = []
        """By place: what the slot holds, the same array as that of another slot where it says the same."""
        self._at: Floats = np.empty(0)
        self._newest = -1
        self._numbers: list[int] = []
        """Of the slots that have samples, the oldest first; and ..."""
        self._times: list[float] = []
        """... when these came."""

    def need(self, window_s: float) -> None:
        """Reach back at least `window_s` seconds."""
        slots = int(np.ceil(window_s / self.slot_s)) + 2
        if slots > self._slots:
            self._slots = slots
            self._data = [self._blank] * slots
            self._at = np.full(slots, np.nan)
            self._newest = -1
            self._numbers, self._times = [], []

    @property
    def nbytes(self) -> int:
        """Return the memory of the samples."""
        return sum(array.nbytes for array in {id(one): one for one in self._data}.values() if not is_uniform(array))

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        self._blank = filled(len(changed), np.nan, self._dtype)
        # Arrays that slots share are shared behind that too.
        fit = {id(one): settled(fitted(one, changed, np.nan)) for one in self._data}
        self._data = [fit[id(one)] for one in self._data]

    def forget(self) -> None:
        """Drop every sample."""
        self._data = [self._blank] * self._slots
        self._at[:] = np.nan
        self._newest = -1
        self._numbers, self._times = [], []

    def as_kept(self, values: Floats) -> Floats:
        """Return `values` with the digits that a sample of them has: what did not change is equal."""
        return values.astype(self._dtype, copy=False).astype(np.float64, copy=False)

    def has(self, mono: float) -> bool:
        """Tell whether the slot of this moment has samples."""
        return self._newest == int(mono // self.slot_s) and not np.isnan(self._at[self._newest % self._slots])

    def put(self, values: Floats, mono: float) -> None:
        """Take the values of this moment, NaN for none; nobody changes them any more."""
        slot = int(mono // self.slot_s)
        before = self._blank
        if slot != self._newest:
            before = self._data[self._newest % self._slots] if self._newest >= 0 else before
            first = max(self._newest + 1, slot - self._slots + 1)
            for skipped in range(first, slot + 1):
                self._data[skipped % self._slots] = self._blank
                self._at[skipped % self._slots] = np.nan
            self._newest = slot
            self._numbers.append(slot)
            self._times.append(mono)
            gone = bisect_left(self._numbers, slot - self._slots + 1)
            del self._numbers[:gone], self._times[:gone]
        place = slot % self._slots
        kept = self._data[place]
        if np.isnan(self._at[place]) or self._keep != "first":
            self._at[place] = self._times[-1] = mono
        now = values if values.dtype == self._dtype else settled(values.astype(self._dtype))
        if now is kept:
            return
        if not is_uniform(kept) or not np.isnan(kept[0]):
            now = self._joined(kept, now)
        if is_equal(before, now):
            self._data[place] = before
            return
        self._data[place] = settled(now)
        if before is not self._blank:
            self._shorten(before)

    def _shorten(self, former: Floats) -> None:
        """Keep in less memory what nobody else has any more, as a rule: it is no longer of now."""
        short = shorter(former)
        if short is not former:
            self._data = [short if one is former else one for one in self._data]

    def _joined(self, kept: Floats, now: Floats) -> Floats:
        if self._keep == "min":
            return np.fmin(kept, now)
        if self._keep == "max":
            return np.fmax(kept, now)
        first, second = (kept, now) if self._keep == "first" else (now, kept)
        missing = np.isnan(first)
        return np.where(missing, second, first) if missing.any() else first

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
        return self._data[slot % self._slots].astype(np.float64, copy=False)

    def slots(self, window_s: float, mono: float) -> list[tuple[int, float]]:
        """Return the slots with samples of the last `window_s` seconds and their times, the oldest first."""
        first = bisect_left(self._times, mono - window_s - 1e-6)
        return list(zip(self._numbers[first:], self._times[first:], strict=True))

    def still(self, now: Floats, window_s: float, mono: float) -> tuple[Floats, float] | None:
        """Return the oldest samples of the window and their age in seconds where `now` says the same as they do in
        every row; None where any row moved, or there is nothing older."""
        for number in range(bisect_left(self._times, mono - window_s - 1e-6), len(self._times)):
            kept = self._data[self._numbers[number] % self._slots]
            if not (is_uniform(kept) and np.isnan(kept[0])):
                age_s = mono - self._times[number]
                asked = now.astype(self._dtype, copy=False)
                is_still = age_s > 0 and is_equal(kept.astype(asked.dtype, copy=False), asked)
                return (kept, age_s) if is_still else None
        return None

    def _window(self, window_s: float, mono: float) -> list[tuple[int, float]]:
        """Return the places of the slots with samples of the last `window_s` seconds and their times, the oldest
        first."""
        return [(slot % self._slots, at) for slot, at in self.slots(window_s, mono)]

    def oldest(self, window_s: float, mono: float) -> tuple[Floats, Floats]:
        """Return the oldest value of each row within the window, and the age of it in seconds; NaN where none is."""
        rows = self._blank.size
        values = filled(rows, np.nan, np.float64)
        ages, before, rest = values, self._blank, None
        for place, at in self._window(window_s, mono):
            now, age_s = self._data[place], mono - at
            if now is before:
                continue
            before = now
            if rest is None:
                # Nothing was found yet: all of it is of this slot.
                if is_uniform(now):
                    if np.isnan(now[0]):
                        continue
                    return now.astype(np.float64)[:1].repeat(rows), np.full(rows, age_s)
                values = now.astype(np.float64)
                missing = np.isnan(values)
                ages = np.where(missing, np.nan, age_s)
                rest = np.flatnonzero(missing)
            else:
                found = now[rest]
                known = ~np.isnan(found)
                values[rest[known]], ages[rest[known]] = found[known], age_s
                rest = rest[~known]
            if not rest.size:
                break
        return (values, ages) if rest is not None else (values.copy(), ages.copy())

    def over(self, window_s: float, mono: float) -> tuple[Floats, Floats]:
        """Return min, max or mean (what the ring was made for) of each row over the window, and the age in seconds of
        the oldest sample."""
        samples = [self._data[place] for place, _ in self._window(window_s, mono)]
        _, ages = self.oldest(window_s, mono)
        if self._keep == "last":
            sums, counts = np.zeros((2, self._blank.size))
            for one in samples:
                found = ~np.isnan(one)
                counts += found
                sums += np.where(found, one, 0.0)
            return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0), ages
        least: Floats = self._blank.astype(np.float64)
        for one in {id(one): one for one in samples}.values():
            (np.fmin if self._keep == "min" else np.fmax)(least, one, out=least)
        return least, ages
