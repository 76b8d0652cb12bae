"""The values of one metric in the order of comparable rows: what all that look for outliers among them share."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from stethoscope.analysis.peers import LARGE, LEAST_PEERS, Groups, by_group_and_value, median
from stethoscope.analysis.windows import FALSE, UNKNOWN

if TYPE_CHECKING:
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats

NORMAL = 1.4826
"""MAD times this is the standard deviation of normal noise."""
FEW_PEERS = 110.0
"""The MAD of n values is a poor measure where n is small: it is taken 1 + 110 / n^2 times, with which one group of
normal noise in a thousand has a row beyond a distance of 5, whether it has 6 members or 600."""
KIND_SHARE = 0.2
"""So many of a group that lie apart are another kind of row, not outliers."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Comparable rows, put in order once for many looks."""

    order: Groups
    """Rows of any group, those of one behind one another."""
    parts: Parts
    owners: Groups
    """The node of each row in `order`."""
    at: Groups | slice
    """The same as `order`; where that is all rows as they stand, nothing need be looked up one by one."""

    @classmethod
    def of(cls, groups: Groups, owners: Groups) -> Grouping:
        """Take the number of the group and of the node of each row, negative for none."""
        order = np.argsort(groups, kind="stable")
        order = order[np.searchsorted(groups[order], 0) :]
        as_it_is = _in_a_row(len(order))
        if len(order) == len(groups) and bool((order == as_it_is).all()):
            return cls(as_it_is, Parts.of(groups), owners, slice(len(order)))
        order = order.astype(np.int32)
        return cls(order, Parts.of(groups[order]), owners[order], order)


_SHARED: WeakValueDictionary[int, Groups] = WeakValueDictionary()


def _in_a_row(count: int) -> Groups:
    """Return the rows as they stand, the same array for all that look at so many: one for each group took 3 MiB of a
    large fleet."""
    rows = _SHARED.get(count)
    if rows is None:
        rows = _SHARED[count] = np.arange(count, dtype=np.int32)
        rows.flags.writeable = False
    return rows


class Lineup:
    """The values of one metric, put in order by the groups of their rows: for all that look at the same ones."""

    def __init__(self, values: Floats, grouping: Grouping) -> None:
        """`values` has NaN where there is none."""
        self.grouping = grouping
        order, parts = grouping.order, grouping.parts
        self.within = within = values[grouping.at]
        """By place in `order`, NaN for none."""
        self.is_there = is_there = np.isfinite(within)
        self.is_whole = bool(is_there.all())
        known = parts.counts
        if not self.is_whole:
            self.within = within = np.where(is_there, within, np.nan)
            known = np.add.reduceat(is_there.astype(np.int64), parts.starts)
        self.enough: Flags = (known >= LEAST_PEERS)[: len(order)]
        """Of which groups enough values are known, and ..."""
        starts = parts.starts if len(order) else parts.starts[:0]
        self.lowest, self.highest = np.fmin.reduceat(within, starts), np.fmax.reduceat(within, starts)
        """... their ends."""
        self.nearest = nearest(self.lowest, self.highest)
        self.verdicts = np.full(len(values), np.int8(UNKNOWN))
        """Of rows that are not far from anything."""
        if self.is_whole and self.enough.all():
            self.verdicts[grouping.at] = FALSE
        else:
            self.verdicts[order[is_there & parts.spread(self.enough)]] = FALSE
        self._ranked: Runs | None = None
        self._large: Large | None = None

    @property
    def ranked(self) -> Runs:
        """Return all rows that have a value, by group and by value within each."""
        if self._ranked is None:
            self._ranked = self._runs(np.flatnonzero(self.is_there))
        return self._ranked

    def of(self, groups: Flags) -> Runs:
        """Return the same of some groups."""
        if groups.all():
            return self.ranked
        asked = self.grouping.parts.spread(groups) & self.is_there
        if self._ranked is None and 2 * np.count_nonzero(asked) < len(asked):
            return self._runs(np.flatnonzero(asked))
        ranked = self.ranked
        return self._in_order(ranked.places[asked[ranked.places]])

    @property
    def large(self) -> Large | None:
        """Return what can be said of all groups without putting them in order; None where they are too small for that,
        or in order anyway."""
        parts = self.grouping.parts
        if (
            self._large is None
            and self._ranked is None
            and self.is_whole
            and len(self.within) >= LARGE * len(parts.starts)
        ):
            self._large = Large(self.within, parts)
        return self._large

    def _runs(self, places: Groups) -> Runs:
        return self._in_order(places[by_group_and_value(self.within[places], self._numbers(places))])

    def _in_order(self, places: Groups) -> Runs:
        return Runs(places, self.within[places], Parts.of(self._numbers(places)), self.grouping.owners[places])

    def _numbers(self, places: Groups) -> Groups:
        parts = self.grouping.parts
        return np.repeat(np.arange(len(parts.starts)), parts.counts)[places]


class Large:
    """Groups of so many rows each that to put them in order takes most of the time of a look at them."""

    def __init__(self, values: Floats, parts: Parts) -> None:
        """All of `values` are known, those of a group behind one another."""
        self._values, self._parts = values, parts
        found = []
        for start, count in zip(parts.starts.tolist(), parts.counts.tolist(), strict=True):
            least = max(ceil(count * KIND_SHARE), LEAST_PEERS)
            low, high = (count - 1) // 2, count // 2
            # What is smaller than two kinds cannot be divided.
            at = (least - 1, low, high, count - least) if 2 * least <= count else (low, low, high, low)
            found.append(np.partition(values[start : start + count], at)[list(at)])
        lower, low, high, upper = np.array(found).T
        self.medians: Floats = (low + high) / 2
        self.ends = lower, upper
        """Within these a group can be divided."""
        self._deviations: Floats | None = None
        self._scales: Floats | None = None

    @property
    def deviations(self) -> Floats:
        """Return how far each row is from the median of its group."""
        if self._deviations is None:
            self._deviations = self._values - self._parts.spread(self.medians)
        return self._deviations

    @property
    def scales(self) -> Floats:
        """Return the robust scale of each group."""
        if self._scales is None:
            sizes, parts = np.abs(self.deviations), self._parts
            ends = zip(parts.starts.tolist(), (parts.starts + parts.counts).tolist(), strict=True)
            self._scales = parts.robust(np.array([median(sizes[start:end]) for start, end in ends]))
        return self._scales


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows that have a value, by group and by value within each."""

    places: Groups
    """Where they stand in the order of the grouping."""
    values: Floats
    parts: Parts
    owners: Groups


def nearest(lower: Floats, upper: Floats) -> Floats:
    """Return how near to zero what lies between two values can be."""
    return np.where(lower * upper > 0, np.minimum(np.abs(lower), np.abs(upper)), 0.0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Runs of rows that belong together."""

    starts: Groups
    counts: Groups

    @classmethod
    def of(cls, groups: Groups) -> Parts:
        """Return the runs of equal numbers."""
        return cls.at(np.append(0, np.flatnonzero(np.diff(groups)) + 1), len(groups))

    @classmethod
    def at(cls, starts: Groups, rows: int) -> Parts:
        """Return the runs that begin at `starts`."""
        return cls(starts, np.diff(np.append(starts, rows)))

    def spread(self, array: np.ndarray) -> np.ndarray:
        """Return an array by run as one by row."""
        return np.repeat(array, self.counts)

    def medians(self, ordered: Floats) -> Floats:
        """Return the median of each run of ordered values."""
        low = ordered[self.starts + (self.counts - 1) // 2]
        return np.asarray((low + ordered[self.starts + self.counts // 2]) / 2)

    def scales(self, ordered: Floats, medians: Floats, *, plain: bool = False) -> Floats:
        """Return the robust scale of each run of ordered values around its median, larger where it has few rows unless
        it is wanted `plain`."""
        low, high = self._sizes(ordered, medians)
        mads = (low + high) / 2
        return NORMAL * mads if plain else self.robust(mads)

    def robust(self, mads: Floats) -> Floats:
        """Return the scale of each run, larger where it has few rows, from its median distance from the median."""
        return np.asarray(NORMAL * mads * (1 + FEW_PEERS / self.counts**2))

    def _sizes(self, ordered: Floats, medians: Floats) -> tuple[Floats, Floats]:
        """Return the middle one, or two, of the distances from its median of each run. That needs no order of them: the
        nearest ones of ordered values stand side by side, and where they begin is found by halving."""
        starts, middles = np.concatenate((self.starts, self.starts)), np.concatenate((medians, medians))
        others = np.concatenate(((self.counts - 1) // 2, self.counts // 2))
        first, last = starts, np.concatenate((self.counts, self.counts)) + starts - 1 - others
        while (first < last).any():
            half = (first + last) // 2
            is_later = ordered[half + others] - middles < middles - ordered[half]
            first, last = np.where(is_later, np.minimum(half + 1, last), first), np.where(is_later, last, half)
        before = np.maximum(first - 1, starts)
        sizes = [np.maximum(middles - ordered[at], ordered[at + others] - middles) for at in (before, first)]
        low, high = np.minimum(*sizes).reshape(2, -1)
        return low, high
