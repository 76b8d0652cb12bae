"""`jobs:` of a fleet file: jobs that no scheduler tells of, or whose log lies where it does not say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import msgspec

from stethoscope.errors import DataError, UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.model.scheduler import Job, JobSource
from stethoscope.specs.load import Loaded, SeveralDataError, Spec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

FOLLOWED = 8
"""Logs of so many jobs are read where the file does not say how many."""
JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:@-]{0,63}")
"""What a job may be called: it becomes a part of places, `job/4242`."""


class JobSettings(Spec, frozen=True, kw_only=True):
    """One job."""

    id: str | int
    nodes: str | list[str]
    log: str | None = None
    """Path of what it prints, on its nodes, with the letters of `sbatch --output` (%j, %N ...)."""
    name: str | None = None
    user: str | None = None
    samples_per_step: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None


def read_jobs(loaded: Loaded, jobs: Sequence[JobSettings], known: Collection[str]) -> tuple[Job, ...]:
    """Return the jobs of a file whose nodes are `known`; DataError or SeveralDataError with positions."""
    found: dict[str, Job] = {}
    errors: list[DataError] = []
    for position, settings in enumerate(jobs):
        try:
            job = _job(loaded, settings, known, position)
            if job.id in found:
                raise loaded.error(f'the job "{job.id}" is there twice', "jobs", position, "id")
            found[job.id] = job
        except DataError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return tuple(found.values())


def read_logs(loaded: Loaded, paths: str | list[str], *path: str | int) -> tuple[str, ...]:
    """Return paths of logs; DataError for one that is none."""
    found = (paths,) if isinstance(paths, str) else tuple(paths)
    for text in found:
        if not text.startswith("/") or re.search(r"[\x00-\x1f\x7f]", text):
            raise loaded.error(f'"{text}" is not a whole path such as /shared/logs/slurm-%j.out', *path)
    return found


def _job(loaded: Loaded, settings: JobSettings, known: Collection[str], position: int) -> Job:
    path = ("jobs", position)
    id_ = str(settings.id)
    if not JOB_ID.fullmatch(id_):
        raise loaded.error(f'"{id_}" cannot name a job: letters, digits and _ . + : @ -', *path, "id")
    text = settings.nodes if isinstance(settings.nodes, str) else ",".join(settings.nodes)
    try:
        nodes = tuple(dict.fromkeys(ids.expand(text)))
    except UsageError as error:
        raise loaded.error(str(error), *path, "nodes") from None
    for name in nodes:
        if name not in known:
            near = did_you_mean(name, known)
            raise loaded.error(f'job {id_}: no node of this file is called "{name}"{near}', *path, "nodes")
    (log,) = read_logs(loaded, settings.log, *path, "log") if settings.log else ("",)
    return Job(
        id=id_,
        name=settings.name or "",
        user=settings.user or "",
        nodes=nodes,
        stdout=log,
        source=JobSource.FLEET_FILE,
        samples_per_step=settings.samples_per_step,
    )
