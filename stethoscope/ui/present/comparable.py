"""Which devices are compared with each other: those of one kind in the same job, or of one kind where that is few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.metric import Scope
from stethoscope.model.rows import first_row

if TYPE_CHECKING:
    from collections.abc import Hashable

    from stethoscope.analysis.peers import Groups
    from stethoscope.model.fleet import Node
    from stethoscope.ui.present.assess import Assessment


class Compared(NamedTuple):
    """Numbers of groups by row, negative for rows that nobody has."""

    alike: Groups
    """Same GPU model, port layer, or equipment of a node."""
    with_job: Groups
    """The same, in the same jobs; devices without a job are a group too."""


class _Known(NamedTuple):
    node: Node
    jobs: tuple[str, ...]
    alike: Groups
    with_job: Groups


class Comparable:
    """Finds the groups, and looks again only at nodes that became others."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[Scope, str], _Known] = {}

    def groups(self, assessment: Assessment, scope: Scope) -> Compared:
        """Return the groups of the rows of a scope that the fleet screen shows."""
        size = assessment.snapshot.tables[scope].values.shape[1]
        alike, with_job = np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int64)
        for node in assessment.snapshot.nodes:
            first = first_row(node, scope)
            if first < 0:
                continue
            jobs = tuple(node.scheduler.jobs) if node.scheduler is not None else ()
            kept = self._known.get((scope, node.name))
            if (
                kept is None
                or kept.node.gpus is not node.gpus
                or kept.node.ports is not node.ports
                or kept.jobs != jobs
            ):
                kept = self._known[scope, node.name] = self._find(node, scope, jobs)
            alike[first : first + kept.alike.size] = kept.alike
            with_job[first : first + kept.alike.size] = kept.with_job
        return Compared(alike, with_job)

    def _find(self, node: Node, scope: Scope, jobs: tuple[str, ...]) -> _Known:
        kinds: list[Hashable]
        if scope is Scope.GPU:
            kinds = [gpu.name for gpu in node.gpus]
        elif scope is Scope.PORT:
            kinds = [port.layer for port in node.ports]
        else:
            kinds = [(node.gpus[0].name if node.gpus else "", len(node.gpus))]
        alike = np.array([self._number((scope, kind)) for kind in kinds], dtype=np.int64)
        with_job = np.array([self._number((scope, kind, jobs)) for kind in kinds], dtype=np.int64)
        return _Known(node, jobs, alike, with_job)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
