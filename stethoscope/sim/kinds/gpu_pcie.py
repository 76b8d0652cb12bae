"""Fault kinds of PCIe links of GPUs, and of PCIe errors of GPUs and adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.sim.effects import Effects

_GEN5_GB_S = 55.0
"""What a link of generation 5 with 16 lanes carries."""
_LANES = 16
_COPIES = 0.1
"""Share of a rank's data time that copies to the GPU are."""


def narrow(effects: Effects, node: int, gpu: int, gb_s: float) -> None:
    """Leave `gb_s` GB/s between a GPU and the adapter of its rail: the traffic of the whole job is held up by it, the
    partners of the rail wait for credit, and copies from the host take longer."""
    layout = effects.layout
    full = _GEN5_GB_S * 2.0 ** (layout.board.pcie_gen - 5)
    effects.data[node, gpu] *= 1 + _COPIES * (full / gb_s - 1)
    ports = layout.port_shape[1]
    factor = min(1.0, gb_s / min(layout.fleet.ib_rate_gbps / 8, full))
    if not ports:
        return
    port = gpu % ports
    effects.bandwidth[node, port] *= factor
    for partner in layout.rail_partners(node, port):
        effects.credit_wait[partner, port] += 0.09 + 0.1 * (1 - factor) if factor < 1 else 0.0


class GpuPcieWidthLow(Kind):
    """The PCIe link of a GPU runs on fewer lanes: the only trace is its width."""

    name = "gpu_pcie_width_low"
    title = "The PCIe link of a GPU runs on fewer lanes"
    root_cause = "pcie_fault"
    scope = "global"
    severity = "P1"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {"width": Param(8.0, "lanes", meaning="lanes that are left of 16")}

    def apply(self, effects: Effects, age_s: float) -> None:
        """Show the width, and narrow the path to the adapter."""
        width = self.number("width")
        effects.lower(self.fault.where.text, "gpu_pcie_link_width", width)
        full = _GEN5_GB_S * 2.0 ** (effects.layout.board.pcie_gen - 5)
        narrow(effects, self.node, self.index, full * width / _LANES)


class GpuPcieGenLow(Kind):
    """The PCIe link of a GPU stays at a lower generation while it works."""

    name = "gpu_pcie_gen_low"
    title = "The PCIe link of a GPU stays slow"
    root_cause = "pcie_fault"
    scope = "global"
    severity = "P1"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {"gen": Param(2.0, "gen", meaning="generation at which it stays")}

    def apply(self, effects: Effects, age_s: float) -> None:
        """Show the generation, and narrow the path to the adapter."""
        gen = min(self.number("gen"), float(effects.layout.board.pcie_gen))
        effects.lower(self.fault.where.text, "gpu_pcie_link_gen", gen)
        narrow(effects, self.node, self.index, _GEN5_GB_S * 2.0 ** (gen - 5))


class PcieAerStorm(Kind):
    """The PCIe link of a GPU or an adapter corrects errors all the time; what is sent again costs little."""

    name = "pcie_aer_storm"
    title = "A PCIe link corrects errors all the time"
    root_cause = "pcie_fault"
    scope = "local"
    severity = "P2"
    core = False
    targets = frozenset({"gpu", "ib"})
    params: ClassVar[Mapping[str, Param]] = {"per_minute": Param(300.0, "1/min", meaning="errors that are corrected")}
    lines = (
        Line("kernel", 0.0, "node", "pcieport {root_port}: AER: Multiple Corrected error received: {device_pci}"),
        Line(
            "kernel",
            0.0,
            "node",
            "{device_driver} {device_pci}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
        ),
        Line("kernel", 0.0, "node", "{device_driver} {device_pci}:    [12] Timeout"),
    )

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the error counters of the device run."""
        here, per_minute = self.fault.where, self.number("per_minute")
        effects.grow(here.text, "pcie_aer_correctable", per_minute / 60)
        if here.form == "gpu":
            effects.grow(here.text, "gpu_pcie_replay", per_minute / 60)
        ports = effects.layout.port_shape[1]
        if ports:
            effects.bandwidth[self.node, self.index % ports] *= 1 - min(0.01 * per_minute / 300, 0.03)


KINDS = (GpuPcieWidthLow, GpuPcieGenLow, PcieAerStorm)
