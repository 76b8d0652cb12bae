"""Fault kinds of whole nodes, and of what runs on them for everybody."""

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
        "how": Param("power", "text", ("power", "panic", "hang"), "what took it"),
        "bmc": Param(True, "bool", meaning="its management controller still answers"),
        "back_after": Param(None, "s", meaning="when it starts again by itself"),
        "crash_after": Param("30s", "s", meaning="when its peers give up and the job ends"),
    }
    lines = (
        Line(
            "sel", 0.0, "node", " {n} | {ts_sel} | Power Unit Pwr_Unit_Status | Power off/down | Asserted",
            when={"how": "power"},
        ),
        Line(
            "sel", 0.0, "node", " {n} | {ts_sel} | OS Stop/Shutdown OS_Stop | Run-time critical stop | Asserted",
            when={"how": "panic"},
        ),
        Line("slurm", _SLURMD_TIMEOUT_S, "node", "error: Nodes {node} not responding, setting DOWN"),
        Line(
            "job", "crash_after", "neighbours",
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


class NodeUnreachable(Kind):
    """Nobody reaches the node any more, and its ranks go on: its management interface, sshd or memory is gone."""

    name = "node_unreachable_but_job_alive"
    title = "A node cannot be reached, and its ranks work on"
    root_cause = "telemetry_lost"
    scope = "local"
    severity = "P1"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "how": Param("mgmt_nic", "text", ("mgmt_nic", "sshd", "memory"), "what keeps us out"),
        "slurm_sees_it": Param(False, "bool", meaning="slurmd still reports; else Slurm gives up after 300 s"),
    }
    lines = (
        Line("slurm", 60.0, "node", "error: Nodes {node} not responding", when={"slurm_sees_it": False}),
        Line(
            "slurm", _SLURMD_TIMEOUT_S, "node", "error: Nodes {node} not responding, setting DOWN",
            when={"slurm_sees_it": False},
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return Slurm's time-out."""
        return (_SLURMD_TIMEOUT_S,)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Close the way to the node; when Slurm loses it too, the job ends for nothing."""
        effects.links[self.node] = "refused" if self.fault.params["how"] == "sshd" else "hang"
        effects.shown[(self.fault.where.text, "node_bmc_reachable")] = 1.0
        if self.fault.params["slurm_sees_it"] or age_s < _SLURMD_TIMEOUT_S:
            return
        effects.slurm[self.node] = "down*"
        effects.slurm_since[self.node] = self.fault.at_s + _SLURMD_TIMEOUT_S
        job = effects.layout.job_of(self.node)
        if job is not None:
            effects.ended.add(job.id)


class HeartbeatLost(Kind):
    """What we read from the node stops or stands still, and the node is fine."""

    name = "monitor_heartbeat_lost"
    title = "A node is fine and its data stop"
    root_cause = "telemetry_lost"
    scope = "local"
    severity = "P2"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "how": Param(
            "agent", "text", ("agent", "no_python", "permission", "stale_values"),
            "the probe stops, finds no interpreter, may not ask the driver, or repeats its last values",
        ),
    }  # fmt: skip

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the data away, or what is new in them."""
        how = self.fault.params["how"]
        if how == "permission":
            missing = effects.gpu_missing[self.node]
            effects.gpu_missing[self.node][missing == 0] = Reason.PERMISSION
        elif how == "stale_values":
            effects.frozen.add(self.node)
        else:
            effects.links.setdefault(self.node, "silent" if how == "agent" else "no python")


class DriverHung(Kind):
    """Calls into the GPU driver never return: NVML does not answer, and ranks stop at their next call."""

    name = "driver_hung"
    title = "Calls into the GPU driver never return"
    root_cause = "driver_hung"
    scope = "local"
    severity = "P0"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "job_effect": Param("hang", "text", ("hang", "none"), "whether a rank is stuck in such a call"),
        "d_procs": Param(3.0, "count", meaning="processes that hang in the kernel"),
    }
    lines = (
        Line("kernel", 120.0, "node", "INFO: task nvidia-smi:{smi_pid} blocked for more than 120 seconds."),
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


class FabricManagerDown(Kind):
    """The service that sets the NVSwitches up has stopped: what runs goes on, what starts fails."""

    name = "fabric_manager_down"
    title = "The fabric manager has stopped"
    root_cause = "fabric_manager_fault"
    scope = "local"
    severity = "P1"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "job_effect": Param("start_fail", "text", ("start_fail", "none"), "whether somebody starts something there"),
    }
    lines = (
        Line(
            "fm", 0.0, "node",
            "nv-fabricmanager[{fm_pid}]: fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with "
            "driver version 550.90.07. Please update with matching NVIDIA driver package.",
        ),
        Line(
            "job", 20.0, "self",
            "[rank{rank}]: RuntimeError: Unexpected error from cudaGetDeviceCount(). "
            "Error 802: system not yet initialized",
            when={"job_effect": "start_fail"},
        ),
    )  # fmt: skip

    def apply(self, effects: Effects, age_s: float) -> None:
        """Stop the service."""
        effects.shown[(self.fault.where.text, "fabricmanager_active")] = 0.0


KINDS = (NodeDown, NodeUnreachable, HeartbeatLost, DriverHung, FabricManagerDown)
