"""The metrics of a table that come together: in frames (group ""), or in the parts of one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.counters import CounterRules
from stethoscope.analysis.derive import DERIVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.metric import Metric

_MOST_PLANS = 256
"""Sets of metrics that are remembered: a kind of node has one for each line that it sends."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the lists of a line go, and what it does not name."""

    gauges: tuple[str, ...]
    gauge_columns: npt.NDArray[np.intp]
    counters: tuple[str, ...]
    counter_columns: npt.NDArray[np.intp]
    counter_rows: npt.NDArray[np.intp]
    """The same from the first counter of the group on."""
    is_all: bool
    """Every counter of the group is there, each in its place."""
    silent: npt.NDArray[np.intp]
    """Columns of the group that the line does not name, and ..."""
    silent_counters: npt.NDArray[np.intp]
    """... those of them that count."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one line can bring to a table."""

    columns: Mapping[str, int]
    """Column of each metric that nodes give."""
    counters: slice
    """Columns of those that count."""
    rules: CounterRules
    _plans: dict[tuple[str, ...], Plan] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, metrics: Sequence[Metric], counters: Sequence[Metric], index: Mapping[str, int]) -> Group:
        """Return the group `name` of a table whose first columns are `counters`, group by group."""
        given = [metric for metric in metrics if metric.group == name and metric.tier != "console"]
        own = [column for column, metric in enumerate(counters) if metric.group == name]
        span = slice(own[0], own[-1] + 1) if own else slice(0, 0)
        columns = {metric.id: index[metric.id] for metric in given if metric.id not in DERIVED}
        return cls(columns, span, CounterRules.of(counters[span]))

    def plan(self, named: Iterable[str]) -> Plan:
        """Return where the lists of a line go that names these metrics, known ones and others."""
        key = tuple(named)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._planned(key)
        return plan

    def _planned(self, named: tuple[str, ...]) -> Plan:
        known = [(name, self.columns[name]) for name in named if name in self.columns]
        narrow = self.counters.stop
        counters = sorted((one for one in known if one[1] < narrow), key=lambda one: one[1])
        gauges = [one for one in known if one[1] >= narrow]
        silent = [column for name, column in self.columns.items() if name not in named]
        at = _columns(column for _, column in counters)
        return Plan(
            tuple(name for name, _ in gauges),
            _columns(column for _, column in gauges),
            tuple(name for name, _ in counters),
            at,
            at - self.counters.start,
            len(counters) == self.counters.stop - self.counters.start,
            _columns(silent),
            _columns(column for column in silent if column < narrow),
        )


def _columns(numbers: Iterable[int]) -> npt.NDArray[np.intp]:
    return np.fromiter(numbers, np.intp)
