"""The jobs of a session: which there are, what their logs say, and the table that rules and screens read.

Logs are read by themselves: those of a few jobs, each on one node, every few seconds, and none where nothing may be
run. What a log told goes into recordings, so that a replay knows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.job_gpus import with_gpus
from stethoscope.analysis.job_list import guess, holds_gpus, in_order, known_nodes, listed
from stethoscope.analysis.job_table import job_table
from stethoscope.collect.command import CommandError
from stethoscope.errors import StethoscopeError, UsageError
from stethoscope.model.job import JobLog
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.scheduler import Job, JobSource
from stethoscope.parse.slurm import output_path
from stethoscope.session.job_notes import JOB_LOG, JobNote, as_note
from stethoscope.session.job_tail import JobTail
from stethoscope.specs.fleet_jobs import FOLLOWED
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stethoscope.analysis.job_judge import JobJudge
    from stethoscope.clock import Clock
    from stethoscope.model.fleet import FleetSnapshot, Table
    from stethoscope.model.job import Standing
    from stethoscope.model.metric import Metric

_log = logging.getLogger(__name__)
POLL_S = 5.0
RETRY_S = 30.0
"""A log that cannot be read is tried again this often."""
GUESS_S = 10.0
PAST_EVERY_S = 60.0
"""How often a recording gets the last lines again: who begins to read there knows what was before."""
KEPT = 64
"""Judges of jobs that are kept in mind."""
_STALE_S = 4 * POLL_S


class Jobs:
    """Keeps what is known of jobs."""

    def __init__(
        self,
        source: object,
        catalogue: Mapping[str, Metric],
        clock: Clock,
        tell: Callable[[str, object], None] = lambda _kind, _value: None,
    ) -> None:
        """Read logs through `source`, where it can run something; `tell` gets what a recording must have."""
        self._source: Any = source
        self._catalogue = catalogue
        self._clock = clock
        self._of_file: tuple[Job, ...] = getattr(source, "jobs", ())
        self._most: int = getattr(source, "follow_jobs", FOLLOWED)
        self._order: list[str] = []
        self._guessed: tuple[Job, ...] = ()
        self._guessed_mono = -GUESS_S
        self._judges: dict[str, JobJudge] = {}
        self._logs: dict[str, JobLog] = {}
        self._recorded: dict[str, Job] = {}
        """Jobs that a recording told of."""
        self._tails: dict[str, JobTail] = {}
        self._paths: dict[str, str] = {}
        """Where jobs of Slurm print to: its list of jobs does not say it, it is asked for each that is followed."""
        self._retry_at: dict[str, float] = {}
        self._past_mono = clock.monotonic()
        self._version = 0
        self.first_read = asyncio.Event()
        """Set once every log that is followed was read, or could not be."""
        self._tell_recorders = tell

    @property
    def may_read(self) -> bool:
        """Tell whether logs are read here at all."""
        return (
            self._most > 0
            and hasattr(self._source, "run_script")
            and hasattr(self._source, "commands")
            and not getattr(self._source, "read_only", False)
        )

    def has_logs(self, snapshot: FleetSnapshot) -> bool:
        """Tell whether any job is to have its log read."""
        return bool(self._wanted(snapshot))

    # ---- the picture

    def picture(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """Return `snapshot` with all jobs, what their logs say, and their table."""
        jobs = self._listed(snapshot)
        if not jobs:
            return snapshot
        self._order = [job.id for job in jobs]
        standings = {job.id: self._standing(job, snapshot) for job in jobs if job.id in self._logs}
        return replace(
            snapshot,
            jobs=jobs,
            standings=standings,
            tables={**snapshot.tables, Scope.JOB: self._table(jobs, standings)},
        )

    def _listed(self, snapshot: FleetSnapshot) -> tuple[Job, ...]:
        mono = snapshot.mono
        if not snapshot.jobs and not self._of_file and not 0 <= mono - self._guessed_mono < GUESS_S:
            self._guessed, self._guessed_mono = guess(snapshot), mono
        of_file = (*self._of_file, *(job for job in self._recorded.values() if job.source is JobSource.FLEET_FILE))
        return in_order(listed(snapshot.jobs, of_file, self._guessed), self._order)

    def _standing(self, job: Job, snapshot: FleetSnapshot) -> Standing:
        log = self._logs[job.id]
        nodes = known_nodes(job, snapshot)
        is_read = not log.trouble and log.read_at is not None and snapshot.wall - log.read_at < _STALE_S
        # Who says that it runs: the scheduler, or its processes.
        runs = job.state == "running" if job.source is JobSource.SLURM else bool(holds_gpus(nodes))
        standing = self._judges[job.id].standing(log, snapshot.wall, may_hang=is_read and runs)
        return with_gpus(standing, nodes, snapshot)

    def _table(self, jobs: Sequence[Job], standings: Mapping[str, Standing]) -> Table:
        self._version += 1
        rows: list[Mapping[str, float | Reason]] = []
        for job in jobs:
            standing = standings.get(job.id)
            if standing is None:
                rows.append({})
            elif standing.last is None:
                why = Reason.ERROR if standing.log.trouble else Reason.WAITING
                rows.append(dict.fromkeys(("job_step_time", "job_throughput", "job_throughput_change"), why))
            else:
                rows.append(standing.values)
        return job_table(rows, self._catalogue, version=self._version)

    # ---- reading

    async def run(self, look: Callable[[], FleetSnapshot]) -> None:
        """Read the logs of jobs until cancelled; `look` gives the state of the moment."""
        if not self.may_read:
            self.first_read.set()
            return
        while True:
            try:
                await self._read_all(look())
            except Exception:  # noqa: BLE001  the next round may succeed
                _log.exception("the logs of jobs were not read")
            await asyncio.sleep(POLL_S if self.first_read.is_set() else POLL_S / 10)

    async def _read_all(self, snapshot: FleetSnapshot) -> None:
        mono = self._clock.monotonic()
        wanted = self._wanted(snapshot)
        due = [job for job in wanted if mono >= self._retry_at.get(job.id, 0.0)]
        await asyncio.gather(*(self._read_on(job, snapshot) for job in due))
        if wanted and all(job.id in self._logs for job in wanted):
            self.first_read.set()
        if mono - self._past_mono >= PAST_EVERY_S:
            self._past_mono = mono
            self._tell_past(wanted)
        self._forget(snapshot)

    def _wanted(self, snapshot: FleetSnapshot) -> list[Job]:
        """Return the jobs whose logs are read: those of this fleet that run and say where they print, the largest
        first."""
        jobs = [
            job
            for job in self._listed(snapshot)
            if job.state in ("", "running", "completing") and (job.stdout or self._can_ask(job))
        ]
        return sorted(jobs, key=lambda job: -len(job.nodes))[: self._most]

    def _can_ask(self, job: Job) -> bool:
        return job.source is JobSource.SLURM and hasattr(getattr(self._source, "scheduler", None), "job")

    async def _where(self, job: Job) -> str:
        """Return where a job prints to; raises what Slurm answers when it does not say it."""
        if job.stdout:
            return path_of(job)
        if job.id not in self._paths:
            said: Job = await self._source.scheduler.job(job.id)
            self._paths[job.id] = path_of(replace(job, stdout=said.stdout, batch_host=said.batch_host))
        if not self._paths[job.id]:
            raise UsageError("Slurm does not say where the job prints to")
        return self._paths[job.id]

    async def _read_on(self, job: Job, snapshot: FleetSnapshot) -> None:
        live = [node.name for node in known_nodes(job, snapshot) if node.link.state.is_live]
        if not live and job.id not in self._tails:
            # Links are still on their way.
            return
        tail = self._tails.get(job.id)
        try:
            path = await self._where(job)
        except (StethoscopeError, CommandError) as error:
            self._logs[job.id] = JobLog(trouble=clean(str(error), 300))
            self._judges.setdefault(job.id, _judge(self._clock.wall()))
            self._retry_at[job.id] = self._clock.monotonic() + RETRY_S
            return
        if tail is None or tail.log.path != path:
            judge = self._judges[job.id] = _judge(self._clock.wall(), job.samples_per_step)
            tail = self._tails[job.id] = JobTail(judge, path, self._clock)
        first = [name for name in live if name.partition(".")[0] == job.batch_host.partition(".")[0]]
        told = len(tail.judge.reader.told)
        was_read = tail.is_read
        before = tail.judge.reader.entries.version
        try:
            if "%" in path:
                tail.log = replace(tail.log, trouble="each task has a file of its own: name one in the fleet file")
            else:
                await tail.read_on(self._source, list(dict.fromkeys([*first, *live])))
        except Exception as error:  # noqa: BLE001  what is met in one log costs this log alone
            tail.log = replace(tail.log, trouble=clean(f"{type(error).__name__}: {error}", 200))
        self._logs[job.id] = tail.log
        if tail.log.trouble:
            self._retry_at[job.id] = self._clock.monotonic() + RETRY_S
        if tail.judge.reader.entries.version != before or not was_read:
            new = tail.judge.reader.told[told:] if was_read else tail.judge.reader.told
            self._tell(job, tail, new, is_new=was_read)

    def _tell(self, job: Job, tail: JobTail, lines: Sequence[bytes], *, is_new: bool) -> None:
        self._tell_recorders(JOB_LOG, as_note(job, tail.log, lines, is_new=is_new, at=self._clock.wall()))

    def _tell_past(self, wanted: Sequence[Job]) -> None:
        for job in wanted:
            tail = self._tails.get(job.id)
            if tail is not None:
                self._tell(job, tail, tail.judge.reader.told, is_new=False)

    def _forget(self, snapshot: FleetSnapshot) -> None:
        """Let go of jobs that are gone, the oldest first."""
        there = {job.id for job in self._listed(snapshot)}
        gone = deque(id_ for id_ in self._judges if id_ not in there)
        while len(self._judges) > KEPT and gone:
            id_ = gone.popleft()
            for kept in (self._judges, self._logs, self._tails, self._paths):
                kept.pop(id_, None)

    # ---- what a recording says

    def take_note(self, note: JobNote, wall: float) -> None:
        """Take what a recorded console read: its lines as they came, or those of the past where nothing is known."""
        job = note.job
        known = self._judges.get(job.id)
        if known is None:
            known = self._judges[job.id] = _judge(note.at, job.samples_per_step)
            known.reader.begin(is_start=False)
            if note.is_new:
                # The past comes within a minute; until then these are the first lines that are known.
                self._recorded[job.id] = job
        is_empty = not known.reader.entries.entries
        if note.is_new or is_empty:
            known.reader.feed(note.data, now=note.at, is_new=note.is_new and not is_empty)
        self._recorded[job.id] = job
        self._logs[job.id] = replace(note.log, read_at=wall)
        while len(self._recorded) > KEPT:
            self._recorded.pop(next(iter(self._recorded)))


def _judge(wall: float, batch: float | None = None) -> JobJudge:
    # Its forms of log lines are not loaded before there is a log: the first values of nodes do not wait for them.
    from stethoscope.analysis.job_judge import JobJudge

    return JobJudge(wall, batch=batch)


def path_of(job: Job) -> str:
    """Return where a job prints to, with what its path leaves open filled in as for its first task; a `%` that stays is
    one that nobody can fill."""
    node = (job.batch_host or (job.nodes[0] if job.nodes else "")).partition(".")[0]
    array, _, task = job.id.partition("_")
    filled = output_path(job.stdout, job=job.id, array=array, task=task, user=job.user, name=job.name, node=node)
    return filled.replace("%t", "0")
