"""What looks like a fault and is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stethoscope.sim.job_effects import JobEnd
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_PORT_TOTALS = {
    "link_downed": "ib_link_downed",
    "symbol_errors": "ib_symbol_error",
    "recoveries": "ib_link_error_recovery",
    "discards": "ib_port_xmit_discards",
    "xmit_wait": "ib_port_xmit_wait",
}


class HistoricCounters(Kind):
    """Old totals, high or pinned, that do not move."""

    name = "historic_counters"
    title = "Old counts that do not move"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"ib", "gpu", "nvlink"})
    params: ClassVar[Mapping[str, Param]] = {
        "link_downed": Param(3.0, "count", meaning="counted before the start"),
        "symbol_errors": Param(65535.0, "count", meaning="likewise"),
        "recoveries": Param(0.0, "count", meaning="likewise"),
        "discards": Param(0.0, "count", meaning="likewise"),
        "xmit_wait": Param(0.0, "count", meaning="likewise"),
        "sbe": Param(0.0, "count", meaning="likewise"),
        "crc": Param(0.0, "count", meaning="likewise"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Set the totals from which the counters of the place start."""
        here = self.fault.where
        if here.form == "gpu":
            effects.shown[(here.text, "gpu_ecc_corr_volatile_dram")] = self.number("sbe")
        elif here.form == "nvlink":
            effects.shown[(here.text, "nvlink_crc_errors")] = self.number("crc")
        else:
            for name, metric in _PORT_TOTALS.items():
                if self.number(name) > 0:
                    effects.start_at(metric, self.number(name), self.node, self.index)


class IdleNode(Kind):
    """A node without a job: its links to the GPUs are slow on purpose."""

    name = "idle_node"
    title = "A node without a job"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "pcie_gen": Param(1.0, "gen", meaning="generation to which its idle links fall")
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Show the lowered links of every GPU, unless a job runs there."""
        if effects.layout.job_of(self.node) is None:
            for gpu in range(effects.layout.gpu_shape[1]):
                effects.shown[(f"{self.fault.where.text}/gpu/{gpu}", "gpu_pcie_link_gen")] = self.number("pcie_gen")


class MaintenanceDrain(Kind):
    """An administrator drained the node, or a whole rack, and may have switched it off."""

    name = "maintenance_drain"
    title = "Drained by an administrator"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"node", "rack"})
    params: ClassVar[Mapping[str, Param]] = {
        "reason": Param("maint: firmware", "text", meaning="as it stands in Slurm"),
        "down": Param(False, "bool", meaning="it is switched off, too"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Give the nodes their reason, and take those away that are switched off and have no job."""
        for node in np.flatnonzero(effects.layout.nodes_at(self.fault.where)).tolist():
            effects.drains[node] = (str(self.fault.params["reason"]), "root", self.fault.at_s)
            if self.number("down") and effects.layout.job_of(node) is None:
                effects.links[node] = "power"
                effects.shown[(effects.layout.nodes[node], "node_bmc_reachable")] = 1.0


class CheckpointPeriodic(Kind):
    """All ranks of the job pause together and write a checkpoint, again and again, as it was set up."""

    name = "checkpoint_periodic"
    title = "The job saves its checkpoints"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"job"})
    params: ClassVar[Mapping[str, Param]] = {
        "every": Param("4m", "s", meaning="time from one to the next"),
        "write_s": Param(25.0, "s", meaning="what writing one takes"),
    }
    _MOST = 500

    def _ends(self) -> Iterable[float]:
        return (number * max(self.number("every"), 1.0) for number in range(1, self._MOST))

    def written(self) -> Iterable[Line]:
        """Return what rank 0 says of each, once it is written."""
        took_s = max(self.number("write_s") - 0.2, 0.0)
        text = f"[rank0]: saving checkpoint to /shared/ckpt/step_{{step}} ... done in {took_s:.1f} s"
        return (Line("job", end_s, "rank0", text) for end_s in self._ends())

    def changes(self) -> Iterable[float]:
        """Return when each begins and ends."""
        for end_s in self._ends():
            yield from (max(end_s - self.number("write_s"), 0.0), end_s)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Pause the job while it writes."""
        every_s = max(self.number("every"), 1.0)
        job = effects.layout.jobs[self.fault.where.name]
        effects.job(job.id).saves_itself = True
        if age_s % every_s < every_s - self.number("write_s"):
            return
        effects.job(job.id).is_saving = True
        effects.nfs_writes[list(job.nodes)] += 900.0


class AmbientShift(Kind):
    """The air is warmer, for all alike: all clocks give way a little."""

    name = "ambient_shift"
    title = "The room becomes warmer"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"fleet", "rack"})
    params: ClassVar[Mapping[str, Param]] = {
        "delta_c": Param(4.0, "C", meaning="how much warmer the room gets", signed=True),
        "compute_factor": Param(1.015, "ratio", meaning="time of computing then, as a share of the ordinary"),
        "ramp": Param("10m", "s", meaning="time until it is that warm"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Warm the air, and slow every GPU in it by the same little."""
        reached = progress(age_s, *self.ramp())
        nodes = effects.layout.nodes_at(self.fault.where)
        slower = 1 + (self.number("compute_factor") - 1) * reached
        effects.compute[nodes] *= slower
        effects.busy_clock[nodes] /= slower
        effects.inlet_rise_c[nodes] += self.number("delta_c") * reached


class JobFinished(Kind):
    """The job has done its work and ends."""

    name = "job_finished"
    title = "The job is done"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"job"})
    params: ClassVar[Mapping[str, Param]] = {"exit_code": Param(0.0, "code", meaning="of the job")}
    lines = (Line("job", 0.0, "rank0", "[rank0]: training finished, final checkpoint saved"),)

    def apply(self, effects: Effects, age_s: float) -> None:
        """End the job."""
        code = int(self.number("exit_code"))
        effects.job(self.fault.where.name).end = JobEnd("FAILED" if code else "COMPLETED", f"{code}:0")


KINDS = (HistoricCounters, IdleNode, MaintenanceDrain, CheckpointPeriodic, AmbientShift, JobFinished)
