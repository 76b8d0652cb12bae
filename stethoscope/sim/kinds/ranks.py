"""Which ranks a place stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stethoscope.sim.effects import Effects
    from stethoscope.specs.place import Place
    from stethoscope.specs.scenario import Job

ENDS_S = 12.0
"""After a rank's death it takes its launcher so long to end the job."""


def job_of(effects: Effects, where: Place) -> Job:
    """Return the job of a place job/ID or job/ID/rank/N."""
    return effects.layout.jobs[where.name]


def spots(effects: Effects, job: Job) -> list[tuple[int, int]]:
    """Return (node, GPU) of every rank of a job, in the order of the ranks."""
    return [(node, gpu) for node in job.nodes for gpu in range(effects.layout.gpu_shape[1])]


def ranks_of(effects: Effects, where: Place) -> list[tuple[int, int]]:
    """Return (node, GPU) of the ranks at a place, in the order of the ranks; on nodes without a job there is none."""
    if where.form == "job":
        return spots(effects, job_of(effects, where))
    return [
        (int(node), int(gpu))
        for node, gpu in np.argwhere(effects.layout.gpus_at(where))
        if effects.layout.job_of(int(node)) is not None
    ]


def lose_rank(effects: Effects, job: str, age_s: float) -> None:
    """Let the ranks of a job lose one of them, and end the job `ENDS_S` later."""
    effects.job(job).is_broken = True
    if age_s >= ENDS_S:
        effects.ended.add(job)
