"""One snapshot as a filter looks at it: whose each row is, and how nodes stand, worked out once it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.filter_values import state_word
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Verdicts
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import DEVICE_SCOPES, Reason, Scope
from stethoscope.model.scheduler import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.model.fleet import FleetSnapshot, Node

Numbers = npt.NDArray[np.int64]

_LINKS = tuple(LinkState)
_LINK_CODES = {state: code for code, state in enumerate(_LINKS)}
_LIVE = np.array([state.is_live for state in _LINKS])
_PENDING = np.array([state.is_pending for state in _LINKS])
_SILENT = np.array([state in (LinkState.SILENT, LinkState.FLOODING) for state in _LINKS])
_STANDINGS = {standing: state_word(standing.value) for standing in Standing}
_NO_GPUS = ("", "no devices")
"""Notes about the driver of a node without GPUs that is known to have none."""


class Sight:
    """A snapshot, and what is worked out of it for conditions."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        """Look at `snapshot`; nothing is worked out yet."""
        self.snapshot = snapshot
        self.nodes = len(snapshot.nodes)
        self._rows: dict[Scope, tuple[Numbers, Numbers]] = {}
        self._owners: dict[Scope, Numbers] = {}
        self._known_spans: dict[Scope, tuple[Numbers, Numbers]] = {}
        self._links: npt.NDArray[np.int8] | None = None

    def rows(self, scope: Scope) -> tuple[Numbers, Numbers]:
        """Return the rows of `scope` that belong to a node, node by node, and the index of the node of each."""
        if scope not in self._rows and scope is Scope.JOB:
            self._rows[scope] = self._rows_of_jobs()
        if scope not in self._rows:
            first, count = self._spans(scope)
            starts = np.cumsum(count) - count
            rows = np.arange(int(count.sum())) + np.repeat(first - starts, count)
            self._rows[scope] = rows, np.repeat(np.arange(self.nodes), count)
        return self._rows[scope]

    def _rows_of_jobs(self) -> tuple[Numbers, Numbers]:
        """Return the row of a job once for each of its nodes that is here, and the index of that node."""
        by_name = self.snapshot.by_name
        rows = range(self.size(Scope.JOB))
        pairs = [(by_name[name], row) for row in rows for name in self.snapshot.jobs[row].nodes if name in by_name]
        found = np.array(sorted(pairs), dtype=np.int64).reshape(len(pairs), 2)
        return found[:, 1], found[:, 0]

    def having(self, scope: Scope) -> list[Node]:
        """Return the nodes that have rows of `scope`, in the order of `rows`."""
        nodes = self.snapshot.nodes
        return [nodes[index] for index in np.flatnonzero(self._spans(scope)[1]).tolist()]

    def _spans(self, scope: Scope) -> tuple[Numbers, Numbers]:
        """Return the first row of each node, and how many it has."""
        if scope not in self._known_spans:
            nodes, count = self.snapshot.nodes, self.nodes
            if scope is Scope.GPU:
                first, many = [node.gpu_first for node in nodes], [len(node.gpus) for node in nodes]
            elif scope is Scope.PORT:
                first, many = [node.port_first for node in nodes], [len(node.ports) for node in nodes]
            elif scope is Scope.JOB:
                of_rows = self.rows(scope)[1]
                first, many = [0] * count, np.bincount(of_rows, minlength=count).tolist()
            elif scope is Scope.NODE:
                first, many = list(range(count)), [1] * count
            else:
                first = [node.device_first.get(scope, -1) for node in nodes]
                many = [len(node.devices.get(scope, ())) for node in nodes]
            starts = np.array(first, dtype=np.int64)
            self._known_spans[scope] = starts, np.where(starts >= 0, np.array(many, dtype=np.int64), 0)
        return self._known_spans[scope]

    def size(self, scope: Scope) -> int:
        """Return how many verdicts there are of `scope`: one for each row of its table, or for each node."""
        return self.nodes if scope is Scope.NODE else int(self.snapshot.tables[scope].values.shape[1])

    def any(self, verdicts: Verdicts, scope: Scope, unknown: int) -> Verdicts:
        """Return by node what any of its rows makes true; `unknown` is the verdict of nodes whose devices are not
        known."""
        result = self._without(scope, unknown)
        for verdict in (UNKNOWN, TRUE):
            result[self._with_any(verdicts == verdict, scope)] = verdict
        return result

    def all(self, verdicts: Verdicts, scope: Scope, unknown: int) -> Verdicts:
        """Return by node whether all of its rows are true; without a row a node is never true."""
        result = self._without(scope, unknown)
        result[self._spans(scope)[1] > 0] = TRUE
        for verdict in (UNKNOWN, FALSE):
            result[self._with_any(verdicts == verdict, scope)] = verdict
        return result

    def spread(self, verdicts: Verdicts, scope: Scope) -> Verdicts:
        """Return the verdicts of nodes for each row of theirs."""
        if not self.nodes:
            return np.full(self.size(scope), UNKNOWN, dtype=np.int8)
        owner = self._owner(scope)
        return np.where(owner >= 0, verdicts[owner], np.int8(UNKNOWN))

    def _with_any(self, flags: Flags, scope: Scope) -> Numbers:
        """Return the nodes that have any of the rows for which `flags` is set, some of them often."""
        if scope is Scope.JOB:
            # A job has many nodes, and a node may have many jobs.
            rows, of_rows = self.rows(scope)
            return of_rows[flags[rows]]
        owners = self._owner(scope)[flags]
        return owners[owners >= 0]

    def _owner(self, scope: Scope) -> Numbers:
        """Return the index of the node of each row, -1 for a row that is nobody's."""
        if scope not in self._owners:
            owner = np.full(self.size(scope), -1, dtype=np.int64)
            rows, of_rows = self.rows(scope)
            owner[rows] = of_rows
            self._owners[scope] = owner
        return self._owners[scope]

    def _without(self, scope: Scope, unknown: int) -> Verdicts:
        """Return the verdict of a node without rows of `scope`: false where it is known to have no such device."""
        result = np.full(self.nodes, FALSE, dtype=np.int8)
        nodes = self.snapshot.nodes
        for index in np.flatnonzero(self._spans(scope)[1] == 0).tolist():
            if not _has_none(nodes[index], scope):
                result[index] = unknown
        return result

    # ---- how nodes stand

    def state(self, word: str, judge_idle: Callable[[Sight], Verdicts]) -> Verdicts:
        """Return which nodes are what `word`, one of filter_values.VALUE_WORDS["state"], says."""
        if word == "idle":
            return judge_idle(self)
        if word == "hung":
            return self._hung()
        flags = np.zeros(self.nodes, dtype=np.bool_)
        if word in _STANDINGS.values():
            flags |= self._each(
                node.scheduler is not None and _STANDINGS[node.scheduler.standing] == word
                for node in self.snapshot.nodes
            )
        links, stale = self._link_codes(), self._stale
        if word == "connecting":
            flags |= _PENDING[links]
        elif word == "stale":
            flags |= _SILENT[links] | (_LIVE[links] & stale())
        elif word == "lost":
            flags |= ~(_PENDING | _SILENT | _LIVE)[links]
        elif word == "live":
            flags |= _LIVE[links] & ~stale()
        else:
            for state, code in _LINK_CODES.items():
                if state_word(state.value) == word:
                    flags |= links == code
        return certain(flags)

    def _link_codes(self) -> npt.NDArray[np.int8]:
        if self._links is None:
            codes = (_LINK_CODES[node.link.state] for node in self.snapshot.nodes)
            self._links = np.fromiter(codes, np.int8, self.nodes)
        return self._links

    def _stale(self) -> Flags:
        """Return whose last frame is older than Node.is_stale allows."""
        nodes = self.snapshot.nodes
        never = float("inf")
        pairs = [(never if node.frame_mono is None else node.frame_mono, node.tick_s) for node in nodes]
        times = np.array(pairs, dtype=np.float64).reshape(self.nodes, 2)
        stale: Flags = self.snapshot.mono - times[:, 0] > 3 * times[:, 1] + 1
        return stale

    def _hung(self) -> Verdicts:
        """Return whose GPU driver does not answer: it says so, or all of its GPUs have values that did not come."""
        said = certain(self._each(node.notes.get("nvml", "").startswith("hung") for node in self.snapshot.nodes))
        hung = (self.snapshot.tables[Scope.GPU].reasons == Reason.HUNG).any(axis=0)
        return np.maximum(said, self.all(certain(hung), Scope.GPU, FALSE))

    def _each(self, flags: Iterable[bool]) -> Flags:
        return np.fromiter(flags, np.bool_, self.nodes)


def certain(flags: Flags) -> Verdicts:
    """Return verdicts without an unknown among them."""
    return np.where(flags, np.int8(TRUE), np.int8(FALSE))


def _has_none(node: Node, scope: Scope) -> bool:
    """Tell whether a node without rows is known to have no device of `scope`."""
    if scope in DEVICE_SCOPES:
        return scope in node.devices
    return node.frame_mono is not None and (scope is not Scope.GPU or node.notes.get("nvml", "") in _NO_GPUS)
