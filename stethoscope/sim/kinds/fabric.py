"""Fault kinds of the InfiniBand fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.kinds.kind import Kind, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.sim.effects import Effects


class IbOpticDegraded(Kind):
    """An optic or cable that loses light: errors on one port, and half the bandwidth for every job that crosses it."""

    name = "ib_optic_degraded"
    title = "An optic or cable loses light"
    root_cause = "ib_link_fault"
    scope = "global"
    severity = "P1"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {
        "symbol_errors_per_s": Param(40.0, "1/s"),
        "recoveries_per_min": Param(1.0, "1/min"),
        "bandwidth_factor": Param(0.5, "ratio"),
        "rx_power_dbm": Param(-9.5, "dBm"),
        "module_temp_c": Param(None, "C"),
        "ramp": Param("60s", "s"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Narrow the port and let its error counters run; its partners on the rail wait for credit."""
        at = (self.node, self.index)
        reached = progress(age_s, *self.ramp())
        symbols = self.number("symbol_errors_per_s") * reached
        effects.bandwidth[at] *= 1 + (self.number("bandwidth_factor") - 1) * reached
        effects.add("ib_symbol_error", symbols, *at)
        effects.add("ib_port_rcv_errors", symbols / 10, *at)
        effects.add("ib_link_error_recovery", self.number("recoveries_per_min") / 60 * reached, *at)
        effects.add("ib_local_link_integrity_errors", 3 / 60 * reached, *at)
        for partner in effects.layout.rail_partners(*at):
            effects.credit_wait[partner, self.index] += 0.09 * reached
        here = self.fault.where.text
        effects.shown[(here, "ib_module_rx_power")] = 1.5 + (self.number("rx_power_dbm") - 1.5) * reached
        effects.shown[(here, "ib_effective_ber")] = 10 ** (-15 + 6 * reached)
        if self.given("module_temp_c"):
            effects.shown[(here, "ib_module_temp")] = self.number("module_temp_c")


KINDS = (IbOpticDegraded,)
