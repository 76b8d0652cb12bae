"""What it costs to remember the last minutes of a fleet: `python -m benchmarks.history [nodes]`.

Prints the time of one sample, the bytes it takes, and how far back the history reaches within its limit. Every node
trains: what trembles on a busy node changes in every sample, the rest of its values stand still. The floor beside it is
copying every value as a 32-bit float, shared or not.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace

import numpy as np

from stethoscope.analysis.history import BYTES, History, every_s
from stethoscope.model.fleet import FleetSnapshot, Node, Table
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Kind, Scope
from stethoscope.model.wire import GpuIdentity, PortIdentity
from stethoscope.specs.metric import load_catalogue

DEVICES = {
    Scope.NODE: 1, Scope.GPU: 8, Scope.PORT: 8, Scope.NVLINK: 144, Scope.PCIE: 24, Scope.NET: 10, Scope.DISK: 5,
    Scope.FS: 6,
}  # fmt: skip
"""Rows of a node in each table."""
TREMBLING = frozenset(
    (
        "gpu_power_draw", "gpu_util", "gpu_temp", "gpu_temp_margin", "gpu_mem_temp", "gpu_sm_clock", "gpu_pcie_rx",
        "gpu_pcie_tx", "gpu_mem_copy_util", "gpu_clocks_event_reasons", "gpu_throttle_time_sw_power_cap", "nvlink_rx",
        "nvlink_tx", "ib_port_xmit_data", "ib_port_rcv_data", "ib_port_xmit_wait", "roce_np_cnp_sent", "cpu_util",
        "cpu_iowait", "cpu_softirq", "cpu_softirq_max", "load1", "psi_cpu_some", "mem_available", "nvml_latency",
        "node_data_age", "net_rx_bytes", "net_tx_bytes", "net_tcp_retrans", "disk_writes", "disk_write_bytes",
        "disk_write_time", "disk_io_time", "disk_await", "disk_io_util", "fs_used", "fs_available", "clock_offset",
    )
)  # fmt: skip
"""Metrics whose values differ from one sample to the next somewhere in a large fleet that trains."""
LEAST_S = 300.0
"""How far back the history of 2,000 nodes must reach."""


def fleet(nodes: int, random: np.random.Generator) -> FleetSnapshot:
    """Return a snapshot of `nodes` nodes with every metric present."""
    catalogue = load_catalogue()
    tables = {}
    for scope, each in DEVICES.items():
        metrics = tuple(metric.id for metric in catalogue.values() if metric.scope is scope)
        counters = tuple(metric for metric in metrics if catalogue[metric].kind is Kind.COUNTER)
        rows = nodes * each
        none = np.zeros((len(counters), rows), np.uint64)
        tables[scope] = Table(
            scope, metrics, random.random((len(metrics), rows)), np.zeros((len(metrics), rows), np.uint8), counters,
            none, none.astype(np.uint8), none, np.zeros(rows), {name: place for place, name in enumerate(metrics)},
            {name: place for place, name in enumerate(counters)},
        )  # fmt: skip
    gpus = tuple(GpuIdentity(number, uuid=f"GPU-{number}") for number in range(DEVICES[Scope.GPU]))
    ports = tuple(PortIdentity(f"mlx5_{number}") for number in range(DEVICES[Scope.PORT]))
    named = {scope: tuple(f"{scope}{number}" for number in range(each)) for scope, each in DEVICES.items()}
    built = tuple(
        Node(
            f"gpu-{index:04}", index, Link(LinkState.LIVE, 0.0), gpus=gpus, ports=ports, gpu_first=index * len(gpus),
            port_first=index * len(ports), devices=named,
            device_first={scope: index * each for scope, each in DEVICES.items()},
        )
        for index in range(nodes)
    )  # fmt: skip
    return FleetSnapshot("bench", 0.0, 0.0, built, tables, catalogue)


def trembled(snapshot: FleetSnapshot, random: np.random.Generator, mono: float) -> FleetSnapshot:
    """Return the fleet `mono` seconds after its start: every node was heard, TREMBLING has other values."""
    tables = {}
    for scope, table in snapshot.tables.items():
        values = table.values.copy()
        for name in TREMBLING & set(table.metrics):
            values[table.index[name]] = random.random(values.shape[1])
        tables[scope] = replace(table, values=values)
    nodes = tuple(replace(node, version=node.version + 1) for node in snapshot.nodes)
    return replace(snapshot, mono=mono, nodes=nodes, tables=tables)


def main() -> int:
    """Run and print; 1 when the history of a large fleet does not reach back far enough."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    random = np.random.default_rng(7)
    snapshot = fleet(nodes, random)
    history = History(snapshot.catalogue)
    step_s = every_s(nodes)
    takes, floors, sizes = [], [], []
    for number in range(100):
        snapshot = trembled(snapshot, random, number * step_s)
        began = time.perf_counter()
        for table in snapshot.tables.values():
            for column in table.values:
                column.astype(np.float32)
        middle = time.perf_counter()
        before = history.bytes
        history.take(snapshot)
        takes.append((time.perf_counter() - middle) * 1e3)
        floors.append((middle - began) * 1e3)
        if number > 0 and history.bytes > before:
            sizes.append(history.bytes - before)
    values = sum(table.values.size for table in snapshot.tables.values())
    print(f"{nodes} nodes, {values:,} values, a sample every {step_s:g} s")
    print(f"  sample {statistics.median(takes):.1f} ms, worst {max(takes):.1f} ms")
    print(f"  copying alone {statistics.median(floors):.1f} ms")
    print(f"  {statistics.median(takes) / step_s / 10:.2f} % of a core")
    print(
        f"  {statistics.median(sizes) / 2**20:.2f} MiB a sample, {history.bytes / 2**20:.1f} of {BYTES / 2**20:.0f} MiB"
    )
    print(f"  {len(history)} samples, {history.seconds / 60:.1f} minutes")
    began = time.perf_counter()
    for row in range(8):
        history.series(Scope.GPU, "gpu_power_draw", row)
    print(f"  series {(time.perf_counter() - began) / 8 * 1e6:.0f} us")
    return 1 if nodes <= 2_000 and history.seconds < LEAST_S else 0


if __name__ == "__main__":
    sys.exit(main())
