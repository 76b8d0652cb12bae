"""Fleet snapshots from literals: a healthy fleet, and what the test wants to be different about it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.model.facts import GpuProcess
from stethoscope.model.fleet import FleetSnapshot, Node, PartAge, Table
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.ids import node_of
from stethoscope.model.metric import DEVICE_SCOPES, Kind, Metric, Missing, Reason, Scope
from stethoscope.model.wire import GpuIdentity, PortIdentity
from stethoscope.paths import bundled
from stethoscope.specs.metric import FILE, read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.event import LogEvent
    from stethoscope.model.finding import Finding

WALL = 1_773_454_447.0
"""2026-03-14T02:14:07Z, the moment of every built snapshot."""
MONO = 1_000.0

HEALTHY: dict[str, float] = {
    "gpu_sm_clock": 1980,
    "gpu_util": 98,
    "gpu_power_draw": 640,
    "gpu_temp": 62,
    "gpu_temp_margin": 25,
    "gpu_mem_temp": 70,
    "gpu_clocks_event_reasons": 0,
    "gpu_fb_used": 70_000,
    "gpu_fb_total": 81_559,
    "gpu_mem_copy_util": 45,
    "gpu_power_limit": 700,
    "gpu_pcie_rx": 1_200_000,
    "gpu_pcie_tx": 900_000,
    "nvlink_rx": 100_000_000,
    "nvlink_tx": 100_000_000,
    "ib_port_state": 4,
    "ib_port_phys_state": 5,
    "ib_port_rate": 400,
    "ib_port_xmit_data": 5_000_000_000,
    "ib_port_rcv_data": 5_000_000_000,
    "cpu_util": 12,
    "cpu_iowait": 0.1,
    "cpu_softirq": 1,
    "cpu_softirq_max": 3,
    "load1": 20,
    "cpu_count": 192,
    "mem_available": 1_800_000,
    "mem_total": 2_063_000,
    "mem_dirty_writeback": 10,
    "nvml_latency": 15,
    "gpu_mem_clock": 2619,
    "gpu_process_count": 1,
    "gpu_throttle_time_sw_power_cap": 20_000,
    "gpu_temp_slowdown": 87,
    "gpu_pcie_link_gen": 5,
    "gpu_pcie_link_gen_max": 5,
    "gpu_pcie_link_width": 16,
    "gpu_pcie_link_width_max": 16,
    "gpu_persistence_mode": 1,
    "gpu_ecc_mode": 1,
    "fabric_state": 3,
    "nvlink_active_count": 18,
    "gpu_power_limit_default": 700,
    "gpu_sm_clock_max": 1980,
    "nvlink_state": 1,
    "nvlink_speed": 26.562,
    "pcie_link_speed": 32,
    "pcie_link_width": 16,
    "pcie_max_link_speed": 32,
    "pcie_max_link_width": 16,
    "net_operstate": 6,
    "net_mtu": 9000,
    "net_speed": 100_000,
    "net_rx_bytes": 40_000_000,
    "net_tx_bytes": 40_000_000,
    "net_tcp_retrans": 0.2,
    "file_nr": 21_000,
    "clock_offset": 0.00012,
    "clock_synchronised": 1,
    "boot_time": 1_770_000_000,
    "memlock_limit": 2_000_000_000,
    "peermem_loaded": 1,
    "fabricmanager_active": 1,
    "persistenced_active": 1,
    "disk_reads": 12,
    "disk_writes": 80,
    "disk_read_bytes": 1_500_000,
    "disk_write_bytes": 22_000_000,
    "disk_await": 0.4,
    "disk_io_util": 3,
    "nvme_temperature": 41,
    "smart_passed": 1,
    "nvme_percentage_used": 4,
    "nvme_available_spare": 100,
    "smart_power_on_hours": 14_200,
    "fs_used": 41,
    "fs_inodes_used": 3,
    "fs_size": 3_500,
    "fs_available": 2_065,
    "lustre_state": 5,
    "node_reachable": 1,
    "node_data_age": 1,
}
"""Values of a fleet that trains (counters: counts per second); every other metric is 0."""

DEVICES: dict[Scope, tuple[str, ...]] = {
    Scope.NVLINK: tuple(f"{gpu}/{link}" for gpu in range(8) for link in range(18)),
    Scope.PCIE: tuple(f"0000:{0x18 + at:02x}:00.0" for at in (*range(8), *range(64, 72))),
    Scope.NET: ("bond0", "eth0", "eth1"),
    Scope.DISK: ("nvme0n1", "nvme1n1"),
    Scope.FS: ("/", "/scratch", "/shared"),
}
"""Devices of a node of eight GPUs and eight ports that sent its parts."""
WORDS = {
    "driver_version": "550.90.07", "cuda_version": "12.4", "kernel": "5.15.0-1049-nvidia", "os": "Ubuntu 22.04.4 LTS",
    "product": "NVIDIA DGX H100", "bios": "1.1.3", "cpu_governor": "performance", "nccl_version": "2.21.5",
    "mtu": "4092",
}  # fmt: skip
GROUPS = {
    "gpu": 30.0, "pcie": 30.0, "disks": 30.0, "mounts": 30.0, "net": 30.0, "host": 30.0, "clock": 60.0,
    "tuning": 300.0, "identity": 300.0, "smart": 600.0,
}  # fmt: skip
"""Groups of what is read rarely, and how often each is, in seconds."""

Value = float | Missing | Reason
"""A number, or why there is none."""


@cache
def catalogue() -> dict[str, Metric]:
    """Return the bundled metric catalogue, whatever the user's own configuration holds."""
    return read_metrics(bundled("playbooks") / FILE)


def fleet(
    nodes: int = 4,
    gpus: int = 8,
    ports: int = 8,
    *,
    set: Mapping[tuple[str, str], Value] | None = None,  # noqa: A002  it reads as what it does
    totals: Mapping[tuple[str, str], int] | None = None,
    lost: Iterable[str] = (),
    links: Mapping[str, LinkState | Link] | None = None,
    waiting: Iterable[str] = (),
    ages: Mapping[str, float] | None = None,
    notes: Mapping[str, Mapping[str, str]] | None = None,
    findings: Iterable[Finding] = (),
    events: Iterable[LogEvent] = (),
    per_rack: int = 8,
    name: str = "test",
    names: Iterable[str] = (),
    simulated: bool = False,
    devices: Mapping[Scope, tuple[str, ...]] | None = None,
) -> FleetSnapshot:
    """Return a healthy fleet of `gpu-001` ... with `per_rack` nodes to a rack, racks `rack-01` ... in `pod-1`.

    `set` puts values (for counters: counts per second) or reasons at (place, metric); `totals` counts of counters since
    the first reading. A lost node is unreachable, a lost GPU or port answers LOST. A waiting node has sent nothing yet.
    `ages` are seconds since the last frame (1 otherwise); `links` and `notes` are by node. With `devices` (DEVICES),
    every node has those and has sent its parts, WORDS and a process on each GPU.
    """
    devices = devices or {}
    node_names = [*names] or [f"gpu-{number:03}" for number in range(1, nodes + 1)]
    lost, waiting, links, ages, notes = [*lost], [*waiting], links or {}, ages or {}, notes or {}
    built = [
        _node(index, node_name, gpus, ports, per_rack, lost, waiting, links, ages.get(node_name, 1.0), notes, devices)
        for index, node_name in enumerate(node_names)
    ]
    snapshot = FleetSnapshot(
        fleet=name,
        wall=WALL,
        mono=MONO,
        nodes=tuple(built),
        tables={
            Scope.NODE: _table(Scope.NODE, len(built)),
            Scope.GPU: _table(Scope.GPU, sum(len(node.gpus) for node in built)),
            Scope.PORT: _table(Scope.PORT, sum(len(node.ports) for node in built)),
            Scope.JOB: _table(Scope.JOB, 0),
            **{scope: _table(scope, len(built) * len(devices.get(scope, ()))) for scope in DEVICE_SCOPES},
        },
        catalogue=catalogue(),
        findings=tuple(findings),
        events=tuple(events),
        by_name={node.name: node.index for node in built},
        simulated=simulated,
    )
    for node in built:
        _put(snapshot, node.name, "node_data_age", ages.get(node.name, 1.0))
        for count in ("gpu_count", "gpu_count_pci"):
            _put(snapshot, node.name, count, gpus)
        if node.link.state.is_pending:
            _put_all(snapshot, node.name, Reason.WAITING)
        elif not node.link.state.is_live:
            _put_all(snapshot, node.name, Reason.UNREACHABLE)
        if not node.link.state.is_live:
            _put(snapshot, node.name, "node_reachable", 0)
        if node.name in waiting:
            _put(snapshot, node.name, "node_data_age", Reason.WAITING)
    for place in lost:
        if "/" in place:
            _put_all(snapshot, place, Reason.LOST)
            if "/gpu/" in place:
                _put(snapshot, place, "gpu_handle_error", 15)
    for (place, metric), value in (set or {}).items():
        _put(snapshot, place, metric, value)
    for (place, metric), total in (totals or {}).items():
        table, row = _at(snapshot, place)
        table.since_first[table.counter_index[metric], row] = total
        table.totals[table.counter_index[metric], row] = total
    for table in snapshot.tables.values():
        for array in (
            table.values,
            table.reasons,
            table.totals,
            table.total_reasons,
            table.since_first,
            table.first_at,
        ):
            array.setflags(write=False)
    return snapshot


def _node(
    index: int,
    name: str,
    gpus: int,
    ports: int,
    per_rack: int,
    lost: list[str],
    waiting: list[str],
    links: Mapping[str, LinkState | Link],
    age_s: float,
    notes: Mapping[str, Mapping[str, str]],
    devices: Mapping[Scope, tuple[str, ...]],
) -> Node:
    state = LinkState.UNREACHABLE if name in lost else LinkState.CONNECTING if name in waiting else LinkState.LIVE
    link = links.get(name, state)
    seen = name not in waiting
    return Node(
        name=name,
        index=index,
        link=link if isinstance(link, Link) else Link(link, since=WALL - 60),
        rack=f"rack-{index // per_rack + 1:02}",
        pod="pod-1",
        leaves={f"mlx5_{i}": f"leaf-{index // per_rack + 1:02}-{i}" for i in range(ports)},
        gpus=tuple(
            GpuIdentity(index=i, name="NVIDIA H100 80GB HBM3", uuid=f"GPU-{index:04x}-{i}", pci=_pci(i))
            for i in range(gpus)
        ),
        ports=tuple(PortIdentity(device=f"mlx5_{i}", layer="InfiniBand", pci=_pci(i + 64)) for i in range(ports)),
        gpu_first=index * gpus,
        port_first=index * ports,
        frame_mono=MONO - age_s if seen else None,
        frame_wall=WALL - age_s if seen else None,
        tick_s=2.0,
        clock_offset_s=0.0 if seen else None,
        boot_id="5f2f7d3e-0000-4000-8000-000000000000" if seen else "",
        kernel="5.15.0-1049-nvidia" if seen else "",
        notes=notes.get(name, {}),
        frames=10 if seen else 0,
        version=1,
        expected_gpus=gpus,
        **(_parts(index, gpus, devices) if devices else {}),
    )


def _parts(index: int, gpus: int, devices: Mapping[Scope, tuple[str, ...]]) -> dict[str, Any]:
    """Return what a node has from its parts."""
    abouts: dict[tuple[Scope, str], Mapping[str, str]] = {}
    for at, name in enumerate(devices.get(Scope.PCIE, ())):
        abouts[Scope.PCIE, name] = {"driver": "nvidia" if at < gpus else "mlx5_core"}
    for name in devices.get(Scope.DISK, ()):
        abouts[Scope.DISK, name] = {"model": "SAMSUNG MZQL23T8HCLS-00A07", "firmware": "GDC5602Q"}
    for name in devices.get(Scope.FS, ()):
        abouts[Scope.FS, name] = {"type": "ext4" if name == "/" else "lustre"}
    processes = tuple(
        GpuProcess(4100 + gpu, gpu, 70_000.0, "C", "python3", "kim", "R", slurm_job="4242") for gpu in range(gpus)
    )
    return {
        "devices": dict(devices),
        "device_first": {scope: index * len(names) for scope, names in devices.items()},
        "about": abouts,
        "words": WORDS,
        "gpu_words": {"gpu_vbios_version": ("96.00.89.00.01",) * gpus},
        "processes": processes,
        "tasks": (),
        "parts": {name: PartAge(MONO - 12, every_s) for name, every_s in GROUPS.items()},
    }


def _pci(position: int) -> str:
    return f"0000:{0x18 + position:02x}:00.0"


def _table(scope: Scope, rows: int) -> Table:
    metrics = tuple(metric.id for metric in catalogue().values() if metric.scope is scope)
    counters = tuple(metric for metric in metrics if catalogue()[metric].kind is Kind.COUNTER)
    column = np.array([[HEALTHY.get(metric, 0.0)] for metric in metrics], dtype=np.float64).reshape(len(metrics), 1)
    return Table(
        scope=scope,
        metrics=metrics,
        values=np.repeat(column, rows, axis=1),
        reasons=np.zeros((len(metrics), rows), np.uint8),
        counters=counters,
        totals=np.zeros((len(counters), rows), np.uint64),
        total_reasons=np.zeros((len(counters), rows), np.uint8),
        since_first=np.zeros((len(counters), rows), np.uint64),
        first_at=np.full(rows, WALL - 600.0),
        index={metric: position for position, metric in enumerate(metrics)},
        counter_index={metric: position for position, metric in enumerate(counters)},
    )


def _at(snapshot: FleetSnapshot, place: str) -> tuple[Table, int]:
    node = snapshot.node(node_of(place))
    for scope in Scope:
        for position, row in enumerate(snapshot.rows(node, scope)):
            if snapshot.place(node, scope, position) == place:
                return snapshot.tables[scope], row
    raise KeyError(place)


def _put(snapshot: FleetSnapshot, place: str, metric: str, value: Value) -> None:
    table, row = _at(snapshot, place)
    column = table.index[metric]
    reason = value.reason if isinstance(value, Missing) else value if isinstance(value, Reason) else Reason.PRESENT
    table.reasons[column, row] = reason
    table.values[column, row] = np.nan if reason is not Reason.PRESENT else float(value)  # type: ignore[arg-type]
    if metric in table.counter_index and reason not in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET):
        table.total_reasons[table.counter_index[metric], row] = reason


def _put_all(snapshot: FleetSnapshot, place: str, reason: Reason) -> None:
    node = snapshot.node(node_of(place))
    for scope in Scope:
        for position in range(len(snapshot.rows(node, scope))):
            other = snapshot.place(node, scope, position)
            if place in (node.name, other):
                for metric in snapshot.tables[scope].metrics:
                    if snapshot.catalogue[metric].tier != "console" or place != node.name:
                        _put(snapshot, other, metric, reason)
