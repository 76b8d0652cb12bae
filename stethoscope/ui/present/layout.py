"""Which columns the fleet screen has in the cells that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Reason, Scope
from stethoscope.ui.present.numbers import cell_text
from stethoscope.ui.present.spans import Row, Span, Tone, width
from stethoscope.ui.present.trend_row import CELLS as TREND_CELLS

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.view import View

_NAME_LIMIT = 26
_TITLE_LIMIT = 18
"""The name of a group may be this wide before it is cut, where nodes have shorter names."""
_ROOMY = 100
"""From so many cells on, nodes stand two blanks below their group."""
_HOST_WIDTH = 14
_LINK_WIDTH = 12
LABELS = {Scope.GPU: "gpu", Scope.PORT: "ib"}
"""Names of the blocks of cells in the headline."""
_WHAT_BARE = 34
_WHAT_BESIDE_TREND = 44
_WHAT_LEAST = 16
"""What is left at least for the sentence where the user wants numbers."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths of the columns; a column of width 0 is not there."""

    width: int
    name: int
    gpus: int
    """Cells for GPUs."""
    ports: int
    gpu_cell: int
    """1 for a heat block, else the digits of a number (one more cell before them holds the glyph)."""
    port_cell: int
    value: int
    """Digits of the value of a node."""
    spaced: bool
    """Ports stand apart by a blank."""
    host: int = 0
    link: int = 0
    job: int = 0
    rack: int = 0
    trend: int = 0
    """Bars of the last minutes."""
    indent: int = 0
    """Blanks before the name of a node, below that of its group; `name` counts them."""

    def cells_of(self, scope: Scope) -> tuple[int, int]:
        """Return how many cells a block has and how wide each is: 1 for a sign, else the digits of a number."""
        return (self.gpus, self.gpu_cell) if scope is Scope.GPU else (self.ports, self.port_cell)

    def lead(self, scope: Scope) -> int:
        """Return the blanks before the first cell of a block, where the headline has its label."""
        return len(LABELS[scope]) + 1 if self.spaced and self.cells_of(scope)[1] == 1 else 0

    def block(self, scope: Scope) -> int:
        """Return the width of a block, 0 when it has no cells."""
        count, cell = self.cells_of(scope)
        if not count:
            return 0
        if cell > 1:
            return count * (cell + 1)
        return self.lead(scope) + (2 * count - 1 if self.spaced else count)

    @property
    def before_what(self) -> int:
        """Return the cells left of the last column."""
        gap = 3 if self.spaced else 1
        blocks = [
            self.value + 1 if self.value else 0,
            self.block(Scope.GPU),
            self.block(Scope.PORT),
            self.host,
            self.link,
            self.job,
            self.rack,
            self.trend,
        ]
        return 3 + self.name + sum(block + gap for block in blocks if block) + gap

    @property
    def has_numbers(self) -> bool:
        """Tell whether the metric stands in numbers."""
        return max(self.gpu_cell, self.port_cell, self.value) > 1

    def at(self, x: int) -> tuple[Scope, int]:
        """Return what stands in column `x`: scope and position of a device, or the node itself."""
        gap = 3 if self.spaced else 1
        place = 3 + self.name + (self.value + 1 + gap if self.value else 0)
        for scope in LABELS:
            count, cell = self.cells_of(scope)
            if not count:
                continue
            first = place + gap + self.lead(scope)
            each = cell + 1 if cell > 1 else 2 if self.spaced else 1
            if first <= x < first + count * each:
                return scope, (x - first) // each
            place += gap + self.block(scope)
        return Scope.NODE, 0

    @property
    def what(self) -> int:
        """Return the cells of the last column."""
        return self.width - self.before_what


def choose(
    snapshot: FleetSnapshot,
    metric: Metric,
    cells: int,
    digits: int,
    view: View,
    titles: int = 0,
    *,
    trends: bool = False,
) -> Layout:
    """Return the richest layout that leaves room for the sentence in the last column: `digits` is the width of a number
    of `metric`, `titles` that of the longest name of a group; with `trends` there is a history."""
    indent = 0 if view.group == "none" else 2 if cells >= _ROOMY else 1
    name = min(_NAME_LIMIT, _longest(tuple([node.name for node in snapshot.nodes])) or 4) + indent
    name = max(name, 8, min(titles, _TITLE_LIMIT))
    # By leaf, a row is about the ports that a node has there: its GPUs belong to no leaf.
    gpus = 0 if view.group == "leaf" else max([len(node.gpus) for node in snapshot.nodes], default=0)
    ports = max([len(node.ports) for node in snapshot.nodes], default=0)
    wanted = digits if view.density in ("auto", "numbers") else 1
    gpu_cell = wanted if metric.scope is Scope.GPU else 1
    port_cell = wanted if metric.scope is Scope.PORT else 1
    value = digits if metric.scope is Scope.NODE else 0
    bare = Layout(cells, name, gpus, ports, gpu_cell, port_cell, value, spaced=True, indent=indent)
    if bare.what >= _WHAT_BARE:
        rich = _richer(bare, snapshot, view)
        with_trend = replace(rich, trend=TREND_CELLS) if trends and not metric.words else rich
        return with_trend if with_trend.what >= _WHAT_BESIDE_TREND else rich
    narrow = min(name, max(8, cells // 4))
    small = replace(bare, name=narrow, gpu_cell=1, port_cell=1, spaced=False)
    if view.density == "numbers":
        # The user's choice wins: first the other block gives way, then nothing but the numbers is left.
        numbers = replace(bare, name=narrow, spaced=False)
        alone = replace(numbers, ports=0) if metric.scope is Scope.GPU else replace(numbers, gpus=0)
        return next((layout for layout in (numbers, alone) if layout.what >= _WHAT_LEAST), small)
    return small


def _richer(layout: Layout, snapshot: FleetSnapshot, view: View) -> Layout:
    """Add columns in the order of their worth, each while it leaves the sentence more than those before it."""
    busy = (node for node in snapshot.nodes if node.scheduler is not None)
    jobs = max((len(jobs_text(node)) for node in busy), default=0) if view.group != "job" else 0
    racks = _longest(tuple([node.rack for node in snapshot.nodes])) if view.group != "rack" else 0
    job, rack = (min(12, max(longest, 4)) if longest else 0 for longest in (jobs, racks))
    for more, left in (
        (replace(layout, link=_LINK_WIDTH), 34),
        (replace(layout, link=_LINK_WIDTH, host=_HOST_WIDTH), 36),
        (replace(layout, link=_LINK_WIDTH, host=_HOST_WIDTH, job=job), 56),
        (replace(layout, link=_LINK_WIDTH, host=_HOST_WIDTH, job=job, rack=rack), 64),
    ):
        if more.what >= left:
            layout = more
    return layout


@lru_cache(maxsize=8)
def _longest(texts: tuple[str, ...]) -> int:
    """Return the width of the longest of many texts, which are nearly always those of the last look."""
    return max(map(width, texts), default=0)


def jobs_text(node: Node) -> str:
    """Return the jobs that have a node."""
    return " ".join(node.scheduler.jobs) if node.scheduler is not None else ""


def digits_of(snapshot: FleetSnapshot, metric: Metric, least: int, divisor: float) -> int:
    """Return how many cells the longest value takes, never fewer than `least`, so that columns do not jump."""
    table = snapshot.tables[metric.scope]
    column = table.index[metric.id]
    values = np.unique(table.values[column][table.reasons[column] == Reason.PRESENT])
    sample = values if values.size <= 64 else np.concatenate([values[:32], values[-32:]])
    return max([least, *(len(cell_text(metric, float(value), divisor)) for value in sample)])


def headline(layout: Layout, trend_span: str = "") -> Row:
    """Return the names of the columns, each above its own; `trend_span` says how long a row of bars is."""
    lead, gap = ("   ", "   ") if layout.spaced else ("  ", " ")
    parts = [lead + "node".ljust(layout.name) + ("" if layout.spaced else " ")]
    if layout.value:
        parts.append("value"[: layout.value + 1].rjust(layout.value + 1))
    for scope, label in LABELS.items():
        count, cell = layout.cells_of(scope)
        if count:
            parts.append(_numbered(label, count, cell) if layout.spaced else label[:count].ljust(count))
    parts += [name.ljust(cells) for name in ("host", "link", "job", "rack") if (cells := getattr(layout, name))]
    parts += [trend_span.ljust(layout.trend)] if layout.trend else []
    parts.append("what")
    return (Span(gap.join(parts), Tone.QUIET),)


def _numbered(word: str, count: int, cell: int) -> str:
    if cell == 1:
        return f"{word} {' '.join(str(index % 10) for index in range(count))}"
    text = "".join(f"{index:>{cell + 1}}" for index in range(count))
    return word + text[len(word) :] if text[: len(word)].isspace() else text
