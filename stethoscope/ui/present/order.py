"""In which order nodes stand, worked out for all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Reason, Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS
from stethoscope.ui.present.groups import natural

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment

    Floats = npt.NDArray[np.float64]
    Order = npt.NDArray[np.int64]


def order_of(
    assessment: Assessment, metric: Metric, sort: str, odd: npt.NDArray[np.bool_], away: Floats | None = None
) -> Order:
    """Return the positions of the nodes in their order: `worst`, `name`, `value` of the chosen metric, or `group` (pod
    and rack); `odd` are those unlike their peers, `away` the distances by row that are shown instead of values. What
    stands alike keeps the fleet's own order."""
    size = len(assessment.snapshot.nodes)
    index = np.arange(size)
    if sort == "name":
        return index
    if sort == "group":
        places = [(natural(node.pod), natural(node.rack), node.index) for node in assessment.snapshot.nodes]
        return np.array(sorted(range(size), key=places.__getitem__), dtype=np.int64)
    if sort == "value":
        return _by_value(assessment, metric, away)
    level = assessment.nodes.astype(np.int64)
    found = np.zeros(size, dtype=np.int64)
    for name, findings in assessment.findings.items():
        if name in assessment.snapshot.by_name:
            found[assessment.snapshot.by_name[name]] = SEVERITY_LEVELS[findings[0].severity]
    # What was found and confirmed stands before what only passed a threshold.
    return np.lexsort((index, ~odd, found < level, -level))


def _by_value(assessment: Assessment, metric: Metric, away: Floats | None) -> Order:
    """Worst values first; a node without one that something is wrong with must not hide behind those that have one."""
    size = len(assessment.snapshot.nodes)
    if away is not None:
        values, present = _farthest(assessment, metric, away)
        return np.lexsort((np.arange(size), np.where(present, -values, 0.0), ~present))
    values, present = node_values(assessment, metric)
    place = np.where(present, 0, np.where(assessment.nodes > 0, -1, 1))
    return np.lexsort((np.arange(size), np.where(present, values if metric.worse == "low" else -values, 0.0), place))


def node_values(assessment: Assessment, metric: Metric) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return by node the worst value of `metric` on it, and whether there is one."""
    table = assessment.snapshot.tables[metric.scope]
    column = table.index[metric.id]
    present = table.reasons[column] == Reason.PRESENT
    if metric.scope is Scope.NODE:
        return np.asarray(table.values[column], dtype=np.float64), present
    owner = assessment.owners[metric.scope][0]
    rows = np.flatnonzero(present & (owner >= 0))
    sign = 1.0 if metric.worse == "low" else -1.0
    worst = np.full(len(assessment.snapshot.nodes), np.inf)
    np.minimum.at(worst, owner[rows], sign * table.values[column, rows])
    known = np.isfinite(worst)
    return np.where(known, sign * worst, 0.0), known


def _farthest(assessment: Assessment, metric: Metric, away: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return by node the largest of the distances of its rows, and whether there is one."""
    if metric.scope is Scope.NODE:
        return np.nan_to_num(away), ~np.isnan(away)
    owner = assessment.owners[metric.scope][0]
    rows = np.flatnonzero(~np.isnan(away) & (owner >= 0))
    most = np.full(len(assessment.snapshot.nodes), -1.0)
    np.maximum.at(most, owner[rows], away[rows])
    return most, most >= 0
