"""Which row of which table belongs to which node, as arrays, so that a rule is evaluated on all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.comparable import joined, numbered
from stethoscope.model.metric import Scope
from stethoscope.model.rows import has_same_rows

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

Numbers = npt.NDArray[Any]
"""Whole numbers, of 32 or 64 bits."""


class Layout:
    """Owner and position of every row; made again only when the inventory of a node changed."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        """Read the inventory of every node."""
        self._nodes = snapshot.nodes
        self._inventory = snapshot.inventory
        self.owner: dict[Scope, Numbers] = {}
        """Index of the node of each row, -1 for rows that belong to none."""
        self.position: dict[Scope, Numbers] = {}
        """Position of each row within the inventory of its node."""
        for scope, table in snapshot.tables.items():
            rows = table.values.shape[1]
            first = np.array([snapshot.rows(node, scope).start for node in self._nodes], dtype=np.int64)
            count = np.array([len(snapshot.rows(node, scope)) for node in self._nodes], dtype=np.int64)
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            at = np.repeat(first, count) + within
            # There are half a million rows of links and devices in a large fleet.
            self.owner[scope] = np.full(rows, -1, dtype=np.int32)
            few = scope is not Scope.JOB and int(count.max(initial=0)) < 2**15
            self.position[scope] = np.full(rows, -1, dtype=np.int16 if few else np.int32)
            self.owner[scope][at] = np.repeat(np.arange(len(self._nodes)), count)
            self.position[scope][at] = within
        self._place_jobs(snapshot)
        self._groups: dict[tuple[Scope, str], Numbers] = {}
        self._said: dict[str, npt.NDArray[np.float64]] = {}

    def _place_jobs(self, snapshot: FleetSnapshot) -> None:
        """Let the row of each job belong to its first node that is known here."""
        self._jobs = tuple(job.id for job in snapshot.jobs)
        owner, position = self.owner.get(Scope.JOB), self.position.get(Scope.JOB)
        if owner is None or position is None:
            return
        for row, job in enumerate(snapshot.jobs[: len(owner)]):
            owner[row] = next((snapshot.by_name[name] for name in job.nodes if name in snapshot.by_name), -1)
            position[row] = row

    def fits(self, snapshot: FleetSnapshot) -> bool:
        """Tell whether `snapshot` has the same rows; the layout keeps its nodes then, and not those of before."""
        fits = (
            len(snapshot.nodes) == len(self._nodes)
            and tuple(job.id for job in snapshot.jobs) == self._jobs
            and (
                (self._inventory is not None and snapshot.inventory is self._inventory)
                or all(has_same_rows(old, new) for old, new in zip(self._nodes, snapshot.nodes, strict=True))
            )
            and all(len(self.owner[scope]) == table.values.shape[1] for scope, table in snapshot.tables.items())
        )
        if fits:
            self._nodes, self._inventory = snapshot.nodes, snapshot.inventory
        return fits

    def changed(self, scope: Scope, before: Layout | None) -> npt.NDArray[np.bool_]:
        """Return which rows of `scope` stand for something else than in the layout `before`."""
        owner, position = self.owner[scope], self.position[scope]
        changed = np.ones(len(owner), dtype=bool)
        if before is not None:
            kept = min(len(owner), len(before.owner[scope]))
            same = (owner[:kept] == before.owner[scope][:kept]) & (position[:kept] == before.position[scope][:kept])
            if scope is Scope.JOB:
                same &= np.array([new == old for new, old in zip(self._jobs, before._jobs, strict=False)][:kept], bool)
            changed[:kept] = ~same
        return changed

    def said(self, metric: str, scope: Scope) -> npt.NDArray[np.float64]:
        """Return what the fleet file says of each row's `metric` (GPUs of a node, Gb/s of an InfiniBand port), NaN for
        nothing."""
        if metric not in self._said:
            said = self._said[metric] = np.full(len(self.owner[scope]), np.nan)
            for row, owner in enumerate(self.owner[scope].tolist()):
                if owner < 0:
                    continue
                node = self._nodes[owner]
                value: float | None = node.expected_gpus
                if scope is Scope.PORT:
                    is_fabric = node.ports[self.position[scope][row]].layer == "InfiniBand"
                    value = node.expected_ib_gbps if is_fabric else None
                if value is not None:
                    said[row] = value
        return self._said[metric]

    def groups(self, scope: Scope, of: str) -> Numbers:
        """Return the number of the group of comparable rows of each row, -1 for none: `of` what `comparable.STATIC`
        names, or several joined by `+`."""
        key = (scope, of)
        if key not in self._groups:
            self._groups[key] = self._make_groups(scope, of)
        return self._groups[key]

    def _make_groups(self, scope: Scope, of: str) -> Numbers:
        return joined([numbered(self, self._nodes, scope, part) for part in of.split("+")])
