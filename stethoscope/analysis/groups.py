"""The metrics of a table that come together: in frames (group ""), or in the parts of one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.batch import NOTHING, Named
from stethoscope.analysis.counters import CounterRules
from stethoscope.analysis.derive import DERIVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.metric import Metric


_MOST_NAMED = 512
"""So many kinds of lines of a group are known again: they name the same metrics."""


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
    _named: dict[tuple[str, ...], Named] = field(default_factory=dict, init=False, repr=False, compare=False)

    def named_by(self, part: Mapping[str, object]) -> Named | None:
        """Return what a line names that names these metrics, None when one is not of this group."""
        if not part:
            return NOTHING
        metrics = tuple(part)
        named = self._named.get(metrics)
        if named is None:
            if not self.columns.keys() >= part.keys():
                return None
            if len(self._named) >= _MOST_NAMED:
                self._named.clear()
            columns = [self.columns[metric] for metric in metrics]
            counts = [self.counters.start <= column < self.counters.stop for column in columns]
            counters, gauges = (tuple([at for at, one in enumerate(counts) if one is is_it]) for is_it in (True, False))
            named = self._named[metrics] = Named(
                tuple([columns[at] for at in gauges]), tuple([columns[at] for at in counters]), gauges, counters
            )
        return named

    @classmethod
    def of(cls, name: str, metrics: Sequence[Metric], counters: Sequence[Metric], index: Mapping[str, int]) -> Group:
        """Return the group `name` of a table whose first columns are `counters`, group by group."""
        given = [metric for metric in metrics if metric.group == name and metric.tier != "console"]
        own = [column for column, metric in enumerate(counters) if metric.group == name]
        span = slice(own[0], own[-1] + 1) if own else slice(0, 0)
        columns = {metric.id: index[metric.id] for metric in given if metric.id not in DERIVED}
        return cls(name, columns, np.fromiter(columns.values(), np.intp), span, CounterRules.of(counters[span]))
