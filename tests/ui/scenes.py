"""Snapshots for pictures and tests of screens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.model.event import LogEvent
from stethoscope.model.facts import Task
from stethoscope.model.finding import Fact, Finding, Severity
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Reason
from tests.builders import DEVICES, WALL, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

EVIL = (
    "\x1b]52;c;aGVsbG8=\x1b\\", "\x1b[31mred", "\x9b31m", "\x1b]0;title\x07", "[/x]", "[@click=app.quit]press[/]",
    "[INFO] eaten", "[link=http://x]y", "\u202eesrever", "a\x00b\rc\nd\te", "e\u0301\u0301\u0301\u0301", "\ud800",
)  # fmt: skip
"""Texts that break screens which trust them."""


def healthy(nodes: int = 64) -> FleetSnapshot:
    """Return a fleet in which nothing is wrong."""
    return fleet(nodes, name="prod-a")


def finding(
    severity: str, where: str, summary: str, since: str, rule: str = "rule", fact: Fact | None = None
) -> Finding:
    """Return an active finding at one place."""
    node = where.split("/")[0]
    evidence = (fact,) if fact else ()
    return Finding(f"{rule}:{where}", rule, Severity(severity), (where,), node, since, summary, evidence=evidence)


def troubled(nodes: int = 64) -> FleetSnapshot:
    """Return a fleet with one of everything that can be wrong."""
    hung = {(f"gpu-009/gpu/{index}", "gpu_sm_clock"): Reason.HUNG for index in range(8)}
    return fleet(
        nodes,
        name="prod-a",
        simulated=True,
        set=hung
        | {
            ("gpu-011/gpu/4", "gpu_sm_clock"): 1410,
            ("gpu-011/gpu/4", "gpu_temp"): 88,
            ("gpu-011/gpu/4", "gpu_temp_margin"): -3,
            ("gpu-011/gpu/4", "gpu_clocks_event_reasons"): 0x40,
            ("gpu-007/ib/mlx5_3", "ib_symbol_error"): 41,
            ("gpu-020/gpu/2", "gpu_sm_clock"): 1770,
            ("gpu-003/gpu/1", "gpu_fb_used"): Reason.UNSUPPORTED,
        },
        totals={("gpu-007/ib/mlx5_3", "ib_symbol_error"): 8123, ("gpu-007/ib/mlx5_5", "ib_link_downed"): 255},
        lost=["gpu-002/gpu/2", "gpu-014"] if nodes >= 20 else ["gpu-002/gpu/2"],
        links={"gpu-014": Link(LinkState.UNREACHABLE, WALL - 95, "no route to host")} if nodes >= 20 else {},
        waiting=["gpu-018"] if nodes >= 20 else [],
        ages={"gpu-016": 14.0},
        notes={"gpu-009": {"nvml": "hung"}} | {f"gpu-{n:03}": {"kernel_log": "permission"} for n in (1, 2, 7)},
        findings=[
            finding("P1", "gpu-007/ib/mlx5_3", "sick link: symbol errors +41/s", "2026-03-14T02:11:07Z", "link",
                    Fact("ib_symbol_error", 41.0, "0", "gpu-007/ib/mlx5_3", "", "sysfs")),
            finding("P0", "gpu-009", "GPU driver not answering, 3 tasks in D state", "2026-03-14T02:13:26Z", "driver"),
            finding("P0", "gpu-002/gpu/2", "fell off the bus (Xid 79)", "2026-03-14T02:13:40Z", "bus"),
            finding("P1", "gpu-011/gpu/4", "thermal: 88 °C, 570 MHz under peers", "2026-03-14T02:02:07Z", "thermal"),
            finding("P1", "gpu-014", "cannot be reached", "2026-03-14T02:12:32Z", "reach"),
            finding("P2", "gpu-020/gpu/2", "clock 11 % under peers", "2026-03-14T01:02:07Z", "clock"),
        ],
        events=[
            LogEvent("gpu-002", "kernel", "NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.", WALL - 27,
                     level=3, xid=79, pci="0000:1a:00"),
            LogEvent("gpu-002", "kernel", "mlx5_core 0000:58:00.0: temperature high", WALL - 20),
        ],
    )  # fmt: skip


def hostile(nodes: int = 4) -> FleetSnapshot:
    """Return a fleet all of whose words are evil, as if nothing had been cleaned."""
    names = [f"n{index}{text.replace('/', '|')}" for index, text in enumerate(EVIL)]
    everywhere = " ".join(EVIL)
    return fleet(
        names=names,
        name=everywhere,
        links={names[0]: Link(LinkState.ERROR, WALL - 5, everywhere)},
        notes={names[1]: {everywhere: everywhere}},
        findings=[
            finding("P0", name, text, "2026-03-14T02:11:07Z", name) for name, text in zip(names, EVIL, strict=True)
        ],
        events=[LogEvent(names[1], everywhere, everywhere, WALL)],
    )


def sick(nodes: int = 8) -> FleetSnapshot:
    """Return a fleet with parts, one node of which has something wrong in every section."""
    name = "gpu-003"
    snapshot = fleet(
        nodes,
        name="prod-a",
        devices=DEVICES,
        set={
            (f"{name}/gpu/4", "gpu_temp"): 88,
            (f"{name}/gpu/4", "gpu_temp_margin"): -3,
            (f"{name}/gpu/4", "gpu_clocks_event_reasons"): 0x40,
            (f"{name}/gpu/4", "gpu_throttle_time_hw_thermal"): 450_000,
            (f"{name}/gpu/5", "nvlink_active_count"): 17,
            (f"{name}/nvlink/5/11", "nvlink_state"): 0,
            (f"{name}/nvlink/5/12", "nvlink_crc_errors"): 3,
            (f"{name}/pcie/0000:1b:00.0", "pcie_link_width"): 8,
            (f"{name}/pcie/0000:1b:00.0", "pcie_aer_correctable"): 2.5,
            (f"{name}/ib/mlx5_2", "ib_port_rate"): 200,
            (f"{name}/ib/mlx5_3", "ib_symbol_error"): 41,
            (f"{name}/fs/scratch", "fs_used"): 99,
            (f"{name}/disk/nvme1n1", "smart_passed"): 0,
            (name, "zombie_gpu_holders"): 1,
        },
        totals={
            (f"{name}/ib/mlx5_3", "ib_symbol_error"): 8123,
            (f"{name}/ib/mlx5_5", "ib_link_downed"): 255,
            (f"{name}/nvlink/5/12", "nvlink_crc_errors"): 300,
            (f"{name}/pcie/0000:1b:00.0", "pcie_aer_correctable"): 1234,
        },
        notes={name: {"kernel_log": "permission: needs group systemd-journal"}},
        findings=[
            finding("P1", f"{name}/gpu/4", "thermal: 88 °C", "2026-03-14T02:02:07Z", "thermal",
                    Fact("gpu_temp", 88.0, "below 83 °C", f"{name}/gpu/4", "", "nvml")),
        ],
        events=[LogEvent(name, "kernel", "NVRM: Xid (PCI:0000:1c:00): 74, NVLink error", WALL - 27, xid=74)],
    )  # fmt: skip
    node = replace(
        snapshot.node(name),
        tasks=(
            Task(99, "D", "python3", "kim", "nvidia_ioctl", on_gpu=True),
            Task(101, "Z", "nccl", "kim", on_gpu=True),
            Task(120, "D", "ls", "bob", "rpc_wait"),
        ),
    )
    return replace(snapshot, nodes=tuple(node if old.name == name else old for old in snapshot.nodes))
