"""Fault kinds of NVLinks that stay up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.kinds.kind import Kind
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.sim.effects import Effects

_OVER_NVLINK = 0.3
"""Share of a collective that crosses NVLink."""


class NvlinkCrcErrors(Kind):
    """One NVLink sends packets again and again; the collective of the whole job is a little longer."""

    name = "nvlink_crc_errors"
    title = "An NVLink counts errors"
    root_cause = "nvlink_fault"
    scope = "local"
    severity = "P2"
    targets = frozenset({"nvlink"})
    params: ClassVar[Mapping[str, Param]] = {
        "crc_per_s": Param(20.0, "1/s", meaning="damaged packets"),
        "replay_per_s": Param(8.0, "1/s", meaning="packets that are sent again"),
        "bandwidth_factor": Param(0.98, "ratio", meaning="what is left of the GPU's bandwidth inside the node"),
        "lane_down": Param(False, "bool", meaning="the link runs on half of its lanes"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the counters of the link run, and lengthen the collective by the part that crosses NVLink."""
        here = self.fault.where.text
        effects.grow(here, "nvlink_crc_errors", self.number("crc_per_s"))
        effects.grow(here, "nvlink_replay_errors", self.number("replay_per_s"))
        if self.fault.params["lane_down"]:
            effects.lower(here, "nvlink_speed", effects.layout.board.link_gbps / 2)
        job = effects.layout.job_of(self.node)
        if job is not None:
            longer = 1 + _OVER_NVLINK * (1 / max(self.number("bandwidth_factor"), 1e-3) - 1)
            effects.job_bandwidth[job.id] = min(effects.job_bandwidth.get(job.id, 1.0), 1 / longer)


KINDS = (NvlinkCrcErrors,)
