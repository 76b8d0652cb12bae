"""What passes while somebody looks: who fell silent first, who is late while the others wait, remembered for the
diagnosis. Pure; the times are those of the snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.job_list import known_nodes
from stethoscope.analysis.triage_beside import filled_leaves, idle_ports, slow_disks, spikes, unreachable
from stethoscope.analysis.triage_ranks import (
    LEAST_BASE,
    LONG_S,
    MOST_LATE,
    JobWatch,
    Kept,
    Sample,
    learn,
    sample_of,
    stood_for,
    who_is_late,
    who_stands_out,
)
from stethoscope.model.ids import gpu_place, job_place
from stethoscope.model.metric import Scope
from stethoscope.model.verdict import Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.scheduler import Job


SLOW = 3.0
"""Percent of throughput that are lost before a job counts as slower."""
_FIRM = 3
"""Looks in a row after which something is seen, or is over."""
_FLAT = 0.03
"""Share of its usual traffic below which a job moves nothing."""
_LEAST_BYTES = 1e8
_PATIENCE_S, _PAUSES = 40.0, 2.0
"""A job that moves nothing stands after so long, and after so many times its longest pause that ended by itself."""
_GONE = 0.15
_OVER = frozenset(
    ("completed", "failed", "cancelled", "timeout", "preempted", "node_fail", "out_of_memory", "boot_fail", "deadline")
)
"""States of jobs that have ended."""


@dataclass(slots=True)
class _Looked:
    """Something that may come to be seen."""

    since: float
    value: float | str | None
    expected: str
    looks: int = 0
    missed: int = 0
    seen: bool = False


class Watch:
    """Looks at each snapshot that rules look at, and remembers what it will be asked about."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._jobs: dict[str, Job] = {}
        self._watched: dict[str, JobWatch] = {}
        self._looked: dict[tuple[str, str], _Looked] = {}
        self._seen: dict[tuple[str, str], Seen] = {}
        self.version = 0
        """Grows whenever something new is seen, or is over: then it is worth asking again."""

    def look(self, snapshot: FleetSnapshot) -> None:
        """Take in one snapshot, with its findings; each is later than the one before."""
        found: dict[tuple[str, str], tuple[float | str | None, str, float]] = {}
        present = {job.id for job in snapshot.jobs if job.state not in _OVER}
        for job in snapshot.jobs:
            known = self._jobs.get(job.id)
            # Of a job that ends Slurm takes the nodes away one by one.
            if known is None or len(job.nodes) >= len(known.nodes):
                self._jobs[job.id] = job
            else:
                self._jobs[job.id] = replace(known, state=job.state)
            if job.id not in present:
                continue
            for what, place, value, expected, at in self._of_job(self._jobs[job.id], snapshot):
                found[what, place] = value, expected, at
        for id_, watched in self._watched.items():
            if id_ not in present:
                found["job_ended", job_place(id_)] = None, "", watched.last_seen
        self._note(found, snapshot.wall)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return every job that was seen, as it was known last."""
        return tuple(self._jobs[id_] for id_ in sorted(self._jobs))

    @property
    def seen(self) -> tuple[Seen, ...]:
        """Return what was noticed, in the order of time."""
        return tuple(sorted(self._seen.values(), key=lambda one: (one.at, one.what, one.place)))

    # ---- one job at one moment

    def _of_job(self, job: Job, snapshot: FleetSnapshot) -> Iterator[tuple[str, str, float | str | None, str, float]]:
        nodes = known_nodes(job, snapshot)
        now = snapshot.wall
        places = tuple(gpu_place(node.name, gpu.index) for node in nodes for gpu in node.gpus)
        watched = self._watched.get(job.id)
        if watched is None or watched.ranks != places:
            watched = self._watched[job.id] = JobWatch(places)
        watched.last_seen = now
        if not places or Scope.GPU not in snapshot.tables:
            return
        sample = sample_of(snapshot, nodes)
        watched.samples.append(Kept.of(sample))
        while watched.samples[0].mono < sample.mono - LONG_S:
            watched.samples.popleft()
        moved = _moved(snapshot, nodes)
        lost = _lost(job.id, snapshot)
        standing = snapshot.standings.get(job.id)
        stands = bool(
            watched.base_bytes > _LEAST_BYTES and moved is not None and moved < _FLAT * watched.base_bytes
        ) and not _steps(job.id, snapshot, watched)
        late_step = standing is not None and standing.values.get("job_step_age", 0.0) > standing.values.get(
            "job_step_limit", np.inf
        )
        stood_s = stood_for(watched, now, stands=stands)
        is_stopped = late_step or stood_s > max(_PATIENCE_S, _PAUSES * watched.longest_pause_s)
        place = job_place(job.id)
        if standing is not None and (jumps := spikes(standing)):
            yield "loss_spikes", place, jumps, "none", now
        gone = self._gone(watched, sample)
        blind = np.isnan(sample.util)
        if is_stopped or gone.any():
            watched.is_troubled = True
        if lost is not None and lost >= SLOW:
            watched.is_troubled = True
            since = standing.since.get("job_throughput_change", now) if standing is not None else now
            yield "job_slow", place, round(lost, 1), "its own past", since
            if not stands and moved is not None and 0 <= moved < 0.1 * watched.base_bytes > 0.1 * _LEAST_BYTES:
                yield "traffic_elsewhere", place, round(100 * moved / watched.base_bytes, 1), "100 %", now
        if not stands:
            for port in idle_ports(snapshot, nodes):
                yield "ports_idle", port, 0, "as much as their sisters", now
            yield from unreachable(snapshot, nodes, job.id, now)
        if not watched.is_troubled and not stands:
            learn(watched, sample, moved)
        if gone.any() and watched.first_gone is None:
            watched.first_gone = np.flatnonzero(gone).tolist() if gone.mean() <= MOST_LATE else []
            if not watched.first_gone:
                yield "gone_together", place, None, "", now
        for number in watched.first_gone or ():
            if gone[number]:
                yield "rank_gone", places[number], 0, "memory in use", now
        if blind.any() and not blind.all():
            for number in np.flatnonzero(blind).tolist():
                yield "rank_blind", places[number], None, "a value", now
        if is_stopped:
            since = now if watched.stands_since is None else watched.stands_since
            yield "job_stopped", place, None, "steps", since
            yield from who_stands_out(sample, places, place, since)
        elif not stands and lost is not None and lost >= SLOW:
            for disk, took, usual in slow_disks(snapshot, nodes):
                yield "disk_slow", disk, took, f"{usual} ms, as on the other nodes", now
            for what, leaf, value in filled_leaves(snapshot, nodes, job):
                yield what, leaf, value, "as the other leaves", now
            yield from who_is_late(watched, places, place, now, lost)

    def _gone(self, watched: JobWatch, sample: Sample) -> npt.NDArray[np.bool_]:
        if watched.base_memory is None or watched.looks < LEAST_BASE:
            return np.zeros(len(sample.memory), dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            return np.asarray((sample.memory < _GONE * watched.base_memory) & (watched.base_memory > 0))

    # ---- from looks to what is seen

    def _note(self, found: dict[tuple[str, str], tuple[float | str | None, str, float]], now: float) -> None:
        for key, (value, expected, at) in found.items():
            looked = self._looked.get(key)
            if looked is None:
                looked = self._looked[key] = _Looked(at, value, expected)
            looked.looks += 1
            looked.missed = 0
            if isinstance(value, float) and isinstance(looked.value, float):
                looked.value = max(looked.value, value)
            firm = _FIRM if key[0] not in _AT_ONCE else 1
            if looked.looks >= firm and not looked.seen:
                looked.seen = True
                self.version += 1
            if looked.seen:
                before = self._seen.get(key)
                began = min(looked.since, before.at) if before is not None else looked.since
                self._seen[key] = Seen(key[0], key[1], began, None, looked.value, looked.expected)
        for key in [key for key in self._looked if key not in found]:
            looked = self._looked[key]
            looked.missed += 1
            if looked.missed >= _FIRM or not looked.seen:
                if looked.seen:
                    seen = self._seen[key]
                    self._seen[key] = Seen(seen.what, seen.place, seen.at, now, seen.value, seen.expected)
                    self.version += 1
                del self._looked[key]


_AT_ONCE = {"gone_together", "rank_gone", "job_ended", "rank_blind"}


def _moved(snapshot: FleetSnapshot, nodes: Iterable[Node]) -> float | None:
    """Return what the ports of the nodes send, None where nothing is known of it."""
    table = snapshot.tables.get(Scope.PORT)
    if table is None or "ib_port_xmit_data" not in table.index:
        return None
    number = table.index["ib_port_xmit_data"]
    rows = [row for node in nodes if not node.is_stale(snapshot.mono) for row in snapshot.rows(node, Scope.PORT)]
    if not rows:
        return None
    values = np.asarray(table.values[number, rows], dtype=np.float64)
    known = np.asarray(table.reasons[number, rows]) == 0
    return float(values[known].sum()) if known.any() else None


def _lost(job: str, snapshot: FleetSnapshot) -> float | None:
    """Return the percent of its throughput that a job has lost against its own past."""
    standing = snapshot.standings.get(job)
    if standing is None:
        return None
    change = standing.values.get("job_throughput_change")
    return None if change is None else -change


def _steps(job: str, snapshot: FleetSnapshot, watched: JobWatch) -> bool:
    """Tell whether the job's log says that a step came within the last seconds."""
    standing = snapshot.standings.get(job)
    age_s = None if standing is None else standing.values.get("job_step_age")
    return age_s is not None and age_s < 10.0 and watched.looks > 0
