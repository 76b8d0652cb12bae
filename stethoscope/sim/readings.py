"""What the tools on every node would read at the twin's moment: closed forms with noise, rounded, missing marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.model.metric import REASON_WORDS, Reason
from stethoscope.sim import board, clients, machine
from stethoscope.sim.columns import GPU, GPU_COUNTERS, NODE, PORT, PORT_COUNTERS

if TYPE_CHECKING:
    from stethoscope.model.wire import Cell
    from stethoscope.sim.noise import Floats
    from stethoscope.sim.twin import Twin

_CLOCK_STEP_MHZ = 15
_CONTEXT_MIB = 620.0
"""Memory of a process that has a CUDA context and nothing else."""
_SHARES = ("cpu_util", "cpu_iowait", "cpu_softirq", "cpu_softirq_max", "psi_cpu_some", "psi_io_some", "psi_io_full",
           "psi_memory_full")  # fmt: skip
"""Shares of time in percent: two causes together are never more than all of it."""
_FILLED, _MOST_FILLED = 0.88, 0.998
"""Share of a GPU's memory that a rank holds, and that programs can hold at all."""
_LOST_CODE = 15
"""NVML's code for a GPU that is lost."""


class Readings:
    """Every fast-tier value of the fleet at `twin.t_s`: `gpu[metric][node][gpu]`, `port[metric][node][port]`,
    `node[metric][node]`, each a number or the word of a reason."""

    def __init__(self, twin: Twin) -> None:
        """Read everything at once; arrays make the fleet cheaper than its nodes one by one."""
        self.t_s = twin.t_s
        self._twin = twin
        self._step = int(twin.t_s // 1)
        self.gpu: dict[str, list[list[Cell]]] = {}
        self.port: dict[str, list[list[Cell]]] = {}
        self.node: dict[str, list[Cell]] = {}
        self._read_gpus()
        self._read_ports()
        self._read_nodes()

    def _noise(self, metric: str, shape: tuple[int, ...]) -> Floats:
        return self._twin.noise.normal(metric, shape, self._step)

    def _finish(self, scope: str, values: dict[str, Floats], digits: dict[str, int]) -> dict[str, list[Any]]:
        """Round each column as its tool does and turn it into plain numbers."""
        cells: dict[str, list[Any]] = {}
        for metric, places in digits.items():
            column = values[metric]
            fixed = self._twin.effects.fixed.get(metric)
            if fixed is not None:
                column = np.where(np.isnan(fixed), column, fixed)
            if places:
                cells[metric] = np.round(column, places).tolist()
            else:
                cells[metric] = np.rint(column).astype(np.int64).tolist()
        for override in self._twin.overrides:
            if override.scope == scope and override.event.value is None and override.is_active(self.t_s):
                for place in np.argwhere(override.mask):
                    _put(cells[override.event.metric], place, REASON_WORDS[Reason.ERROR])
        return cells

    def _bend(self, scope: str, values: dict[str, Floats]) -> None:
        """Move what the scenario sets, before noise comes on top."""
        for override in self._twin.overrides:
            if override.scope == scope and not override.is_counter and override.is_active(self.t_s):
                metric = override.event.metric
                plus = override.blend(values[metric], self.t_s)
                values[metric] = plus

    def _read_gpus(self) -> None:
        twin, now, effects = self._twin, self._twin.machine, self._twin.effects
        shape, gpu = twin.layout.gpu_shape, twin.layout.board
        temp_c = twin.temp_c(self.t_s)
        busy = now.util > 0
        pcie = 4e6 * now.pace
        clock_mhz, reasons = now.clock_mhz, now.reasons
        if (effects.duty < 1).any():
            # What holds a clock for a part of the time is there in one sample and not in the next.
            free = twin.noise.uniform("held", shape, self._step) >= effects.duty
            clock_mhz, reasons = np.where(free, now.free_mhz, clock_mhz), np.where(free, now.free_reasons, reasons)
        values: dict[str, Floats] = {
            "gpu_sm_clock": clock_mhz,
            "gpu_util": now.util,
            "gpu_power_draw": now.power_w,
            "gpu_temp": temp_c,
            "gpu_mem_temp": temp_c + np.where(busy, 6 + 5 * np.minimum(now.power_w / gpu.power_w / 0.7, 1), 3),
            "gpu_clocks_event_reasons": reasons.astype(np.float64),
            "gpu_fb_used": self._memory_mib(),
            "gpu_fb_total": np.full(shape, float(gpu.memory_mib)),
            "gpu_mem_copy_util": now.copy_util,
            "gpu_power_limit": np.minimum(effects.power_limit_w, gpu.power_w),
            "gpu_pcie_rx": pcie,
            "gpu_pcie_tx": pcie,
            "gpu_handle_error": np.where(effects.gpu_missing == Reason.LOST, _LOST_CODE, 0).astype(np.float64),
        }
        for metric, plus in effects.plus.items():
            if metric in values:
                values[metric] = values[metric] + plus
        self._bend("gpu", values)
        for metric, column in values.items():
            values[metric] = self._noisy_gpu(metric, column)
        values["gpu_temp_margin"] = (gpu.margin_c or 0.0) - np.rint(values["gpu_temp"])
        cells = self._finish("gpu", values, GPU)
        for metric in GPU_COUNTERS:
            cells[metric] = twin.total(metric, self.t_s).tolist()
        absent = ["gpu_temp_margin"] if gpu.margin_c is None else []
        absent += [] if gpu.nvlink_gbps else list(GPU_COUNTERS)
        for metric in absent:
            cells[metric] = [[REASON_WORDS[Reason.UNSUPPORTED]] * shape[1] for _ in range(shape[0])]
        for place in np.argwhere(effects.gpu_missing):
            reason = Reason(int(effects.gpu_missing[tuple(place)]))
            for metric, column_cells in cells.items():
                if metric != "gpu_handle_error" or reason is not Reason.LOST:
                    _put(column_cells, place, REASON_WORDS[reason])
        self.gpu = cells

    def _memory_mib(self) -> Floats:
        """Return what the ranks hold, and what others hold beside them."""
        now, effects, total = self._twin.machine, self._twin.effects, float(self._twin.layout.board.memory_mib)
        filled = np.where(np.isnan(effects.fill), _FILLED, effects.fill) * total
        held: Floats = np.where(now.context, np.where(now.connecting, _CONTEXT_MIB, filled), 0.0)
        for spot, foreign in effects.foreign.items():
            held[spot] += foreign.memory_mib
        return np.minimum(held, _MOST_FILLED * total)

    def _noisy_gpu(self, metric: str, column: Floats) -> Floats:
        now, effects, gpu = self._twin.machine, self._twin.effects, self._twin.layout.board
        if metric not in ("gpu_sm_clock", "gpu_util", "gpu_power_draw", "gpu_temp", "gpu_mem_temp", "gpu_mem_copy_util",
                          "gpu_pcie_rx", "gpu_pcie_tx"):  # fmt: skip
            return column
        noise = self._noise(metric, column.shape)
        if metric == "gpu_sm_clock":
            # A clock that is set is a flat line, one that is held breathes with the load.
            held = (now.util > 0) & (column < np.minimum(gpu.sm_mhz, effects.lock_mhz))
            wide = np.where(held, np.where(np.isfinite(effects.clock_mhz), 50.0, 18.0), 0.0)
            snapped = np.rint((column + wide * noise) / _CLOCK_STEP_MHZ) * _CLOCK_STEP_MHZ
            return np.where(held, np.minimum(snapped, np.minimum(gpu.sm_mhz, effects.lock_mhz)), column)
        if metric == "gpu_util":
            return np.where(column > 0, np.clip(column + noise, 0, 100), 0.0)
        if metric == "gpu_power_draw":
            # A sample is not a whole step; below a low limit one sees the peaks of computing, cut off.
            low = np.isfinite(effects.power_limit_w) & now.working
            noisy = column * (1 + np.where(low, 0.08, np.where(now.util > 0, 0.02, 0.004)) * noise)
            return np.where(low, np.minimum(noisy, effects.power_limit_w * (1 + 0.003 * noise)), noisy)
        if metric in ("gpu_temp", "gpu_mem_temp"):
            return column + (0.3 + np.where(now.working, effects.heat_swing_c, 0.0)) * noise
        if metric == "gpu_mem_copy_util":
            return np.where(column > 0, np.clip(column + 2.5 * noise, 0, 100), 0.0)
        return np.maximum(column * (1 + 0.1 * noise), 0.0)

    def _read_ports(self) -> None:
        twin = self._twin
        shape = twin.layout.port_shape
        values = {
            "ib_port_state": np.full(shape, 4.0),
            "ib_port_phys_state": np.full(shape, 5.0),
            "ib_port_rate": np.full(shape, float(twin.layout.fleet.ib_rate_gbps)),
        }
        self._bend("ib_port", values)
        self.port = self._finish("ib_port", values, PORT)
        for metric in PORT_COUNTERS:
            # The adapter counts congestion notes on Ethernet only; these ports are InfiniBand unless a scenario counts.
            if metric.startswith("roce_") and not twin.layout.on_ethernet and metric not in twin.machine.rates:
                self.port[metric] = [[REASON_WORDS[Reason.UNSUPPORTED]] * shape[1] for _ in range(shape[0])]
            else:
                self.port[metric] = twin.total(metric, self.t_s).tolist()
        for place in np.argwhere(twin.effects.port_missing):
            word = REASON_WORDS[Reason(int(twin.effects.port_missing[tuple(place)]))]
            for cells in self.port.values():
                _put(cells, place, word)

    def _read_nodes(self) -> None:
        twin, now, effects = self._twin, self._twin.machine, self._twin.effects
        shape = (twin.layout.gpu_shape[0],)
        busy = now.loading
        held = now.context.any(axis=1)
        lost = (effects.gpu_missing == Reason.LOST).sum(axis=1)
        gpus = float(twin.layout.gpu_shape[1])
        values: dict[str, Floats] = {
            "cpu_util": machine.cpu_util(now),
            "cpu_iowait": 0.02 + 0.28 * busy + np.where(now.waits_io > 0.02, 10 + 15 * now.waits_io, 0.0),
            "cpu_softirq": 0.05 + 0.35 * busy + 9.0 * now.on_sockets,
            "cpu_softirq_max": 0.8 + 3.4 * busy + 52.0 * now.on_sockets,
            "cpu_steal": np.zeros(shape),
            "load1": twin.load1(self.t_s),
            "psi_cpu_some": 0.05 + 0.45 * busy,
            "psi_io_some": 0.05 + 0.45 * busy + 80 * now.waits_io,
            "psi_io_full": 0.02 + 0.28 * busy + 55 * now.waits_io,
            "mem_available": board.MEMORY_MIB * np.where(held, 0.62, 0.965) * effects.memory_left,
            "mem_dirty_writeback": 6 + 700 * busy,
            "nvml_latency": np.where(held, 200.0, 28.0),
        }
        exact: dict[str, Floats] = {
            "cpu_count": np.full(shape, float(board.CPUS)),
            "procs_blocked": clients.stuck_tasks(now.waits_io),
            "psi_memory_full": np.zeros(shape),
            "mem_total": np.full(shape, float(board.MEMORY_MIB)),
            "gpu_count": gpus - lost,
            "gpu_count_pci": np.full(shape, gpus),
        }
        values.update(exact)
        for metric, plus in effects.plus.items():
            # The load average has its own memory of what was added.
            if metric in values and metric != "load1":
                values[metric] = values[metric] + plus
        self._bend("node", values)
        wide = {"mem_available": 0.0005, "load1": 0.01, "mem_dirty_writeback": 0.2, "nvml_latency": 0.08}
        for metric in values.keys() - exact.keys():
            noise = self._noise(metric, shape)
            values[metric] = np.maximum(values[metric] * (1 + wide.get(metric, 0.06) * noise), 0.0)
        for metric in _SHARES:
            values[metric] = np.minimum(values[metric], 100.0)
        self.node = self._finish("node", values, NODE)
        for reason in (Reason.HUNG, Reason.PERMISSION):
            for node in np.flatnonzero((effects.gpu_missing == reason).all(axis=1)):
                for metric in ("gpu_count", "nvml_latency"):
                    self.node[metric][node] = REASON_WORDS[reason]
        for refusing in effects.driver_refuses:
            for metric in ("gpu_count", "nvml_latency"):
                self.node[metric][refusing] = REASON_WORDS[Reason.ERROR]


def _put(cells: list[Any], place: Any, value: Cell) -> None:
    """Write one cell of `[node]` or `[node][device]` lists."""
    for index in place[:-1]:
        cells = cells[index]
    cells[place[-1]] = value
