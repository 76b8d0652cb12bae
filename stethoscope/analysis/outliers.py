"""Robust outliers among comparable rows, for all groups at once: who is far from its own kind, and never half of them.

The distance of a row is (value - median) / scale of its population, the scale being 1.4826 x MAD with a floor. A group
of two kinds that lie far apart is judged within each kind, and what lies between them is not judged. What nobody can
tell is UNKNOWN: few peers, or so many odd ones that they may be the ordinary ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.peers import LEAST_PEERS, Groups, by_group_and_value
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

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

    @classmethod
    def of(cls, groups: Groups, owners: Groups) -> Grouping:
        """Take the number of the group and of the node of each row, negative for none."""
        order = np.argsort(groups, kind="stable")
        order = order[np.searchsorted(groups[order], 0) :]
        return cls(order.astype(np.int32), _Parts.of(groups[order]), owners[order])


def ranked(values: Floats, grouping: Grouping) -> Groups:
    """Return the places in `grouping.order` of the rows that have a value, by group and by value within each."""
    within = values[grouping.order]
    at = np.flatnonzero(np.isfinite(within))
    numbers = np.repeat(np.arange(len(grouping.parts.starts)), grouping.parts.counts)[at]
    return at[by_group_and_value(within[at], numbers)] if len(at) else at


def outliers(values: Floats, grouping: Grouping, limits: Limits, rank: Callable[[], Groups] | None = None) -> Outliers:
    """Return which rows are far from their group. `values` has NaN where there is none; `rank` gives what `ranked`
    gives, where others look at the same values."""
    verdicts = np.full(len(values), np.int8(UNKNOWN))
    medians, distances = np.full((2, len(values)), np.nan)
    order, parts = grouping.order, grouping.parts
    if not len(order):
        return Outliers(verdicts, medians, distances)
    within = values[order]
    present = np.isfinite(within)
    if present.all():
        enough = parts.counts >= LEAST_PEERS
    else:
        within[~present] = np.nan
        enough = np.add.reduceat(present.astype(np.int64), parts.starts) >= LEAST_PEERS
    verdicts[order[present & parts.spread(enough)]] = FALSE
    lowest, highest = np.fmin.reduceat(within, parts.starts), np.fmax.reduceat(within, parts.starts)
    # Where not even the ends are far from each other nobody is far from the middle.
    nearest = np.where(lowest * highest > 0, np.minimum(np.abs(lowest), np.abs(highest)), 0.0)
    wide = enough & (highest - lowest >= _limit(nearest, limits)) & (highest > lowest)
    is_looked_at = parts.spread(wide) & present
    looked = np.flatnonzero(is_looked_at)
    if len(looked):
        if rank is not None and 2 * len(looked) > len(order):
            every = rank()
            looked = every if len(looked) == len(every) else every[is_looked_at[every]]
        else:
            numbers = np.repeat(np.arange(len(parts.starts)), parts.counts)[looked]
            looked = looked[by_group_and_value(within[looked], numbers)]
        numbers = np.repeat(np.arange(len(parts.starts)), parts.counts)[looked]
        rows = order[looked]
        verdicts[rows], medians[rows], distances[rows] = _judge(
            within[looked], _Parts.of(numbers), grouping.owners[looked], limits
        )
    return Outliers(verdicts, medians, distances)


def _judge(ordered: Floats, parts: _Parts, owners: Groups, limits: Limits) -> tuple[Verdicts, Floats, Floats]:
    """Return verdicts, medians and distances of rows in the order of their groups and values."""
    middle = parts.spread(parts.medians(ordered))
    if not (np.abs(ordered - middle) >= _limit(middle, limits)).any():
        return np.full(len(ordered), np.int8(FALSE)), middle, np.full(len(ordered), np.nan)
    kinds = parts
    for _ in range(SPLITS):
        divided = _split(ordered, kinds, parts, owners, limits)
        if divided is kinds:
            break
        kinds = divided
    medians = kinds.spread(kinds.medians(ordered))
    deviations = ordered - medians
    scales = np.maximum(kinds.spread(kinds.scales(deviations)), _limit(medians, limits) / limits.distance)
    # No noise and no floor: what differs at all is infinitely far away.
    distances = np.divide(
        deviations, scales, out=np.where(deviations == 0, 0.0, np.copysign(np.inf, deviations)), where=scales > 0
    )
    below, above = distances <= -limits.distance, distances >= limits.distance
    verdicts = np.full(len(ordered), np.int8(FALSE))
    # Between two kinds nobody can tell.
    lowest = kinds.spread(np.isin(kinds.starts, parts.starts))
    highest = kinds.spread(np.isin(kinds.starts + kinds.counts, parts.starts + parts.counts))
    verdicts[(below & ~lowest) | (above & ~highest)] = UNKNOWN
    odd = (below & lowest) | (above & highest)
    asked = (below & lowest & limits.low) | (above & highest & limits.high)
    verdicts[asked] = TRUE
    share = parts.spread(np.add.reduceat(odd.astype(np.float64), parts.starts) / parts.counts)
    verdicts[odd & (share > MOST_ODD)] = UNKNOWN
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
    divided = _Parts.at(np.sort(np.concatenate((kinds.starts, at))), len(ordered))
    deviations = ordered - divided.spread(divided.medians(ordered))
    scales = np.maximum(divided.scales(deviations, plain=True), limits.resolution)
    several = np.minimum.reduceat(owners, divided.starts) != np.maximum.reduceat(owners, divided.starts)
    first = np.searchsorted(divided.starts, at) - 1
    needed = np.maximum(KIND_GAP * np.maximum(scales[first], scales[first + 1]), _limit(ordered[at - 1], limits))
    # What one node alone does, among several that do not, is no kind of its own.
    whole = np.searchsorted(kinds.starts, at, side="right") - 1
    good = (widest[whole] >= needed) & (ends[whole] > at)
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

    def scales(self, deviations: Floats, *, plain: bool = False) -> Floats:
        """Return the robust scale of each run, larger where it has few rows unless it is wanted `plain`."""
        sizes = np.abs(deviations)
        mads = self.medians(sizes[by_group_and_value(sizes, self.spread(np.arange(len(self.starts))))])
        return np.asarray(NORMAL * mads * (1.0 if plain else 1 + FEW_PEERS / self.counts**2))
