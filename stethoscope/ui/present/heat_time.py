"""One metric of every node over the last minutes: which lines, which columns of time, and what stands in each cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.analysis.history import MOST_S, every_s
from stethoscope.model.metric import Scope
from stethoscope.ui.present.spans import HEAT_LEVELS, Level, width
from stethoscope.ui.present.trend_row import shown_scale, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stethoscope.analysis.history import Column, History
    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.grid import FleetGrid

    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

_STEPS_S = (5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0)
"""What a column can span."""
_LATE = 2.5
"""So many times the usual distance between two samples leaves a gap."""
_SCATTERS, _LEAST = 5.0, 0.05
"""So many median distances from the median, and this share of the scale, are usual."""
_NAME_LIMIT = 26
_BESIDE = 5
"""Cells of the sign before a name and of the blanks beside it, and one that stays free at the end."""
_ENOUGH, _MANY = 20_000, 64
"""Values that are enough to tell what is usual, and nodes to tell the colour of those that are alike."""
MORE = "\0more"
"""Key of the line that stands for all nodes that are alike; no node can have this name."""


class NodeSeries:
    """The worst value of each node in every sample of the history; only new samples are looked at."""

    def __init__(self) -> None:
        """Start without samples."""
        self._metric: Metric | None = None
        self._owner: Ints = np.empty(0, dtype=np.int64)
        self._kept: dict[float, tuple[Column, Floats]] = {}
        self.times: Floats = np.empty(0)
        self.values: Floats = np.empty((0, 0))
        """By sample and node, in the unit that is shown; NaN where there was none."""

    def update(self, history: History, assessment: Assessment, metric: Metric) -> None:
        """Take the samples that `history` has now."""
        nodes = len(assessment.snapshot.nodes)
        owner = assessment.owners[metric.scope][0] if metric.scope is not Scope.NODE else np.arange(nodes)
        if metric is not self._metric or not np.array_equal(owner, self._owner):
            self._kept.clear()
        self._metric, self._owner = metric, owner
        order = np.argsort(owner, kind="stable")
        order = order[np.searchsorted(owner[order], 0) :]
        of_node = owner[order]
        starts = np.flatnonzero(np.diff(of_node, prepend=-1))
        born = history.born(metric.scope)
        samples: dict[float, tuple[Column, Floats]] = {}
        for mono, column in history.columns(metric.scope, metric.id):
            kept = self._kept.get(mono)
            if kept is None or kept[0] is not column:
                kept = column, self._of_nodes(column, mono, born, order, of_node, starts)
            samples[mono] = kept
        self._kept = samples
        self.times = np.array(list(samples))
        self.values = np.array([values for _, values in samples.values()]).reshape(len(samples), nodes)

    def _of_nodes(self, column: Column, mono: float, born: Floats, order: Ints, of_node: Ints, starts: Ints) -> Floats:
        metric = self._metric
        assert metric is not None
        # Rows that came later had no value then, and what another device had in a row is not this one's.
        size = max(self._owner.size, born.size)
        whole = np.full(size, np.nan)
        whole[: column.size] = column[:size]
        whole[: born.size][born > mono] = np.nan
        values = np.full(int(self._owner.max(initial=-1)) + 1, np.nan)
        if starts.size:
            least = np.fmin if metric.worse == "low" else np.fmax
            values[of_node[starts]] = least.reduceat(whole[order], starts)
        return values * shown_scale(metric)


class HeatLine(NamedTuple):
    """One line: a node, or all that are alike."""

    key: str
    nodes: tuple[int, ...]


class HeatPicture(NamedTuple):
    """All that is drawn, until there is another sample or another choice."""

    lines: list[HeatLine]
    name: int
    """Cells of the names before the columns."""
    step_s: float
    """Seconds that a column spans."""
    first: int
    """The first column begins this many steps after the zero of the monotonic clock."""
    values: Floats
    """By line and column, in the unit that is shown: the worst in the column; the median of what is alike."""
    heats: Ints
    levels: Ints
    """MISSING where there was no value, WARNING and CRITICAL beyond the limits of the metric."""
    loud: Flags
    """Cells that are unlike most."""
    by_node: Floats
    """By column and node, in the order of the fleet."""

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        return int(self.values.shape[1])

    def column_of(self, mono: float) -> int:
        """Return the column of a moment, which can lie outside."""
        return math.floor(mono / self.step_s) - self.first


def name_width(grid: FleetGrid, cells: int) -> int:
    """Return the cells of the names before the columns."""
    longest = max((width(node.name) for node in grid.snapshot.nodes), default=4)
    return min(max(longest, 8), _NAME_LIMIT, max(8, cells // 4))


def picture_of(grid: FleetGrid, series: NodeSeries, cells: int, height: int, pinned: str | None) -> HeatPicture:
    """Return the picture of all nodes of `grid` in their order, `cells` wide; where they are more than `height`,
    those that are alike share a line, but for the one that is `pinned`."""
    assert grid.assessment is not None
    assessment, metric = grid.assessment, grid.metric
    nodes = grid.snapshot.nodes
    name = name_width(grid, cells)
    step_s, first, by_node = _columns(series, metric, len(nodes), max(1, cells - name - _BESIDE))
    order = [node for _, members in grid.sections() for node in members]
    low, high = grid.scale.low, grid.scale.high
    missing = np.isnan(by_node)
    known = by_node[~missing]
    # What is usual only decides how loud a cell is: some of very many values tell it well enough.
    known = known[:: max(1, known.size // _ENOUGH)]
    middle = float(np.median(known)) if known.size else 0.0
    scatter = float(np.median(np.abs(known - middle))) if known.size else 0.0
    far = max(_SCATTERS * scatter, _LEAST * (high - low))
    with np.errstate(invalid="ignore"):
        away = np.abs(by_node - middle) > far
    gaps = missing & (missing.mean(axis=1, keepdims=True) < 0.5)
    unlike = away.any(axis=0) | gaps.any(axis=0) | (assessment.nodes > Level.MISSING)
    lines = _lines(order, unlike, [node.name for node in nodes], grid.view.fold, height, pinned)
    values = np.full((len(lines), by_node.shape[0]), np.nan)
    loud = np.zeros(values.shape, dtype=np.bool_)
    for place, line in enumerate(lines):
        if len(line.nodes) == 1:
            values[place], loud[place] = by_node[:, line.nodes[0]], away[:, line.nodes[0]]
        else:
            some = line.nodes[:: max(1, len(line.nodes) // _MANY)]
            values[place] = [median(column) for column in by_node[:, list(some)]]
    share = (np.nan_to_num(values, nan=low) - low) / (high - low)
    heats = np.clip((share * HEAT_LEVELS).astype(np.int64), 0, HEAT_LEVELS - 1)
    return HeatPicture(lines, name, step_s, first, values, heats, _levels(values, metric), loud, by_node)


def _columns(series: NodeSeries, metric: Metric, nodes: int, room: int) -> tuple[float, int, Floats]:
    """Return the step of the columns, the number of the first one, and the values by column and node."""
    least_s = every_s(nodes)
    fits = [step for step in _STEPS_S if step >= least_s and MOST_S / step + 1 <= room]
    step_s = fits[0] if fits else _STEPS_S[-1]
    if not series.times.size:
        return step_s, 0, np.full((0, nodes), np.nan)
    at = np.floor(series.times / step_s).astype(np.int64)
    first = max(int(at[0]), int(at[-1]) - room + 1)
    columns = np.full((int(at[-1]) - first + 1, nodes), np.nan)
    usual_s = float(np.median(np.diff(series.times))) if series.times.size > 1 else least_s
    late_s = _LATE * max(usual_s, least_s)
    before = -1
    for sample, place in enumerate((at - first).tolist()):
        if place < 0:
            continue
        if before >= 0 and series.times[sample] - series.times[sample - 1] <= late_s:
            # A column between two samples that came in time shows the earlier one, and is no gap.
            columns[before + 1 : place] = columns[before]
        columns[place] = worst(metric, np.stack((columns[place], series.values[sample])), 0)
        before = place
    return step_s, first, columns


def _lines(
    order: Sequence[int], unlike: Flags, names: Sequence[str], fold: str, height: int, pinned: str | None
) -> list[HeatLine]:
    if fold == "none" or (fold == "fill" and len(order) <= height):
        return [HeatLine(names[node], (node,)) for node in order]
    alike = [node for node in order if not unlike[node] and names[node] != pinned]
    if fold == "fill":
        alike = alike[max(0, height - 1 - (len(order) - len(alike))) :]
    away = set(alike) if len(alike) > 1 else set()
    lines = [HeatLine(names[node], (node,)) for node in order if node not in away]
    return [*lines, HeatLine(MORE, tuple(alike))] if away else lines


def median(values: Floats) -> float:
    """Return the median of the values that there are, NaN without one."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else math.nan


def _levels(values: Floats, metric: Metric) -> Ints:
    levels = np.where(np.isnan(values), int(Level.MISSING), int(Level.NORMAL))
    for limit, level in ((metric.warn, Level.WARNING), (metric.critical, Level.CRITICAL)):
        if limit is not None and metric.worse in ("high", "low"):
            with np.errstate(invalid="ignore"):
                levels[values >= limit if metric.worse == "high" else values <= limit] = level
    return levels


def worst_row(grid: FleetGrid, history: History, node: int, mono: float, step_s: float) -> tuple[int, float] | None:
    """Return which device of a node was worst in the column that begins at `mono`, and its value as it is in tables;
    None where none had one."""
    metric = grid.metric
    found: tuple[int, float] | None = None
    for position, row in enumerate(grid.snapshot.rows(grid.snapshot.nodes[node], metric.scope)):
        ages, values = history.series(metric.scope, metric.id, row)
        last = history.last_mono
        if last is None:
            continue
        times = last - ages
        for value in values[(times >= mono) & (times < mono + step_s)]:
            sign = -1.0 if metric.worse == "low" else 1.0
            if not np.isnan(value) and (found is None or sign * value > sign * found[1]):
                found = position, float(f"{value:.7g}")
    return found
