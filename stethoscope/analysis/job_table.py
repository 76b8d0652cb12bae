"""The table of jobs: one row a job, with what its log says; nothing that a log does not say gets a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.fleet import Table
from stethoscope.model.metric import Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stethoscope.model.metric import Metric


def job_table(
    rows: Sequence[Mapping[str, float | Reason]], catalogue: Mapping[str, Metric], *, version: int = 0
) -> Table:
    """Return the table whose rows have these values by metric id; a metric that a row does not have is not supported
    there, and one of a reason has that reason."""
    metrics = tuple(metric.id for metric in catalogue.values() if metric.scope is Scope.JOB)
    index = {metric: column for column, metric in enumerate(metrics)}
    values = np.full((len(metrics), len(rows)), np.nan)
    reasons = np.full((len(metrics), len(rows)), int(Reason.UNSUPPORTED), np.uint8)
    for row, known in enumerate(rows):
        for column, value in _known(index, known):
            if isinstance(value, Reason):
                reasons[column, row] = value
            else:
                # A loss of NaN is told by its state: in a table NaN means that there is no value.
                values[column, row] = value
                reasons[column, row] = Reason.ERROR if np.isnan(value) else Reason.PRESENT
    none = np.empty((0, len(rows)), np.uint64)
    return Table(
        scope=Scope.JOB,
        metrics=metrics,
        values=values,
        reasons=reasons,
        counters=(),
        totals=none,
        total_reasons=np.empty((0, len(rows)), np.uint8),
        since_first=none,
        first_at=np.full(len(rows), np.nan),
        index=index,
        counter_index={},
        version=version,
    )


def _known(index: Mapping[str, int], values: Mapping[str, float | Reason]) -> Iterable[tuple[int, float | Reason]]:
    return [(index[name], value) for name, value in values.items() if name in index]
