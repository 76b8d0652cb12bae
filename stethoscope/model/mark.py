"""A mark: the totals of all counters and the values of what can be shown of a fleet at one moment, and what was counted
since then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.model.fleet import Codes, Totals
from stethoscope.model.metric import Kind, Missing, Reason, Scope
from stethoscope.model.rows import first_row, identities

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric


@dataclass(frozen=True, slots=True)
class MarkedNode:
    """A node at the mark: its boot, and where the totals of its devices stand."""

    boot_id: str = ""
    first: Mapping[Scope, int] = field(default_factory=dict)
    """First row in the totals of each scope."""
    devices: Mapping[Scope, tuple[str, ...]] = field(default_factory=dict)
    """What the rows stood for (model.rows.identities)."""


@dataclass(frozen=True, slots=True)
class MarkedTotals:
    """The totals of one scope: `totals[counter, row]`, meant where `reasons[counter, row]` is PRESENT."""

    counters: tuple[str, ...]
    totals: Totals
    reasons: Codes


@dataclass(frozen=True, slots=True)
class MarkedValues:
    """What the metrics of one scope that do not count were: `values[metric, row]`, NaN where there was no value."""

    metrics: tuple[str, ...]
    values: npt.NDArray[np.float32]


_KEPT_SCOPES = (Scope.NODE, Scope.GPU, Scope.PORT)
"""Those that the screen of the fleet shows; values of thousands of links would make a mark of tens of megabytes."""


@dataclass(slots=True, eq=False)
class Mark:
    """The totals of a fleet at one moment; equal to itself alone: arrays that two have cannot be asked whether they
    equal, and in a paused replay one can be set twice at the same moment."""

    fleet: str
    wall: float
    """Console's wall time of the moment, in seconds since 1970."""
    nodes: Mapping[str, MarkedNode]
    """Those that had sent something."""
    totals: Mapping[Scope, MarkedTotals]
    values: Mapping[Scope, MarkedValues] = field(default_factory=dict)
    """Of what does not count and can be chosen for the fleet; empty in a mark of an earlier version."""
    _found: int = 0
    """Index of the node that was asked for last: a screen asks for one after the other."""

    @classmethod
    def of(cls, snapshot: FleetSnapshot) -> Mark:
        """Return a mark at the moment of `snapshot`."""
        nodes = {}
        for node in snapshot.nodes:
            if node.frames:
                first = {scope: first_row(node, scope) for scope in snapshot.tables}
                devices = {scope: identities(node, scope) for scope in snapshot.tables}
                nodes[node.name] = MarkedNode(node.boot_id, first, devices)
        totals = {
            scope: MarkedTotals(table.counters, table.totals, table.total_reasons)
            for scope, table in snapshot.tables.items()
            if table.counters
        }
        values = {scope: _values(snapshot, scope) for scope in _KEPT_SCOPES}
        return cls(snapshot.fleet, snapshot.wall, nodes, totals, values)

    def since(self, snapshot: FleetSnapshot, scope: Scope, metric: str, row: int) -> int | Missing:
        """Return what the counter `metric` of `row` counted since the mark, or why that is not known.

        RESET when the total is lower than it was; ABSENT when the device was not there, WAITING when the node had sent
        nothing, or `snapshot` is from before the mark; SATURATED when the counter stood at its end; else the reason of
        the missing total. Where the node was booted in between, the counters began at 0: what they show is what was
        counted since, but for those whose totals are kept in the device.
        """
        total = snapshot.tables[scope].total(metric, row)
        if isinstance(total, Missing):
            return total
        node = self._node_at(snapshot, scope, row)
        marked = self.nodes.get(node.name) if node is not None else None
        if node is None or marked is None or snapshot.wall < self.wall:
            return Missing(Reason.WAITING)
        device = identities(node, scope)[row - first_row(node, scope)]
        if device not in marked.devices.get(scope, ()):
            return Missing(Reason.ABSENT)
        known = snapshot.catalogue[metric]
        if self.booted_since(node) and not known.lasting:
            return total
        at = marked.first[scope] + marked.devices[scope].index(device)
        return self._difference(scope, known, at, total)

    def booted_since(self, node: Node) -> bool:
        """Tell whether `node` was booted after the mark; False where it does not tell its boots apart."""
        marked = self.nodes.get(node.name)
        return marked is not None and bool(marked.boot_id and node.boot_id) and marked.boot_id != node.boot_id

    def remark(self, node: Node) -> str:
        """Return what is to be known about the numbers since the mark of `node`, empty where there is nothing."""
        if node.name not in self.nodes:
            return "had sent nothing at the mark" if node.frames else ""
        return "booted since the mark: its counters began at 0" if self.booted_since(node) else ""

    def _difference(self, scope: Scope, metric: Metric, at: int, total: int) -> int | Missing:
        table = self.totals.get(scope)
        if table is None or metric.id not in table.counters:
            return Missing(Reason.WAITING)
        counter = table.counters.index(metric.id)
        reason = Reason(int(table.reasons[counter, at]))
        if reason is not Reason.PRESENT:
            return Missing(reason)
        before = int(table.totals[counter, at])
        if total < before:
            return Missing(Reason.RESET)
        return Missing(Reason.SATURATED) if total == before and total in metric.pins else total - before

    def _node_at(self, snapshot: FleetSnapshot, scope: Scope, row: int) -> Node | None:
        nodes = snapshot.nodes
        if self._found < len(nodes) and row in snapshot.rows(nodes[self._found], scope):
            return nodes[self._found]
        for index, node in enumerate(nodes):
            if row in snapshot.rows(node, scope):
                self._found = index
                return node
        return None


def _values(snapshot: FleetSnapshot, scope: Scope) -> MarkedValues:
    table, known = snapshot.tables[scope], snapshot.catalogue
    names = tuple(name for name in table.metrics if known[name].fleet and known[name].kind in (Kind.GAUGE, Kind.STATE))
    columns = [table.index[name] for name in names]
    present = table.reasons[columns] == Reason.PRESENT
    return MarkedValues(names, np.where(present, table.values[columns], np.nan).astype(np.float32))
