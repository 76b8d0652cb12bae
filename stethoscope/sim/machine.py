"""What the machines do between two changes: how busy, how fast, how hot, and how quickly their counters run.

Utilisation is the share of time with any kernel resident, and a rank that waits in NCCL has one: it shows 97-100 % at
its highest clock and a quarter of busy power. Powers are shares of the board's limit, temperatures follow from power.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim import clients
from stethoscope.sim.board import CPUS, INLET_C

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from stethoscope.sim.board import Board
    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout
    from stethoscope.sim.noise import Floats
    from stethoscope.sim.run import JobRun
    from stethoscope.sim.step import Step

BUSY = 640 / 700
"""Shares of the power limit: computing, with a context and no kernel, without a context."""
CONTEXT = 115 / 700
IDLE = 69 / 700
MOVING = 0.50
"""Shares of busy power: while bytes move, while waiting in NCCL."""
SPINNING = 0.25
LINE_SHARE = 0.94
"""What of an Ethernet link's rate carries data."""
TAU_S = 75.0
"""Time constant of a GPU's temperature."""
HEAT_K = 0.041 * 700
"""Kelvin above the air at full power."""
PORT_SHARE = 95 / 400
"""Of a port's rate, averaged over a healthy step."""
NVLINK_SHARE = 110 / 450
SW_POWER_CAP, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x4, 0x20, 0x40, 0x80
"""Bits of the reasons for which clocks are held; with _IDLE those that the twin knows."""
_IDLE = 0x1
THIRSTY = 0.85
READ_BYTES, WRITE_BYTES = 131_072, 65_536
"""What one read and one write of a disk carries."""
AWAIT_MS = (0.10, 0.12)
"""How long a read and a write of a healthy disk takes."""
TICKS_PER_S = 156_250_000
"""Ticks of port_xmit_wait in a second of waiting: one is 6.4 ns."""
_IDLE_MHZ = 345 / 1980


@dataclass(slots=True)
class Machine:
    """The machines between two changes; arrays are `[node]`, `[node, gpu]`, `[node, port]`."""

    util: Floats
    power_w: Floats
    clock_mhz: Floats
    copy_util: Floats
    pace: Floats
    """Traffic of each GPU as a share of a healthy step's."""
    context: npt.NDArray[np.bool_]
    """A process holds the GPU."""
    on_sockets: Floats
    """Share of the management network (0..1) that the ranks of each node fill with what belongs on the fabric."""
    connecting: npt.NDArray[np.bool_]
    """The rank waits for others to connect, and has not loaded its model."""
    working: npt.NDArray[np.bool_]
    """The rank takes part in steps that end."""
    waiting: Floats
    """Share (0..1) of each step that the rank waits in NCCL."""
    heat_to_c: Floats
    heat_tau_s: Floats
    cores: Floats
    """CPU cores that spin for ranks, by node; `loading` is the pace of the data loaders."""
    loading: Floats
    waits_io: Floats
    """Share (0..1) of the time that each node waits for a file system."""
    reasons: npt.NDArray[np.int64]
    """Bits of why each GPU's clock is held; `free_mhz` and `free_reasons` are what it shows while it is not."""
    free_mhz: Floats
    free_reasons: npt.NDArray[np.int64]
    rates: dict[str, Floats] = field(default_factory=dict)
    """Counter -> counts per second; counters that stand still are absent."""


def machine(layout: Layout, effects: Effects, runs: Iterable[JobRun], character_c: Floats, thirst: Floats) -> Machine:
    """Return what the machines do under `effects` while the jobs are as `runs` say.

    `character_c` is how much warmer each GPU sits than the average one; those with a `thirst` (0..1) below
    THIRSTY reach their power limit when they work.
    """
    board, shape = layout.board, layout.gpu_shape
    now = Machine(
        util=np.zeros(shape),
        power_w=np.full(shape, IDLE * board.power_w),
        clock_mhz=np.full(shape, 15 * round(_IDLE_MHZ * board.sm_mhz / 15)),
        copy_util=np.zeros(shape),
        pace=np.zeros(shape),
        context=np.zeros(shape, dtype=np.bool_),
        on_sockets=np.zeros(shape[0]),
        connecting=np.zeros(shape, dtype=np.bool_),
        working=np.zeros(shape, dtype=np.bool_),
        waiting=np.zeros(shape),
        heat_to_c=np.zeros(shape),
        heat_tau_s=np.full(shape, TAU_S),
        cores=np.zeros(shape[0]),
        loading=np.zeros(shape[0]),
        waits_io=np.zeros(shape[0]),
        reasons=np.zeros(shape, dtype=np.int64),
        free_mhz=np.zeros(shape),
        free_reasons=np.zeros(shape, dtype=np.int64),
    )
    now.free_mhz[:] = now.clock_mhz
    for run in runs:
        now.context[run.rows] = run.alive
        now.waits_io[run.rows] = clients.wait_share(run, effects)
        if run.step is not None:
            _running(now, run, run.step, effects, board)
        else:
            _standing(now, run, effects, board)
    _share(now, effects, board)
    now.heat_to_c = INLET_C + 14 + HEAT_K / board.power_w * now.power_w + character_c
    now.heat_to_c += effects.inlet_rise_c[:, None] + effects.warmer_c
    # A board with a bad way for its heat is that hot only while it works.
    hot = ~np.isnan(effects.heat_to_c)
    strain = np.where(now.working, 1.0, np.minimum(now.power_w / (0.5 * board.power_w), 1.0))
    forced = INLET_C + (effects.heat_to_c - INLET_C) * strain
    now.heat_to_c = np.where(hot, np.fmax(forced, now.heat_to_c), now.heat_to_c)
    now.heat_tau_s = np.where(hot & now.working, effects.heat_tau_s, now.heat_tau_s)
    # The cap holds most busy boards; one that waits has nothing to be held for.
    capped = (now.util > 0) & (now.waiting < 0.1) & (thirst < THIRSTY)
    own = np.where(now.working, effects.reasons, 0)
    idle = np.where(now.context | (effects.foreign_share > 0), 0, _IDLE).astype(np.int64)
    now.free_reasons = idle | np.where(capped, SW_POWER_CAP, 0)
    # Clocks that are set low do not reach the power limit, whether the driver gives a reason or none.
    slow = np.minimum(effects.clock_mhz, effects.lock_mhz) < board.busy_mhz
    now.reasons = idle | np.where(capped & (own == 0) & ~slow, SW_POWER_CAP, 0) | own
    now.rates = _rates(now, layout, effects)
    now.rates.update(_socket_rates(now, effects, layout))
    now.rates.update(_throttle_rates(now, effects, thirst))
    now.rates.update(_disk_rates(now, effects, layout))
    now.rates.update(clients.rates(now, effects))
    return now


def _share(now: Machine, effects: Effects, board: Board) -> None:
    """Let what is no rank of a job work on its GPUs, too."""
    there = effects.foreign_share > 0
    if not there.any():
        return
    alone = there & ~now.context
    now.util = np.where(alone, 96.0, np.where(there, np.maximum(now.util, 99.0), now.util))
    more_w = 0.3 * effects.foreign_share * BUSY * board.power_w
    now.power_w = np.where(alone, 0.8 * BUSY * board.power_w, np.minimum(now.power_w + more_w, board.power_w))
    now.clock_mhz = np.where(alone, board.busy_mhz, now.clock_mhz)
    now.free_mhz = np.where(alone, board.busy_mhz, now.free_mhz)
    now.copy_util = np.where(there, np.maximum(now.copy_util, 45.0), now.copy_util)


def _running(now: Machine, run: JobRun, step: Step, effects: Effects, board: Board) -> None:
    job, rows, step_s = run.job, run.rows, step.step_s
    lock, duty = effects.lock_mhz[rows], effects.duty[rows]
    # The ordinary clock of a GPU that works is a little lower in warm air.
    usual_mhz = board.busy_mhz * effects.busy_clock[rows]
    held = np.minimum(np.minimum(effects.clock_mhz[rows], lock), usual_mhz)
    moving_s = step.collective_s
    if job.id in effects.over_ethernet:
        # Sockets are fed by the host: the GPUs wait for nearly all of the collective.
        moving_s *= 0.1
        now.on_sockets[rows] = LINE_SHARE
    idle_s = step.wait_s + step.collective_s - moving_s
    waiting = idle_s / step_s
    quiet_s = (job.shares.data + job.shares.other) * job.step_time_s
    # A healthy step leaves the GPU without a kernel for about 6 % of the time; waiting hides it, stalls add to it.
    usual = (quiet_s / step_s / max(job.shares.data + job.shares.other, 1e-9)) ** 3
    now.util[rows] = np.clip(
        100 - 6 * usual * (1 - np.minimum(waiting / 0.2, 0.8)) - 100 * step.stall_s / step_s, 0, 100
    )
    busy_w = BUSY * board.power_w * effects.power_factor[rows] * (duty * (held / board.busy_mhz) ** 1.2 + 1 - duty)
    limit_w = np.minimum(effects.power_limit_w[rows], board.power_w)
    spread = (
        np.minimum(busy_w, limit_w) * step.compute_s
        + np.minimum(BUSY * MOVING * board.power_w, limit_w) * moving_s
        + BUSY * SPINNING * board.power_w * idle_s
        + CONTEXT * board.power_w * (step.data_s + step.other_s)
    )
    now.power_w[rows] = spread / step_s
    # The power limit lets go of a GPU that waits: from a fifth of the time on it sits at its highest clock.
    free = np.minimum(waiting / 0.2, 1.0)
    boost = usual_mhz + (board.sm_mhz - usual_mhz) * free
    now.free_mhz[rows] = np.minimum(boost, lock)
    now.clock_mhz[rows] = np.minimum(now.free_mhz[rows], np.where(held < usual_mhz, held, np.inf))
    now.copy_util[rows] = 62 * step.compute_s / step_s
    now.pace[rows] = job.step_time_s / step_s
    now.working[rows] = True
    now.waiting[rows] = waiting
    now.cores[rows] = float(run.alive.shape[1])
    now.loading[rows] = job.step_time_s / step_s


def _standing(now: Machine, run: JobRun, effects: Effects, board: Board) -> None:
    """Fill in a job that hangs or is ending: waiting ranks spin, those that never entered do nothing."""
    rows = run.rows
    absent = (effects.stuck[rows] | (not run.is_connected) | run.is_paused) & run.alive
    now.connecting[rows] = run.alive & ((not run.is_connected) | run.is_fresh)
    spinning = run.alive & ~absent
    busy_w = BUSY * board.power_w
    now.util[rows] = np.where(spinning, 99.0, 0.0)
    now.power_w[rows] = np.where(
        spinning, SPINNING * busy_w, np.where(absent, CONTEXT * board.power_w, IDLE * board.power_w)
    )
    now.clock_mhz[rows] = np.where(run.alive, np.minimum(board.sm_mhz, effects.lock_mhz[rows]), now.clock_mhz[rows])
    now.free_mhz[rows] = now.clock_mhz[rows]
    now.waiting[rows] = spinning.astype(np.float64)
    now.cores[rows] = spinning.sum(axis=1)


def _rates(now: Machine, layout: Layout, effects: Effects) -> dict[str, Floats]:
    """Return how fast each counter runs; a port carries what its node's job moves."""
    node_pace = np.where(now.on_sockets > 0, 0.0, now.pace.max(axis=1, initial=0.0))
    moving = np.broadcast_to(node_pace[:, None], layout.port_shape)
    words = PORT_SHARE * layout.fleet.ib_rate_gbps * 1e9 / 32 * moving * effects.rail_share
    kib = layout.board.nvlink_gbps * 1e9 / 1024 * (NVLINK_SHARE * now.pace + effects.foreign_links)
    rates = {
        "ib_port_xmit_data": words,
        "ib_port_rcv_data": words * 0.998,
        "ib_port_xmit_wait": TICKS_PER_S * np.minimum(0.01 * moving + effects.credit_wait * (moving > 0), 1.0),
        "nvlink_tx": kib,
        "nvlink_rx": kib * 0.999,
    }
    for metric, plus in effects.plus.items():
        if plus.shape == layout.port_shape and metric.startswith("ib_"):
            rates[metric] = rates.get(metric, np.zeros(layout.port_shape)) + plus
    return rates


def _socket_rates(now: Machine, effects: Effects, layout: Layout) -> dict[str, Floats]:
    """Return how fast the management network's counters of each node grow where training traffic is on it."""
    gbps = np.zeros(layout.node_shape)
    for job, rate in effects.over_ethernet.items():
        gbps[list(layout.jobs[job].nodes) if job in layout.jobs else []] = rate
    # Every node loses some, none as much as another.
    lossy = 20 + 180 * (np.arange(len(gbps)) * 0.618 % 1)
    return {
        "management_bytes": now.on_sockets * gbps * 1e9 / 8,
        "management_retrans": np.where(now.on_sockets > 0, lossy, 0.0),
    }


def _throttle_rates(now: Machine, effects: Effects, thirst: Floats) -> dict[str, Floats]:
    """Return how fast the driver's sums of held time grow, in microseconds a second."""
    bits = {"hw_thermal": HW_THERMAL, "hw_power_brake": HW_POWER_BRAKE, "sw_thermal": SW_THERMAL}
    rates: dict[str, Floats] = {
        f"gpu_throttle_time_{name}": np.where(now.reasons & bit, 1e6 * effects.duty, 0.0) for name, bit in bits.items()
    }
    # A board at its limit is held from moment to moment, the thirsty ones nearly always, one with a low limit too.
    share = np.where(np.isfinite(effects.power_limit_w), 0.98, held_share(thirst))
    rates["gpu_throttle_time_sw_power_cap"] = np.where(now.reasons & SW_POWER_CAP, 1e6, 0.0) * share
    return rates


def held_share(thirst: Floats) -> Floats:
    """Return for how much of the time (0..1) the power limit holds a busy board."""
    return np.where(thirst < THIRSTY, 0.95 - 0.5 * thirst / THIRSTY, 0.0)


def _disk_rates(now: Machine, effects: Effects, layout: Layout) -> dict[str, Floats]:
    """Return how fast the counters of disks grow: logs on the first, training data from the others."""
    loading = now.loading[:, None]
    first = (np.arange(layout.disk_shape[1]) == 0)[None, :]
    reads = np.where(first, 0.4 + 1.5 * loading, 0.2 + 850 * loading)
    writes = np.where(first, 12 + 6 * loading, 0.3 + 60 * loading) + effects.writes_per_s
    busy = np.where(first, 4 + 2 * loading, 0.1 + 120 * loading) + 1000 * effects.disk_busy
    return {
        "disk_reads": reads,
        "disk_writes": writes,
        "disk_read_time": reads * (AWAIT_MS[0] + effects.read_ms),
        "disk_write_time": writes * (AWAIT_MS[1] + effects.write_ms),
        "disk_io_time": np.minimum(busy, 1000.0),
        "loading_time": 1000 * now.loading,
    }


def cpu_util(now: Machine) -> Floats:
    """Return the share (%) of CPU time that is busy, by node."""
    return 0.6 + 100 * now.cores / CPUS + 9.2 * now.loading


def load(now: Machine) -> Floats:
    """Return the number of tasks that run, by node: what the load average goes to."""
    return 0.2 + now.cores + 15.8 * now.loading
