"""The metrics of a table that come together: in frames (group ""), or in the parts of one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.counters import CounterRules
from stethoscope.analysis.derive import DERIVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.metric import Metric


@dataclass(frozen=True, slots=True)
class Group:
    """What one line can bring to a table."""

    name: str
    columns: Mapping[str, int]
    """Column of each metric that nodes give."""
    all_columns: npt.NDArray[np.intp]
    counters: slice
    """Columns of those that count; all others are behind these."""
    rules: CounterRules

    @classmethod
    def of(cls, name: str, metrics: Sequence[Metric], counters: Sequence[Metric], index: Mapping[str, int]) -> Group:
        """Return the group `name` of a table whose first columns are `counters`, group by group."""
        given = [metric for metric in metrics if metric.group == name and metric.tier != "console"]
        own = [column for column, metric in enumerate(counters) if metric.group == name]
        span = slice(own[0], own[-1] + 1) if own else slice(0, 0)
        columns = {metric.id: index[metric.id] for metric in given if metric.id not in DERIVED}
        return cls(name, columns, np.fromiter(columns.values(), np.intp), span, CounterRules.of(counters[span]))
