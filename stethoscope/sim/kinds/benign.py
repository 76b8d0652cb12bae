"""What looks like a fault and is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

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
    title = "Old counts that do not move"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
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


class IdleNode(Kind):
    """A node without a job: its links to the GPUs are slow on purpose."""

    name = "idle_node"
    title = "A node without a job"
    root_cause = "healthy"
    scope = "none"
    severity = "none"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {"pcie_gen": Param(1.0, "gen")}

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
        "reason": Param("maint: firmware", "text"),
        "down": Param(False, "bool"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Give the nodes their reason, and take those away that are switched off and have no job."""
        for node in np.flatnonzero(effects.layout.nodes_at(self.fault.where)).tolist():
            effects.drains[node] = (str(self.fault.params["reason"]), "root", self.fault.at_s)
            if self.number("down") and effects.layout.job_of(node) is None:
                effects.links[node] = "power"
                effects.shown[(effects.layout.nodes[node], "node_bmc_reachable")] = 1.0


KINDS = (HistoricCounters, IdleNode, MaintenanceDrain)
