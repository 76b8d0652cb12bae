"""Disks of a simulated node: what the kernel counts of them, and what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim.board import DISKS
from stethoscope.sim.machine import READ_BYTES, WRITE_BYTES

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

MODEL = "SAMSUNG MZQL23T8HCLS-00A07"
FIRMWARE = "GDC5902Q"
SECTORS = 7_501_476_528
_PARTS = ((259, 1, "nvme0n1p1", 0.001), (259, 2, "nvme0n1p2", 0.999))


def files(view: View) -> dict[str, str]:
    """Return /proc/diskstats and the files of each disk below /sys/block."""
    found = {"/proc/diskstats": _diskstats(view)}
    for disk, name in enumerate(DISKS):
        base = f"/sys/block/{name}"
        found[f"{base}/device/model"] = f"{MODEL:<40}\n"
        found[f"{base}/device/firmware_rev"] = f"{FIRMWARE:<8}\n"
        found[f"{base}/device/state"] = "live\n"
        found[f"{base}/size"] = f"{SECTORS}\n"
        found[f"{base}/queue/rotational"] = "0\n"
        found[f"{base}/device/hwmon{disk + 2}/temp1_input"] = f"{1000 * temperature_c(view, disk) - 150}\n"
    found["/sys/block/md0/size"] = f"{2 * (SECTORS - 264_192)}\n"
    found["/sys/block/md0/queue/rotational"] = "0\n"
    # An array without redundancy cannot be degraded and has no file for it.
    found["/sys/block/md0/md/level"] = "raid0\n"
    found["/sys/block/md0/md/array_state"] = "clean\n"
    return found


def temperature_c(view: View, disk: int) -> int:
    """Return the temperature of a disk: a few degrees more while data is loaded."""
    warmth = float(view.twin.machine.loading[view.node])
    usual = 33 + round(6 * view.draw("disk temperature", len(DISKS))[disk]) + round((3 if disk else 1) * min(warmth, 1))
    return round(view.state("nvme_temperature", usual, disk=disk))


def _diskstats(view: View) -> str:
    columns = [view.total(f"disk_{what}") for what in ("reads", "read_time", "writes", "write_time", "io_time")]
    lines, array = [], [0, 0, 0, 0, 0]
    for disk, name in enumerate(DISKS):
        counts = [column[disk] for column in columns]
        lines.append(_line(259, 3 * disk, name, counts))
        if disk == 0:
            lines.extend(
                _line(major, minor, part, [int(share * count) for count in counts])
                for major, minor, part, share in _PARTS
            )
        else:
            array = [total + count for total, count in zip(array, counts, strict=True)]
    # An array has no queue of its own: the kernel counts its requests and the longer of the busy times.
    lines.append(_line(9, 0, "md0", [*array[:4], max(columns[4][1:])]))
    return "".join(lines)


def _line(major: int, minor: int, name: str, counts: list[int]) -> str:
    reads, read_ms, writes, write_ms, busy_ms = counts
    return (
        f"{major:4d} {minor:7d} {name} {reads} 0 {reads * READ_BYTES // 512} {read_ms} {writes} 0 "
        f"{writes * WRITE_BYTES // 512} {write_ms} 0 {busy_ms} {read_ms + write_ms} 0 0 0 0 0 0\n"
    )
