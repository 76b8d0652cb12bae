"""Fault kinds of the switches of the fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stethoscope.sim.kinds.fabric import LINK_DOWN, PORT_ERROR, end_jobs, take_down
from stethoscope.sim.kinds.kind import Count, Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout
    from stethoscope.specs.place import Place
    from stethoscope.specs.scenario import Fault

_PAUSED_US = 1e6
"""Microseconds of pause in a second of pause."""


def ports_of(layout: Layout, leaf: Place) -> list[tuple[int, int]]:
    """Return node (by position) and port of everything that hangs on a leaf."""
    return [(int(node), int(port)) for node, port in np.argwhere(layout.ports_at(leaf))]


class LeafCongestion(Kind):
    """Packets wait in a leaf switch without being damaged: arbitration set wrong, a storm of pauses, uneven paths."""

    name = "leaf_congestion"
    title = "A leaf switch lets packets wait"
    root_cause = "switch_congestion"
    scope = "global"
    severity = "P1"
    targets = frozenset({"leaf"})
    params: ClassVar[Mapping[str, Param]] = {
        "comm_factor": Param(0.55, "ratio", meaning="what is left of the bandwidth of that rail in that pod"),
        "p99_us": Param(15.7, "us", meaning="99th percentile of a small all-reduce; 12.3 when healthy"),
        "xmit_wait_ratio": Param(0.3, "ratio", meaning="share of time in which the worst port waits"),
        "mode": Param(
            "qos", "text", ("qos", "pfc", "hotspot"),
            "a traffic class that starves, a storm of pauses (Ethernet), or uneven paths",
        ),
        "ramp": Param("30s", "s", meaning="time until it is that bad"),
    }  # fmt: skip

    def __init__(self, fault: Fault) -> None:
        """Take the fault; pauses belong to Ethernet."""
        super().__init__(fault)
        self.on_ethernet = fault.params["mode"] == "pfc"

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the ports that face the leaf wait for credit, and narrow every job that crosses it."""
        layout, where = effects.layout, self.fault.where
        reached = progress(age_s, *self.ramp())
        worst = self.number("xmit_wait_ratio")
        ports = ports_of(layout, where)
        for place, at in enumerate(ports):
            # The worst port is one of many: the others wait a third of its time, and more.
            share = 1.0 if place == len(ports) // 2 else 0.35 + 0.5 * (place * 0.618 % 1)
            if self.fault.params["mode"] == "hotspot" and place % 2 != len(ports) // 2 % 2:
                share *= 0.35
            effects.bandwidth[at] *= 1 + (self.number("comm_factor") - 1) * reached
            effects.credit_wait[at] += max(worst - 0.01, 0.0) * share * reached
            if self.on_ethernet:
                here = f"{layout.nodes[at[0]]}/ib/mlx5_{at[1]}"
                effects.grow(here, "net_pfc_rx_pause_duration", worst * share * reached * _PAUSED_US)
        effects.shown[(where.text, "leaf_xmit_wait")] = 0.02 + (worst - 0.02) * reached
        effects.shown[(where.text, "leaf_queue_depth")] = 8 + min(52 + 100 * worst, 82) * reached
        effects.shown[(where.text, "leaf_mode")] = str(self.fault.params["mode"])
        for job in {layout.job_of(node) for node, _ in ports} - {None}:
            if job is not None:
                effects.shown[(f"job/{job.id}", "job_allreduce_p99")] = 12.3 + (self.number("p99_us") - 12.3) * reached


class LeafDown(Kind):
    """A leaf switch fails: the same port of every node of its pod goes down in one second."""

    name = "leaf_down"
    title = "A leaf switch fails"
    root_cause = "switch_fault"
    scope = "global"
    severity = "P0"
    targets = frozenset({"leaf"})
    params: ClassVar[Mapping[str, Param]] = {
        "crash_after": Param("45s", "s", meaning="time until the jobs die"),
        "back_after": Param(None, "s", meaning="time until the switch has started again"),
    }
    lines = (Line("kernel", 0.0, "all", LINK_DOWN), Line("job", 1.0, "all", PORT_ERROR))

    def changes(self) -> Iterable[float]:
        """Return the end of the jobs, and the return of the switch."""
        back = (self.number("back_after"),) if self.given("back_after") else ()
        return (self.number("crash_after"), *back)

    def counts(self, layout: Layout) -> Iterable[Count]:
        """Return one time down for every port."""
        return [Count(0.0, "ib_link_downed", 1, at) for at in ports_of(layout, self.fault.where)]

    def written(self) -> Iterable[Line]:
        """Yield what kernels and ranks say, also when the switch is back."""
        yield from self.lines
        if self.given("back_after"):
            yield Line("kernel", self.number("back_after"), "all", LINK_DOWN.replace("DOWN", "ACTIVE"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take every port of the leaf down, and after a while the jobs behind it."""
        ports = ports_of(effects.layout, self.fault.where)
        is_back = self.given("back_after") and age_s >= self.number("back_after")
        if age_s >= self.number("crash_after") and not (self.given("back_after") and self._is_short()):
            end_jobs(effects, (node for node, _ in ports))
        effects.shown[(self.fault.where.text, "leaf_up")] = float(is_back)
        if not is_back:
            for at in ports:
                take_down(effects, *at)

    def _is_short(self) -> bool:
        return self.number("back_after") < self.number("crash_after")


KINDS = (LeafCongestion, LeafDown)
