"""What smartctl and nvme print of a simulated node's disks."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stethoscope.sim.board import DISKS
from stethoscope.sim.files.disks import FIRMWARE, MODEL, SECTORS, temperature_c
from stethoscope.sim.machine import READ_BYTES, WRITE_BYTES

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

CONTROLLERS = tuple(disk[: disk.rindex("n")] for disk in DISKS)
_UNIT = 512_000
"""Bytes of what NVMe calls a data unit."""


def number_of(name: str) -> int | None:
    """Return the number of a disk by its name or its controller's, None for one that is not there."""
    base = name.removeprefix("/dev/")
    return next((n for n, disk in enumerate(DISKS) if base in (disk, CONTROLLERS[n])), None)


def health(view: View, disk: int) -> dict[str, int]:
    """Return the health log of a disk, by smartctl's names."""
    hours = int(9_000 + 9_000 * view.draw("disk age", len(DISKS))[disk] + view.uptime_s / 3600)
    reads, writes = view.total("disk_reads")[disk], view.total("disk_writes")[disk]
    return {
        "critical_warning": round(view.state("nvme_critical_warning", 0, disk=disk)),
        "temperature": temperature_c(view, disk),
        "available_spare": round(view.state("nvme_available_spare", 100, disk=disk)),
        "available_spare_threshold": 10,
        "percentage_used": round(view.state("nvme_percentage_used", 2 + hours // 1_500 + 2 * (disk > 0), disk=disk)),
        "data_units_read": reads * READ_BYTES // _UNIT,
        "data_units_written": writes * WRITE_BYTES // _UNIT,
        "host_reads": reads,
        "host_writes": writes,
        "controller_busy_time": view.total("disk_io_time")[disk] // 60_000,
        "power_cycles": 21,
        "power_on_hours": hours,
        "unsafe_shutdowns": 9,
        "media_errors": view.count("nvme_media_errors", 0, disk=disk),
        "num_err_log_entries": view.count("smart_reallocated_sectors", 0, disk=disk),
        "warning_temp_time": 0,
        "critical_comp_time": 0,
    }


def smartctl(view: View, disk: int, arguments: list[str]) -> tuple[int, str]:
    """Return exit status and output of smartctl with these arguments, which ask for everything as JSON."""
    log = health(view, disk)
    failing = log["critical_warning"] != 0
    status = 8 if failing else 0
    now = datetime.fromtimestamp(view.wall_s, UTC)
    device = f"/dev/{CONTROLLERS[disk]}"
    document: dict[str, Any] = {
        "json_format_version": [1, 0],
        "smartctl": {
            "version": [7, 2],
            "svn_revision": "5155",
            "platform_info": f"x86_64-linux-{view.build.kernel}",
            "build_info": "(local build)",
            "argv": ["smartctl", *arguments],
            "exit_status": status,
        },
        "device": {"name": device, "info_name": device, "type": "nvme", "protocol": "NVMe"},
        "model_name": MODEL,
        "serial_number": serial(view, disk),
        "firmware_version": FIRMWARE,
        "nvme_pci_vendor": {"id": 5197, "subsystem_id": 5197},
        "nvme_total_capacity": SECTORS * 512,
        "nvme_unallocated_capacity": 0,
        "nvme_number_of_namespaces": 32,
        "local_time": {"time_t": int(view.wall_s), "asctime": f"{now:%a %b %e %H:%M:%S %Y} UTC"},
        "smart_status": {"passed": not failing, "nvme": {"value": log["critical_warning"]}},
        "nvme_smart_health_information_log": log,
        "temperature": {"current": log["temperature"]},
        "power_cycle_count": log["power_cycles"],
        "power_on_time": {"hours": log["power_on_hours"]},
    }
    is_compact = "--json=c" in arguments
    separators = (",", ":") if is_compact else None
    return status, json.dumps(document, indent=None if is_compact else 2, separators=separators) + "\n"


def serial(view: View, disk: int) -> str:
    """Return the serial number of a disk."""
    return f"S64GNE0T{int(1e6 * view.draw('disk serial', len(DISKS))[disk]):06d}"


def nvme_log(view: View, disk: int) -> str:
    """Return what `nvme smart-log -o json` prints of a disk."""
    log = health(view, disk)
    names = {
        "available_spare": "avail_spare", "available_spare_threshold": "spare_thresh",
        "percentage_used": "percent_used", "host_reads": "host_read_commands",
        "host_writes": "host_write_commands",
    }  # fmt: skip
    document = {names.get(name, name): value for name, value in log.items()}
    # This tool gives kelvins.
    document["temperature"] += 273
    return json.dumps(document, indent=2) + "\n"


def nvme_list(view: View) -> str:
    """Return what `nvme list -o json` prints."""
    found = [
        {
            "NameSpace": 1,
            "DevicePath": f"/dev/{name}",
            "Firmware": FIRMWARE,
            "ModelNumber": MODEL,
            "SerialNumber": serial(view, disk),
            "UsedBytes": SECTORS * 512,
            "MaximumLBA": SECTORS,
            "PhysicalSize": SECTORS * 512,
            "SectorSize": 512,
        }
        for disk, name in enumerate(DISKS)
    ]
    return json.dumps({"Devices": found}, indent=2) + "\n"
