"""What many nodes have in common: the median of the chosen metric, where most are near it, and the worst level of every
cell, for all the lines that stand for several nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Reason, Scope
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment

    Buckets = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

_MOST = (2, 3)
"""The share of values that makes most."""


@dataclass(frozen=True, slots=True)
class Summary:
    """By line and position in the inventory."""

    medians: Floats
    """Of the chosen metric; NaN where no node has a value. It says something only where they do not `differ`."""
    differ: npt.NDArray[np.bool_]
    """Where fewer than two thirds of the values are near the median: between two halves lies a number that no device
    has."""
    lows: Floats
    highs: Floats
    levels: dict[Scope, npt.NDArray[np.int16]]
    """Worst level of the devices, -1 where there is none."""


def summarise(
    assessment: Assessment, metric: Metric, values: Floats, near: float, buckets: dict[Scope, Buckets], lines: int
) -> Summary:
    """Return the summary of `lines` lines: `buckets` has for each row of a scope's table the line that it belongs to,
    -1 for none; `values` are those of `metric` by row, NaN without one; values not more than `near` apart are alike."""
    fresh = np.array(assessment.ages, dtype=np.int16)
    current = fresh == Level.NORMAL
    levels: dict[Scope, npt.NDArray[np.int16]] = {}
    medians, lows, highs = (np.full((lines, 1), np.nan) for _ in range(3))
    differ = np.zeros((lines, 1), dtype=np.bool_)
    for scope in (Scope.NODE, Scope.GPU, Scope.PORT):
        bucket = buckets[scope]
        owner, position = assessment.owners.get(scope, (np.arange(bucket.size), np.zeros(bucket.size, dtype=np.int64)))
        known = (bucket >= 0) & (owner >= 0)
        wide = int(position[known].max()) + 1 if known.any() else 1
        worst = np.full((lines, wide), -1, dtype=np.int16)
        # What is not there now says nothing of the cells of those that are; where no node is, its age is all there is.
        for here, level in ((known & current[owner], assessment.rows[scope]), (known & ~current[owner], fresh[owner])):
            rows = np.flatnonzero(here)
            rows = rows[worst[bucket[rows], position[rows]] < 0]
            np.maximum.at(worst, (bucket[rows], position[rows]), level[rows])
        levels[scope] = worst
        if scope is metric.scope:
            rows = np.flatnonzero(known & ~np.isnan(values) & current[owner])
            medians, lows, highs = (np.full((lines, wide), np.nan) for _ in range(3))
            differ = np.zeros((lines, wide), dtype=np.bool_)
            if rows.size:
                where, *found = _spread(bucket[rows] * wide + position[rows], values[rows], near)
                for kept, new in zip((medians, lows, highs, differ), found, strict=True):
                    kept.reshape(-1)[where] = new
    return Summary(medians, differ, lows, highs, levels)


def _spread(
    keys: Buckets, values: Floats, near: float
) -> tuple[Buckets, Floats, Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the keys that there are; of the values of each the median, the lowest, the highest, and whether few are
    near the median."""
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(np.append(starts, keys.size))
    middle = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    alike = np.add.reduceat(np.abs(values - np.repeat(middle, counts)) <= near, starts, dtype=np.int64)
    return keys[starts], middle, values[starts], values[starts + counts - 1], alike * _MOST[1] < counts * _MOST[0]


def values_of(assessment: Assessment, metric: Metric) -> Floats:
    """Return the values of a metric by row of its table, NaN where there is none."""
    table = assessment.snapshot.tables[metric.scope]
    column = table.index[metric.id]
    return np.where(table.reasons[column] == Reason.PRESENT, table.values[column], np.nan)
