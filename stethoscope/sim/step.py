"""One step of a synchronous job: every rank works, then all meet in a collective that the slowest path paces.

    W_r = c*T0*fc_r + d*T0*fd_r + stall_r + o*T0*fo_r        own work of rank r
    M   = m*T0 / min(bandwidth of every path of the job)     the collective
    T   = max(W) + M                                         the step, the same for every rank
    wait_r = max(W) - W_r                                    spent spinning inside NCCL

So the slow rank is the one that does not wait, and a sick link makes nobody late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.sim.noise import Floats
    from stethoscope.specs.scenario import Job


@dataclass(frozen=True, slots=True)
class Step:
    """How one step of a job goes; seconds, arrays are `[node of the job, gpu]`."""

    step_s: float
    collective_s: float
    compute_s: Floats
    wait_s: Floats
    stall_s: Floats
    """Without a kernel running, beyond what a healthy step has."""
    data_s: Floats
    other_s: Floats

    @property
    def comm_s(self) -> Floats:
        """Return what each rank measures inside its collective: moving bytes and waiting together."""
        return self.collective_s + self.wait_s


def step(job: Job, compute: Floats, data: Floats, other: Floats, stall_s: Floats, bandwidth: float) -> Step:
    """Return the step of `job` under slow-down factors and stalls of its ranks and what is left of its bandwidth."""
    t0, shares = job.step_time_s, job.shares
    compute_s = shares.compute * t0 * compute
    data_s = shares.data * t0 * data + stall_s
    other_s = shares.other * t0 * other
    work_s = compute_s + data_s + other_s
    slowest = float(work_s.max())
    collective_s = shares.comm * t0 / max(bandwidth, 1e-6)
    return Step(
        step_s=slowest + collective_s,
        collective_s=collective_s,
        compute_s=compute_s,
        wait_s=slowest - work_s,
        stall_s=data_s + other_s - (shares.data + shares.other) * t0,
        data_s=data_s,
        other_s=other_s,
    )
