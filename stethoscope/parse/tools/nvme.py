"""`nvme smart-log -o json` and `nvme list -o json` of nvme-cli 1 and 2: numbers are numbers, texts, or objects there.

The temperature of the JSON is in kelvin. A value of all ones means that the drive does not say.
"""

from __future__ import annotations

from typing import Any

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.tools import values
from stethoscope.parse.tools.documents import documents
from stethoscope.parse.tools.drive_text import nvme_documents
from stethoscope.parse.tools.errors import without_values
from stethoscope.text import clean

TOOL = "nvme"

_KELVIN = 273
_NAMES: dict[str, tuple[str, str]] = {
    "critical_warning": ("nvme_critical_warning", "bits"), "temperature": ("nvme_temperature", "C"),
    "avail_spare": ("nvme_available_spare", "%"), "spare_thresh": ("nvme_spare_threshold", "%"),
    "percent_used": ("nvme_percentage_used", "%"), "data_units_read": ("nvme_data_units_read", "1000 x 512 B"),
    "data_units_written": ("nvme_data_units_written", "1000 x 512 B"), "media_errors": ("nvme_media_errors", "errors"),
    "num_err_log_entries": ("nvme_error_log_entries", ""), "unsafe_shutdowns": ("nvme_unsafe_shutdowns", ""),
    "power_on_hours": ("smart_power_on_hours", "h"), "power_cycles": ("nvme_power_cycles", ""),
    "controller_busy_time": ("nvme_busy_time", "min"), "warning_temp_time": ("nvme_warning_temp_time", "min"),
    "critical_comp_time": ("nvme_critical_temp_time", "min"),
    "thm_temp1_trans_count": ("nvme_throttle_1_count", ""), "thm_temp2_trans_count": ("nvme_throttle_2_count", ""),
    "thm_temp1_total_time": ("nvme_throttle_1_time", "s"), "thm_temp2_total_time": ("nvme_throttle_2_time", "s"),
    "host_read_commands": ("nvme_read_commands", ""), "host_write_commands": ("nvme_write_commands", ""),
    "endurance_grp_critical_warning_summary": ("nvme_endurance_warning", "bits"),
}  # fmt: skip
_WARNINGS = {
    "available_spare": "spare below its threshold", "temp_threshold": "temperature beyond its threshold",
    "reliability_degraded": "reliability degraded", "ro": "read-only", "vmbu_failed": "volatile memory backup failed",
    "pmr_ro": "persistent memory region read-only",
}  # fmt: skip
_BITS = ("spare below its threshold", "temperature beyond its threshold", "reliability degraded", "read-only",
         "volatile memory backup failed", "persistent memory region read-only")  # fmt: skip


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the health log of one drive, or the list of drives; several JSON documents may follow each other, a line
    `# /dev/nvme0` before each names its drive. Raises ToolError for an output without a drive's values."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    empty = False
    for where, document in _documents(text):
        if isinstance(document.get("Devices"), list):
            found = _listed(document["Devices"])
            empty = empty or not found
            items += found
        else:
            items += _log(where, document, remarks, unknown)
    if not items:
        if empty:
            raise ToolError("no_device", "nvme list names no drive")
        raise without_values(text, exit=exit, err=err, tool="nvme")
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _documents(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the documents with the drive that a line before each names."""
    read = documents(text)
    if not read.found and (printed := nvme_documents(text)):
        return printed
    if not read.found and "{" in text:
        raise ToolError("truncated" if read.cut else "not_this_tool", "this is not the JSON that nvme prints")
    named: list[tuple[str, dict[str, Any]]] = []
    where = ""
    for before, document in read.found:
        for line in before.split("\n"):
            if line.startswith("# /dev/"):
                where = line[len("# /dev/") :].strip()
        named.append((where, document))
    return named


def _log(where: str, document: dict[str, Any], remarks: list[str], unknown: dict[str, None]) -> list[Item]:
    items = []
    for key, raw in document.items():
        sensor = key.startswith("temperature_sensor_")
        if key not in _NAMES and not sensor:
            unknown[str(key)] = None
            continue
        name, unit = (clean(key, 40), "C") if sensor else _NAMES[key]
        value = _number(raw)
        if (sensor or key == "temperature") and not isinstance(value, Missing | str):
            value = Missing(Reason.UNSUPPORTED) if value == 0 else value - _KELVIN
        level = _level(name, value, document)
        items.append(Item(where, name, value, unit, level))
        if name == "nvme_critical_warning":
            remarks += [f"{where} {words}".strip() for words in _warnings(raw, value)]
        elif level:
            remarks.append(f"{where} {name.removeprefix('nvme_').replace('_', ' ')} {value} {unit}".strip())
    # A document of another tool has none of these names.
    return items if any(item.name in ("nvme_critical_warning", "nvme_percentage_used") for item in items) else []


def _number(raw: Any) -> Value:
    if isinstance(raw, dict):
        raw = raw.get("value")
    if isinstance(raw, bool) or raw is None:
        return Missing(Reason.ERROR)
    if isinstance(raw, int | float):
        if not 0 <= raw < 2**127:
            return Missing(Reason.ERROR)
        return int(raw) if raw == int(raw) else raw
    text = str(raw).replace(",", "")
    if text.startswith("0x"):
        return values.hexadecimal(text)
    return values.only_number(text)


def _level(name: str, value: Value, document: dict[str, Any]) -> str:
    if isinstance(value, Missing | str):
        return ""
    if name == "nvme_critical_warning":
        return "critical" if value else ""
    if name == "nvme_media_errors":
        return "warning" if value else ""
    if name == "nvme_percentage_used":
        return "warning" if value >= 100 else ""
    if name == "nvme_available_spare":
        threshold = _number(document.get("spare_thresh"))
        return "critical" if not isinstance(threshold, Missing | str) and value < threshold else ""
    return ""


def _warnings(raw: Any, value: Value) -> list[str]:
    if isinstance(raw, dict):
        return [words for key, words in _WARNINGS.items() if raw.get(key)]
    if isinstance(value, int):
        return [words for bit, words in enumerate(_BITS) if value & (1 << bit)]
    return []


def _listed(devices: list[Any]) -> list[Item]:
    items: list[Item] = []
    for device in devices:
        if not isinstance(device, dict):
            continue
        if "DevicePath" in device:
            items += _drive(str(device["DevicePath"]).removeprefix("/dev/"), device)
        for subsystem in _dicts(device.get("Subsystems")):
            for controller in _dicts(subsystem.get("Controllers")):
                items += _drive(str(controller.get("Controller", "")), controller)
                for space in _dicts(controller.get("Namespaces")):
                    items += _drive(str(space.get("NameSpace", "")), space)
            for space in _dicts(subsystem.get("Namespaces")):
                items += _drive(str(space.get("NameSpace", "")), space)
    return items


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _drive(where: str, entry: dict[str, Any]) -> list[Item]:
    found = []
    for key, name, unit in (("ModelNumber", "model", ""), ("Firmware", "firmware", ""), ("SerialNumber", "serial", ""),
                            ("Address", "pci", ""), ("PhysicalSize", "size", "B"), ("UsedBytes", "used", "B"),
                            ("SectorSize", "sector", "B")):  # fmt: skip
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            found.append(Item(where, name, value, unit))
        elif isinstance(value, str) and value.strip():
            found.append(Item(where, name, value.strip()))
    return found
