"""Which jobs there are: those of the scheduler, of the fleet file, and, where neither says, those that the GPU
processes show."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.model.job import Rank
from stethoscope.model.scheduler import Job, JobSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.fleet import FleetSnapshot, Node

_NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9_.+:@-]+")
_LEAST_NODES = 2
"""Processes of one name on so many nodes look like a job; on one they may be anything."""
MOST_GUESSED = 64


def listed(scheduled: Sequence[Job], of_file: Sequence[Job], guessed: Sequence[Job]) -> tuple[Job, ...]:
    """Return all jobs, each once: what the fleet file says of one that the scheduler runs is added to it; guesses only
    where nobody else tells of any."""
    said = {job.id: job for job in of_file}
    found = [_joined(job, said.pop(job.id)) if job.id in said else job for job in scheduled]
    found += said.values()
    return tuple(found) or tuple(guessed)


def _joined(job: Job, said: Job) -> Job:
    return replace(
        job,
        name=job.name or said.name,
        stdout=said.stdout or job.stdout,
        samples_per_step=said.samples_per_step,
    )


def in_order(jobs: Sequence[Job], before: Sequence[str]) -> tuple[Job, ...]:
    """Return jobs in the order of before, new ones behind: rules and eyes find them where they were."""
    place = {id_: at for at, id_ in enumerate(before)}
    return tuple(sorted(jobs, key=lambda job: place.get(job.id, len(place))))


def guess(snapshot: FleetSnapshot) -> tuple[Job, ...]:
    """Return the jobs that the processes on the GPUs look like: those of one Slurm job, or of one user and program on
    several nodes."""
    names: dict[tuple[str, ...], dict[str, None]] = {}
    users: dict[tuple[str, ...], str] = {}
    programs: dict[tuple[str, ...], str] = {}
    for node in snapshot.nodes:
        for process in node.processes or ():
            key: tuple[str, ...] = (
                ("slurm", process.slurm_job) if process.slurm_job else ("", process.user, process.name)
            )
            if process.slurm_job or (process.user and process.name):
                nodes = names.get(key)
                if nodes is None:
                    nodes = names[key] = {}
                nodes[node.name] = None
                users[key], programs[key] = process.user, process.name
    jobs: dict[str, Job] = {}
    for key, nodes in names.items():
        is_slurm = key[0] == "slurm"
        if len(nodes) < _LEAST_NODES and not is_slurm:
            continue
        id_ = _NOT_OF_AN_ID.sub("-", key[1] if is_slurm else f"{key[1]}:{key[2].rsplit('/', 1)[-1]}").strip("-")[:64]
        if id_ and id_ not in jobs and len(jobs) < MOST_GUESSED:
            jobs[id_] = Job(
                id=id_,
                name=programs[key],
                state="running",
                user=users[key],
                nodes=tuple(nodes),
                source=JobSource.GUESSED,
            )
    return tuple(jobs.values())


def known_nodes(job: Job, snapshot: FleetSnapshot) -> list[Node]:
    """Return the nodes of a job that are in the fleet, in the order of their ranks; a scheduler may know them by their
    short names."""
    found = [snapshot.by_name.get(name) for name in job.nodes]
    if None in found:
        short = {node.name.partition(".")[0]: node.index for node in snapshot.nodes}
        found = [
            index if index is not None else short.get(name.partition(".")[0])
            for index, name in zip(found, job.nodes, strict=True)
        ]
    return [snapshot.nodes[index] for index in dict.fromkeys(found) if index is not None]


def ranks(job: Job, snapshot: FleetSnapshot) -> list[Rank]:
    """Return the ranks of a job as launchers number them: along its nodes, on each along its GPUs; empty where a node
    before is not known here, because then nobody knows how many it has."""
    nodes = known_nodes(job, snapshot)
    if len(nodes) < len(set(job.nodes)) or not all(node.gpus for node in nodes):
        return []
    found: list[Rank] = []
    for node in nodes:
        found += [Rank(len(found) + at, node.name, gpu.index) for at, gpu in enumerate(node.gpus)]
    return found


def holds_gpus(nodes: Sequence[Node]) -> bool | None:
    """Tell whether any process holds a GPU of these nodes, None where that is not known of all."""
    if any(node.processes for node in nodes):
        return True
    return None if any(node.processes is None for node in nodes) or not nodes else False


def rank_spans(job: Job, snapshot: FleetSnapshot) -> Mapping[str, tuple[int, int]]:
    """Return the first and last rank of each node of a job, where they are known."""
    spans: dict[str, tuple[int, int]] = {}
    for rank in ranks(job, snapshot):
        first, _ = spans.get(rank.node, (rank.rank, rank.rank))
        spans[rank.node] = first, rank.rank
    return spans
