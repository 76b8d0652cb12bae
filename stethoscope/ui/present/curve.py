"""The curve of one piece of evidence: its value over the last minutes, with the moment since which it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.ids import node_of
from stethoscope.model.metric import Scope
from stethoscope.ui.present.node.trend import bars, span_text
from stethoscope.ui.present.numbers import value_text

if TYPE_CHECKING:
    from stethoscope.analysis.history import History
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.spans import Glyphs

CELLS = 24


class Curve(NamedTuple):
    """What is drawn, and what it spans."""

    bars: str
    """With `|` at the moment since."""
    span: str
    """`10 min`"""
    range: str
    """Lowest and highest: `61..88 °C`."""
    is_marked: bool

    @property
    def text(self) -> str:
        """Return the whole: `10 min ▁▁|▅█ 61..88 °C`."""
        return f"{self.span} {self.bars} {self.range}"


def metric_of(snapshot: FleetSnapshot, fact: str) -> Metric | None:
    """Return the metric that a fact is about, None for one about something else."""
    return snapshot.catalogue.get(fact.partition(" ")[0])


def row_at(snapshot: FleetSnapshot, place: str, scope: Scope) -> int | None:
    """Return the row of a place, or of the node that it is on, in the table of `scope`; None when it has none there."""
    if scope is Scope.JOB:
        ids = [f"job/{job.id}" for job in snapshot.jobs]
        return ids.index(place) if place in ids else None
    index = snapshot.by_name.get(node_of(place))
    if index is None:
        return None
    node = snapshot.nodes[index]
    for position, row in enumerate(snapshot.rows(node, scope)):
        if scope is Scope.NODE or snapshot.place(node, scope, position) == place:
            return row
    return None


def curve_of(
    snapshot: FleetSnapshot,
    history: History | None,
    fact: str,
    place: str,
    since: float,
    glyphs: Glyphs,
    cells: int = CELLS,
) -> Curve | None:
    """Return the curve of a fact at a place; None where nothing is kept, or it is no number."""
    metric = metric_of(snapshot, fact)
    if metric is None or metric.words or history is None or history.last_mono is None:
        return None
    row = row_at(snapshot, place, metric.scope)
    if row is None:
        return None
    ages, values = history.series(metric.scope, metric.id, row)
    known = values[~np.isnan(values)]
    if known.size < 2:
        return None
    drawn = bars(values, cells, glyphs)
    # The age of that moment as the last sample sees it.
    age = snapshot.wall - since - (snapshot.mono - history.last_mono)
    before = int(np.count_nonzero(ages > age))
    is_marked = 0 < before < len(ages)
    if is_marked:
        # Before the cell that shows the first sample since then.
        at = next(n for n, part in enumerate(np.array_split(np.arange(len(ages)), len(drawn))) if part[-1] >= before)
        drawn = f"{drawn[:at]}|{drawn[at:]}"
    low, high = value_text(metric, float(known.min())), value_text(metric, float(known.max()))
    if low == high and known.min() != known.max():
        # What is too small to be told apart in words says nothing as a curve either.
        return None
    if low != high:
        unit = high.partition(" ")[2]
        low = low.removesuffix(f" {unit}") if unit else low.removesuffix("/s")
        high = f"{low}..{high}"
    return Curve(drawn, span_text(float(ages[0])), high, is_marked)
