"""The rows of the fleet screen: which nodes, in which order, with which cells."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Kind, Missing, Reason, Scope
from stethoscope.ui.present.assess import age_word, metric_levels, what_is_wrong
from stethoscope.ui.present.heat import HeatScale
from stethoscope.ui.present.layout import LABELS, Layout, choose, digits_of
from stethoscope.ui.present.numbers import REASON_LEVELS, cell_text, common_unit
from stethoscope.ui.present.spans import (
    Glyphs,
    Level,
    Row,
    Span,
    Tone,
    cut,
    heat_tone,
    level_tone,
    pad,
    row_width,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment

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
        self._heat: npt.NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._levels: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._usual: tuple[str, float, float] | None = None
        """Metric, median of all, and the distance from it that is worth a look."""
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
        self._heat = self.scale.update(table, metric)
        self._levels = np.maximum(metric_levels(table, metric), self.assessment.rows[metric.scope])
        values = table.values[table.index[metric.id]][table.reasons[table.index[metric.id]] == Reason.PRESENT]
        self._learn_peers(values)
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
        return (-int(self.assessment.nodes[node.index]), node.index)

    def _matches(self, name: str) -> bool:
        wanted = self.options.filter.lower()
        if not wanted:
            return True
        if any(sign in wanted for sign in "*?["):
            return fnmatchcase(name.lower(), wanted)
        return wanted in name.lower()

    def _fold(self, height: int) -> None:
        assert self.assessment is not None
        levels, by_name = self.assessment.nodes.tolist(), self.snapshot.by_name
        order = self._order
        healthy = [name for name in order if levels[by_name[name]] == 0]
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

    def row(self, line: int, cursor: Target | None) -> Row:
        """Return the row of a line, with the cell of `cursor` marked as selected."""
        assert self.assessment is not None
        key = self.lines[line]
        if key == FOLD:
            return self._fold_row(cursor)
        node = self.snapshot.node(key)
        level = int(self.assessment.nodes[node.index])
        what = what_is_wrong(self.assessment, node, self._wall)
        state = (
            node.version, level, what, self.options.metric, self.layout, cursor, self._usual,
            age_word(node, self.assessment.now_mono), self.scale.low, self.scale.high,
        )  # fmt: skip
        cached = self._cache.get(key)
        if cached is not None and cached[0] == state:
            return cached[1]
        row = self._node_row(node, level, what, cursor)
        self._cache[key] = (state, row)
        return row

    def _node_row(self, node: Node, level: int, what: tuple[str, Level], cursor: Target | None) -> Row:
        assert self.layout is not None
        assert self.assessment is not None
        layout = self.layout
        glyphs = self.glyphs
        gap = Span("   " if layout.spaced else " ")
        ellipsis = glyphs.ellipsis
        tone = level_tone(level)
        name_tone = Tone.STRONG if level > Level.MISSING else Tone.NORMAL
        row = [
            Span(f" {glyphs.level(level)} " if layout.spaced else f"{glyphs.level(level)} ", tone),
            Span(pad(node.name, layout.name, ellipsis), name_tone, cursor == Target(Scope.NODE)),
        ]
        if not layout.spaced:
            row.append(Span(" "))
        if layout.value:
            row += [gap, *self._value(node, layout.value)]
        for scope in LABELS:
            if layout.block(scope):
                row += [gap, Span(" " * layout.lead(scope)), *self._cells(node, scope, cursor)]
        if layout.host:
            row += [gap, *self._host(node, layout.host)]
        if layout.link:
            row += [gap, self._link(node, layout.link)]
        row.append(gap)
        sentence, said = what
        if sentence and not (layout.link and sentence == node.link.state.value):
            row.append(Span(cut(sentence, layout.width - layout.before_what, ellipsis), level_tone(said)))
        return tuple(row)

    def _value(self, node: Node, digits: int) -> list[Span]:
        assert self.assessment is not None
        fresh = self.assessment.ages[node.index]
        if fresh is not Level.NORMAL:
            return [Span(" "), Span(self.glyphs.level(fresh).rjust(digits), level_tone(fresh))]
        return self._number(node.index, digits, selected=False)

    def _cells(self, node: Node, scope: Scope, cursor: Target | None) -> list[Span]:
        assert self.layout is not None
        assert self.assessment is not None
        spans: list[Span] = []
        count, cell = self.layout.cells_of(scope)
        part = self.snapshot.rows(node, scope)
        fresh = self.assessment.ages[node.index]
        main = scope is self.metric.scope
        for position in range(count):
            selected = cursor == Target(scope, position)
            if position < len(part) and fresh is Level.NORMAL:
                row = part[position]
                if main and cell > 1:
                    spans += self._number(row, cell, selected)
                elif main:
                    spans.append(self._block(row, selected))
                else:
                    level = int(self.assessment.rows[scope][row])
                    spans.append(Span(self.glyphs.level(level), level_tone(level), selected))
            else:
                level = int(fresh) if position < len(part) or node.gpu_first < 0 else -1
                glyph = self.glyphs.level(level) if level >= 0 else " "
                tone = level_tone(max(0, level))
                if cell > 1:
                    spans += [Span(" "), Span(glyph.rjust(cell), tone, selected)]
                else:
                    spans.append(Span(glyph, tone, selected))
            if cell == 1 and self.layout.spaced and position < count - 1:
                spans.append(Span(" "))
        return spans

    def _number(self, row: int, digits: int, selected: bool) -> list[Span]:
        metric = self.metric
        value = self.snapshot.tables[metric.scope].get(metric.id, row)
        level = int(self._levels[row])
        if isinstance(value, Missing):
            reason = REASON_LEVELS[value.reason]
            return [Span(" "), Span(self.glyphs.level(reason).rjust(digits), level_tone(max(reason, level)), selected)]
        text = cut(cell_text(metric, value, self.divisor), digits, self.glyphs.ellipsis).rjust(digits)
        marked = level > Level.MISSING
        tone = level_tone(level) if marked else Tone.PLAIN if self._deviates(value) else Tone.NORMAL
        if marked:
            # The glyph stands directly before the number.
            bare = text.lstrip()
            blank = digits - len(bare)
            return [Span(" " * blank), Span(self.glyphs.level(level) + bare, tone, selected)]
        return [Span(" "), Span(text, tone, selected)]

    def _block(self, row: int, selected: bool) -> Span:
        metric = self.metric
        value = self.snapshot.tables[metric.scope].get(metric.id, row)
        level = int(self._levels[row])
        if isinstance(value, Missing):
            reason = REASON_LEVELS[value.reason]
            return Span(self.glyphs.level(reason), level_tone(max(reason, level)), selected)
        if level > Level.MISSING:
            return Span(self.glyphs.level(level), level_tone(level), selected)
        heat = int(self._heat[row])
        return Span(self.glyphs.heat[heat], heat_tone(heat), selected)

    def _deviates(self, value: float) -> bool:
        if self._usual is None or self.metric.bitmask or self.metric.kind is Kind.STATE:
            return False
        return abs(value - self._usual[1]) > self._usual[2]

    def _host(self, node: Node, cells: int) -> list[Span]:
        assert self.assessment is not None
        table = self.snapshot.tables[Scope.NODE]
        level = int(self.assessment.rows[Scope.NODE][node.index])
        parts = []
        for word, name in (("io", "cpu_iowait"), ("sirq", "cpu_softirq")):
            value = table.get(name, node.index)
            text = self.glyphs.level(REASON_LEVELS[value.reason]) if isinstance(value, Missing) else f"{value:.0f}"
            parts.append(f"{word} {text:>2}")
        return [Span(pad(" ".join(parts), cells), level_tone(level) if level > Level.MISSING else Tone.NORMAL)]

    def _link(self, node: Node, cells: int) -> Span:
        assert self.assessment is not None
        state = node.link.state
        fresh = self.assessment.ages[node.index]
        if state is LinkState.LIVE:
            word = "live" if fresh is not Level.STALE else "late"
            text = f"{word} {age_word(node, self.assessment.now_mono)}"
        else:
            text = state.value
        return Span(pad(text, cells, self.glyphs.ellipsis), level_tone(fresh))

    def _fold_row(self, cursor: Target | None) -> Row:
        assert self.layout is not None
        assert self.assessment is not None
        layout, glyphs, snapshot = self.layout, self.glyphs, self.snapshot
        gap = Span("   " if layout.spaced else " ")
        name = pad(f"{len(self.folded)} more", layout.name, glyphs.ellipsis)
        lead = f" {glyphs.level(0)} " if layout.spaced else f"{glyphs.level(0)} "
        row = [Span(lead, Tone.NORMAL), Span(name, Tone.PLAIN, cursor is not None)]
        if not layout.spaced:
            row.append(Span(" "))
        folded = np.zeros(len(snapshot.nodes), dtype=bool)
        folded[[snapshot.by_name[name] for name in self.folded]] = True
        metric = self.metric
        if layout.value:
            row += [gap, *self._median_cell(np.flatnonzero(folded), layout.value)]
        for scope in LABELS:
            count, cell = layout.cells_of(scope)
            if not count:
                continue
            row += [gap, Span(" " * layout.lead(scope))]
            owner, place = self.assessment.owners[scope]
            here = (owner >= 0) & folded[owner]
            for position in range(count):
                rows = np.flatnonzero(here & (place == position))
                if scope is metric.scope:
                    row += self._median_cell(rows, cell)
                else:
                    row.append(Span(glyphs.level(0) if rows.size else " ", Tone.NORMAL))
                    if layout.spaced and position < count - 1:
                        row.append(Span(" "))
        row.append(Span(" " * (layout.before_what - row_width(tuple(row)))))
        row.append(Span(cut("like their peers", layout.width - layout.before_what, glyphs.ellipsis), Tone.QUIET))
        return tuple(row)

    def _median_cell(self, rows: npt.NDArray[np.int_], cell: int) -> list[Span]:
        metric = self.metric
        table = self.snapshot.tables[metric.scope]
        column = table.index[metric.id]
        present = rows[table.reasons[column, rows] == Reason.PRESENT] if rows.size else rows
        if not present.size:
            blank = self.glyphs.level(Level.MISSING)
            return [Span(" "), Span(blank.rjust(cell), Tone.NORMAL)] if cell > 1 else [Span(blank, Tone.NORMAL)]
        if cell > 1:
            value = float(np.median(table.values[column, present]))
            return [
                Span(" "),
                Span(cut(cell_text(metric, value, self.divisor), cell, self.glyphs.ellipsis).rjust(cell), Tone.NORMAL),
            ]
        heat = int(np.median(self._heat[present]))
        return [Span(self.glyphs.heat[heat], heat_tone(heat))]
