"""Slurm as a source: `scontrol` and `squeue`, run here or on a login node.

Every command is an argument list of constants and validated names. Times are asked for in UTC. JSON is preferred where
this version's `scontrol` has it, for it cannot be misread; jobs are asked with `squeue`, whose answer is a fiftieth of
the size.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from stethoscope.collect.command import NOT_FOUND, Answer, CommandError, Runner
from stethoscope.errors import UnreachableError, UsageError
from stethoscope.model import ids
from stethoscope.model.scheduler import Job, SchedulerReading, SchedulerState
from stethoscope.parse.slurm import SQUEUE_FORMAT, Read, SlurmNode, read_scontrol, read_squeue
from stethoscope.parse.slurm_json import read_json
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 20.0
"""Longest wait for one answer; a controller that is gone takes the tools 9 s to say so."""
EVERY_S = 30.0
JSON_SINCE = (23, 11)
"""`scontrol show node --json` since this version, where Slurm was built with its JSON plugins."""
_ENVIRONMENT = ("env", "TZ=UTC0", "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
_DIRECTORIES = ("", "/opt/slurm/bin/", "/usr/local/bin/", "/cm/shared/apps/slurm/current/bin/", "/usr/local/slurm/bin/")
_JOB = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,7})?(?:\+[0-9]{1,5})?")
_PARTITION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_STATES = "RUNNING,COMPLETING,SUSPENDED"


class Slurm:
    """The commands of one cluster."""

    def __init__(self, runner: Runner) -> None:
        """Run them with `runner`; nothing is run yet."""
        self._runner = runner
        self._directory: str | None = None
        self._json = False
        self.version = ""

    async def close(self) -> None:
        """Let go of the machine that runs the commands."""
        await self._runner.close()

    async def nodes(self, names: Sequence[str] | None = None) -> Read:
        """Return all nodes, or those of `names`; UnreachableError when Slurm does not answer."""
        await self._open()
        which = [] if names is None else [ids.fold(names)]
        if self._json:
            answer = await self._run("scontrol", "show", "node", *which, "--json")
            try:
                return await asyncio.to_thread(read_json, answer.stdout)
            except ValueError:
                # Built without the plugins, or a shape of the future: text is always there.
                self._json = False
        answer = await self._run("scontrol", "show", "node", *which, "-o")
        read = await asyncio.to_thread(read_scontrol, _text(answer))
        if not read.nodes:
            raise UnreachableError(f"Slurm on {self._runner.where}: {_complaint(answer)}")
        return read

    async def job_nodes(self, job: str) -> tuple[Job, tuple[str, ...]]:
        """Return a job (of an array the first task that runs) and the nodes of all parts; UsageError without any."""
        if not _JOB.fullmatch(job):
            raise UsageError(f'"{clean(job, 40)}" is not a job: write its number, or 4242_7 for a task of an array')
        await self._open()
        answer = await self._run("scontrol", "show", "job", job)
        jobs = (await asyncio.to_thread(read_scontrol, _text(answer))).jobs
        if not jobs:
            if "invalid job id" in answer.stderr.lower() or answer.status == 0:
                raise UsageError(f"Slurm knows no job {job}: it ended a while ago, or belongs to another cluster")
            raise UnreachableError(f"Slurm on {self._runner.where}: {_complaint(answer)}")
        placed = [found for found in jobs if found.nodes]
        current = [found for found in placed if found.state in ("running", "completing", "suspended")] or placed
        if not current:
            raise UsageError(f"job {job} is {jobs[0].state or 'waiting'}: it has no nodes yet")
        return current[0], tuple(dict.fromkeys(node for found in current for node in found.nodes))

    async def partition_nodes(self, partition: str) -> tuple[str, ...]:
        """Return the nodes of a partition; UsageError when there is none of that name."""
        if not _PARTITION.fullmatch(partition):
            raise UsageError(f'"{clean(partition, 40)}" is not a partition')
        await self._open()
        answer = await self._run("scontrol", "show", "partition", partition, "-o")
        for found in read_scontrol(_text(answer)).partitions:
            if found.name == partition:
                if not found.nodes:
                    raise UsageError(f"partition {partition} has no nodes")
                return found.nodes
        if answer.status and "not found" not in answer.stderr.lower():
            raise UnreachableError(f"Slurm on {self._runner.where}: {_complaint(answer)}")
        raise UsageError(f"Slurm knows no partition {partition}")

    async def running_jobs(self) -> tuple[Job, ...]:
        """Return the jobs that have nodes now."""
        await self._open()
        answer = await self._run("squeue", "--noheader", "--all", f"--states={_STATES}", "-o", SQUEUE_FORMAT)
        if answer.status != 0:
            raise UnreachableError(f"Slurm on {self._runner.where}: {_complaint(answer)}")
        return (await asyncio.to_thread(read_squeue, _text(answer))).jobs

    async def topology(self) -> str:
        """Return `scontrol show topology`: the lines of topology.conf, empty where none is configured."""
        await self._open()
        answer = await self._run("scontrol", "show", "topology")
        lines = _text(answer).splitlines()
        return "\n".join(line for line in lines if line.startswith(("SwitchName=", "BlockName=", "BlockSizes=")))

    async def _open(self) -> None:
        if self._directory is not None:
            return
        for directory in _DIRECTORIES:
            answer = await self._ask(directory, "scontrol", "--version")
            if answer.status == NOT_FOUND:
                continue
            found = re.search(r"(\d{2})\.(\d{1,2})(?:\.\d+)?", _text(answer))
            if answer.status != 0 or found is None:
                raise UnreachableError(f"scontrol on {self._runner.where}: {_complaint(answer)}")
            self.version = found[0]
            self._json = (int(found[1]), int(found[2])) >= JSON_SINCE
            self._directory = directory
            return
        raise UsageError(
            f"there is no scontrol on {self._runner.where}: name a machine that has it with --slurm-via HOST"
        )

    async def _run(self, *arguments: str) -> Answer:
        return await self._ask(self._directory or "", *arguments)

    async def _ask(self, directory: str, program: str, *arguments: str) -> Answer:
        try:
            return await self._runner.run([*_ENVIRONMENT, f"{directory}{program}", *arguments], LIMIT_S)
        except CommandError as error:
            raise UnreachableError(f"Slurm's commands: {error}") from None


class LiveSlurm:
    """Reads the state of a fleet's nodes and their jobs again and again."""

    every_s = EVERY_S

    def __init__(self, slurm: Slurm, names: Sequence[tuple[str, str | None]]) -> None:
        """Look at the nodes `names`, each with the address it is reached at, if that is not its name."""
        self._slurm = slurm
        self._names = tuple(names)

    async def read(self) -> SchedulerReading:
        """Return what Slurm says now; what goes wrong is a note in words."""
        try:
            nodes = await self._slurm.nodes()
            jobs = await self._slurm.running_jobs()
        except (UsageError, UnreachableError) as error:
            return SchedulerReading({}, note=str(error))
        return reading(self._names, nodes.nodes, jobs)

    async def job(self, job: str) -> Job:
        """Return one job as Slurm knows it now; UsageError when it knows none, UnreachableError when it is silent."""
        return (await self._slurm.job_nodes(job))[0]

    async def close(self) -> None:
        """Close the connection to the login node."""
        await self._slurm.close()


def reading(
    names: Sequence[tuple[str, str | None]], nodes: Sequence[SlurmNode], jobs: Sequence[Job]
) -> SchedulerReading:
    """Return the states of the fleet's nodes, found by Slurm's name, host name or address, and the jobs on them."""
    by_address = {node.address: node for node in nodes if node.address}
    by_host = {node.hostname: node for node in nodes if node.hostname}
    by_name = {node.name: node for node in nodes}
    known: dict[str, SlurmNode] = {}
    for name, address in names:
        short = name.partition(".")[0]
        found = by_name.get(name) or by_host.get(name) or by_name.get(short)
        found = found or (by_address.get(address) if address is not None else None)
        if found is not None:
            known[name] = found
    ours = {found.name: name for name, found in known.items()}
    by_node: dict[str, list[str]] = {}
    kept: list[Job] = []
    for job in jobs:
        here = [ours[node] for node in job.nodes if node in ours]
        if here:
            kept.append(job)
        for name in here:
            by_node.setdefault(name, []).append(job.id)
    states = {
        name: SchedulerState(
            words=node.states,
            reason=node.reason,
            owner=node.owner,
            since=node.since,
            jobs=tuple(by_node.get(name, ())),
            reservation=node.reservation,
            partitions=node.partitions,
        )
        for name, node in known.items()
    }
    note = "" if known else "Slurm knows none of these nodes"
    return SchedulerReading(states, tuple(kept), note)


def _text(answer: Answer) -> str:
    return answer.stdout.decode("utf-8", "replace")


def _complaint(answer: Answer) -> str:
    said = clean(answer.stderr or answer.stdout[:2000], 300).strip()
    return said or f"no answer (status {answer.status})"
