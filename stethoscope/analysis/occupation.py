"""What every row does now: which job it serves, and whether it works, waits for work or is out of service, so that only
rows that do the same are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.comparable import OCCUPATION, STATIC, WORDS, joined, numbered
from stethoscope.analysis.lineup import Grouping
from stethoscope.analysis.windows import fitted
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import FleetSnapshot, Floats, Node

IDLE, BUSY, OUT = 0, 1, 2
"""Roles: nothing runs there, a job does (be it that it waits), or the scheduler has the node out of service."""
HELD_SHARE = 0.03
"""A GPU of a job's node of whose memory more than this is in use belongs to the job."""
HELD_MIB = 2048.0
"""The same where it is not known how much there is."""
WORKING = 5.0
"""A GPU that is busy for more than this share of time, in percent, works for somebody."""
REFRESH_S = 30.0
"""What nodes say of their versions is looked up again after so long."""
NEVER = -2
"""Number of the job of a row that was not seen yet; -1 is that of no job."""


class Occupation:
    """Job and role of each GPU and each node, and since when; everything else follows its node."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._numbers: dict[str, int] = {}
        self._inputs: tuple[Any, list[Any], list[Any]] = (None, [], [])
        self._node_job = np.zeros(0, dtype=np.int32)
        self._told_job = np.zeros(0, dtype=np.int32)
        """What the scheduler says runs on each node: NEVER where it says nothing, -1 for several jobs."""
        self._held_job = np.zeros(0, dtype=np.int32)
        """The same as the processes of the node say it."""
        self._out = np.zeros(0, dtype=bool)
        self._own_job = np.zeros(0, dtype=np.int32)
        """Of each GPU, as its processes say."""
        self._served = np.zeros(0, dtype=np.int32)
        """The job for which each GPU was seen at work last."""
        self._job = {scope: np.zeros(0, dtype=np.int32) for scope in (Scope.GPU, Scope.NODE)}
        self._role = {scope: np.zeros(0, dtype=np.int8) for scope in (Scope.GPU, Scope.NODE)}
        self._since = {scope: np.zeros(0) for scope in (Scope.GPU, Scope.NODE)}
        self._groups: dict[tuple[Scope, str], tuple[float, Layout, Grouping, Numbers]] = {}
        self._of_rows: dict[tuple[str, Scope], tuple[Any, Numbers, Any]] = {}
        """What was last made by row of what is known by node: of what, for which owners, and the result."""
        self._young: dict[Scope, tuple[float, Any, Flags | None]] = {}

    @classmethod
    def of(cls, moment: Moment) -> Occupation:
        """Return what rows do at one moment, without anything of before."""
        occupation = cls()
        occupation.fit({scope: np.ones(moment.rows(scope), dtype=bool) for scope in moment.layout.owner})
        occupation.take(moment)
        return occupation

    @property
    def nbytes(self) -> int:
        """Return the memory of what is remembered."""
        return sum(array.nbytes for part in (self._job, self._role, self._since) for array in part.values())

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        self._inputs = (None, [], [])
        self._served = fitted(self._served, changed[Scope.GPU], NEVER).astype(np.int32)
        for scope, job in self._job.items():
            self._job[scope] = fitted(job, changed[scope], NEVER).astype(np.int32)
            self._role[scope] = fitted(self._role[scope], changed[scope], IDLE).astype(np.int8)
            self._since[scope] = fitted(self._since[scope], changed[scope], -np.inf).astype(np.float64)
        self._groups.clear()

    def forget(self, *, samples: bool) -> None:
        """Keep what rows do: nobody was seen to change."""

    def take(self, moment: Moment) -> None:
        """Look at what every row does now."""
        moment.occupation = self
        self._read(moment.snapshot, moment)
        owner = moment.layout.owner[Scope.GPU]
        there = owner >= 0
        node_job = np.where(there, self._node_job[owner], -1)
        held, working, known = _held(moment)
        # Memory alone is no work: a job may hold it that nobody uses now. Within a job it tells who belongs to it.
        works = (self._own_job >= 0) | working | (held & (node_job >= 0))
        self._served = np.where(works & (node_job >= 0), node_job, self._served)
        # Who worked for a job goes on to belong to it, also when its process is gone, until the job is.
        busy = works | ((node_job >= 0) & (self._served == node_job))
        was_busy = self._role[Scope.GPU] == BUSY
        busy |= was_busy & ~known & (self._own_job < 0)
        role = _role(self._out[owner] & ~works, busy)
        job = np.where(self._own_job >= 0, self._own_job, np.where(busy, node_job, -1))
        self._change(Scope.GPU, np.where(there, job, -1), np.where(there, role, np.int8(IDLE)), moment.mono)
        any_busy = np.zeros(len(self._node_job), dtype=bool)
        any_busy[owner[there & busy]] = True
        role = _role(self._out, any_busy | (self._node_job >= 0))
        self._change(Scope.NODE, self._node_job, role, moment.mono)

    def job(self, scope: Scope, owner: Numbers) -> Numbers:
        """Return the number of the job of each row, -1 for none or one that is not known."""
        return self._of("job", self._job, scope, owner, -1)

    def role(self, scope: Scope, owner: Numbers) -> Numbers:
        """Return IDLE, BUSY or OUT for each row."""
        return self._of("role", self._role, scope, owner, IDLE)

    def unoccupied(self, scope: Scope, owner: Numbers) -> Flags:
        """Return which rows of a node do not work."""
        role = self.role(scope, owner)
        flags: Flags = self._kept("unoccupied", scope, role, owner, lambda: (role != BUSY) & (owner >= 0))
        return flags

    def young(self, scope: Scope, owner: Numbers, mono: float, least_s: float) -> Flags | None:
        """Return which rows began less than `least_s` before `mono` what they do, None where none did."""
        since = self.since(scope, owner)
        known = self._young.get(scope)
        if known is None or known[0] != mono or known[1] is not since:
            young = mono - since < least_s
            self._young[scope] = known = (mono, since, young if young.any() else None)
        return known[2]

    def since(self, scope: Scope, owner: Numbers) -> Floats:
        """Return since when (monotonic seconds) each row does what it does; -inf for longer than it was watched."""
        if scope in self._since:
            return self._since[scope]
        since = self._since[Scope.NODE]
        own: Floats = self._kept("since", scope, since, owner, lambda: since[owner])
        return own

    def groups(self, moment: Moment, scope: Scope, of: str) -> Numbers:
        """Return the number of the group of each row of `scope`, -1 for none; `of` as in `comparable.KINDS`."""
        return self._grouped(moment, scope, of)[3]

    def grouping(self, moment: Moment, scope: Scope, of: str) -> Grouping:
        """Return the same in the order that looking for outliers needs."""
        return self._grouped(moment, scope, of)[2]

    def _grouped(self, moment: Moment, scope: Scope, of: str) -> tuple[float, Layout, Grouping, Numbers]:
        layout = moment.layout
        known, parts = self._groups.get((scope, of)), of.split("+")
        if known is not None and known[1] is layout:
            if 0 <= moment.mono - known[0] < REFRESH_S:
                return known
            if not any(part in WORDS for part in parts):
                # Where rows stand goes with the layout, and what they do made all groups anew when it changed.
                return known
        if all(part in STATIC for part in parts):
            numbers = layout.groups(scope, of)
        else:
            numbers = joined([self._numbers_of(moment, scope, part) for part in parts])
        found = moment.mono, layout, Grouping.of(numbers, layout.owner[scope]), numbers
        self._groups[scope, of] = found
        return found

    def _numbers_of(self, moment: Moment, scope: Scope, part: str) -> Numbers:
        if part in STATIC:
            return moment.layout.groups(scope, part)
        owner = moment.layout.owner[scope]
        if part not in OCCUPATION:
            return numbered(moment.layout, moment.snapshot.nodes, scope, part)
        # Rows whose job nobody knows are a group too.
        numbers = self.role(scope, owner) if part == "role" else self.job(scope, owner) + 1
        return np.where(owner >= 0, np.maximum(numbers, 0), -1).astype(np.int32, copy=False)

    def _of(self, what: str, known: Mapping[Scope, Numbers], scope: Scope, owner: Numbers, none: int) -> Numbers:
        if scope in known:
            return known[scope]
        by_node = known[Scope.NODE]
        numbers: Numbers = self._kept(what, scope, by_node, owner, lambda: np.where(owner >= 0, by_node[owner], none))
        return numbers

    def _kept(self, what: str, scope: Scope, of: Any, owner: Numbers, make: Callable[[], Any]) -> Any:
        """Return what is made of arrays, the same as last time when these are the same."""
        known = self._of_rows.get((what, scope))
        if known is None or known[0] is not of or known[1] is not owner:
            self._of_rows[what, scope] = known = (of, owner, make())
        return known[2]

    def _change(self, scope: Scope, job: Numbers, role: Numbers, mono: float) -> None:
        before, was = self._job[scope], self._role[scope]
        # To learn for which job a row works is no change of what it does.
        other = (role != was) | ((job != before) & (before >= 0))
        if not np.array_equal(job, before) or other.any():
            self._since[scope] = np.where(other & (before != NEVER), mono, self._since[scope])
            self._job[scope], self._role[scope] = job, role
            self._groups.clear()

    def _read(self, snapshot: FleetSnapshot, moment: Moment) -> None:
        """Read anew what nodes and the scheduler say of jobs, where that changed."""
        nodes = snapshot.nodes
        processes, states = [node.processes for node in nodes], [node.scheduler for node in nodes]
        jobs, before, states_before = self._inputs
        same_size = len(before) == len(nodes)
        changed = [i for i, node in enumerate(processes) if not same_size or node is not before[i]]
        other_states = not same_size or any(now is not old for now, old in zip(states, states_before, strict=True))
        other_jobs = snapshot.jobs is not jobs and snapshot.jobs != jobs
        if not changed and not other_states and not other_jobs:
            return
        if not same_size:
            self._own_job = np.full(moment.rows(Scope.GPU), -1, dtype=np.int32)
            self._held_job = np.full(len(nodes), -1, dtype=np.int32)
        for index in changed:
            self._read_processes(nodes[index])
        self._inputs = (snapshot.jobs, processes, states)
        if other_states or other_jobs:
            self._out = np.array([state is not None and state.is_out_of_service for state in states], dtype=bool)
            self._told_job = self._scheduled(snapshot)
        self._node_job = np.where(self._told_job == NEVER, self._held_job, self._told_job)

    def _read_processes(self, node: Node) -> None:
        if node.gpu_first < 0:
            return
        rows = {gpu.index: node.gpu_first + position for position, gpu in enumerate(node.gpus)}
        own = slice(node.gpu_first, node.gpu_first + len(node.gpus))
        self._own_job[own] = -1
        for process in node.processes or ():
            key = process.slurm_job or process.pod or process.container
            if key and process.gpu in rows and "C" in (process.kind or "C"):
                self._own_job[rows[process.gpu]] = self._number(key)
        known = set(self._own_job[own].tolist()) - {-1}
        self._held_job[node.index] = known.pop() if len(known) == 1 else -1

    def _scheduled(self, snapshot: FleetSnapshot) -> Numbers:
        """Return the job that is listed, by the scheduler or another, on each node; NEVER for none, -1 for several."""
        found: list[set[int]] = [set() for _ in snapshot.nodes]
        for job in snapshot.jobs:
            if job.state in ("", "running"):
                for name in job.nodes:
                    index = snapshot.by_name.get(name)
                    if index is not None:
                        found[index].add(self._number(job.id))
        for node, known in zip(snapshot.nodes, found, strict=True):
            if not known and node.scheduler is not None:
                known.update(self._number(job) for job in node.scheduler.jobs)
        none = {0: NEVER, 1: -1}
        numbers = [next(iter(known)) if len(known) == 1 else none[min(len(known), 1)] for known in found]
        return np.array(numbers, dtype=np.int32)

    def _number(self, key: str) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _role(out: Flags, busy: Flags) -> Numbers:
    return np.where(out, np.int8(OUT), np.where(busy, np.int8(BUSY), np.int8(IDLE)))


def _held(moment: Moment) -> tuple[Flags, Flags, Flags]:
    """Return of which GPUs memory is in use, of which time is, and of which that is known."""
    # A catalogue of somebody's own may have none of these.
    nothing = np.full(moment.rows(Scope.GPU), np.nan)
    used, total, util = (
        moment.values(name) if name in moment.catalogue else nothing
        for name in ("gpu_fb_used", "gpu_fb_total", "gpu_util")
    )
    least = np.where(np.isnan(total), HELD_MIB, HELD_SHARE * total)
    return used > least, util > WORKING, ~(np.isnan(used) & np.isnan(util))
