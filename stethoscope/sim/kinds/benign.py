"""What looks like a fault and is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.kinds.kind import Kind
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    targets = frozenset({"ib", "gpu", "nvlink"})
    params: ClassVar[Mapping[str, Param]] = {
        "link_downed": Param(3.0, "count"),
        "symbol_errors": Param(65535.0, "count"),
        "recoveries": Param(0.0, "count"),
        "discards": Param(0.0, "count"),
        "xmit_wait": Param(0.0, "count"),
        "sbe": Param(0.0, "count"),
        "crc": Param(0.0, "count"),
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


KINDS = (HistoricCounters,)
