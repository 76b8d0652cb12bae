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
from stethoscope.analysis.lineup import KIND_SHARE, Lineup, Parts, nearest
from stethoscope.analysis.peers import LEAST_PEERS, Groups
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Verdicts

if TYPE_CHECKING:
    from stethoscope.analysis.lineup import Large
    from stethoscope.model.fleet import Floats

MOST_ODD = 0.25
"""Where more of a group are far away than this share, nobody can say who is odd."""
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


def outliers(lineup: Lineup, limits: Limits) -> Outliers:
    """Return which rows are far from their group."""
    verdicts = lineup.verdicts.copy()
    nothing = filled(len(verdicts), np.nan, np.float64)
    grouping = lineup.grouping
    # Where not even the ends are far from each other nobody is far from the middle.
    wide = lineup.enough & (lineup.highest - lineup.lowest >= _limit(lineup.nearest, limits))
    wide &= lineup.highest > lineup.lowest
    if not wide.any():
        return Outliers(verdicts, nothing, nothing)
    medians = np.full(len(verdicts), np.nan)
    large = lineup.large
    if large is not None and not _any_far(large.medians[wide], lineup.lowest[wide], lineup.highest[wide], limits):
        medians[grouping.at] = grouping.parts.spread(np.where(wide, large.medians, np.nan))
        return Outliers(verdicts, medians, nothing)
    distances = np.full(len(verdicts), np.nan)
    if large is not None and wide.all() and not _may_divide(large, limits):
        parts = grouping.parts
        medians[grouping.at] = parts.spread(large.medians)
        verdicts[grouping.at], distances[grouping.at] = _far(
            large.deviations, large.medians, large.scales, (parts, parts), limits
        )
        return Outliers(verdicts, medians, distances)
    runs = lineup.of(wide)
    rows = grouping.order[runs.places]
    verdicts[rows], medians[rows], distances[rows] = _judge(runs.values, runs.parts, runs.owners, limits)
    return Outliers(verdicts, medians, distances)


def _any_far(middles: Floats, lowest: Floats, highest: Floats, limits: Limits) -> bool:
    """Tell whether the end of any group is far from its middle."""
    return bool((np.maximum(middles - lowest, highest - middles) >= _limit(middles, limits)).any())


def _may_divide(large: Large, limits: Limits) -> bool:
    """Tell whether any group may have a gap that is wide enough, and far enough inside."""
    lower, upper = large.ends
    return bool((upper - lower >= _limit(nearest(lower, upper), limits)).any())


def _judge(ordered: Floats, parts: Parts, owners: Groups, limits: Limits) -> tuple[Verdicts, Floats, Floats]:
    """Return verdicts, medians and distances of rows in the order of their groups and values."""
    middles = parts.medians(ordered)
    if not _any_far(middles, ordered[parts.starts], ordered[parts.starts + parts.counts - 1], limits):
        return np.full(len(ordered), np.int8(FALSE)), parts.spread(middles), np.full(len(ordered), np.nan)
    kinds = parts
    for _ in range(SPLITS):
        divided = _split(ordered, kinds, parts, owners, limits)
        if divided is kinds:
            break
        kinds = divided
    middles = kinds.medians(ordered)
    medians = kinds.spread(middles)
    verdicts, distances = _far(ordered - medians, middles, kinds.scales(ordered, middles), (kinds, parts), limits)
    return verdicts, medians, distances


def _far(
    deviations: Floats, middles: Floats, scales: Floats, of: tuple[Parts, Parts], limits: Limits
) -> tuple[Verdicts, Floats]:
    """Return verdicts and distances of rows that stand by kinds, which groups are divided into (`of` has both), from
    the median and the scale of each kind. Where a group has several, its rows are in the order of their values."""
    kinds, parts = of
    verdicts = np.full(len(deviations), np.int8(FALSE))
    scales = kinds.spread(np.maximum(scales, _limit(middles, limits) / limits.distance))
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
    return verdicts, distances


def _limit(medians: Floats, limits: Limits) -> Floats:
    """Return how far from its median a row must be at least."""
    least = max(limits.amount, limits.resolution * limits.distance)
    return np.maximum(np.abs(medians) * limits.share, least)


def _split(ordered: Floats, kinds: Parts, parts: Parts, owners: Groups, limits: Limits) -> Parts:
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
    divided = Parts.at(np.sort(np.concatenate((kinds.starts, at))), len(ordered))
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
    return Parts.at(np.sort(np.concatenate((kinds.starts, at[good]))), len(ordered))


def _of(parts: Parts, kinds: Parts) -> Groups:
    """Return the number of rows of the group of each kind."""
    counts: Groups = parts.counts[np.searchsorted(parts.starts, kinds.starts, side="right") - 1]
    return counts


def _has_many_owners(owners: Groups, kinds: Parts) -> Flags:
    """Tell of which kinds the rows lie on four nodes or more."""
    numbers = kinds.spread(np.arange(len(kinds.starts)))
    sorted_owners = owners[np.lexsort((owners, numbers))]
    new = np.append(True, sorted_owners[1:] != sorted_owners[:-1])
    new[kinds.starts] = True
    return np.asarray(np.add.reduceat(new.astype(np.int64), kinds.starts) >= LEAST_PEERS)
