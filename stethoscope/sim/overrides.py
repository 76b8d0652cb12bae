"""`set` of a scenario: what is reported for a metric at a place, whatever the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.columns import GPU, GPU_COUNTERS, NODE, PORT, PORT_COUNTERS, RATE_SCALES

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
        self.is_counter = event.metric in GPU_COUNTERS or event.metric in PORT_COUNTERS

    def is_active(self, at_s: float) -> bool:
        """Tell whether the override holds at `at_s`."""
        event = self.event
        return event.at_s <= at_s and (event.until_s is None or at_s < event.until_s)

    def moments(self) -> list[float]:
        """Return when the override changes what the twin sums up: a counter's value is its rate."""
        event = self.event
        if not self.is_counter:
            return []
        ramp = np.arange(event.at_s, event.at_s + event.ramp_s, 1.0) if event.ramp_s else ()
        until = () if event.until_s is None else (event.until_s,)
        return [event.at_s, *(float(moment) for moment in ramp), event.at_s + event.ramp_s, *until]

    def _reached(self, at_s: float) -> float:
        ramp_s = self.event.ramp_s
        return 1.0 if ramp_s <= 0 else min(1.0, (at_s - self.event.at_s) / ramp_s)

    def blend(self, values: Floats, at_s: float) -> Floats:
        """Return a gauge or state moved towards the given value as far as the ramp has come."""
        value = self.event.value
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

    def silences(self, node: int, at_s: float) -> bool:
        """Tell whether this override says that the node cannot be reached."""
        event = self.event
        return event.metric == "node_reachable" and event.value == 0 and bool(self.mask[node]) and self.is_active(at_s)
