"""The rows of the fleet screen: which nodes, in which order, with which cells."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.metric import Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS, age_word, metric_levels, what_is_wrong
from stethoscope.ui.present.cells import fold_row, node_row
from stethoscope.ui.present.heat import HeatScale
from stethoscope.ui.present.layout import Layout, choose, digits_of
from stethoscope.ui.present.numbers import common_unit
from stethoscope.ui.present.peers import Peers
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.spans import Glyphs, Row
    from stethoscope.ui.present.view import View

FOLD = "\0fold"
"""Key of the line that stands for all folded nodes; no node can have this name."""
FOLD_IDLE = "\0idle"
"""Key of the line that stands for the nodes without a GPU in use."""
SETTLE_S = 3.0
"""Rows are sorted again at most this often."""


class Target(NamedTuple):
    """What a cell is about: a node (`scope` NODE) or the GPU or port at `position` of it."""

    scope: Scope
    position: int = 0


class FleetGrid:
    """The order of the rows and their cells, kept steady from one snapshot to the next."""

    def __init__(self, view: View, glyphs: Glyphs) -> None:
        """Start without a snapshot; what is chosen in `view` counts from the next `update` on."""
        self.view = view
        self.glyphs = glyphs
        self.scale = HeatScale()
        self.divisor = 1.0
        """Shown numbers are divided by this and are then in `unit`."""
        self.unit = ""
        self.lines: list[str] = []
        self.folded: list[str] = []
        """Healthy nodes that are like their peers and did not fit."""
        self.idle: list[str] = []
        """Healthy nodes without a GPU in use, when they are folded."""
        self.assessment: Assessment | None = None
        self.layout: Layout | None = None
        self._order: list[str] = []
        self._settled: tuple[float, tuple[object, ...]] = (0.0, ())
        self._digits: tuple[str, int] = ("", 4)
        self.heat: npt.NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self.levels: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        """Level of the chosen metric, and of what was found there, in every row of its table."""
        self.own_levels: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        """Level of the chosen metric alone, by its thresholds."""
        self._peers = Peers()
        self._odd: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._idle: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
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
        return self.snapshot.catalogue[self.view.metric]

    def update(self, assessment: Assessment, now_wall: float, cells: int, height: int, pinned: str | None) -> None:
        """Take a new snapshot; the row of `pinned` keeps its place. `cells` and `height` are the room for the grid."""
        self.assessment = assessment
        snapshot = assessment.snapshot
        self._wall = now_wall
        metric = self.metric
        table = snapshot.tables[metric.scope]
        self.heat = self.scale.update(table, metric)
        self.own_levels = metric_levels(table, metric)
        self.levels = np.maximum(self.own_levels, self.assessment.rows[metric.scope])
        self._peers.update(assessment, metric, self.scale.high - self.scale.low)
        self._odd, self._idle = self._peers.odd, self._peers.idle
        least = self._digits[1] if self._digits[0] == metric.id else 4
        self.divisor, self.unit = common_unit(metric, self.scale.high)
        self._digits = (metric.id, digits_of(snapshot, metric, least, self.divisor))
        self.layout = choose(snapshot, metric, cells, self._digits[1])
        self._settle(assessment.now_mono, pinned)
        self._fold(height)

    def _settle(self, now_mono: float, pinned: str | None) -> None:
        view = self.view
        wanted = (
            view.sort,
            view.filter,
            view.metric if view.sort == "value" else "",
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
        if self.view.sort == "name":
            return (node.index,)
        if self.view.sort == "value":
            part = self.snapshot.rows(node, self.metric.scope)
            table = self.snapshot.tables[self.metric.scope]
            values = table.values[table.index[self.metric.id], part.start : part.stop]
            values = values[~np.isnan(values)]
            if not values.size:
                # A node that something is wrong with must not hide behind those that have a value.
                return (-1 if self.assessment.nodes[node.index] else 1, 0, node.index)
            return (0, values.min() if self.metric.worse == "low" else -values.max(), node.index)
        level = int(self.assessment.nodes[node.index])
        # What was found and confirmed stands before what only passed a threshold.
        found = (
            SEVERITY_LEVELS[self.assessment.findings[node.name][0].severity]
            if node.name in self.assessment.findings
            else 0
        )
        return (-level, int(found < level), -int(self._odd[node.index]), node.index)

    def _matches(self, name: str) -> bool:
        wanted = self.view.filter.lower()
        if not wanted:
            return True
        if any(sign in wanted for sign in "*?["):
            return fnmatchcase(name.lower(), wanted)
        return wanted in name.lower()

    def _fold(self, height: int) -> None:
        assert self.assessment is not None
        healthy, by_name = self.assessment.nodes == 0, self.snapshot.by_name
        order, view = self._order, self.view
        fits = view.fold == "none" or (view.fold == "fill" and (view.sort != "worst" or len(order) <= height))
        self.idle = [] if fits else [name for name in order if (healthy & self._idle)[by_name[name]]]
        if len(self.idle) < 2:
            self.idle = []
        alike = (healthy & ~self._odd).tolist()
        away = set(self.idle)
        folded = [] if fits else [name for name in order if alike[by_name[name]] and name not in away]
        if view.fold == "fill" and not fits:
            lines = len(order) - len(away) + bool(away)
            spare = height - 1 - (lines - len(folded))
            folded = folded[max(0, spare) :] if lines > height else []
        self.folded = folded if len(folded) > 1 else []
        away.update(self.folded)
        self.lines = [name for name in order if name not in away]
        self.lines += [FOLD_IDLE] * bool(self.idle) + [FOLD] * bool(self.folded)

    def filtered(self) -> tuple[int, int]:
        """Return how many nodes fit the filter, and how many that have something wrong do not."""
        assert self.assessment is not None
        hidden = [node for node in self.snapshot.nodes if not self._matches(node.name)]
        wrong = sum(self.assessment.nodes[node.index] > Level.MISSING for node in hidden)
        return len(self.snapshot.nodes) - len(hidden), int(wrong)

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

    def deviates(self, value: float) -> bool:
        """Tell whether a value of the chosen metric is far enough from the others to be worth a look."""
        return self._peers.deviates(value)

    def deviating(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Tell the same of each of many values, one for each row of the chosen metric's table."""
        return self._peers.deviating(values)

    def is_odd(self, node: Node) -> bool:
        """Tell whether a node is one of few that are unlike the others."""
        return bool(self._odd[node.index])

    def is_idle(self, node: Node) -> bool:
        """Tell whether none of the node's GPUs is in use."""
        return bool(self._idle[node.index])

    def row(self, line: int, cursor: Target | None) -> Row:
        """Return the row of a line, with the cell of `cursor` marked as selected."""
        assert self.assessment is not None
        key = self.lines[line]
        if key in (FOLD, FOLD_IDLE):
            return fold_row(self, cursor, idle=key == FOLD_IDLE)
        node = self.snapshot.node(key)
        level = int(self.assessment.nodes[node.index])
        what = what_is_wrong(self.assessment, node, self._wall)
        state = (
            node.version, level, what, self.is_odd(node), self.view.metric, self.layout, cursor, self._peers.usual,
            age_word(node, self.assessment.now_mono), self.scale.low, self.scale.high,
        )  # fmt: skip
        cached = self._cache.get(key)
        if cached is not None and cached[0] == state:
            return cached[1]
        row = node_row(self, node, level, what, cursor)
        self._cache[key] = (state, row)
        return row
