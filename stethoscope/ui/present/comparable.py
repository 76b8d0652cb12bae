"""Which devices are compared with each other: those of one kind in the same job, or of one kind where that is few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.analysis.peers import LEAST_PEERS, group_medians
from stethoscope.model.metric import Scope
from stethoscope.model.rows import first_row

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy.typing as npt

    from stethoscope.analysis.peers import Groups
    from stethoscope.model.fleet import Floats, Node
    from stethoscope.ui.present.assess import Assessment

    Rows = npt.NDArray[np.int64]

_MANY = 64
"""So many groups are faster looked at together than one by one."""


class Grouping(NamedTuple):
    """Groups of the rows of a table."""

    groups: Groups
    """Number of its group by row, negative for rows that nobody has."""
    members: Sequence[Rows]

    @classmethod
    def of(cls, groups: Groups) -> Grouping:
        """Return the grouping that gives each row this number."""
        order = np.argsort(groups, kind="stable")
        order = order[np.searchsorted(groups[order], 0) :]
        cuts = np.flatnonzero(np.diff(groups[order])) + 1
        return cls(groups, np.split(order, cuts) if order.size else ())

    def medians(self, values: Floats) -> Floats:
        """Return by row the median of the values of its group, NaN where that has fewer than LEAST_PEERS."""
        if len(self.members) > _MANY:
            return group_medians(values, self.groups)
        medians = np.full(values.size, np.nan)
        for rows in self.members:
            some = values[rows]
            some = some[~np.isnan(some)]
            if some.size >= LEAST_PEERS:
                low, high = (some.size - 1) // 2, some.size // 2
                parted = np.partition(some, (low, high))
                medians[rows] = (parted[low] + parted[high]) / 2
        return medians


class Compared(NamedTuple):
    """Who is compared with whom."""

    with_job: Grouping
    """Same GPU model, port layer, or equipment of a node, in the same jobs; devices without a job are a group too."""
    alike: Grouping
    """The same without regard to jobs."""

    def usual(self, values: Floats) -> Floats:
        """Return by row the median of those that it is compared with, NaN where they are too few."""
        usual = self.with_job.medians(values)
        # A small job has not enough devices of its own to tell what is usual.
        alone = np.isnan(usual) & ~np.isnan(values)
        if alone.any():
            usual[alone] = self.alike.medians(values)[alone]
        return usual


class _Known(NamedTuple):
    nodes: tuple[Node, ...]
    size: int
    compared: Compared


class Comparable:
    """Finds who is compared with whom, again only when nodes became others."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self._known: dict[Scope, _Known] = {}

    def of(self, assessment: Assessment, scope: Scope) -> Compared:
        """Return who is compared in a scope that the fleet screen shows."""
        nodes, size = assessment.snapshot.nodes, assessment.snapshot.tables[scope].values.shape[1]
        known = self._known.get(scope)
        if known is None or known.size != size or not _is_same(known.nodes, nodes, scope):
            compared = _find(nodes, size, scope)
        else:
            compared = known.compared
        self._known[scope] = _Known(nodes, size, compared)
        return compared


def _is_same(old: Sequence[Node], new: Sequence[Node], scope: Scope) -> bool:
    """Tell whether rows stand for the same devices in the same jobs."""
    return len(old) == len(new) and all(
        before is now
        or (
            (before.gpus is now.gpus or before.gpus == now.gpus)
            and (before.ports is now.ports or before.ports == now.ports)
            and first_row(before, scope) == first_row(now, scope)
            and (before.scheduler is now.scheduler or _jobs(before) == _jobs(now))
        )
        for before, now in zip(old, new, strict=True)
    )


def _jobs(node: Node) -> tuple[str, ...]:
    return tuple(node.scheduler.jobs) if node.scheduler is not None else ()


def _find(nodes: Sequence[Node], size: int, scope: Scope) -> Compared:
    numbers: dict[Hashable, int] = {}
    alike, with_job = np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    for node in nodes:
        first, jobs = first_row(node, scope), _jobs(node)
        if first < 0:
            continue
        for row, kind in enumerate(_kinds(node, scope), first):
            alike[row] = numbers.setdefault(kind, len(numbers))
            with_job[row] = numbers.setdefault((kind, jobs), len(numbers))
    return Compared(Grouping.of(with_job), Grouping.of(alike))


def _kinds(node: Node, scope: Scope) -> Sequence[Hashable]:
    if scope is Scope.GPU:
        return [gpu.name for gpu in node.gpus]
    if scope is Scope.PORT:
        return [port.layer for port in node.ports]
    return [f"{len(node.gpus)} {node.gpus[0].name}" if node.gpus else ""]
