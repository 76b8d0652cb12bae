"""Fault kinds that stop the rank of one GPU: off the bus, memory, firmware, NVLink."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.metric import Reason
from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_OUTCOMES = ("crash", "hang")


class StoppedRank(Kind):
    """A rank that stops at once; with the outcome `crash` it dies after `dies_s`, and its job after `job_ends_s`."""

    scope = "local"
    severity = "P0"
    dies_s: ClassVar[float]
    job_ends_s: ClassVar[float]

    def after(self) -> tuple[float, float]:
        """Return the ages at which the rank dies and its job ends."""
        return (self.dies_s, self.job_ends_s)

    def changes(self) -> Iterable[float]:
        """Return the deaths."""
        return self.after()

    def stop(self, effects: Effects, age_s: float) -> None:
        """Stop the rank on the GPU, and later its job."""
        at = (self.node, self.index)
        effects.stuck[at] = True
        if self.fault.params["outcome"] == "crash":
            dies_s, ends_s = self.after()
            if age_s >= dies_s:
                effects.dead[at] = True
            job = effects.layout.job_of(self.node)
            if job is not None and age_s >= ends_s:
                effects.ended.add(job.id)


class GpuFellOffBus(StoppedRank):
    """A GPU no longer answers on its bus (Xid 79); its rank dies or never returns."""

    name = "gpu_fell_off_bus"
    title = "A GPU no longer answers on its bus"
    root_cause = "gpu_fallen_off_bus"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "aer_before": Param(True, "bool", meaning="the bus reports an error just before"),
        "outcome": Param("crash", "text", _OUTCOMES, meaning="the rank gets an error, or never returns"),
        "crash_after": Param("15s", "s", meaning="when the job ends"),
    }
    lines = (
        Line(
            "kernel",
            0.0,
            "node",
            "pcieport {root_port}: AER: Uncorrected (Fatal) error received: {gpu_pci_full}",
            when={"aer_before": True},
        ),
        Line(
            "kernel",
            0.0,
            "node",
            "nvidia {gpu_pci_full}: PCIe Bus Error: severity=Uncorrected (Fatal), "
            "type=Transaction Layer, (Requester ID)",
            when={"aer_before": True},
        ),
        Line(
            "kernel",
            0.0,
            "node",
            "nvidia {gpu_pci_full}:    [14] CmpltTO                (First)",
            when={"aer_before": True},
        ),
        Line(
            "kernel",
            0.2,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        ),
        Line("kernel", 0.2, "node", "NVRM: GPU {gpu_pci_full}: GPU has fallen off the bus."),
        Line("job", 8.0, "self", "[rank{rank}]: RuntimeError: CUDA error: unknown error", when={"outcome": "crash"}),
        Line(
            "slurm",
            60.0,
            "node",
            "error: Setting node {node} state to INVALID with "
            "reason:gres/gpu count reported lower than configured ({gpus_left} < {gpus})",
        ),
    )

    def after(self) -> tuple[float, float]:
        """Return when the rank dies and its job ends."""
        return (min(8.0, self.number("crash_after")), self.number("crash_after"))

    def changes(self) -> Iterable[float]:
        """Return the deaths, and Slurm's next registration."""
        return (*self.after(), 60.0)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Lose the GPU, stop its rank, and after a while its job."""
        effects.gpu_missing[self.node, self.index] = Reason.LOST
        if self.fault.params["aer_before"]:
            effects.count(self.fault.where.text, "pcie_aer_fatal", 1.0)
        if age_s >= 60.0:
            effects.slurm[self.node] = "inval"
            effects.slurm_since[self.node] = self.fault.at_s + 60.0
        self.stop(effects, age_s)


class GspTimeout(StoppedRank):
    """The processor on the board that runs the driver's firmware stops answering (Xid 119, 120): calls never return."""

    name = "gsp_timeout"
    title = "The firmware of a GPU stops answering"
    root_cause = "gpu_hw_fault"
    targets = frozenset({"gpu"})
    dies_s, job_ends_s = 20.0, 30.0
    params: ClassVar[Mapping[str, Param]] = {
        "xid": Param(119.0, "code", meaning="119 (no answer) or 120 (exception in the firmware)"),
        "asked_by": Param("nv-hostengine", "text", meaning="process that asked, and is named in the line: a victim"),
        "outcome": Param("hang", "text", _OUTCOMES, meaning="the rank never returns, or gets an error"),
    }
    lines = (
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 119, pid={daemon_pid}, name={asked_by}, Timeout after 6s of waiting for RPC "
            "response from GPU{gpu} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801348 0x410).",
            when={"xid": 119.0},
        ),
        Line(
            "kernel",
            0.1,
            "node",
            "NVRM: GPU{gpu} GSP RPC buffer contains function 76 (GSP_RM_CONTROL) and data "
            "0x0000000020801348 0x0000000000000410.",
            when={"xid": 119.0},
        ),
        Line(
            "kernel",
            6.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 119, pid={daemon_pid}, name={asked_by}, Timeout after 6s of waiting for RPC "
            "response from GPU{gpu} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20800a4c 0x4).",
            when={"xid": 119.0},
        ),
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 120, GSP task exception: load access page fault (cause:0xd) @ pc:0x1a4f2c0, "
            "partition:4#0, task:3",
            when={"xid": 120.0},
        ),
    )

    def changes(self) -> Iterable[float]:
        """Return the deaths, and the moments at which more calls wait."""
        return (*self.after(), 30.0, 90.0)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Hide what the GPU says, let every reader wait for it, and stop its rank."""
        effects.gpu_missing[self.node, self.index] = Reason.HUNG
        stuck = 1.0 if age_s < 30 else 2.0 if age_s < 90 else 3.0
        # Each question that the firmware does not answer takes six seconds.
        effects.add("nvml_latency", 6000.0 * (1.0, 3.0, 7.0)[round(stuck) - 1], self.node)
        effects.add("procs_blocked", stuck, self.node)
        effects.add("load1", stuck, self.node)
        effects.raise_to(effects.layout.nodes[self.node], "dstate_processes", stuck)
        self.stop(effects, age_s)


class GpuDbe(StoppedRank):
    """The memory of a GPU has an error that its code cannot correct (Xid 48); the process that read it dies."""

    name = "gpu_dbe"
    title = "Memory of a GPU has an error that cannot be corrected"
    root_cause = "gpu_memory_fault"
    targets = frozenset({"gpu"})
    dies_s, job_ends_s = 2.0, 8.0
    params: ClassVar[Mapping[str, Param]] = {
        "contained": Param(True, "bool", meaning="only the process that read it dies (Xid 94), else all (Xid 95)"),
        "remap": Param(
            "pending", "text", ("pending", "failed", "none"), meaning="what becomes of the row: Xid 63, Xid 64, no row"
        ),
        "dbe": Param(1.0, "count", meaning="errors"),
        "outcome": Param("crash", "text", _OUTCOMES, meaning="the rank gets an error, or never returns"),
    }
    lines = (
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) "
            "has been detected on GPU in the framebuffer at physAddr 0x2c81d40c0 partition 6, subpartition 0.",
        ),
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row "
            "(0x000000002c81d400) marked for remapping, reset gpu to activate.",
            when={"remap": "pending"},
        ),
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: "
            "(0x000000002c81d400) - All reserved rows for bank are remapped",
            when={"remap": "failed"},
        ),
        Line(
            "kernel",
            0.1,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 94, pid={pid}, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
            when={"contained": True},
        ),
        Line(
            "kernel",
            0.1,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 95, pid={pid}, name=python3, Uncontained: LTC TAG (0x2, 0x1). "
            "RST: Yes, D-RST: No",
            when={"contained": False},
        ),
        Line("kernel", 0.3, "node", "NVRM: Xid (PCI:{gpu_pci}): 45, pid={pid}, name=python3, Ch 00000008"),
        Line("job", 2.0, "self", "[rank{rank}]: RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    )

    def apply(self, effects: Effects, age_s: float) -> None:
        """Count the error, mark its row, and stop the rank."""
        here = self.fault.where.text
        effects.count(here, "gpu_ecc_uncorr_volatile_dram", self.number("dbe"))
        remap = self.fault.params["remap"]
        if remap != "none":
            effects.count(here, "gpu_remapped_rows_uncorr", 1.0)
            effects.raise_to(here, "gpu_row_remap_pending" if remap == "pending" else "gpu_row_remap_failure", 1.0)
        self.stop(effects, age_s)


class NvlinkLinkDown(StoppedRank):
    """An NVLink fails (Xid 74) after a burst of errors; the rank that uses it dies."""

    name = "nvlink_link_down"
    title = "An NVLink fails"
    root_cause = "nvlink_fault"
    targets = frozenset({"nvlink"})
    dies_s, job_ends_s = 1.0, 12.0
    params: ClassVar[Mapping[str, Param]] = {
        "outcome": Param("crash", "text", _OUTCOMES, meaning="the ranks get an error, or never return"),
        "sxid": Param(False, "bool", meaning="the switch at the other end reports it too"),
    }
    lines = (
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 74, pid={pid}, name=python3, NVLink: fatal error detected on link "
            "{link}(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        ),
        Line(
            "kernel",
            0.1,
            "node",
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link {link} LTSSM Fault Up",
            when={"sxid": True},
        ),
        Line("kernel", 0.2, "node", "NVRM: Xid (PCI:{gpu_pci}): 45, pid={pid}, name=python3, Ch 00000010"),
        Line(
            "job",
            1.0,
            "self",
            "[rank{rank}]: RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        ),
    )

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the link down, with the errors that went before, and stop the rank."""
        here = self.fault.where.text
        effects.lower(here, "nvlink_state", 0.0)
        effects.count(here, "nvlink_crc_errors", 1400.0)
        effects.count(here, "nvlink_replay_errors", 320.0)
        effects.count(here, "nvlink_recovery_errors", 3.0)
        self.stop(effects, age_s)


KINDS = (GpuFellOffBus, GspTimeout, GpuDbe, NvlinkLinkDown)
