"""What counters stand at when a scenario begins: after weeks of the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.columns import GPU_COUNTERS, PORT_COUNTERS, SLOW_COUNTERS
from stethoscope.sim.machine import held_share

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout
    from stethoscope.sim.machine import Machine
    from stethoscope.sim.noise import Floats, Noise

    Totals = npt.NDArray[np.int64]

_SIZES = {
    "ib_port_xmit_wait": 4e9, "ib_hw_out_of_sequence": 200.0, "ib_port_xmit_data": 2e15, "ib_port_rcv_data": 2e15,
}  # fmt: skip
_NVLINK = 4e13


def first_totals(layout: Layout, noise: Noise, effects: Effects, machine: Machine, thirst: Floats) -> dict[str, Totals]:
    """Return the total of every counter at the start; `thirst` (0..1) tells which boards reach their power limit."""
    totals = {}
    for metrics, shape in ((GPU_COUNTERS, layout.gpu_shape), (PORT_COUNTERS, layout.port_shape)):
        for metric in metrics:
            size = _SIZES.get(metric, 0.0)
            if metric in GPU_COUNTERS:
                size = _NVLINK if layout.board.nvlink_gbps else 0.0
            first = size * noise.uniform(f"first {metric}", shape)
            old = effects.base.get(metric)
            totals[metric] = (first if old is None else np.where(np.isnan(old), first, old)).astype(np.int64)
    return {**totals, **_first_slow_totals(layout, noise, machine, thirst)}


def _first_slow_totals(layout: Layout, noise: Noise, machine: Machine, thirst: Floats) -> dict[str, Totals]:
    """Return the totals of what is read rarely: requests and their times fit together."""
    totals = {metric: np.zeros(layout.shape(kind)) for metric, kind in SLOW_COUNTERS.items()}
    worked_s = 1e6 * (0.2 + 1.5 * noise.uniform("first work", layout.node_shape))
    totals["loading_time"] = 1000 * worked_s
    totals["gpu_throttle_time_sw_power_cap"] = 1e6 * worked_s[:, None] * held_share(thirst)
    for metric, rate in machine.rates.items():
        if metric.startswith(("disk_", "nfs_")):
            totals[metric] = (worked_s if rate.ndim == 1 else worked_s[:, None]) * rate
    return {metric: total.astype(np.int64) for metric, total in totals.items()}
