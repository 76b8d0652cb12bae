"""Disks and software RAIDs from /proc/diskstats and /sys/block; partitions and what is built of them are left out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import ERROR, UNSUPPORTED, line, numbers, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_WHOLE = re.compile(r"sd[a-z]{1,4}|nvme\d{1,4}n\d{1,4}|vd[a-z]{1,3}|xvd[a-z]{1,3}|mmcblk\d{1,3}|md\d{1,4}", re.ASCII)
_SECTOR = 512
"""Bytes of what the kernel counts as a sector, whatever the disk's own are."""
_COLUMNS = 11
"""Columns behind the name that every kernel has; later ones count discards and flushes."""
_LONGEST = 256
_SENSOR = "/temp1_input"
_TEMPERATURE = re.compile(r"/sys/block/(nvme[^/]+)/device/(?:device/hwmon/)?hwmon\d*/temp1_input")
_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending"})
"""States of a software RAID that follow each other all the time."""
_DESCRIPTIONS = (
    "device/model", "device/firmware_rev", "device/rev", "device/state", "size", "queue/rotational",
    "md/level", "md/array_state", "md/degraded",
)  # fmt: skip
_METRICS = (
    "disk_reads",
    "disk_writes",
    "disk_read_bytes",
    "disk_write_bytes",
    "disk_read_time",
    "disk_write_time",
    "disk_io_time",
)


def read(part: wire.Part) -> Facts:
    """Return the counters of each disk and what it is."""
    text = part.files.get("/proc/diskstats")
    if text is None:
        return Facts(part.name)
    rows: dict[str, list[Cell]] = {}
    for entry in text.split("\n"):
        columns = entry.split()
        if len(columns) < 3 + _COLUMNS or not _WHOLE.fullmatch(columns[2]):
            continue
        counts = numbers(columns[3 : 3 + _COLUMNS])
        if (
            counts is not None
            and not counts[0]
            and not counts[4]
            and line(part, f"/sys/block/{columns[2]}/size") == "0"
        ):
            continue  # A drive without a medium, such as the virtual one of a BMC.
        rows[columns[2]] = [ERROR] * len(_METRICS) if counts is None else _row(counts)
    values: dict[str, list[Cell]] = {
        metric: [row[position] for row in rows.values()] for position, metric in enumerate(_METRICS)
    }
    temperatures = _temperatures(part)
    values["nvme_temperature"] = [temperatures.get(name, UNSUPPORTED) for name in rows]
    about = {name: _about(part, name) for name in rows}
    return Facts(part.name, devices={Scope.DISK: Devices(tuple(rows), values, about)})


def _row(counts: list[int]) -> list[Cell]:
    reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, _, io_ms, _ = counts
    return [reads, writes, sectors_read * _SECTOR, sectors_written * _SECTOR, read_ms, write_ms, io_ms]


def _temperatures(part: wire.Part) -> dict[str, Cell]:
    """Return the temperature in degrees of each NVMe disk whose driver gives it in thousandths."""
    found: dict[str, Cell] = {}
    for path, text in part.files.items():
        match = _TEMPERATURE.fullmatch(path) if path.endswith(_SENSOR) else None
        if match:
            thousandths = whole(text)
            found[match[1]] = ERROR if thousandths is None else thousandths / 1000
    for path, word in part.failed.items():
        match = _TEMPERATURE.fullmatch(path)
        if match:
            found.setdefault(match[1], word)
    return found


def _about(part: wire.Part, name: str) -> Mapping[str, str]:
    folder = f"/sys/block/{name}/"
    return _described(*[part.files.get(folder + file, "")[:_LONGEST] for file in _DESCRIPTIONS])


@lru_cache(maxsize=4096)
def _described(
    model: str,
    firmware: str,
    revision: str,
    state: str,
    sectors: str,
    rotational: str,
    raid: str,
    array: str,
    missing: str,
) -> Mapping[str, str]:
    count, degraded = whole(sectors), whole(missing)
    said = {
        "model": " ".join(model.split()),
        "firmware": firmware.strip() or revision.strip(),
        "size": size(count * _SECTOR) if count and count > 0 else "",
        "rotational": {"0": "no", "1": "yes"}.get(rotational.strip(), ""),
        "state": state.strip() or ("running" if array.strip() in _RUNNING else array.strip()),
        "raid": raid.strip(),
        "degraded": f"{degraded} missing" if degraded else "",
    }
    return {key: text for key, text in said.items() if text}


def size(count: int) -> str:
    """Return bytes as disks are sold: `3.84 TB`, `480 GB`."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"
