"""Fault kinds of whole nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.metric import Reason
from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_SLURMD_TIMEOUT_S = 300.0


class NodeDown(Kind):
    """The node is gone: without power, hung, or panicked; it may start again by itself."""

    name = "node_down"
    title = "A node is gone"
    root_cause = "node_down"
    scope = "local"
    severity = "P0"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "how": Param("power", "text", ("power", "panic", "hang")),
        "bmc": Param(True, "bool"),
        "back_after": Param(None, "s"),
        "crash_after": Param("30s", "s"),
    }
    lines = (
        Line("slurm", _SLURMD_TIMEOUT_S, "node", "error: Nodes {node} not responding, setting DOWN"),
        Line(
            "job", 30.0, "neighbours",
            "{peer_node}:{pid}:{tid} [{gpu}] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer "
            "{node_ip}<{peer_port}> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the end of the job, Slurm's time-out and the return of the node."""
        back = (self.number("back_after"),) if self.given("back_after") else ()
        return (self.number("crash_after"), _SLURMD_TIMEOUT_S, *back)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the node away with its ranks, and after a while its job."""
        job = effects.layout.job_of(self.node)
        if job is not None and age_s >= self.number("crash_after"):
            effects.ended.add(job.id)
        if self.given("back_after") and age_s >= self.number("back_after"):
            effects.boots[self.node] = self.fault.at_s + self.number("back_after")
            effects.dead[self.node] = True
            return
        effects.links[self.node] = str(self.fault.params["how"])
        effects.stuck[self.node] = True
        effects.shown[(self.fault.where.text, "node_bmc_reachable")] = self.number("bmc")
        if age_s >= _SLURMD_TIMEOUT_S:
            effects.slurm[self.node] = "down*"
            effects.slurm_since[self.node] = self.fault.at_s + _SLURMD_TIMEOUT_S


class DriverHung(Kind):
    """Calls into the GPU driver never return: NVML does not answer, and ranks stop at their next call."""

    name = "driver_hung"
    title = "Calls into the GPU driver never return"
    root_cause = "driver_hung"
    scope = "local"
    severity = "P0"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "job_effect": Param("hang", "text", ("hang", "none")),
        "d_procs": Param(3.0, "count"),
    }
    lines = (
        Line("kernel", 120.0, "node", "INFO: task nvidia-smi:{pid} blocked for more than 120 seconds."),
        Line("kernel", 120.0, "node", "INFO: task python3:{pid} blocked for more than 120 seconds."),
    )

    def apply(self, effects: Effects, age_s: float) -> None:
        """Hide every GPU value of the node, and leave tasks in uninterruptible sleep."""
        effects.gpu_missing[self.node] = Reason.HUNG
        effects.add("procs_blocked", self.number("d_procs"), self.node)
        effects.add("load1", self.number("d_procs"), self.node)
        effects.shown[(self.fault.where.text, "dstate_processes")] = self.number("d_procs")
        if self.fault.params["job_effect"] == "hang":
            effects.stuck[self.node] = True


KINDS = (NodeDown, DriverHung)
