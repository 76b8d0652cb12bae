"""The last minutes of the chosen metric for a row of the fleet screen: a line of small bars, on the metric's own scale
so that rows can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.history import MOST_S
from stethoscope.model.metric import Kind

if TYPE_CHECKING:
    from stethoscope.analysis.history import Column, History
    from stethoscope.model.fleet import FleetSnapshot, Floats, Node
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.heat import HeatScale
    from stethoscope.ui.present.spans import Glyphs

CELLS = 15
_SPANS_S = (180.0, 300.0, 600.0, MOST_S)
"""What a row of bars can span; the shortest in which all samples have room."""


def worst(metric: Metric, values: Floats, axis: int) -> Floats:
    """Return the worst along an axis: the lowest where low is bad, else the highest; NaN where there is none."""
    least: Floats = (np.fmin if metric.worse == "low" else np.fmax).reduce(values, axis=axis)
    return least


def shown_scale(metric: Metric) -> float:
    """Return by what values of a table, or of its history, are multiplied to be in the unit that is shown."""
    return metric.rate_scale if metric.kind is Kind.COUNTER else 1.0


class RowTrends:
    """The bars of rows, worked out when they are asked for and kept until there is another sample."""

    def __init__(self, glyphs: Glyphs) -> None:
        """Start without samples."""
        self._glyphs = glyphs
        self._history: History | None = None
        self._metric: Metric | None = None
        self._columns: list[tuple[float, Column]] = []
        self._times: Floats = np.empty(0)
        self._scale = (0.0, 1.0)
        self._state: tuple[object, ...] = ()
        self._bars: dict[str, str] = {}
        self.version = 0
        """Another one when bars may have changed."""

    def update(self, history: History, metric: Metric, scale: HeatScale) -> None:
        """Look at `history`; nothing is done while it has no other sample."""
        state = (history.last_mono, metric.id, scale.low, scale.high)
        if history is self._history and state == self._state:
            return
        self._history, self._metric, self._state = history, metric, state
        self._columns = history.columns(metric.scope, metric.id)
        self._times = np.array([mono for mono, _ in self._columns])
        self._scale = scale.low, scale.high
        self._bars.clear()
        self.version += 1

    @property
    def span_s(self) -> float:
        """Return the seconds that a row of bars spans."""
        seconds = self._columns[-1][0] - self._columns[0][0] if self._columns else 0.0
        return next((span for span in _SPANS_S if span >= seconds), MOST_S)

    def bars(self, snapshot: FleetSnapshot, node: Node) -> str:
        """Return the bars of a node: of its worst device at each time, blank where it had no value."""
        kept = self._bars.get(node.name)
        if kept is None:
            kept = self._bars[node.name] = self._draw(snapshot, node)
        return kept

    def _draw(self, snapshot: FleetSnapshot, node: Node) -> str:
        metric, history = self._metric, self._history
        assert metric is not None
        assert history is not None
        part = snapshot.rows(node, metric.scope)
        if not len(part) or not self._columns or metric.words:
            return " " * CELLS
        there = [number for number, (_, column) in enumerate(self._columns) if column.size >= part.stop]
        if not there:
            return " " * CELLS
        rows = [self._columns[number][1][part.start : part.stop] for number in there]
        values = np.concatenate(rows).reshape(len(rows), len(part)).astype(np.float64)
        born = history.born(metric.scope)[part.start : part.stop]
        times = self._times[there]
        values[times[:, None] < born] = np.nan
        tops = worst(metric, values, 1) * shown_scale(metric)
        # Each cell stands for the same time whenever it is drawn: bars step, they do not tremble.
        at = (times // (self.span_s / CELLS)).astype(np.int64)
        at = at - at[-1] + CELLS - 1
        cells = np.full(CELLS, np.nan)
        tops, at = tops[at >= 0], at[at >= 0]
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        cells[at[starts]] = (np.fmin if metric.worse == "low" else np.fmax).reduceat(tops, starts)
        low, high = self._scale
        steps = len(self._glyphs.spark)
        share = np.clip((np.nan_to_num(cells) - low) / (high - low), 0.0, 1.0) * steps
        height = np.minimum(share.astype(np.int64), steps - 1)
        known = ~np.isnan(cells)
        return "".join(
            self._glyphs.spark[step] if is_known else " " for step, is_known in zip(height, known, strict=True)
        )
