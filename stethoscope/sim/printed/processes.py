"""What top, ps, cpufreq and the journal print on a simulated node."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim import board
from stethoscope.sim.board import CPU_MHZ, CPUS
from stethoscope.sim.files import host

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

_RESTING_MHZ = 800.0
_FASTEST_KHZ = 3_700_000
_WRITER = re.compile(r"(\w[\w-]*\[\d+\]: )(.*)", re.DOTALL)


def top(view: View) -> str:
    """Return the head of `top -b -n 1`: who takes most comes first."""
    readings = {metric: column[view.node] for metric, column in view.readings.node.items()}
    busy, waiting, soft = (_number(readings[name]) for name in ("cpu_util", "cpu_iowait", "cpu_softirq"))
    load, free_mib = _number(readings["load1"]), _number(readings["mem_available"])
    at = datetime.fromtimestamp(view.wall_s, UTC)
    user = max(busy - soft, 0.0) * 0.92
    lines = [
        f"top - {at:%H:%M:%S} up {int(view.uptime_s // 86_400)} days,  1 user,  load average: {load:.2f}, {load:.2f}, "
        f"{load:.2f}",
        f"Tasks: {1900 + view.gpus * 18} total, {max(1, round(load)):3d} running, 1880 sleeping, 0 stopped, 0 zombie",
        f"%Cpu(s): {user:4.1f} us, {max(busy - soft - user, 0):4.1f} sy,  0.0 ni, "
        f"{max(100 - busy - waiting, 0):4.1f} id, {waiting:4.1f} wa,  0.0 hi, {soft:4.1f} si,  0.0 st",
        f"MiB Mem : {board.MEMORY_MIB:.1f} total, {free_mib * 0.6:.1f} free, {board.MEMORY_MIB - free_mib:.1f} used, "
        f"{free_mib * 0.4:.1f} buff/cache",
        f"MiB Swap: 8192.0 total, 8192.0 free, 0.0 used. {free_mib:.1f} avail Mem ",
        "",
        "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND",
    ]
    hogs = view.twin.effects.hogs.get(view.node, ())
    rows = [(100 * cores, 88_001 + 37 * number, "root", name) for number, (name, cores) in enumerate(hogs)]
    held = view.twin.machine.context[view.node]
    spinning = float(view.twin.machine.cores[view.node]) / max(int(held.sum()), 1)
    used = 100.0 * max(spinning, 0.3) + 2.1
    rows += [(used, board.rank_pid(view.node, gpu), "alice", "python3") for gpu in np.flatnonzero(held).tolist()]
    if soft > 3:
        rows.append((min(97.0, 25 * soft), 18, "root", "ksoftirqd/1"))
    rows.append((0.7, 2_315, "root", "nvidia-persiste"))
    rows.append((0.3, 1, "root", "systemd"))
    lines += [
        f"{pid:7d} {owner:<9} 20   0   98.4g  24.1g   2.2g R {share:5.1f}   1.2  81:07.44 {name}"
        for share, pid, owner, name in sorted(rows, key=lambda row: (-row[0], row[1]))[:23]
    ]
    return "\n".join(lines) + "\n"


def stuck(view: View) -> str:
    """Return what ps says of the processes in state D."""
    lines = ["    PID STAT WCHAN                            ELAPSED USER     COMMAND"]
    for line in host.tasks(view).splitlines():
        pid, state, _, owner, name, waits_in = line.split("\t")
        lines.append(f"{pid:>7} {state + 'l':<4} {waits_in:<32} {int(view.uptime_s) % 9000:7d} {owner:<8} {name}")
    return "\n".join(lines) + "\n"


def clocks(view: View) -> str:
    """Return how many cores have which governor and which clock."""
    busy_mhz = min(float(view.twin.effects.cpu_mhz[view.node]), CPU_MHZ)
    busy_mhz = view.state("cpu_freq", busy_mhz)
    resting = round(CPUS * 0.3)
    spread = view.draw("cpu clock", 8)
    counts = Counter(round(busy_mhz * (0.99 + 0.02 * spread[core % 8])) * 1000 for core in range(CPUS - resting))
    counts[round(_RESTING_MHZ) * 1000] += resting if busy_mhz > _RESTING_MHZ else 0
    lines = [f"scaling_governor {CPUS:7d} {view.build.cpu_governor}"]
    lines += [f"scaling_cur_freq {count:7d} {khz}" for khz, count in counts.most_common(8)]
    lines.append(f"scaling_max_freq {CPUS:7d} {_FASTEST_KHZ}")
    return "\n".join(lines) + "\n"


def journal(view: View) -> str:
    """Return the last lines of the journal: of the kernel, and of daemons."""
    lines = []
    for said in view.twin.written(view.name, "kernel", "syslog", "fm")[-300:]:
        at = datetime.fromtimestamp(view.twin.wall_at_0 + said.at_s + view.clock_offset_s, UTC)
        daemon = _WRITER.fullmatch(said.text)
        text = said.text if said.sink != "kernel" and daemon else f"kernel: {said.text}"
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S}+0000 {view.name} {text}\n")
    return "".join(lines) or "-- No entries --\n"


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0
