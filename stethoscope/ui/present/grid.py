"""The rows of the fleet screen: which nodes, in which order, with which cells."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.metric import Kind, Reason, Scope
from stethoscope.ui.present.assess import age_word, metric_levels, what_is_wrong
from stethoscope.ui.present.cells import fold_row, node_row
from stethoscope.ui.present.heat import HeatScale
from stethoscope.ui.present.layout import Layout, choose, digits_of
from stethoscope.ui.present.numbers import common_unit

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.spans import (
        Glyphs,
        Row,
    )

FOLD = "\0fold"
"""Key of the line that stands for all folded nodes; no node can have this name."""
SETTLE_S = 3.0
"""Rows are sorted again at most this often."""
_DEVIATION = 0.05
"""A value at least this share of the scale away from the others is drawn plain instead of quiet."""


class Target(NamedTuple):
    """What a cell is about: a node (`scope` NODE) or the GPU or port at `position` of it."""

    scope: Scope
    position: int = 0


@dataclass(slots=True)
class GridOptions:
    """What the user chose."""

    metric: str
    sort: str = "worst"
    """worst, name or value."""
    fold: str = "fill"
    """fill: fold what does not fit; all: fold all alike; none."""
    filter: str = ""


class FleetGrid:
    """The order of the rows and their cells, kept steady from one snapshot to the next."""

    def __init__(self, options: GridOptions, glyphs: Glyphs) -> None:
        """Start without a snapshot."""
        self.options = options
        self.glyphs = glyphs
        self.scale = HeatScale()
        self.divisor = 1.0
        """Shown numbers are divided by this and are then in `unit`."""
        self.unit = ""
        self.lines: list[str] = []
        self.folded: list[str] = []
        self.assessment: Assessment | None = None
        self.layout: Layout | None = None
        self._order: list[str] = []
        self._settled: tuple[float, tuple[object, ...]] = (0.0, ())
        self._digits: tuple[str, int] = ("", 4)
        self.heat: npt.NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self.levels: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        """Level of the chosen metric, and of what was found there, in every row of its table."""
        self._usual: tuple[str, float, float] | None = None
        """Metric, median of all, and the distance from it that is worth a look."""
        self._odd: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        """Nodes with a value so far from the others that they are not like their peers, healthy as they may be."""
        self._wall = 0.0
        self._cache: dict[str, tuple[tuple[object, ...], Row]] = {}

    @property
    def snapshot(self) -> FleetSnapshot:
        """Return the snapshot that the rows are made of; there is one after the first `update`."""
        assert self.assessment is not None
        return self.assessment.snapshot

    @property
    def metric(self) -> Metric:
        """Return the chosen metric."""
        return self.snapshot.catalogue[self.options.metric]

    def update(self, assessment: Assessment, now_wall: float, cells: int, height: int, pinned: str | None) -> None:
        """Take a new snapshot; the row of `pinned` keeps its place. `cells` and `height` are the room for the grid."""
        self.assessment = assessment
        snapshot = assessment.snapshot
        self._wall = now_wall
        metric = self.metric
        table = snapshot.tables[metric.scope]
        self.heat = self.scale.update(table, metric)
        self.levels = np.maximum(metric_levels(table, metric), self.assessment.rows[metric.scope])
        values = table.values[table.index[metric.id]]
        self._learn_peers(values[table.reasons[table.index[metric.id]] == Reason.PRESENT])
        self._odd = self._find_odd(values)
        least = self._digits[1] if self._digits[0] == metric.id else 4
        self.divisor, self.unit = common_unit(metric, self.scale.high)
        self._digits = (metric.id, digits_of(snapshot, metric, least, self.divisor))
        self.layout = choose(snapshot, metric, cells, self._digits[1])
        self._settle(assessment.now_mono, pinned)
        self._fold(height)

    def _learn_peers(self, values: npt.NDArray[np.float64]) -> None:
        """Note what is usual, and how far from it is worth a look; both stand still under a little noise."""
        if not values.size:
            self._usual = None
            return
        median = float(np.median(values))
        spread = 5.0 * float(np.median(np.abs(values - median)))
        far = max(spread, _DEVIATION * (self.scale.high - self.scale.low) / self._scale_of(self.metric))
        old = self._usual
        if old is None or old[0] != self.metric.id or abs(median - old[1]) > 0.2 * far or not 0.6 < far / old[2] < 1.2:
            self._usual = (self.metric.id, median, far)

    def _find_odd(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        assert self.assessment is not None
        odd = np.zeros(len(self.snapshot.nodes), dtype=np.bool_)
        if self._usual is not None and not self.metric.words:
            # Twice as far as what is worth a look, so that rows do not wander because of noise.
            with np.errstate(invalid="ignore"):
                far = np.flatnonzero(np.abs(values - self._usual[1]) > 2 * self._usual[2])
            owners = far if self.metric.scope is Scope.NODE else self.assessment.owners[self.metric.scope][0][far]
            odd[owners[owners >= 0]] = True
        return odd

    @staticmethod
    def _scale_of(metric: Metric) -> float:
        return metric.rate_scale if metric.kind is Kind.COUNTER else 1.0

    def _settle(self, now_mono: float, pinned: str | None) -> None:
        options = self.options
        wanted = (
            options.sort,
            options.filter,
            options.metric if options.sort == "value" else "",
            len(self.snapshot.nodes),
        )
        if wanted == self._settled[1] and now_mono - self._settled[0] < SETTLE_S and self._order:
            return
        order = [node.name for node in sorted(self.snapshot.nodes, key=self._sort_key) if self._matches(node.name)]
        if pinned in order and pinned in self._order and wanted == self._settled[1]:
            place = self._order.index(pinned)
            order.remove(pinned)
            order.insert(place, pinned)
        self._order = order
        self._settled = (now_mono, wanted)

    def _sort_key(self, node: Node) -> tuple[float, ...]:
        assert self.assessment is not None
        if self.options.sort == "name":
            return (node.index,)
        if self.options.sort == "value":
            part = self.snapshot.rows(node, self.metric.scope)
            table = self.snapshot.tables[self.metric.scope]
            values = table.values[table.index[self.metric.id], part.start : part.stop]
            values = values[~np.isnan(values)]
            if not values.size:
                return (1, 0, node.index)
            return (0, values.min() if self.metric.worse == "low" else -values.max(), node.index)
        return (-int(self.assessment.nodes[node.index]), -int(self._odd[node.index]), node.index)

    def _matches(self, name: str) -> bool:
        wanted = self.options.filter.lower()
        if not wanted:
            return True
        if any(sign in wanted for sign in "*?["):
            return fnmatchcase(name.lower(), wanted)
        return wanted in name.lower()

    def _fold(self, height: int) -> None:
        assert self.assessment is not None
        alike, by_name = ((self.assessment.nodes == 0) & ~self._odd).tolist(), self.snapshot.by_name
        order = self._order
        healthy = [name for name in order if alike[by_name[name]]]
        mode = self.options.fold
        folded: list[str] = []
        if mode == "all":
            folded = healthy
        elif mode == "fill" and self.options.sort == "worst" and len(order) > height:
            spare = max(0, height - 1 - (len(order) - len(healthy)))
            folded = healthy[spare:]
        if len(folded) < 2:
            folded = []
        gone = set(folded)
        self.folded = folded
        self.lines = [name for name in order if name not in gone] + ([FOLD] if folded else [])

    def targets(self) -> list[Target]:
        """Return what the cells of a row are about, from left to right; the first is the node itself."""
        layout = self.layout
        if layout is None:
            return [Target(Scope.NODE)]
        return [
            Target(Scope.NODE),
            *(Target(Scope.GPU, position) for position in range(layout.gpus)),
            *(Target(Scope.PORT, position) for position in range(layout.ports)),
        ]

    def is_odd(self, node: Node) -> bool:
        """Tell whether a value of the chosen metric sets a node apart from the others."""
        return bool(self._odd[node.index])

    def deviates(self, value: float) -> bool:
        """Tell whether a value of the chosen metric is far enough from the others to be worth a look."""
        if self._usual is None or self.metric.bitmask or self.metric.kind is Kind.STATE:
            return False
        return abs(value - self._usual[1]) > self._usual[2]

    def row(self, line: int, cursor: Target | None) -> Row:
        """Return the row of a line, with the cell of `cursor` marked as selected."""
        assert self.assessment is not None
        key = self.lines[line]
        if key == FOLD:
            return fold_row(self, cursor)
        node = self.snapshot.node(key)
        level = int(self.assessment.nodes[node.index])
        what = what_is_wrong(self.assessment, node, self._wall)
        state = (
            node.version, level, what, self.is_odd(node), self.options.metric, self.layout, cursor, self._usual,
            age_word(node, self.assessment.now_mono), self.scale.low, self.scale.high,
        )  # fmt: skip
        cached = self._cache.get(key)
        if cached is not None and cached[0] == state:
            return cached[1]
        row = node_row(self, node, level, what, cursor)
        self._cache[key] = (state, row)
        return row
