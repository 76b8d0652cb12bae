"""The rows of the fleet screen: which nodes, in which order, with which cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from stethoscope.analysis.filter import FilterError, compile_filter
from stethoscope.model.metric import Kind as MetricKind
from stethoscope.model.metric import Scope
from stethoscope.ui.present.arrange import FOLD, FOLD_IDLE, Arranger, Kind, Line, toggled
from stethoscope.ui.present.assess import age_word, what_is_wrong
from stethoscope.ui.present.cells import node_row
from stethoscope.ui.present.deviation import Deviation
from stethoscope.ui.present.groups import title
from stethoscope.ui.present.heads import bundle_row
from stethoscope.ui.present.heat import HeatScale
from stethoscope.ui.present.layout import Layout, choose, digits_of
from stethoscope.ui.present.leaves import Leaves
from stethoscope.ui.present.numbers import common_unit
from stethoscope.ui.present.peers import Peers
from stethoscope.ui.present.row_levels import metric_levels
from stethoscope.ui.present.spans import HEAT_LEVELS, Level, width
from stethoscope.ui.present.summary import Summary, summarise, values_of
from stethoscope.ui.present.trend_row import RowTrends

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.analysis.filter import Filter
    from stethoscope.analysis.history import History
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.mark import Mark
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.spans import Glyphs, Row
    from stethoscope.ui.present.view import View

    Flags = npt.NDArray[np.bool_]

T = TypeVar("T")

__all__ = ["FOLD", "FOLD_IDLE", "FleetGrid", "Target"]
_TOGETHER = 24
"""So many lines that stand for several nodes are worked out at once: about what is visible of them."""
_SHOWN = 64
"""So many lines of nodes: about what is visible of these."""
_MOST_KEPT = 4 * _SHOWN
"""So many nodes are remembered as they were drawn last: of a large fleet each is visible at some time, when it is the
last one that connects."""


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
        self.arranged: list[Line] = []
        self.lines: list[str] = []
        """Keys of the lines."""
        self.marked: set[str] = set()
        """Names of the nodes that the user selected."""
        self.assessment: Assessment | None = None
        self.layout: Layout | None = None
        self.heat: npt.NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self.levels: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        """Level of the chosen metric, and of what was found there, in every row of its table."""
        self.own_levels: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        """Level of the chosen metric alone, by its thresholds."""
        self._arranger = Arranger()
        self._leaves = Leaves()
        self._digits: tuple[str, int] = ("", 4)
        self._peers = Peers()
        self.mark: Mark | None = None
        """With what the metric is compared in the mode `mark`."""
        self._deviation = Deviation()
        self.history: History | None = None
        """What values were in the last minutes; None for no trends."""
        self.trends = RowTrends(glyphs)
        self._odd: Flags = np.empty(0, dtype=np.bool_)
        self._idle: Flags = np.empty(0, dtype=np.bool_)
        self._filter: Filter | None = None
        self._read = ""
        self.mistake: FilterError | None = None
        """Why the filter cannot be read."""
        self._named: dict[Scope, Flags] = {}
        self._wall = 0.0
        self._said: dict[str, tuple[tuple[object, ...], tuple[str, Level]]] = {}
        self._cache: dict[str, tuple[tuple[object, ...], Row]] = {}
        self._bundles: dict[bool, tuple[list[Line], dict[str, int]]] = {}
        """Lines of groups, and those that stand for nodes that are alike, each with its place."""
        self._summary: dict[tuple[bool, int], Summary] = {}

    @property
    def snapshot(self) -> FleetSnapshot:
        """Return the snapshot that the rows are made of; there is one after the first `update`."""
        assert self.assessment is not None
        return self.assessment.snapshot

    @property
    def deviation(self) -> Deviation | None:
        """Return the distances that are shown instead of values, None where values are."""
        return self._deviation if self.view.mode != "value" else None

    @property
    def metric(self) -> Metric:
        """Return the chosen metric."""
        return self.snapshot.catalogue[self.view.metric]

    def update(self, assessment: Assessment, now_wall: float, cells: int, height: int, pinned: str | None) -> None:
        """Take a new snapshot; the row of `pinned` keeps its place. `cells` and `height` are the room for the grid."""
        self.assessment = assessment
        snapshot = assessment.snapshot
        self._wall = now_wall
        self._summary.clear()
        self._bundles.clear()
        metric = self.metric
        table = snapshot.tables[metric.scope]
        self.heat = self.scale.update(table, metric)
        self.own_levels = metric_levels(table, metric)
        self.levels = np.maximum(self.own_levels, self.assessment.rows[metric.scope])
        self._peers.update(assessment, metric, self.scale.high - self.scale.low)
        self._odd, self._idle = self._peers.odd, self._peers.idle
        away = self.deviation
        if away is not None:
            away.update(assessment, metric, self.view.mode, self.mark, self.scale)
            self._odd = self._odd | (away.odd & ~self._idle)
        least = self._digits[1] if self._digits[0] == metric.id else 4
        self.divisor, self.unit = common_unit(metric, self.scale.high)
        self._digits = (metric.id, digits_of(snapshot, metric, least, self.divisor))
        held = self.line_of(pinned)
        leaves = self._leaves if self.view.group == "leaf" else None
        if leaves is not None:
            leaves.update(assessment)
        distances = away.distances if away is not None else None
        self._arranger.settle(assessment, self.view, metric, self._odd, self._fits(), held, leaves, distances)
        self._named = self._name_rows()
        titles = max((width(name) for name, _ in self.sections()), default=0)
        digits = self._digits[1] if away is None else away.digits
        trends = self.history is not None
        if self.history is not None:
            self.trends.update(self.history, metric, self.scale)
        self.layout = choose(snapshot, metric, cells, digits, self.view, titles, trends=trends)
        healthy = assessment.nodes == 0
        alike, idle = healthy & ~self._odd, healthy & self._idle
        self.arranged = self._arranger.lines(assessment, self.view, alike, idle, height, held, leaves)
        self.lines = [line.key for line in self.arranged]

    def line_of(self, key: str | None) -> Line | None:
        """Return the line with this key, None when there is none."""
        return self.arranged[self.lines.index(key)] if key is not None and key in self.lines else None

    def _fits(self) -> Flags:
        """Return by node whether it fits the filter; while that cannot be read, the last one that could holds."""
        snapshot, text = self.snapshot, self.view.filter
        if text != self._read:
            self._read = text
            try:
                self._filter, self.mistake = compile_filter(text, snapshot.catalogue), None
            except FilterError as error:
                self.mistake = error
        return np.ones(len(snapshot.nodes), dtype=np.bool_) if self._filter is None else self._filter.nodes(snapshot)

    def _name_rows(self) -> dict[Scope, Flags]:
        """Return which devices the filter names, by scope; where it names none in particular, nothing."""
        if self._filter is None or not self.view.filter:
            return {}
        found = ((scope, self._filter.rows(self.snapshot, scope)) for scope in (Scope.GPU, Scope.PORT))
        return {scope: rows for scope, rows in found if rows is not None}

    def is_beside(self, scope: Scope, row: int) -> bool:
        """Tell whether a device is not among those that the filter names, though it names some."""
        return scope in self._named and not self._named[scope][row]

    def filtered(self) -> tuple[int, int]:
        """Return how many nodes fit the filter, and how many that have something wrong do not."""
        assert self.assessment is not None
        fits = self._fits()
        wrong = ~fits & (self.assessment.nodes > Level.MISSING)
        return int(np.count_nonzero(fits)), int(np.count_nonzero(wrong))

    def fitting(self) -> list[str]:
        """Return the names of the nodes that fit the filter."""
        return [self.snapshot.nodes[index].name for index in np.flatnonzero(self._fits())]

    def members(self, line: Line) -> list[str]:
        """Return the names of the nodes that a line is about."""
        return [self.snapshot.nodes[index].name for index in line.nodes]

    def sections(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the groups in their order, each by its title with all of its nodes in theirs, folded ones too."""
        by = self.view.group
        return [(title(by, name) if by != "none" else "", tuple(nodes)) for name, nodes in self._arranger.groups]

    @property
    def folded(self) -> list[str]:
        """Return the healthy nodes that are like their peers and have no line of their own."""
        return self._hidden(Kind.FOLD)

    @property
    def idle(self) -> list[str]:
        """Return the healthy nodes without a GPU in use, when they are folded."""
        return self._hidden(Kind.IDLE)

    def _hidden(self, kind: Kind) -> list[str]:
        return [name for line in self.arranged if line.kind is kind for name in self.members(line)]

    def toggle(self, line: Line) -> None:
        """Open the group of a line, or close it."""
        if self.view.group == "none":
            self.view.fold = "none"
        else:
            self._arranger.opened.update(toggled(self.arranged, line))

    def next_wrong(self, start: int, step: int) -> int | None:
        """Return the next line from line `start` on, in the direction of `step`, that deserves a look: a node with
        something wrong or unlike its peers, or a closed group with such a node; None when there is none."""
        assert self.assessment is not None
        odd = (self.assessment.nodes > Level.MISSING) | self._odd
        count = len(self.arranged)
        for distance in range(1, count + 1):
            place = (start + step * distance) % count
            line = self.arranged[place]
            looked_at = line.nodes if line.kind is Kind.NODE or line.hides else ()
            if self.view.group == "leaf":
                odd = self._leaves.levels(line.group) > Level.MISSING
            if place != start and any(odd[node] for node in looked_at):
                return place
        return None

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

    def deviating(self, values: npt.NDArray[np.float64]) -> Flags:
        """Tell the same of each of many values, one for each row of the chosen metric's table."""
        return self._peers.deviating(values)

    def is_odd(self, node: Node) -> bool:
        """Tell whether a node is one of few that are unlike the others."""
        return bool(self._odd[node.index])

    def all_alike(self, line: Line) -> bool:
        """Tell whether nothing is wrong with any node of a line and none is unlike the others."""
        assert self.assessment is not None
        by_leaf = self.view.group == "leaf"
        return not self.level_of(line) and (by_leaf or not self._odd[list(line.nodes)].any())

    def is_idle(self, node: Node) -> bool:
        """Tell whether none of the node's GPUs is in use."""
        return bool(self._idle[node.index])

    def summary(self, line: Line) -> tuple[Summary, int]:
        """Return what the nodes of a line have in common, with the place of the line in it; lines that stand together
        are worked out at once when the first of them is drawn."""
        assert self.assessment is not None
        heads = line.kind is Kind.HEAD
        if heads not in self._bundles:
            bundles = [
                other for other in self.arranged if other.kind is not Kind.NODE and (other.kind is Kind.HEAD) == heads
            ]
            self._bundles[heads] = bundles, {other.key: place for place, other in enumerate(bundles)}
        bundles, places = self._bundles[heads]
        part, place = divmod(places[line.key], _TOGETHER)
        if (heads, part) not in self._summary:
            lines = bundles[part * _TOGETHER : (part + 1) * _TOGETHER]
            values = values_of(self.assessment, self.metric) if self.deviation is None else self.deviation.values
            made = summarise(self.assessment, self.metric, values, self._near(), self._buckets(lines), len(lines))
            self._summary[heads, part] = made
        return self._summary[heads, part], place

    def _near(self) -> float:
        """Return how far apart values are alike: a step of the scale, of words none."""
        if self.metric.words:
            return 0.0
        if self.deviation is not None:
            return self.deviation.top / HEAT_LEVELS
        scaled = self.metric.rate_scale if self.metric.kind is MetricKind.COUNTER else 1.0
        return (self.scale.high - self.scale.low) / HEAT_LEVELS / scaled

    def _buckets(self, lines: list[Line]) -> dict[Scope, npt.NDArray[np.int64]]:
        assert self.assessment is not None
        snapshot = self.snapshot
        if self.view.group == "leaf":
            return self._leaf_buckets(lines)
        of_node = np.full(len(snapshot.nodes), -1, dtype=np.int64)
        for place, line in enumerate(lines):
            of_node[list(line.nodes)] = place
        return {Scope.NODE: of_node} | {
            scope: np.where(owner >= 0, of_node[owner], -1) for scope, (owner, _) in self.assessment.owners.items()
        }

    def _leaf_buckets(self, lines: list[Line]) -> dict[Scope, npt.NDArray[np.int64]]:
        """Only ports belong to a leaf, each to its own."""
        tables = self.snapshot.tables
        buckets = {scope: np.full(tables[scope].values.shape[1], -1, dtype=np.int64) for scope in tables}
        assert self.assessment is not None
        leaves, owner = self._leaves, self.assessment.owners[Scope.PORT][0]
        # At most one of the lines is about a leaf: which, and about which nodes.
        line_of = np.full(len(leaves.names) + 1, -1, dtype=np.int64)
        line_of[leaves.places([line.group for line in lines])] = np.arange(len(lines))
        about = np.zeros((len(lines), len(self.snapshot.nodes)), dtype=np.bool_)
        for place, line in enumerate(lines):
            about[place, list(line.nodes)] = True
        place_of = line_of[leaves.codes]
        buckets[Scope.PORT] = np.where((place_of >= 0) & (owner >= 0) & about[place_of, owner], place_of, -1)
        return buckets

    def level_of(self, line: Line) -> int:
        """Return the worst level of the nodes of a line."""
        return int(self.levels_in(line).max())

    def levels_in(self, line: Line) -> npt.NDArray[np.uint8]:
        """Return the levels of the nodes of a line, by leaf those of their ports there."""
        assert self.assessment is not None
        levels = self._leaves.levels(line.group) if self.view.group == "leaf" else self.assessment.nodes
        return levels[list(line.nodes)]

    def _sentence(self, node: Node, level: int) -> tuple[str, Level]:
        """Return what is wrong with a node; looked for again only when something of the node changed or time shows."""
        assert self.assessment is not None
        if self.assessment.ages[node.index] is not Level.NORMAL:
            return what_is_wrong(self.assessment, node, self._wall)
        found = self.assessment.findings.get(node.name, ())
        state = (node.version, level, node.link, found, bool(self.assessment.hung[node.index]))
        kept = self._said.get(node.name)
        if kept is None or kept[0] != state:
            kept = (state, what_is_wrong(self.assessment, node, self._wall))
            _keep(self._said, node.name, kept)
        return kept[1]

    def _nodes_from(self, line: int) -> list[Node]:
        """Return the nodes of this line and of those that are shown with it."""
        nodes = self.snapshot.nodes
        return [nodes[here.nodes[0]] for here in self.arranged[line : line + _SHOWN] if here.kind is Kind.NODE]

    def row(self, line: int, cursor: Target | None) -> Row:
        """Return the row of a line, with the cell of `cursor` marked as selected."""
        assert self.assessment is not None
        here = self.arranged[line]
        if here.kind is not Kind.NODE:
            return bundle_row(self, here, cursor)
        node = self.snapshot.nodes[here.nodes[0]]
        level = self.level_of(here)
        if self.view.group == "leaf":
            what = self._leaves.sentence(self.assessment, node, here.group, self._wall)
        else:
            what = self._sentence(node, level)
        state = (
            node.version, level, what, self.is_odd(node), self.view.metric, self.layout, cursor, self._peers.usual,
            age_word(node, self.assessment.now_mono), self.scale.low, self.scale.high, node.name in self.marked,
            tuple(rows[part.start : part.stop].tobytes() for scope, rows in self._named.items()
                  if (part := self.snapshot.rows(node, scope))),
            self.trends.version,
            self.deviation.state(self.snapshot.rows(node, self.metric.scope)) if self.deviation is not None else None,
        )  # fmt: skip
        cached = self._cache.get(here.key)
        if cached is not None and cached[0] == state:
            return cached[1]
        if self.layout is not None and self.layout.trend and not self.trends.has(node):
            self.trends.draw(self.snapshot, self._nodes_from(line))
        row = node_row(self, here, node, level, what, cursor)
        _keep(self._cache, here.key, (state, row))
        return row


def _keep(kept: dict[str, T], key: str, value: T) -> None:
    """Keep the last value of `key`, and no more than the latest ones."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]
