"""Rows that are far from their peers: values smoothed over some samples, groups left alone while they change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.alike import is_any, is_equal, settled
from stethoscope.analysis.lineup import Lineup
from stethoscope.analysis.occupation import Occupation
from stethoscope.analysis.outliers import Limits, outliers
from stethoscope.analysis.windows import FALSE, UNKNOWN, fitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.lineup import Grouping
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags, Verdicts
    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Metric, Scope
    from stethoscope.specs.condition_change import Changed
    from stethoscope.specs.condition_peers import Distant

SMOOTH_S = 15.0
"""Time constant of the smoothing: three samples of the fast tier."""
LEVEL_S = 120.0
"""Time constant with which a group's level follows slow drifts."""
MOVED = 0.1
"""A group whose mean moves by this share (or by what the rule takes for far) has changed its level."""
SETTLE_S = 45.0
"""A group whose level changed is not judged for so long: its rows do not change in the same second."""
GRACE_S = 180.0
"""A row that began to do something else is not judged for so long: jobs start and end rank by rank."""
RESOLUTION = {"MHz": 15.0, "C": 1.0, "%": 1.0, "W": 1.0, "MiB": 64.0, "KB/s": 1000.0, "ms": 1.0, "tasks": 1.0}
"""What one step of a tool, or the noise of reading, can come to, by unit."""


class Smoothed:
    """Values of one metric, smoothed, for every rule that compares it."""

    def __init__(self, metric: Metric) -> None:
        """Know nothing yet."""
        self._metric = metric
        self.values = np.zeros(0)
        self.is_still = False
        """Whether no row moved with the last moment: the array is the one of before then."""
        self._mono = -np.inf

    @property
    def nbytes(self) -> int:
        """Return the memory of the values."""
        return self.values.nbytes

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        self.values = fitted(self.values, changed[self._metric.scope], np.nan).astype(np.float64)

    def forget(self, *, samples: bool) -> None:
        """Begin again with the next value."""
        self.values = np.full(len(self.values), np.nan)

    def take(self, moment: Moment) -> None:
        """Move towards the values of the moment; a row without one begins again."""
        now = moment.values(self._metric.id)
        weight = 1 - np.exp(-max(moment.mono - self._mono, 0.0) / SMOOTH_S)
        self._mono = moment.mono
        moved = self.values + weight * (now - self.values)
        lacking = np.isnan(moved)
        if lacking.any():
            moved[lacking] = now[lacking]
        self.is_still = is_equal(moved, self.values)
        if not self.is_still:
            self.values = moved


class Levels:
    """The level of each group of a metric, and when it changed last."""

    def __init__(self, metric: Metric, of: str, smoothed: Smoothed, occupation: Occupation) -> None:
        """Follow the groups `of`."""
        self._scope, self._of, self._smoothed, self._occupation = metric.scope, of, smoothed, occupation
        self._amount = np.inf
        self._grouping: Grouping | None = None
        self._level = np.zeros(0)
        self._moved_at = np.zeros(0)
        self._mono = -np.inf

    @property
    def nbytes(self) -> int:
        """Return the memory of the levels."""
        return self._level.nbytes + self._moved_at.nbytes

    def need(self, amount: float) -> None:
        """Take for no change of level what is less than `amount`, or the least of several."""
        self._amount = min(self._amount, amount)

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        flags = changed[self._scope]
        self._level = fitted(self._by_row(self._level, np.nan, len(flags)), flags, np.nan).astype(np.float64)
        self._moved_at = fitted(self._by_row(self._moved_at, -np.inf, len(flags)), flags, -np.inf).astype(np.float64)
        self._grouping = None

    def forget(self, *, samples: bool) -> None:
        """Begin again with the next values."""
        self._level[:] = np.nan

    def take(self, moment: Moment) -> None:
        """Compare the mean of each group with its level of before."""
        grouping = self._occupation.grouping(moment, self._scope, self._of)
        rows = moment.rows(self._scope)
        if grouping is not self._grouping:
            # A group goes on from what the first of its rows had.
            first = grouping.order[grouping.parts.starts] if len(grouping.order) else grouping.order
            self._level = self._by_row(self._level, np.nan, rows)[first]
            self._moved_at = self._by_row(self._moved_at, -np.inf, rows)[first]
            self._grouping = grouping
        means = group_means(self._smoothed.values, grouping)
        moved = np.abs(means - self._level) > np.maximum(MOVED * np.abs(self._level), self._amount)
        self._moved_at[moved] = moment.mono
        weight = 1 - np.exp(-max(moment.mono - self._mono, 0.0) / LEVEL_S)
        self._mono = moment.mono
        followed = np.where(moved | np.isnan(self._level), means, self._level + weight * (means - self._level))
        self._level = np.where(np.isnan(means), self._level, followed)

    def unsettled(self, moment: Moment) -> Flags | None:
        """Return which rows' groups changed their level lately, None where none did."""
        moving = moment.mono - self._moved_at < SETTLE_S
        if self._grouping is None or not moving.any():
            return None
        return self._by_row(moving, False, moment.rows(self._scope))  # type: ignore[return-value]

    def _by_row(self, array: Any, none: float, rows: int) -> Floats:
        """Return an array by group as one by row, `none` for rows of no group."""
        grouping = self._grouping
        if grouping is None:
            return np.asarray(array)
        spread = np.full(max(rows, int(grouping.order.max(initial=-1)) + 1), none, dtype=array.dtype)
        if len(grouping.order):
            spread[grouping.at] = grouping.parts.spread(array)
        return spread


class Watched:
    """What a comparison with peers remembers; its parts are shared with others that need the same."""

    def __init__(self, smoothed: Smoothed, levels: Levels, occupation: Occupation) -> None:
        """Put together what three memories of the evaluator have."""
        self.smoothed, self.levels, self.occupation = smoothed, levels, occupation
        self.nbytes = 0

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Leave it to the parts."""

    def forget(self, *, samples: bool) -> None:
        """Leave it to the parts."""

    def take(self, moment: Moment) -> None:
        """Leave it to the parts."""


def distant_memory(leaf: Distant, evaluator: Evaluator) -> Watched:
    """Return what the comparison needs of the past: what rows do comes first, then values, then levels."""
    metric = evaluator.catalogue[leaf.metric]
    occupation = evaluator.shared(Occupation, Occupation)
    smoothed = evaluator.shared((Smoothed, metric.id), lambda: Smoothed(metric))
    assert isinstance(occupation, Occupation)
    assert isinstance(smoothed, Smoothed)
    of = peers_of(leaf)
    levels = evaluator.shared((Levels, metric.id, of), lambda: Levels(metric, of, smoothed, occupation))
    assert isinstance(levels, Levels)
    levels.need(leaf.amount)
    return Watched(smoothed, levels, occupation)


def distant(leaf: Distant, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which rows are far from their peers; nothing is known while a row or its group has just changed, and what
    does not work is not far from anything."""
    memory = evaluator.memory(leaf)
    assert isinstance(memory, Watched)
    metric = moment.catalogue[leaf.metric]
    owner = moment.layout.owner[metric.scope]
    values = memory.smoothed.values
    grouping = memory.occupation.grouping(moment, metric.scope, peers_of(leaf))
    young = memory.occupation.young(metric.scope, owner, moment.mono, GRACE_S)
    unsettled = memory.levels.unsettled(moment)
    idle = None if "role" in leaf.of.split("+") else memory.occupation.unoccupied(metric.scope, owner)

    def judge() -> tuple[Verdicts, Floats]:
        # Several rules compare the clock of GPUs, each with limits of its own.
        lineup = moment.once(("lineup", metric.id, peers_of(leaf)), partial(Lineup, values, grouping))
        found = outliers(lineup, _limits(leaf, metric))
        verdicts = found.verdicts
        for unknown in (young, unsettled):
            if unknown is not None:
                verdicts[unknown] = UNKNOWN
        if idle is not None and is_any(idle):
            np.copyto(verdicts, np.int8(FALSE), where=idle)
        return settled(verdicts), settled(found.medians)

    of = (values, grouping, young, unsettled, idle)
    # What moves with every look is not kept until the next one.
    is_still = memory.smoothed.is_still
    verdicts, medians = moment.recall.made((leaf, "distant"), of, judge) if is_still else judge()
    moment.keep_medians(leaf.metric, leaf.of, medians)
    return verdicts, values


def _limits(leaf: Distant, metric: Metric) -> Limits:
    return Limits(
        leaf.distance,
        leaf.share,
        leaf.amount,
        RESOLUTION.get(metric.shown_unit, 0.0) / leaf.distance,
        low=leaf.direction != "high",
        high=leaf.direction != "low",
    )


def peers_of(leaf: Distant | Changed) -> str:
    """Return the groups that `leaf` asks for: rows that work are never put together with idle ones."""
    return leaf.of if "role" in leaf.of.split("+") else f"{leaf.of}+role"


def group_means(values: Floats, grouping: Grouping) -> Floats:
    """Return the mean of each group, NaN where it has no value."""
    if not len(grouping.order):
        return np.empty(0)
    within = values[grouping.at]
    there = np.isfinite(within)
    if there.all():
        return np.asarray(np.add.reduceat(within, grouping.parts.starts) / grouping.parts.counts)
    sums = np.add.reduceat(np.where(there, within, 0.0), grouping.parts.starts)
    counts = np.add.reduceat(there.astype(np.float64), grouping.parts.starts)
    means: Floats = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def group_means_by_row(values: Floats, grouping: Grouping) -> Floats:
    """Return for each row the mean of its group, NaN where there is none."""
    means = np.full(len(values), np.nan)
    if len(grouping.order):
        means[grouping.at] = grouping.parts.spread(group_means(values, grouping))
    return means
