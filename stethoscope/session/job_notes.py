"""What a recording keeps of the logs of jobs: the lines that told something, as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.model.job import JobLog
from stethoscope.model.scheduler import Job, JobSource
from stethoscope.specs.fleet_jobs import JOB_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB_LOG = "job-log"
"""Kind of such notes."""
_LONGEST = 400_000
"""Bytes of lines in one note."""


class JobNote(msgspec.Struct, frozen=True):
    """One note."""

    id: str
    nodes: tuple[str, ...]
    path: str
    at: float
    """Wall seconds at which the lines were read."""
    lines: tuple[str, ...] = ()
    is_new: bool = True
    """They were written just then; else they are the last ones of the past."""
    name: str = ""
    user: str = ""
    state: str = ""
    source: str = JobSource.SLURM.value
    samples_per_step: float | None = None
    node: str = ""
    trouble: str = ""
    line_at: float | None = None

    @property
    def job(self) -> Job:
        """Return the job that it is about."""
        sources = {source.value: source for source in JobSource}
        return Job(
            id=self.id,
            name=self.name,
            state=self.state,
            user=self.user,
            nodes=self.nodes,
            stdout=self.path,
            source=sources.get(self.source, JobSource.GUESSED),
            samples_per_step=self.samples_per_step,
        )

    @property
    def log(self) -> JobLog:
        """Return where the log lay."""
        return JobLog(node=self.node, path=self.path, trouble=self.trouble, line_at=self.line_at)

    @property
    def data(self) -> bytes:
        """Return the lines."""
        return "".join(f"{line}\n" for line in self.lines).encode("utf-8", "replace")

    @property
    def is_sound(self) -> bool:
        """Tell whether it can be one: a file may have been changed."""
        times = (self.at, self.line_at or 0.0)
        batch = self.samples_per_step
        return (
            JOB_ID.fullmatch(self.id) is not None
            and all(0 <= time < 1e11 for time in times)
            and (batch is None or 0 < batch < 1e9)
        )


def as_note(job: Job, log: JobLog, lines: Sequence[bytes], *, is_new: bool, at: float) -> dict[str, Any]:
    """Return the note about lines that were read at wall second `at`."""
    kept: list[str] = []
    room = _LONGEST
    for line in reversed(lines):
        room -= len(line)
        if room < 0:
            break
        kept.append(line.decode("utf-8", "replace"))
    return {
        "id": job.id, "nodes": list(job.nodes), "path": log.path, "at": at, "lines": kept[::-1], "is_new": is_new,
        "name": job.name, "user": job.user, "state": job.state, "source": job.source.value,
        "samples_per_step": job.samples_per_step, "node": log.node, "trouble": log.trouble, "line_at": log.line_at,
    }  # fmt: skip


def note_of(kind: str, value: object) -> JobNote | None:
    """Return what a note of a session tells of a job's log, None for one of another kind or that is not sound."""
    if kind != JOB_LOG:
        return None
    try:
        note = msgspec.convert(value, JobNote)
    except msgspec.ValidationError:
        return None
    return note if note.is_sound else None
