"""Which level every row of a table has by its own values: missing by their reasons, else by the limits of metrics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stethoscope.model.grid import Grid, is_uniform
from stethoscope.model.metric import Kind, Missing, Reason
from stethoscope.ui.present.numbers import REASON_LEVELS, total_text, value_text
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from stethoscope.analysis.alike import Recall
    from stethoscope.model.fleet import Codes, FleetSnapshot, Table
    from stethoscope.model.metric import Metric, Scope

    Flags = npt.NDArray[np.bool_]
    Levels = npt.NDArray[np.uint8]

_REASON_LEVELS = np.array([REASON_LEVELS[reason] for reason in Reason], dtype=np.uint8)
_ACTIVE_PORT = 4


def metric_levels(table: Table, metric: Metric, part: range | None = None) -> Levels:
    """Return the level of one metric in every row, or in those of `part`: missing by its reason, else by the metric's
    own thresholds."""
    column = table.index[metric.id]
    here = slice(None) if part is None else slice(part.start, part.stop)
    reasons, values = table.reasons[column, here], table.values[column, here]
    levels: Levels = _REASON_LEVELS[reasons].copy()
    present = reasons == Reason.PRESENT
    if metric.kind is Kind.COUNTER:
        values = values * metric.rate_scale
    for limit, level in ((metric.warn, Level.WARNING), (metric.critical, Level.CRITICAL)):
        if limit is not None and metric.worse in ("high", "low"):
            with np.errstate(invalid="ignore"):
                beyond = values >= limit if metric.worse == "high" else values <= limit
            levels[present & beyond] = level
    if metric.critical_total is not None:
        counter = table.counter_index[metric.id]
        known = table.total_reasons[counter, here] == Reason.PRESENT
        levels[known & (table.totals[counter, here] >= metric.critical_total)] = Level.CRITICAL
    if metric.id == "ib_port_state":
        levels[present & (values != _ACTIVE_PORT)] = Level.CRITICAL
    return levels


def is_judged(metric: Metric) -> bool:
    """Tell whether values of a metric have a level of their own."""
    # How old a node's data is follows from its link and its tick, not from a threshold of its own.
    return metric.id == "ib_port_state" or (
        metric.id != "node_data_age"
        and not (metric.warn is None and metric.critical is None and metric.critical_total is None)
    )


def wrong_text(table: Table, metric: Metric, row: int) -> str:
    """Return what is wrong with a value: the value, or of a counter that stands still what it has counted."""
    value = table.get(metric.id, row)
    if metric.critical_total is not None and (isinstance(value, Missing) or value == 0):
        total = table.total(metric.id, row)
        if not isinstance(total, Missing) and total >= metric.critical_total:
            return f"{total_text(metric, total)} in all"
    return value_text(metric, value)


def row_levels(snapshot: FleetSnapshot, scope: Scope, recall: Recall) -> Levels:
    """Return the level of every row of a table by all its metrics; what is worked out of columns that do not change is
    in `recall`, and nobody may change it."""
    table = snapshot.tables[scope]
    return recall.made(("rows", scope), (table,), partial(_row_levels, snapshot, table, recall))


def _row_levels(snapshot: FleetSnapshot, table: Table, recall: Recall) -> Levels:
    levels = np.zeros(table.values.shape[1], dtype=np.uint8)
    for name in table.metrics:
        metric = snapshot.catalogue[name]
        if is_judged(metric):
            some = recall.made((table.scope, name), _behind(table, metric), partial(_some_levels, table, metric))
            if some is not None:
                np.maximum(levels, some, out=levels)
    if table.values.shape[0] and levels.size:
        silent = where_all(table.reasons, lambda reasons: reasons != Reason.PRESENT)
        levels[silent & (levels == Level.NORMAL)] = Level.MISSING
    return levels


def _some_levels(table: Table, metric: Metric) -> Levels | None:
    """Return what a metric says of each row, None where it says of all that they are well."""
    if _is_all_normal(table, metric):
        return None
    some = metric_levels(table, metric)
    # A missing value among many is not a level of the device, unless the device itself is gone.
    some[some == Level.MISSING] = Level.NORMAL
    return some if some.any() else None


def _behind(table: Table, metric: Metric) -> tuple[object, ...]:
    """Return what the level of a metric is made of, the same objects as long as it does not change."""
    column = table.index[metric.id]
    behind: list[object] = [metric, *_arrays(table.values, column), *_arrays(table.reasons, column)]
    if metric.critical_total is not None:
        counter = table.counter_index[metric.id]
        behind += [*_arrays(table.totals, counter), *_arrays(table.total_reasons, counter)]
    return tuple(behind)


def _arrays(grid: Any, column: int) -> tuple[object, ...]:
    # How many rows there are belongs to it: columns have room for more.
    return (*grid.behind(column), grid.shape[1]) if isinstance(grid, Grid) else (grid[column],)


def where_all(reasons: Codes, tell: Callable[[Codes], Flags]) -> Flags:
    """Return in which rows `tell` is true of the reasons of all metrics, taken column by column."""
    found = np.ones(reasons.shape[1], np.bool_)
    for column in range(reasons.shape[0]):
        here = cast("Codes", reasons[column])
        if not is_uniform(here):
            found &= tell(here)
        elif not tell(here[:1])[0]:
            return np.zeros_like(found)
    return found


def _is_all_normal(table: Table, metric: Metric) -> bool:
    """Tell whether every row has a value of `metric` within its limits: seen in a tenth of the time."""
    if metric.critical_total is not None and table.totals[table.counter_index[metric.id]].max(initial=0):
        return False
    column = table.index[metric.id]
    limits = [limit for limit in (metric.warn, metric.critical) if limit is not None]
    values = table.values[column]
    if not limits or metric.worse not in ("high", "low") or not values.size or table.reasons[column].any():
        return False
    scale = metric.rate_scale if metric.kind is Kind.COUNTER else 1.0
    if metric.worse == "high":
        return bool(values.max() * scale < min(limits))
    return bool(values.min() * scale > max(limits))
