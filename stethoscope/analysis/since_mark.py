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
    nodes: tuple[Node, ...]
    rows: Rows
    """Where each row was at the mark, or why it was not."""
    booted: npt.NDArray[np.bool_]
    """Rows of nodes that were booted since."""


class SinceMark:
    """Follows which row of a scope was which at the mark."""

    def __init__(self, mark: Mark) -> None:
        """Compare with `mark`."""
        self.mark = mark
        self._known: dict[Scope, _Known] = {}

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
        nodes, size = snapshot.nodes, snapshot.tables[scope].values.shape[1]
        known = self._known.get(scope)
        if known is None or known.rows.size != size or not _is_same(known.nodes, nodes, scope):
            known = self._find(nodes, size, scope)
        self._known[scope] = known._replace(nodes=nodes)
        return known.rows, known.booted

    def _find(self, nodes: tuple[Node, ...], size: int, scope: Scope) -> _Known:
        rows, booted = np.full(size, _SILENT, dtype=np.int64), np.zeros(size, dtype=np.bool_)
        for node in nodes:
            first, marked = first_row(node, scope), self.mark.nodes.get(node.name)
            if first < 0 or marked is None:
                continue
            devices, had = identities(node, scope), marked.devices.get(scope, ())
            begin = marked.first.get(scope, -1)
            part = slice(first, first + len(devices))
            if devices == had:
                rows[part] = np.arange(begin, begin + len(devices))
            else:
                at = {device: begin + place for place, device in enumerate(had)}
                rows[part] = [at.get(device, _ANOTHER) for device in devices]
            booted[part] = self.mark.booted_since(node)
        return _Known(nodes, rows, booted)


def _is_same(old: tuple[Node, ...], new: tuple[Node, ...], scope: Scope) -> bool:
    """Tell whether rows stand for the same devices, in nodes that were not booted."""
    return len(old) == len(new) and all(
        before is now
        or (
            before.boot_id == now.boot_id
            and first_row(before, scope) == first_row(now, scope)
            and (_source(before, scope) is _source(now, scope) or _source(before, scope) == _source(now, scope))
        )
        for before, now in zip(old, new, strict=True)
    )


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
