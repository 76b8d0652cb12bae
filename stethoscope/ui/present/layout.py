"""Which columns the fleet screen has in the cells that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Reason, Scope
from stethoscope.ui.present.numbers import cell_text
from stethoscope.ui.present.spans import Row, Span, Tone, width

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric

_NAME_LIMIT = 26
_HOST_WIDTH = 14
_LINK_WIDTH = 12
LABELS = {Scope.GPU: "gpu", Scope.PORT: "ib"}
"""Names of the blocks of cells in the headline."""
_WHAT_FULL = 36
_WHAT_LEAN = 34
_WHAT_BARE = 34


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
    host: int
    link: int

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
        ]
        return 3 + self.name + sum(block + gap for block in blocks if block) + gap


def choose(snapshot: FleetSnapshot, metric: Metric, cells: int, digits: int) -> Layout:
    """Return the richest layout that leaves room for the sentence in the last column; `digits` is the width of a
    number of `metric`."""
    name = min(_NAME_LIMIT, max((width(node.name) for node in snapshot.nodes), default=4))
    name = max(name, 8)
    gpus = max((len(node.gpus) for node in snapshot.nodes), default=0)
    ports = max((len(node.ports) for node in snapshot.nodes), default=0)
    gpu_cell = digits if metric.scope is Scope.GPU else 1
    port_cell = digits if metric.scope is Scope.PORT else 1
    value = digits if metric.scope is Scope.NODE else 0
    full = Layout(cells, name, gpus, ports, gpu_cell, port_cell, value, True, _HOST_WIDTH, _LINK_WIDTH)
    if cells - full.before_what >= _WHAT_FULL:
        return full
    lean = Layout(cells, name, gpus, ports, gpu_cell, port_cell, value, True, 0, _LINK_WIDTH)
    if cells - lean.before_what >= _WHAT_LEAN:
        return lean
    bare = Layout(cells, name, gpus, ports, gpu_cell, port_cell, value, True, 0, 0)
    if cells - bare.before_what >= _WHAT_BARE:
        return bare
    return Layout(cells, min(name, max(8, cells // 4)), gpus, ports, 1, 1, value, False, 0, 0)


def digits_of(snapshot: FleetSnapshot, metric: Metric, least: int, divisor: float) -> int:
    """Return how many cells the longest value takes, never fewer than `least`, so that columns do not jump."""
    table = snapshot.tables[metric.scope]
    column = table.index[metric.id]
    values = np.unique(table.values[column][table.reasons[column] == Reason.PRESENT])
    sample = values if values.size <= 64 else np.concatenate([values[:32], values[-32:]])
    return max([least, *(len(cell_text(metric, float(value), divisor)) for value in sample)])


def headline(layout: Layout) -> Row:
    """Return the names of the columns, each above its own."""
    lead, gap = ("   ", "   ") if layout.spaced else ("  ", " ")
    parts = [lead + "node".ljust(layout.name) + ("" if layout.spaced else " ")]
    if layout.value:
        parts.append("value"[: layout.value + 1].rjust(layout.value + 1))
    for scope, label in LABELS.items():
        count, cell = layout.cells_of(scope)
        if count:
            parts.append(_numbered(label, count, cell) if layout.spaced else label[:count].ljust(count))
    if layout.host:
        parts.append("host".ljust(layout.host))
    if layout.link:
        parts.append("link".ljust(layout.link))
    parts.append("what")
    return (Span(gap.join(parts), Tone.QUIET),)


def _numbered(word: str, count: int, cell: int) -> str:
    if cell == 1:
        return f"{word} {' '.join(str(index % 10) for index in range(count))}"
    text = "".join(f"{index:>{cell + 1}}" for index in range(count))
    return word + text[len(word) :] if text[: len(word)].isspace() else text
