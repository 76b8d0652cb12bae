"""`set` of a scenario: what is reported for a metric at a place, whatever the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.columns import DISK_RATES, GPU, GPU_COUNTERS, NODE, PORT, PORT_COUNTERS, RATE_SCALES

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.sim.layout import Layout
    from stethoscope.sim.noise import Floats
    from stethoscope.specs.scenario import SetValue


class Override:
    """One `set`; `scope` is gpu, ib_port or node, None for a metric that no column carries."""

    def __init__(self, event: SetValue, layout: Layout) -> None:
        """Find the leaves that the place stands for."""
        self.event = event
        self.scope: str | None = None
        self.mask: npt.NDArray[np.bool_] = layout.nodes_at(event.where)
        if event.metric in GPU or event.metric in GPU_COUNTERS:
            self.scope, self.mask = "gpu", layout.gpus_at(event.where)
        elif event.metric in PORT or event.metric in PORT_COUNTERS:
            self.scope, self.mask = "ib_port", layout.ports_at(event.where)
        elif event.metric in NODE:
            self.scope = "node"
        elif event.metric in DISK_RATES:
            self.mask = layout.disks_at(event.where)
        self.is_counter = event.metric in GPU_COUNTERS or event.metric in PORT_COUNTERS

    def is_active(self, at_s: float) -> bool:
        """Tell whether the override holds at `at_s`."""
        event = self.event
        return event.at_s <= at_s and (event.until_s is None or at_s < event.until_s)

    def moments(self) -> list[float]:
        """Return when the override changes what the twin sums up: a counter's value is its rate."""
        event = self.event
        if not self.is_counter and event.metric not in DISK_RATES:
            return []
        ramp = np.arange(event.at_s, event.at_s + event.ramp_s, 1.0) if event.ramp_s else ()
        until = () if event.until_s is None else (event.until_s,)
        return [event.at_s, *(float(moment) for moment in ramp), event.at_s + event.ramp_s, *until]

    def _reached(self, at_s: float) -> float:
        ramp_s = self.event.ramp_s
        return 1.0 if ramp_s <= 0 else min(1.0, (at_s - self.event.at_s) / ramp_s)

    def blend(self, values: Floats, at_s: float, goal: float | None = None) -> Floats:
        """Return a gauge or state moved towards the given value (or `goal`) as far as the ramp has come."""
        value = self.event.value if goal is None else goal
        if not isinstance(value, float | int):
            return values
        return np.where(self.mask, values + (value - values) * self._reached(at_s), values)

    def force_rate(self, rates: dict[str, Floats], at_s: float) -> None:
        """Put the given rate, in the catalogue's unit, in the place of the modelled one of a counter."""
        value = self.event.value
        if not self.is_counter or not self.is_active(at_s) or not isinstance(value, float | int):
            return
        wanted = value / RATE_SCALES.get(self.event.metric, 1.0)
        rate = rates.get(self.event.metric, np.zeros(self.mask.shape))
        rates[self.event.metric] = np.where(self.mask, rate + (wanted - rate) * self._reached(at_s), rate)

    def force_disks(self, rates: dict[str, Floats], at_s: float) -> None:
        """Let the times of a disk's requests grow as the given mean time (ms) or share of busy time (%) says."""
        value = self.event.value
        if self.event.metric not in DISK_RATES or not self.is_active(at_s) or not isinstance(value, float | int):
            return
        if self.event.metric == "disk_io_util":
            rates["disk_io_time"] = self.blend(rates["disk_io_time"], at_s, 10 * value)
            return
        for kind in ("read", "write"):
            time, count = f"disk_{kind}_time", rates[f"disk_{kind}s"]
            rates[time] = count * self.blend(rates[time] / np.maximum(count, 1e-9), at_s)

    def moved(self, value: float, at_s: float) -> float:
        """Return one gauge moved towards the given value as far as the ramp has come."""
        wanted = self.event.value
        return value + (wanted - value) * self._reached(at_s) if isinstance(wanted, float | int) else value

    def grown(self, at_s: float) -> float:
        """Return what a counter whose rate per second is given has counted for it."""
        value, event = self.event.value, self.event
        if not isinstance(value, float | int):
            return 0.0
        end_s = at_s if event.until_s is None else min(at_s, event.until_s)
        return value * max(0.0, end_s - event.at_s)

    def silences(self, node: int, at_s: float) -> bool:
        """Tell whether this override says that the node cannot be reached."""
        event = self.event
        return event.metric == "node_reachable" and event.value == 0 and bool(self.mask[node]) and self.is_active(at_s)
