"""The values of a disk from JSON as `smartctl -j -a` prints it, read into the fields that count and nothing else.

What is not as expected, down to the type of one field, is left to the reader of all forms (`tools.smartctl`), which
gives the same values of what is read here and takes ten times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from stethoscope.parse.tools.smartctl import count_of

if TYPE_CHECKING:
    from stethoscope.model.wire import Cell

_Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | UnsetType
_ATTRIBUTES = {5: "smart_reallocated_sectors", 197: "smart_pending_sectors", 198: "smart_uncorrectable"}
"""ATA attribute by number -> its metric."""


class _Status(msgspec.Struct, gc=False):
    passed: bool | UnsetType = UNSET


class _Hours(msgspec.Struct, gc=False):
    hours: _Count = UNSET


class _Log(msgspec.Struct, gc=False):
    critical_warning: _Count = UNSET
    media_errors: _Count = UNSET
    percentage_used: _Count = UNSET
    available_spare: _Count = UNSET
    unsafe_shutdowns: _Count = UNSET
    power_on_hours: _Count = UNSET


class _Raw(msgspec.Struct, gc=False):
    value: _Count = UNSET
    string: str = ""


class _Attribute(msgspec.Struct, gc=False):
    id: int
    raw: _Raw
    when_failed: str = ""


class _Attributes(msgspec.Struct, gc=False):
    table: list[_Attribute]


class _Disk(msgspec.Struct, gc=False):
    smart_status: _Status | UnsetType = UNSET
    power_on_time: _Hours | UnsetType = UNSET
    nvme_smart_health_information_log: _Log | UnsetType = UNSET
    ata_smart_attributes: _Attributes | UnsetType = UNSET
    # Whoever has one of these is no disk of the usual kinds, or not one disk.
    scsi_grown_defect_list: msgspec.Raw | UnsetType = UNSET
    scsi_error_counter_log: msgspec.Raw | UnsetType = UNSET
    devices: msgspec.Raw | UnsetType = UNSET


_decoder = msgspec.json.Decoder(_Disk)


def values_of(text: str) -> dict[str, Cell] | None:
    """Return the value of each metric that a disk gives, None where this is no usual output of smartctl."""
    try:
        disk = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    status, log, table = disk.smart_status, disk.nvme_smart_health_information_log, disk.ata_smart_attributes
    if status is UNSET or status.passed is UNSET:
        return None
    if not (disk.scsi_grown_defect_list is disk.scsi_error_counter_log is disk.devices is UNSET):
        return None
    found: dict[str, Any] = {
        "smart_passed": int(status.passed),
        "smart_power_on_hours": UNSET if disk.power_on_time is UNSET else disk.power_on_time.hours,
    }
    if log is not UNSET:
        found["nvme_critical_warning"] = log.critical_warning
        found["nvme_media_errors"] = log.media_errors
        found["nvme_percentage_used"] = log.percentage_used
        found["nvme_available_spare"] = log.available_spare
        found["nvme_unsafe_shutdowns"] = log.unsafe_shutdowns
        if found["smart_power_on_hours"] is UNSET:
            found["smart_power_on_hours"] = log.power_on_hours
    if table is not UNSET:
        by_number = {attribute.id: attribute for attribute in table.table}
        if len(by_number) < len(table.table) or any(attribute.when_failed for attribute in table.table):
            return None
        for number, metric in _ATTRIBUTES.items():
            if number in by_number:
                found[metric] = _count(by_number[number].raw)
    return {metric: value for metric, value in found.items() if value is not UNSET}


def _count(raw: _Raw) -> int | UnsetType:
    count = count_of(raw.string.strip(), None if raw.value is UNSET else raw.value)
    return UNSET if count is None or not 0 <= count < 2**63 else count
