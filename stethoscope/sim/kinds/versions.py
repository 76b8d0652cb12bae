"""Fault kinds of versions and settings that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.metric import Reason
from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.sim.kinds.ranks import ENDS_S, job_of, lose_rank
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects


class DriverVersionDrift(Kind):
    """One node has another version of the GPU driver, which does nothing, slows it, or keeps jobs from starting."""

    name = "driver_version_drift"
    title = "One node runs another driver version"
    root_cause = "version_mismatch"
    scope = "local"
    severity = "P2"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "version": Param("535.183.01", "text", meaning="of the driver on that node"),
        "effect": Param("none", "text", ("none", "start_fail", "slow"), meaning="what comes of it"),
        "compute_factor": Param(1.0, "ratio", meaning="of the time that computing takes, with effect slow"),
    }
    lines = (
        Line(
            "kernel", 0.0, "node", "NVRM: API mismatch: the client 'python3' (pid {pid})",
            when={"effect": "start_fail"},
        ),
        Line(
            "job", 2.0, "node", "[rank{rank}]: RuntimeError: CUDA error: system has unsupported display driver / cuda "
            "driver combination",
            when={"effect": "start_fail"},
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the end of the job that cannot start."""
        return (2.0, 2.0 + ENDS_S) if self.fault.params["effect"] == "start_fail" else ()

    def apply(self, effects: Effects, age_s: float) -> None:
        """Show the version, and what comes of it."""
        effects.shown[self.fault.where.text, "driver_version"] = str(self.fault.params["version"])
        if self.fault.params["effect"] == "slow":
            effects.compute[self.node] *= self.number("compute_factor")
        if self.fault.params["effect"] != "start_fail":
            return
        effects.driver_refuses[self.node] = "driver/library version mismatch"
        effects.gpu_missing[self.node] = Reason.ERROR
        job = effects.layout.job_of(self.node)
        if job is None:
            return
        effects.restarts[job.id] = self.fault.at_s
        if age_s >= 2.0:
            effects.dead[self.node] = True
            for gpu in range(effects.layout.gpu_shape[1]):
                effects.exits[self.node, gpu] = 1
            lose_rank(effects, job.id, age_s - 2.0)


class NcclEnvDrift(Kind):
    """A variable of NCCL differs on one node, or in a whole job, from its start on."""

    name = "nccl_env_drift"
    title = "NCCL's environment differs"
    root_cause = "config_env_error"
    scope = "global"
    severity = "P1"
    targets = frozenset({"node", "job"})
    params: ClassVar[Mapping[str, Param]] = {
        "variable": Param("NCCL_IB_HCA", "text", meaning="that is set otherwise there"),
        "value": Param("mlx5_0,mlx5_1,mlx5_2,mlx5_3", "text", meaning="what it is set to"),
        "bandwidth_factor": Param(0.5, "ratio", meaning="what is left of the job's communication"),
    }
    lines = (Line("job", 0.0, "node", "{node}:{pid}:{tid} [{gpu}] NCCL INFO {variable} set by environment to {value}"),)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Start the job anew with the variable: ports that it leaves out carry nothing, the others what they miss."""
        where = self.fault.where
        job = job_of(effects, where) if where.form == "job" else effects.layout.job_of(self.node)
        if job is None:
            return
        variable, value = str(self.fault.params["variable"]), str(self.fault.params["value"])
        effects.restarts[job.id] = self.fault.at_s
        factor = self.number("bandwidth_factor")
        effects.job_bandwidth[job.id] = min(effects.job_bandwidth.get(job.id, 1.0), factor)
        nodes = job.nodes if where.form == "job" else (self.node,)
        for node in nodes:
            effects.job(job.id).environment.setdefault(node, {})[variable] = value
        if variable != "NCCL_IB_HCA":
            return
        ports = effects.layout.port_shape[1]
        listed = [port for port in range(ports) if _is_listed(f"mlx5_{port}", value)]
        for node in nodes:
            for port in range(ports):
                effects.rail_share[node, port] *= ports / len(listed) if port in listed else 0.0


def _is_listed(name: str, value: str) -> bool:
    """Tell whether NCCL_IB_HCA takes an adapter: names are prefixes, `=` wants them whole, `^` those that are not."""
    no, exact = value.startswith("^"), value.lstrip("^").startswith("=")
    names = [word.split(":")[0] for word in value.lstrip("^=").split(",") if word]
    found = any(name == word if exact else name.startswith(word) for word in names)
    return found != no


KINDS = (DriverVersionDrift, NcclEnvDrift)
