"""Robust outliers among comparable rows, for all groups at once: who is far from its own kind, and never half of them.

The distance of a row is (value - median) / scale of its population, the scale being 1.4826 x MAD with a floor. A group
of two kinds that lie far apart is judged within each kind, and what lies between them is not judged. What nobody can
tell is UNKNOWN: few peers, or so many odd ones that they may be the ordinary ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import filled
from stethoscope.analysis.peers import LARGE, LEAST_PEERS, Groups, by_group_and_value, median
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Verdicts

if TYPE_CHECKING:
    from stethoscope.model.fleet import Floats

NORMAL = 1.4826
"""MAD times this is the standard deviation of normal noise."""
FEW_PEERS = 110.0
"""The MAD of n values is a poor measure where n is small: it is taken 1 + 110 / n^2 times, with which one group of
normal noise in a thousand has a row beyond a distance of 5, whether it has 6 members or 600."""
MOST_ODD = 0.25
"""Where more of a group are far away than this share, nobody can say who is odd."""
KIND_SHARE = 0.2
"""So many of a group that lie apart are another kind of row, not outliers."""
KIND_GAP = 4.0
"""Two kinds lie apart by this many of their scales."""
SPLITS = 2
"""How often a group is divided: into four kinds at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a row is far away: `distance` scales, and a share of the median or an amount at least."""

    distance: float
    share: float = 0.0
    amount: float = 0.0
    resolution: float = 0.0
    """Smallest scale: a step of what the tool can show."""
    low: bool = True
    """Rows below their peers count; `high`: rows above."""
    high: bool = True


@dataclass(frozen=True, slots=True)
class Outliers:
    """Verdict by row, and what each was compared with."""

    verdicts: Verdicts
    medians: Floats
    """Median of the row's kind, NaN where too few are known."""
    distances: Floats
    """In scales, negative below; NaN where it was not needed."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Comparable rows, put in order once for many looks."""

    order: Groups
    """Rows of any group, those of one behind one another."""
    parts: _Parts
    owners: Groups
    """The node of each row in `order`."""
    at: Groups | slice
    """The same as `order`; where that is all rows as they stand, nothing need be looked up one by one."""

    @classmethod
    def of(cls, groups: Groups, owners: Groups) -> Grouping:
        """Take the number of the group and of the node of each row, negative for none."""
        order = np.argsort(groups, kind="stable")
        order = order[np.searchsorted(groups[order], 0) :]
        is_as_it_is = len(order) == len(groups) and bool((order == np.arange(len(order))).all())
        order = order.astype(np.int32)
        return cls(order, _Parts.of(groups[order]), owners[order], slice(len(order)) if is_as_it_is else order)


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
        # Where not even the ends are far from each other nobody is far from the middle.
        apart = self.lowest * self.highest > 0
        self.nearest: Floats = np.where(apart, np.minimum(np.abs(self.lowest), np.abs(self.highest)), 0.0)
        self.verdicts = np.full(len(values), np.int8(UNKNOWN))
        """Of rows that are not far from anything."""
        if self.is_whole and self.enough.all():
            self.verdicts[grouping.at] = FALSE
        else:
            self.verdicts[order[is_there & parts.spread(self.enough)]] = FALSE
        self._ranked: Runs | None = None
        self._middles: Floats | None = None

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

    def middles(self) -> Floats | None:
        """Return the median of each group where that takes no order; None where it does, or that is known anyway."""
        starts, counts = self.grouping.parts.starts, self.grouping.parts.counts
        if self._middles is None and self._ranked is None and self.is_whole and len(self.within) >= LARGE * len(starts):
            ends = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
            self._middles = np.array([median(self.within[start:end]) for start, end in ends])
        return self._middles

    def _runs(self, places: Groups) -> Runs:
        return self._in_order(places[by_group_and_value(self.within[places], self._numbers(places))])

    def _in_order(self, places: Groups) -> Runs:
        return Runs(places, self.within[places], _Parts.of(self._numbers(places)), self.grouping.owners[places])

    def _numbers(self, places: Groups) -> Groups:
        parts = self.grouping.parts
        return np.repeat(np.arange(len(parts.starts)), parts.counts)[places]


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows that have a value, by group and by value within each."""

    places: Groups
    """Where they stand in the order of the grouping."""
    values: Floats
    parts: _Parts
    owners: Groups


def outliers(lineup: Lineup, limits: Limits) -> Outliers:
    """Return which rows are far from their group."""
    verdicts = lineup.verdicts.copy()
    nothing = filled(len(verdicts), np.nan, np.float64)
    grouping = lineup.grouping
    wide = lineup.enough & (lineup.highest - lineup.lowest >= _limit(lineup.nearest, limits))
    wide &= lineup.highest > lineup.lowest
    if not wide.any():
        return Outliers(verdicts, nothing, nothing)
    medians = np.full(len(verdicts), np.nan)
    middles = lineup.middles()
    if middles is not None and not _any_far(middles[wide], lineup.lowest[wide], lineup.highest[wide], limits):
        medians[grouping.at] = grouping.parts.spread(np.where(wide, middles, np.nan))
        return Outliers(verdicts, medians, nothing)
    runs = lineup.of(wide)
    rows = grouping.order[runs.places]
    distances = np.full(len(verdicts), np.nan)
    verdicts[rows], medians[rows], distances[rows] = _judge(runs.values, runs.parts, runs.owners, limits)
    return Outliers(verdicts, medians, distances)


def _any_far(middles: Floats, lowest: Floats, highest: Floats, limits: Limits) -> bool:
    """Tell whether the end of any group is far from its middle."""
    return bool((np.maximum(middles - lowest, highest - middles) >= _limit(middles, limits)).any())


def _judge(ordered: Floats, parts: _Parts, owners: Groups, limits: Limits) -> tuple[Verdicts, Floats, Floats]:
    """Return verdicts, medians and distances of rows in the order of their groups and values."""
    verdicts = np.full(len(ordered), np.int8(FALSE))
    middles = parts.medians(ordered)
    if not _any_far(middles, ordered[parts.starts], ordered[parts.starts + parts.counts - 1], limits):
        return verdicts, parts.spread(middles), np.full(len(ordered), np.nan)
    kinds = parts
    for _ in range(SPLITS):
        divided = _split(ordered, kinds, parts, owners, limits)
        if divided is kinds:
            break
        kinds = divided
    middles = kinds.medians(ordered)
    medians = kinds.spread(middles)
    deviations = ordered - medians
    scales = kinds.spread(np.maximum(kinds.scales(ordered, middles), _limit(middles, limits) / limits.distance))
    # No noise and no floor: what differs at all is infinitely far away.
    if scales.all():
        distances = deviations / scales
    else:
        far = np.where(deviations == 0, 0.0, np.copysign(np.inf, deviations))
        distances = np.divide(deviations, scales, out=far, where=scales > 0)
    below, above = distances <= -limits.distance, distances >= limits.distance
    if kinds is not parts:
        # Between two kinds nobody can tell.
        is_first = np.zeros(len(kinds.starts), dtype=bool)
        is_first[np.searchsorted(kinds.starts, parts.starts)] = True
        lowest, highest = kinds.spread(is_first), kinds.spread(np.append(is_first[1:], True))
        verdicts[(below & ~lowest) | (above & ~highest)] = UNKNOWN
        below &= lowest
        above &= highest
    odd = below | above
    if limits.low:
        verdicts[below] = TRUE
    if limits.high:
        verdicts[above] = TRUE
    share = np.add.reduceat(odd.astype(np.float64), parts.starts) / parts.counts
    if (share > MOST_ODD).any():
        verdicts[odd & parts.spread(share > MOST_ODD)] = UNKNOWN
    return verdicts, medians, distances


def _limit(medians: Floats, limits: Limits) -> Floats:
    """Return how far from its median a row must be at least."""
    least = max(limits.amount, limits.resolution * limits.distance)
    return np.maximum(np.abs(medians) * limits.share, least)


def _split(ordered: Floats, kinds: _Parts, parts: _Parts, owners: Groups, limits: Limits) -> _Parts:
    """Divide every kind at its widest inner gap where that lies between two kinds of rows."""
    ends = kinds.starts + kinds.counts
    place = np.arange(len(ordered)) - kinds.spread(kinds.starts)
    left, right = place + 1, kinds.spread(kinds.counts) - place - 1
    least = np.maximum(kinds.spread(_of(parts, kinds)) * KIND_SHARE, LEAST_PEERS)
    gaps = np.append(np.diff(ordered), 0.0)
    gaps[(left < least) | (right < least)] = 0.0
    widest = np.maximum.reduceat(gaps, kinds.starts)
    wide = widest > 0
    if not wide.any():
        return kinds
    at = np.flatnonzero((gaps == kinds.spread(widest)) & kinds.spread(wide))
    # One gap a kind, the first of equal ones.
    at = at[np.unique(kinds.spread(np.arange(len(kinds.starts)))[at], return_index=True)[1]] + 1
    whole = np.searchsorted(kinds.starts, at, side="right") - 1
    least_gap = _limit(ordered[at - 1], limits)
    if not (widest[whole] >= least_gap).any():
        return kinds
    divided = _Parts.at(np.sort(np.concatenate((kinds.starts, at))), len(ordered))
    scales = np.maximum(divided.scales(ordered, divided.medians(ordered), plain=True), limits.resolution)
    several = np.minimum.reduceat(owners, divided.starts) != np.maximum.reduceat(owners, divided.starts)
    first = np.searchsorted(divided.starts, at) - 1
    needed = np.maximum(KIND_GAP * np.maximum(scales[first], scales[first + 1]), least_gap)
    good = (widest[whole] >= needed) & (ends[whole] > at)
    # What one node alone does, among several that do not, is no kind of its own.
    one_node = good & ~(several[first] & several[first + 1])
    if one_node.any():
        good &= ~(one_node & _has_many_owners(owners, kinds)[whole])
    if not good.any():
        return kinds
    return _Parts.at(np.sort(np.concatenate((kinds.starts, at[good]))), len(ordered))


def _of(parts: _Parts, kinds: _Parts) -> Groups:
    """Return the number of rows of the group of each kind."""
    counts: Groups = parts.counts[np.searchsorted(parts.starts, kinds.starts, side="right") - 1]
    return counts


def _has_many_owners(owners: Groups, kinds: _Parts) -> Flags:
    """Tell of which kinds the rows lie on four nodes or more."""
    numbers = kinds.spread(np.arange(len(kinds.starts)))
    sorted_owners = owners[np.lexsort((owners, numbers))]
    new = np.append(True, sorted_owners[1:] != sorted_owners[:-1])
    new[kinds.starts] = True
    return np.asarray(np.add.reduceat(new.astype(np.int64), kinds.starts) >= LEAST_PEERS)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Runs of rows that belong together."""

    starts: Groups
    counts: Groups

    @classmethod
    def of(cls, groups: Groups) -> _Parts:
        """Return the runs of equal numbers."""
        return cls.at(np.append(0, np.flatnonzero(np.diff(groups)) + 1), len(groups))

    @classmethod
    def at(cls, starts: Groups, rows: int) -> _Parts:
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
        low, high = self._nearest(ordered, medians)
        mads = (low + high) / 2
        return np.asarray(NORMAL * mads * (1.0 if plain else 1 + FEW_PEERS / self.counts**2))

    def _nearest(self, ordered: Floats, medians: Floats) -> tuple[Floats, Floats]:
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
