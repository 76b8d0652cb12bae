"""Comparison with peers: the median of each group of rows, for all groups at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from stethoscope.model.fleet import Floats

LEAST_PEERS = 4
"""A group with fewer values than this says nothing about what is normal."""
LARGE = 1024
"""From so many rows a group on its median is had for much less than the order of all of them."""

Groups = npt.NDArray[Any]
"""Whole numbers, of 32 or 64 bits."""


def group_medians(values: Floats, groups: Groups, least: int = LEAST_PEERS) -> Floats:
    """Return for each row the median of its group's values, NaN where the group has fewer than `least` of them.

    `values` has NaN where there is none; `groups` are numbers from 0, negative for rows of no group.
    """
    present = ~np.isnan(values) & (groups >= 0)
    medians = np.full(len(values), np.nan)
    if not present.any():
        return medians
    kept_values, kept_groups = values[present], groups[present]
    counts = np.bincount(kept_groups, minlength=int(groups.max()) + 1)
    known = np.flatnonzero(counts >= least)
    by_group = np.full(len(counts), np.nan)
    if kept_values.min() == kept_values.max():
        by_group[known] = kept_values[0]
    elif len(known) and LARGE * len(known) <= len(kept_values):
        alone = len(kept_values) == counts[known[0]]
        for number in known.tolist():
            by_group[number] = median(kept_values if alone else kept_values[kept_groups == number])
    elif len(known):
        order = by_group_and_value(kept_values, kept_groups)
        ordered = kept_values[order]
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        low = ordered[starts[known] + (counts[known] - 1) // 2]
        high = ordered[starts[known] + counts[known] // 2]
        by_group[known] = (low + high) / 2
    medians[groups >= 0] = by_group[groups[groups >= 0]]
    return medians


def median(values: Floats) -> float:
    """Return the middle one of values that are all known, the mean of two where their number is even."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    parted = np.partition(values, (low, high))
    return float((parted[low] + parted[high]) / 2)


def by_group_and_value(values: Floats, groups: Groups) -> Groups:
    """Return the order of the rows by group, and by value within each."""
    order = np.argsort(values)
    if not len(groups) or groups.min() == groups.max():
        return order
    within = groups[order]
    # Sixteen bits are sorted by their digits.
    short = within.astype(np.int16) if within.max() < 2**15 else within
    return order[np.argsort(short, kind="stable")]
