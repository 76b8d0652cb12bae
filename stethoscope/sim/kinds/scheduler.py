"""Fault kinds of who shares machines, and of who ends jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stethoscope.sim.job_effects import Foreign, JobEnd
from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_FOREIGN_MIB = 12_288.0
_STATES = {"TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL"}
"""Slurm's reason of an end -> its word for the job."""
_LINE_RATE = 0.8
"""Share of its port's rate at which another job sends."""


class MultiJobContention(Kind):
    """Another job, or what one left behind, works on the same GPU, or sends through the same switch."""

    name = "multi_job_contention"
    title = "Another job shares GPU or link"
    root_cause = "multi_job_contention"
    scope = "local"
    severity = "P1"
    targets = frozenset({"gpu", "leaf"})
    params: ClassVar[Mapping[str, Param]] = {
        "sm_share": Param(0.35, "ratio", meaning="of the GPU that the other one takes"),
        "nvlink_share": Param(0.0, "ratio", meaning="of its NVLink traffic that the other one takes"),
        "bandwidth_factor": Param(0.6, "ratio", meaning="on a leaf: what is left for the job"),
        "foreign_job": Param("0", "text", meaning="Slurm's id of the other one; 0 for what no job has"),
        "foreign_proc": Param("python3", "text", meaning="process of the other one"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Put the other one there."""
        if self.fault.where.form == "leaf":
            self._on_leaf(effects)
        else:
            self._on_gpu(effects)

    def _id(self) -> str:
        id_ = str(self.fault.params["foreign_job"])
        return "" if id_ == "0" else id_

    def _on_gpu(self, effects: Effects) -> None:
        at = (self.node, self.index)
        taken, links = min(self.number("sm_share"), 0.95), self.number("nvlink_share")
        effects.compute[at] *= 1 / (1 - taken)
        effects.foreign[at] = Foreign(str(self.fault.params["foreign_proc"]), self._id(), _FOREIGN_MIB)
        effects.foreign_share[at] = max(effects.foreign_share[at], taken)
        effects.foreign_links[at] += links
        job = effects.layout.job_of(self.node)
        if job is not None and links > 0:
            effects.job_bandwidth[job.id] = effects.job_bandwidth.get(job.id, 1.0) * (1 - 0.3 * links)
        if self._id() and self._id() not in effects.layout.jobs:
            effects.foreign_jobs[self._id()] = (self.node,)

    def _on_leaf(self, effects: Effects) -> None:
        layout = effects.layout
        ports = layout.ports_at(self.fault.where)
        effects.bandwidth[ports] *= self.number("bandwidth_factor")
        free = []
        for node, port in np.argwhere(ports).tolist():
            if layout.job_of(node) is None:
                free.append(node)
                effects.add("ib_port_xmit_data", _LINE_RATE * layout.fleet.ib_rate_gbps * 1e9 / 32, node, port)
                effects.add("ib_port_rcv_data", _LINE_RATE * layout.fleet.ib_rate_gbps * 1e9 / 32, node, port)
            else:
                effects.credit_wait[node, port] += 0.12
        if self._id() and self._id() not in layout.jobs:
            nodes = free or sorted({node for node, _ in np.argwhere(ports).tolist()})
            effects.foreign_jobs[self._id()] = tuple(nodes)
        for node in free:
            for gpu in range(layout.gpu_shape[1]):
                effects.foreign[node, gpu] = Foreign(str(self.fault.params["foreign_proc"]), self._id(), _FOREIGN_MIB)
                effects.foreign_share[node, gpu] = 0.9


class SchedulerPreemption(Kind):
    """Slurm or a person ends the job: all its ranks get the same signal in the same second."""

    name = "scheduler_preemption"
    title = "Ended by the scheduler or a person"
    root_cause = "scheduler_preemption"
    scope = "global"
    severity = "P2"
    targets = frozenset({"job"})
    params: ClassVar[Mapping[str, Param]] = {
        "reason": Param(
            "PREEMPTION", "text", meaning="TIME LIMIT, PREEMPTION, NODE FAILURE, or (cancelled) for a person"
        ),
    }

    def written(self) -> Iterable[Line]:
        """Return what Slurm says on every node; of a person it says no reason."""
        text = "slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT {ts_slurm}"
        reason = "" if self._state() == "CANCELLED" else " DUE TO {reason}"
        yield Line("slurm", 0.0, "all", f"{text}{reason} ***")

    def _state(self) -> str:
        return _STATES.get(str(self.fault.params["reason"]).strip("()").upper().replace("_", " "), "CANCELLED")

    def apply(self, effects: Effects, age_s: float) -> None:
        """End the job."""
        effects.job(self.fault.where.name).end = JobEnd(self._state(), "0:15")


KINDS = (MultiJobContention, SchedulerPreemption)
