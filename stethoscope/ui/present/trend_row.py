"""The last minutes of the chosen metric for a row of the fleet screen: a line of small bars, on the metric's own scale
so that rows can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.history import MOST_S
from stethoscope.model.metric import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    def has(self, node: Node) -> bool:
        """Tell whether the bars of a node are known."""
        return node.name in self._bars

    def bars(self, snapshot: FleetSnapshot, node: Node) -> str:
        """Return the bars of a node: of its worst device at each time, blank where it had no value."""
        if node.name not in self._bars:
            self.draw(snapshot, [node])
        return self._bars[node.name]

    def draw(self, snapshot: FleetSnapshot, nodes: Iterable[Node]) -> None:
        """Work out the bars of nodes together, where they are not known: that takes little longer than for one."""
        metric = self._metric
        assert metric is not None
        sizes = np.array([column.size for _, column in self._columns], dtype=np.int64)
        alike: dict[tuple[int, int], list[tuple[str, int]]] = {}
        for node in nodes:
            if node.name in self._bars:
                continue
            self._bars[node.name] = " " * CELLS
            part = snapshot.rows(node, metric.scope)
            there = np.flatnonzero(sizes >= part.stop)
            if len(part) and there.size and not metric.words:
                alike.setdefault((len(part), int(there[-1]) + 1), []).append((node.name, part.start))
        for (devices, samples), found in alike.items():
            first_rows = np.array([start for _, start in found])
            texts = self._draw(metric, first_rows[:, None] + np.arange(devices), samples)
            self._bars.update(zip((name for name, _ in found), texts, strict=True))

    def _draw(self, metric: Metric, rows: npt.NDArray[np.int64], samples: int) -> list[str]:
        """Return the bars of each node, whose devices stand in a line of `rows`, from the first `samples` samples."""
        assert self._history is not None
        values = np.full((samples, *rows.shape), np.nan)
        for number, (_, column) in enumerate(self._columns[:samples]):
            if column.size > rows.max():
                values[number] = column[rows]
            else:
                there = rows[:, -1] < column.size
                values[number, there] = column[rows[there]]
        times = self._times[:samples]
        values[times[:, None, None] < self._history.born(metric.scope)[rows]] = np.nan
        tops = worst(metric, values, 2) * shown_scale(metric)
        # Each cell stands for the same time whenever it is drawn: bars step, they do not tremble.
        at = (times // (self.span_s / CELLS)).astype(np.int64)
        at = at - at[-1] + CELLS - 1
        cells = np.full((CELLS, len(rows)), np.nan)
        tops, at = tops[at >= 0], at[at >= 0]
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        cells[at[starts]] = (np.fmin if metric.worse == "low" else np.fmax).reduceat(tops, starts, axis=0)
        low, high = self._scale
        steps = len(self._glyphs.spark)
        share = np.clip((np.nan_to_num(cells) - low) / (high - low), 0.0, 1.0) * steps
        height = np.minimum(share.astype(np.int64), steps - 1)
        height[np.isnan(cells)] = steps
        signs = f"{self._glyphs.spark} "
        return ["".join([signs[step] for step in node]) for node in height.T.tolist()]
