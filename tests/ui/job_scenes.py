"""Fleets with jobs whose logs were read, for tests and pictures of the job screen."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.analysis.job_judge import JobJudge
from stethoscope.analysis.job_table import job_table
from stethoscope.model.job import JobLog
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Job
from stethoscope.text import clean
from tests.builders import WALL, catalogue, fleet
from tests.ui.scenes import EVIL, finding

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.job import Standing

JOB = Job(
    "4242", "pretrain-70b", "running", "alice", nodes=tuple(f"gpu-{n:03}" for n in range(1, 17)), started=WALL - 7200
)
PATH = "/shared/train/slurm-4242.out"


def standing(*, healthy: int = 100, slow: int = 8, trouble: str = "") -> Standing:
    """Return what a log of Megatron says: so many lines at 0.8 s a step, then so many at 1.2 s, the last 4 s ago."""
    chance = random.Random(3)
    at = WALL - 4 - 10 * (0.8 * healthy + 1.2 * slow)
    judge = JobJudge(at)
    judge.reader.begin(is_start=False)
    for number in range(healthy + slow):
        step_s = (0.8 if number < healthy else 1.2) * (1 + chance.gauss(0, 0.002))
        at += 10 * step_s
        done = 41_200 + 10 * number
        stamp = datetime.fromtimestamp(at, UTC)
        judge.reader.feed(
            f" [{stamp:%Y-%m-%d %H:%M:%S}] iteration {done:8d}/  500000 | consumed samples: {done * 512} | "
            f"elapsed time per iteration (ms): {step_s * 1000:.1f} | learning rate: 3.000000E-04 | "
            f"global batch size:   512 | lm loss: {2.1 + chance.gauss(0, 0.01):.6E} | grad norm: 0.412 | "
            "number of skipped iterations:   0 |\n".encode(),
            now=at,
            is_new=True,
        )
        if number in (30, 60, 90):
            judge.reader.feed(b"    save-checkpoint ......: (30100.00, 31500.00)\n", now=at, is_new=True)
    log = JobLog("gpu-001", PATH, trouble=trouble, read_at=WALL, line_at=WALL - 4)
    return judge.standing(log, WALL, may_hang=True)


def with_jobs(snapshot: FleetSnapshot, *jobs: tuple[Job, Standing | None]) -> FleetSnapshot:
    """Return `snapshot` with jobs and their table."""
    known = {job.id: one for job, one in jobs if one is not None}
    table = job_table([one.values if one is not None else {} for _, one in jobs], catalogue())
    tables = {**snapshot.tables, Scope.JOB: table}
    return replace(snapshot, jobs=tuple(job for job, _ in jobs), standings=known, tables=tables)


def slowed() -> FleetSnapshot:
    """Return a fleet whose only job is a third slower, beside a sick link."""
    findings = [
        finding("P1", "gpu-007/ib/mlx5_3", "symbol errors +41/s", "2026-03-14T02:11:07Z"),
        finding("P1", "job/4242", "throughput -33 % against its own past", "2026-03-14T02:12:30Z", "job_slow"),
        finding("P1", "gpu-030/gpu/1", "on no node of the job", "2026-03-14T02:11:07Z"),
    ]
    return with_jobs(fleet(32, name="prod-a", findings=findings), (JOB, standing()))


def several() -> FleetSnapshot:
    """Return a fleet with jobs of many kinds: fine, unread, not to be read, hostile."""
    name = clean("".join(EVIL).encode("utf-8", "replace"), 60)
    evil = Job("evil", name, "running", clean("\u202eeve"), nodes=("gpu-020",))
    return with_jobs(
        fleet(32, name="prod-a"),
        (replace(JOB, id="17", nodes=("gpu-017", "gpu-018")), standing(slow=0)),
        (JOB, standing()),
        (replace(JOB, id="no-log", stdout="", nodes=("gpu-019",)), None),
        (evil, standing(trouble="no such file, or a directory above it is closed to eve")),
    )
