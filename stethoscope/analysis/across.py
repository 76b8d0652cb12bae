"""What a condition about other devices says of a row: of a port to a GPU of the same node, of a GPU to a job on it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from stethoscope.analysis.alike import settled
from stethoscope.analysis.windows import FALSE, UNKNOWN, Flags, Verdicts
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.analysis.moment import Moment
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.scheduler import Job

_OF_GPU = (Scope.NVLINK, Scope.PCIE)
"""Devices that belong to one GPU of the node, or are that GPU."""
_KNOWN: WeakKeyDictionary[Layout, dict[tuple[Scope, Scope], tuple[tuple[Job, ...], Across]]] = WeakKeyDictionary()
"""While a layout stands, and its jobs have the nodes that they have."""


class Across:
    """Which rows of one scope count for each row of another."""

    def __init__(self, groups: Numbers, members: tuple[Numbers, Numbers], count: int, *, empty: int) -> None:
        """`groups` has the group of each row that is asked about, -1 for none; `members` the groups and the rows of
        the other scope that are in them; there are `count` groups. `empty` is the verdict of a group without rows."""
        of, rows = members
        order = np.argsort(of, kind="stable")
        self._rows = rows[order].astype(np.int32)
        self._filled, self._starts = np.unique(of[order], return_index=True)
        self._groups = groups.astype(np.int32, copy=False)
        self._count = count
        self._empty = empty

    def any(self, verdicts: Verdicts, has: Flags | None) -> Verdicts:
        """Return for each row that is asked about: true where any of its rows is, unknown where none is and any is
        unknown, else false. Rows that do not have what is asked for (`has`) leave nothing open beside others."""
        if has is not None:
            verdicts = np.where((verdicts == UNKNOWN) & ~has, np.int8(-1), verdicts)
        of_group = np.full(self._count + 1, np.int8(self._empty))
        if len(self._filled):
            found = np.maximum.reduceat(verdicts[self._rows], self._starts)
            of_group[self._filled] = np.where(found < 0, np.int8(UNKNOWN), found)
        return settled(of_group[self._groups])

    def rows(self, row: int) -> list[int]:
        """Return the rows that count for one."""
        at = np.searchsorted(self._filled, self._groups[row])
        if at == len(self._filled) or self._filled[at] != self._groups[row]:
            return []
        end = self._starts[at + 1] if at + 1 < len(self._starts) else len(self._rows)
        found: list[int] = self._rows[self._starts[at] : end].tolist()
        return found


def across(moment: Moment, source: Scope, target: Scope) -> Across:
    """Return which rows of `source` count for each row of `target`."""
    known = _KNOWN.setdefault(moment.layout, {})
    jobs = moment.snapshot.jobs if Scope.JOB in (source, target) else ()
    before = known.get((source, target))
    if before is None or (before[0] is not jobs and before[0] != jobs):
        known[source, target] = before = (jobs, _made(moment.snapshot, moment.layout, source, target))
    return before[1]


def _made(snapshot: FleetSnapshot, layout: Layout, source: Scope, target: Scope) -> Across:
    nodes = len(snapshot.nodes)
    if target is Scope.JOB:
        of, at = _nodes_of_jobs(snapshot, len(layout.owner[target]))
        # Every row of a node counts for every job on it.
        owner = layout.owner[source]
        order = np.argsort(owner, kind="stable")
        first, last = np.searchsorted(owner[order], at), np.searchsorted(owner[order], at, "right")
        rows = np.concatenate([order[a:b] for a, b in zip(first, last, strict=True)] or [np.empty(0, np.int64)])
        jobs = len(layout.owner[target])
        return Across(np.arange(jobs), (np.repeat(of, last - first), rows), jobs, empty=UNKNOWN)
    groups = layout.owner[target]
    if source is Scope.JOB:
        of, at = _nodes_of_jobs(snapshot, len(layout.owner[source]))
        # Where no job runs, nothing is true of one.
        return Across(groups, (at, of), nodes, empty=FALSE)
    owner = layout.owner[source]
    owned = np.flatnonzero(owner >= 0)
    members = owner[owned], owned
    count = nodes
    if Scope.GPU in (source, target) and (source in _OF_GPU or target in _OF_GPU):
        device = target if source is Scope.GPU else source
        gpus = gpu_rows(snapshot, device, len(layout.owner[device]))
        devices = np.flatnonzero(gpus >= 0)
        # A group for each GPU that is told apart; the other rows have the group of their node.
        count = nodes + len(layout.owner[Scope.GPU])
        if target is Scope.GPU:
            is_told = np.zeros(len(groups), dtype=bool)
            is_told[gpus[devices]] = True
            groups = np.where(is_told, nodes + np.arange(len(groups)), groups)
            members = np.append(members[0], nodes + gpus[devices]), np.append(members[1], devices)
        else:
            groups = np.where(gpus >= 0, nodes + gpus, groups)
            members = np.append(members[0], nodes + owned), np.append(members[1], owned)
    return Across(groups, members, count, empty=UNKNOWN)


def gpu_rows(snapshot: FleetSnapshot, scope: Scope, rows: int) -> Numbers:
    """Return the row of the GPU of each NVLink, or of the GPU that a PCIe device is, -1 for none."""
    found = np.full(rows, -1, dtype=np.int64)
    for node in snapshot.nodes:
        if scope is Scope.NVLINK:
            gpus = {str(gpu.index): node.gpu_first + position for position, gpu in enumerate(node.gpus)}
        else:
            gpus = {_address(gpu.pci): node.gpu_first + position for position, gpu in enumerate(node.gpus) if gpu.pci}
        first = node.device_first.get(scope, -1)
        for position, name in enumerate(node.devices.get(scope, ())):
            key = name.partition("/")[0] if scope is Scope.NVLINK else _address(name)
            found[first + position] = gpus.get(key, -1)
    return found


def _address(pci: str) -> str:
    """Return a PCI address in one form: the driver writes eight digits of a domain, the kernel four."""
    domain, _, rest = pci.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _nodes_of_jobs(snapshot: FleetSnapshot, rows: int) -> tuple[Numbers, Numbers]:
    """Return the rows of jobs and the nodes that they run on, side by side."""
    pairs = [
        (row, snapshot.by_name[name])
        for row, job in enumerate(snapshot.jobs[:rows])
        for name in job.nodes
        if name in snapshot.by_name
    ]
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return both[0], both[1]
