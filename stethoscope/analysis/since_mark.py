"""How far the values of a whole table are from what they were at a mark, for all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.metric import Kind, Reason, Scope
from stethoscope.model.rows import first_row, identities

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, FleetSnapshot, Floats, Node
    from stethoscope.model.mark import Mark
    from stethoscope.model.metric import Metric

    Rows = npt.NDArray[np.int64]

_SILENT, _ANOTHER = -1, -2
"""Instead of a row at the mark: the node had sent nothing, the device was not there."""


class Changes(NamedTuple):
    """By row: what a counter counted since the mark, else the value minus that at the mark; `reasons` say why there is
    none where they are not PRESENT, and `values` is NaN there."""

    values: Floats
    reasons: Codes


class _Known(NamedTuple):
    source: object
    """What the rows of the node stand for; the same object as long as that is the same."""
    first: int
    boot_id: str
    rows: Rows
    booted: bool


class SinceMark:
    """Follows which row of a scope was which at the mark."""

    def __init__(self, mark: Mark) -> None:
        """Compare with `mark`."""
        self.mark = mark
        self._known: dict[Scope, dict[str, _Known]] = {}

    def changes(self, snapshot: FleetSnapshot, metric: Metric) -> Changes:
        """Return how far all rows of the metric's table are from the mark; model.mark.Mark.since says when they are
        missing, and a value that was missing at the mark is WAITING."""
        rows, booted = self._rows(snapshot, metric.scope)
        if metric.kind is Kind.COUNTER:
            return self._counted(snapshot, metric, rows, booted)
        table = snapshot.tables[metric.scope]
        column = table.index[metric.id]
        reasons = _placed(table.reasons[column], rows, is_before=snapshot.wall < self.mark.wall)
        kept = self.mark.values.get(metric.scope)
        here = np.flatnonzero(reasons == Reason.PRESENT)
        values = np.full(reasons.size, np.nan)
        if kept is None or metric.id not in kept.metrics:
            reasons[here] = Reason.WAITING
            return Changes(values, reasons)
        before = kept.values[kept.metrics.index(metric.id), rows[here]]
        # Both as the mark keeps them: what did not change has a difference of 0.
        values[here] = table.values[column, here].astype(np.float32) - before
        reasons[here[np.isnan(before)]] = Reason.WAITING
        return Changes(values, reasons)

    def _counted(self, snapshot: FleetSnapshot, metric: Metric, rows: Rows, booted: npt.NDArray[np.bool_]) -> Changes:
        table = snapshot.tables[metric.scope]
        column = table.counter_index[metric.id]
        totals = table.totals[column]
        reasons = _placed(table.total_reasons[column], rows, is_before=snapshot.wall < self.mark.wall)
        present = reasons == Reason.PRESENT
        values = np.where(present, totals.astype(np.float64), np.nan)
        here = np.flatnonzero(present & ~(booted & (not metric.lasting)))
        kept = self.mark.totals.get(metric.scope)
        if kept is None or metric.id not in kept.counters:
            reasons[here], values[here] = Reason.WAITING, np.nan
            return Changes(values, reasons)
        counter, at = kept.counters.index(metric.id), rows[here]
        before, now = kept.totals[counter, at], totals[here]
        why = kept.reasons[counter, at].copy()
        known = why == Reason.PRESENT
        why[known & (now < before)] = Reason.RESET
        why[known & (now == before) & np.isin(now, np.array(metric.pins, dtype=np.uint64))] = Reason.SATURATED
        reasons[here] = why
        values[here] = np.where(why == Reason.PRESENT, (now - before).astype(np.float64), np.nan)
        return Changes(values, reasons)

    def _rows(self, snapshot: FleetSnapshot, scope: Scope) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Return for each row where it was at the mark, or why it was not, and whether its node was booted since."""
        size = snapshot.tables[scope].values.shape[1]
        rows, booted = np.full(size, _SILENT, dtype=np.int64), np.zeros(size, dtype=np.bool_)
        known = self._known.setdefault(scope, {})
        for node in snapshot.nodes:
            first = first_row(node, scope)
            if first < 0:
                continue
            kept, source = known.get(node.name), _source(node, scope)
            if kept is None or kept.source is not source or kept.first != first or kept.boot_id != node.boot_id:
                kept = known[node.name] = self._find(node, scope, source, first)
            rows[first : first + kept.rows.size] = kept.rows
            if kept.booted:
                booted[first : first + kept.rows.size] = True
        return rows, booted

    def _find(self, node: Node, scope: Scope, source: object, first: int) -> _Known:
        devices = identities(node, scope)
        marked = self.mark.nodes.get(node.name)
        rows = np.full(len(devices), _SILENT, dtype=np.int64)
        if marked is not None:
            at = {device: marked.first[scope] + place for place, device in enumerate(marked.devices.get(scope, ()))}
            rows[:] = [at.get(device, _ANOTHER) for device in devices]
        return _Known(source, first, node.boot_id, rows, self.mark.booted_since(node))


def _source(node: Node, scope: Scope) -> object:
    if scope is Scope.GPU:
        return node.gpus
    if scope is Scope.PORT:
        return node.ports
    return node.name if scope is Scope.NODE else node.devices.get(scope)


def _placed(reasons: Codes, rows: Rows, *, is_before: bool) -> Codes:
    """Return a copy of `reasons` in which what was not there at the mark is missing; all of it is in a snapshot from
    before the mark."""
    placed = reasons.copy()
    present = placed == Reason.PRESENT
    placed[present & ((rows == _SILENT) | is_before)] = Reason.WAITING
    placed[present & (rows == _ANOTHER) & (not is_before)] = Reason.ABSENT
    return placed
