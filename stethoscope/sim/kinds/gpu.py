"""Fault kinds of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.metric import Reason
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_SW_THERMAL = 0x20
_HW_THERMAL = 0x8 | 0x40


class GpuThermalThrottle(Kind):
    """One GPU is too hot: its temperature climbs over the first half of `ramp`, its clock falls over the second."""

    name = "gpu_thermal_throttle"
    title = "One GPU is too hot and slows down"
    root_cause = "gpu_thermal"
    scope = "local"
    severity = "P1"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "temp_c": Param(88.0, "C"),
        "mem_temp_c": Param(None, "C"),
        "clock_mhz": Param(1100.0, "MHz"),
        "ramp": Param("2m", "s"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the second half: the first follows from the heat capacity."""
        return (self.number("ramp") / 2, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Heat the GPU, and slow its rank by what its clock loses."""
        at = (self.node, self.index)
        ramp_s, temp_c = self.number("ramp"), self.number("temp_c")
        effects.heat_to_c[at] = temp_c
        # Three time constants fit into the first half: 95 % of the way.
        effects.heat_tau_s[at] = max(ramp_s / 6, 0.1)
        if self.given("mem_temp_c"):
            effects.fix("gpu_mem_temp", self.number("mem_temp_c"), *at)
        if age_s < ramp_s / 2:
            return
        board = effects.layout.board
        lowest = min(self.number("clock_mhz"), board.busy_mhz)
        clock = board.busy_mhz + (lowest - board.busy_mhz) * progress(age_s, ramp_s / 2, ramp_s)
        effects.clock_mhz[at] = min(effects.clock_mhz[at], clock)
        effects.compute[at] *= board.busy_mhz / clock
        effects.heat_swing_c[at] = 1.0
        effects.reasons[at] |= _SW_THERMAL | (_HW_THERMAL if temp_c >= board.slowdown_c else 0)


class GpuFellOffBus(Kind):
    """A GPU no longer answers on its bus (Xid 79); its rank dies or never returns."""

    name = "gpu_fell_off_bus"
    title = "A GPU no longer answers on its bus"
    root_cause = "gpu_fallen_off_bus"
    scope = "local"
    severity = "P0"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "aer_before": Param(True, "bool"),
        "outcome": Param("crash", "text", ("crash", "hang")),
        "crash_after": Param("15s", "s"),
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

    def _dies_s(self) -> float:
        return min(8.0, self.number("crash_after"))

    def changes(self) -> Iterable[float]:
        """Return the deaths of the rank and of the job, and Slurm's next registration."""
        return (self._dies_s(), self.number("crash_after"), 60.0)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Lose the GPU, stop its rank, and after a while its job."""
        at = (self.node, self.index)
        effects.gpu_missing[at] = Reason.LOST
        effects.stuck[at] = True
        if self.fault.params["aer_before"]:
            effects.shown[(self.fault.where.text, "pcie_aer_fatal")] = 1.0
        if age_s >= 60.0:
            effects.slurm[self.node] = "inval"
            effects.slurm_since[self.node] = self.fault.at_s + 60.0
        if self.fault.params["outcome"] == "crash":
            effects.dead[at] = age_s >= self._dies_s()
            job = effects.layout.job_of(self.node)
            if job is not None and age_s >= self.number("crash_after"):
                effects.ended.add(job.id)


KINDS = (GpuThermalThrottle, GpuFellOffBus)
