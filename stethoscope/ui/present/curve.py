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
    from stethoscope.model.fleet import FleetSnapshot, Floats
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
    if metric is not None and metric.scope is Scope.JOB:
        return _of_job(snapshot, metric, place, glyphs, cells)
    if metric is None or metric.words or history is None or history.last_mono is None:
        return None
    row = row_at(snapshot, place, metric.scope)
    if row is None:
        return None
    ages, values = history.series(metric.scope, metric.id, row)
    known = values[~np.isnan(values)]
    span = _range(metric, known)
    if not span:
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
    return Curve(drawn, span_text(float(ages[0])), span, is_marked)


def _of_job(snapshot: FleetSnapshot, metric: Metric, place: str, glyphs: Glyphs, cells: int) -> Curve | None:
    """Return the curve of a number of a job over its last steps, as its log says them."""
    standing = snapshot.standings.get(place.partition("/")[2])
    kept = {"job_step_time": "step_time", "job_throughput": "throughput", "job_loss": "loss"}.get(metric.id)
    if standing is None or kept is None:
        return None
    said = getattr(standing, kept).values
    values = np.array([np.nan if value is None else value for value in said], dtype=np.float64)
    span = _range(metric, values[~np.isnan(values)])
    return Curve(bars(values, cells, glyphs), f"{len(values):,} steps", span, is_marked=False) if span else None


def _range(metric: Metric, known: Floats) -> str:
    """Return the lowest and the highest of some values, empty where they are alike: a level line says nothing."""
    if known.size < 2:
        return ""
    low, high = value_text(metric, float(known.min())), value_text(metric, float(known.max()))
    unit = high.partition(" ")[2]
    return f"{low.removesuffix(f' {unit}') if unit else low.removesuffix('/s')}..{high}" if low != high else ""
