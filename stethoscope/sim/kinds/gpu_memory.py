"""Fault kinds of GPUs and their links that stop nobody: corrected errors, rows to remap, wrong results."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.sim.effects import Effects

_ERRORS_OF_A_ROW = 300
"""After so many corrected errors a row is replaced."""
_FAILS = "dcgm_diag_fails"


class GpuSbeGrowth(Kind):
    """Corrected errors of one GPU's memory keep growing; nothing slows, nobody dies."""

    name = "gpu_sbe_growth"
    title = "Corrected memory errors of a GPU keep growing"
    root_cause = "gpu_memory_fault"
    scope = "local"
    severity = "P2"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "per_minute": Param(30.0, "1/min", meaning="errors that are corrected"),
        "xid92": Param(False, "bool", meaning="so many that the driver stops telling of each"),
    }
    lines = (
        Line(
            "kernel",
            120.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 92, Disabling ECC single-bit error interrupts in framebuffer at logical "
            "partition 6, due to high error rate",
            when={"xid92": True},
        ),
    )

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the counters run; a row is replaced now and then."""
        per_s = self.number("per_minute") / 60
        effects.grow(self.fault.where.text, "gpu_ecc_corr_volatile_dram", per_s)
        effects.grow(self.fault.where.text, "gpu_remapped_rows_corr", per_s / _ERRORS_OF_A_ROW)


class GpuRowRemapPending(Kind):
    """Rows of a GPU's memory are to be replaced at its next reset; until then all goes on."""

    name = "gpu_row_remap_pending"
    title = "Rows of GPU memory wait for a reset to be replaced"
    root_cause = "gpu_memory_fault"
    scope = "local"
    severity = "P2"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {"rows": Param(1.0, "count", meaning="rows that wait")}

    def apply(self, effects: Effects, age_s: float) -> None:
        """Set the flag, and count the rows."""
        effects.raise_to(self.fault.where.text, "gpu_row_remap_pending", 1.0)
        effects.count(self.fault.where.text, "gpu_remapped_rows_uncorr", self.number("rows"))


class GpuSdc(Kind):
    """A GPU computes wrong results now and then, at full speed and without an error: only the loss shows it."""

    name = "gpu_sdc"
    title = "A GPU computes wrong results without an error"
    root_cause = "gpu_hw_fault"
    scope = "local"
    severity = "P0"
    core = False
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "loss_jump": Param(0.6, "loss", meaning="height of a spike", signed=True),
        "diag_fails": Param(True, "bool", meaning="the diagnosis of DCGM finds it"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the loss of its job jump now and then, and a long diagnosis of the job's nodes find the GPU."""
        job, nodes = effects.layout.job_of(self.node), effects.layout.nodes
        gpus = list(range(effects.layout.gpu_shape[1]))
        if job is not None:
            effects.job(job.id).spikes += self.number("loss_jump")
            for node in job.nodes:
                effects.probes.setdefault((nodes[node], "dcgmi_diag"), _diagnosis([], gpus))
        if self.fault.params["diag_fails"]:
            effects.shown[self.fault.where.text, _FAILS] = 1.0
            bad = [gpu for gpu in gpus if (f"{nodes[self.node]}/gpu/{gpu}", _FAILS) in effects.shown]
            good = [gpu for gpu in gpus if gpu not in bad]
            effects.probes[nodes[self.node], "dcgmi_diag"] = _diagnosis(bad, good)


def _diagnosis(bad: list[int], good: list[int]) -> str:
    """Return what `dcgmi diag -r 3` prints of a node on which these GPUs compute wrongly."""
    rows = [
        ("DCGM Version", "3.3.5"), ("Permissions and OS Blocks", "Pass"),
        ("Page Retirement/Row Remap", "Pass"), ("PCIe", "Pass - All"), ("GPU Memory", "Pass - All"),
        *((("Diagnostic", f"Fail - GPU: {', '.join(map(str, bad))}"),) if bad else ()),
        *(((("" if bad else "Diagnostic"), f"Pass - GPUs: {', '.join(map(str, good))}"),) if good else ()),
        *(("Warning", f"GPU {gpu} There was a calculation error: one product, two results.") for gpu in bad),
    ]  # fmt: skip
    line = f"+{'-' * 27}+{'-' * 66}+"
    table = "\n".join(f"| {name:<25} | {said:<64} |" for name, said in rows)
    head = f"| {'Diagnostic':<25} | {'Result':<64} |"
    return f"Successfully ran diagnostic for group.\n{line}\n{head}\n{line}\n{table}\n{line}\n"


KINDS = (GpuSbeGrowth, GpuRowRemapPending, GpuSdc)
