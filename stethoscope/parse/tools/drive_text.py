"""What `smartctl -a` and `nvme smart-log` print without JSON, as the document that they print with it.

smartctl groups the digits of large numbers as the language of its user does: `1,234`, `1.234`, `1 234`, `1’234`.
"""

from __future__ import annotations

import re
from typing import Any

from stethoscope.parse.tools import values

_COUNT = re.compile(r"\d{1,3}(?:[,.'’ \u00a0\u202f\ufffd]\d{3}){1,9}(?!\d)|\d{1,20}(?![^\w\s%.,]?\d)")
"""With U+FFFD, which is what becomes of a space of another character set; of half a number there is none."""
_IDENTITY = {"model number": "model_name", "device model": "model_name", "product": "model_name",
             "serial number": "serial_number", "firmware version": "firmware_version",
             "revision": "firmware_version"}  # fmt: skip
_LOG = {
    "critical warning": "critical_warning", "temperature": "temperature", "available spare": "available_spare",
    "available spare threshold": "available_spare_threshold", "percentage used": "percentage_used",
    "data units read": "data_units_read", "data units written": "data_units_written",
    "host read commands": "host_reads", "host write commands": "host_writes",
    "controller busy time": "controller_busy_time", "power cycles": "power_cycles", "power on hours": "power_on_hours",
    "unsafe shutdowns": "unsafe_shutdowns", "media and data integrity errors": "media_errors",
    "error information log entries": "num_err_log_entries", "warning comp. temperature time": "warning_temp_time",
    "critical comp. temperature time": "critical_comp_time",
}  # fmt: skip
_ATTRIBUTE = re.compile(
    r"\s{0,4}(\d{1,3}) ([A-Za-z][\w-]{1,30})\s+(?:0x[0-9a-f]{4}|[A-Z-]{6,9})\s+(\d{3}|---)\s+(\d{3}|---)\s+(\d{3}|---)"
    r"\s+(?:(?:Pre-fail|Old_age)\s+\w{5,10}\s+)?(\S{1,12})\s+(\S.{0,80})",
    re.ASCII,
)
_FAILED = {"FAILING_NOW": "now", "NOW": "now", "In_the_past": "past", "Past": "past"}
_ERRORS = re.compile(r"(read|write|verify):(?:\s+[\d.,]{1,24}){6}\s+(\d{1,20})\s*", re.ASCII)
_HOURS = re.compile(r"Accumulated power on time, hours:minutes (\d{1,8}):\d{2}", re.ASCII)
_SENSOR = re.compile(r"temperature sensor \d{1,2}", re.ASCII)
_DEVICE = re.compile(r"\bsmartctl\s.{0,80}?/dev/(\S{1,60})", re.ASCII)
_HEAD = re.compile(r"^smartctl \d\.\d|^=== START OF ", re.MULTILINE)
_NVME_HEAD = re.compile(r"Smart Log for NVME device:\s?(\S{1,40})", re.IGNORECASE)
_NVME = {
    "available_spare": "avail_spare", "available_spare_threshold": "spare_thresh", "percentage_used": "percent_used",
    "warning_temperature_time": "warning_temp_time", "critical_composite_temperature_time": "critical_comp_time",
    "endurance_group_critical_warning_summary": "endurance_grp_critical_warning_summary",
    **{f"thermal_management_t{number}_{printed}": f"thm_temp{number}_{name}" for number in (1, 2)
       for printed, name in (("trans_count", "trans_count"), ("total_time", "total_time"))},
}  # fmt: skip
"""Labels of `nvme smart-log` that the JSON has other names for."""


def is_smartctl(text: str) -> bool:
    """Return whether `text` has a line that every output of smartctl without JSON begins with."""
    return _HEAD.search(text) is not None


def smartctl_documents(text: str) -> list[dict[str, Any]]:
    """Return a document for each disk of which `text` says something, as `smartctl -j` has them."""
    if not is_smartctl(text):
        return []
    found: list[dict[str, Any]] = []
    device = ""
    for line in values.lines(text):
        command = _DEVICE.search(line[:200])
        if command is not None:
            device = command[1]
        elif line.startswith("smartctl ") or not found:
            found.append({"smartctl": {}})
            if device:
                found[-1]["device"], device = {"name": device}, ""
        if found:
            _line(line, found[-1])
    return [document for document in found if len(document) > 1]


def _line(line: str, document: dict[str, Any]) -> None:
    attribute = _ATTRIBUTE.fullmatch(line.rstrip())
    if attribute is not None:
        number, raw = int(attribute[1]), attribute[7]
        table = document.setdefault("ata_smart_attributes", {"table": []})["table"]
        failed = _FAILED.get(attribute[6], "")
        table.append({"id": number, "name": attribute[2], "when_failed": failed, "raw": {"string": raw}})
        count = re.match(r"\d{1,9}", raw, re.ASCII)
        if number == 9 and count:
            document["power_on_time"] = {"hours": int(count[0])}
        elif number in (190, 194) and count:
            document.setdefault("temperature", {"current": int(count[0])})
    elif (errors := _ERRORS.fullmatch(line)) is not None:
        log = document.setdefault("scsi_error_counter_log", {})
        log[errors[1]] = {"total_uncorrected_errors": int(errors[2])}
    elif (hours := _HOURS.match(line)) is not None:
        document["power_on_time"] = {"hours": int(hours[1])}
    elif ":" in line:
        label, _, said = line.partition(":")
        _pair(" ".join(label.lower().split()), said.strip(), document)


def _pair(label: str, said: str, document: dict[str, Any]) -> None:
    if label in _IDENTITY:
        document.setdefault(_IDENTITY[label], said)
    elif label in ("smart overall-health self-assessment test result", "smart health status"):
        document["smart_status"] = {"passed": said.upper() in ("PASSED", "OK")}
    elif label == "elements in grown defect list" and said.isdigit():
        document["scsi_grown_defect_list"] = count(said)
    elif label == "current drive temperature":
        document["temperature"] = {"current": count(said)}
    elif label == "ata error count":
        document["ata_smart_error_log"] = {"summary": {"count": count(said)}}
    elif label in _LOG:
        number = values.hexadecimal(said) if said.startswith("0x") else count(said)
        document.setdefault("nvme_smart_health_information_log", {})[_LOG[label]] = number
    elif _SENSOR.fullmatch(label):
        log = document.setdefault("nvme_smart_health_information_log", {})
        log.setdefault("temperature_sensors", []).append(count(said))


def nvme_documents(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the drive and the document of each log in `text`, as `nvme smart-log -o json` has them."""
    found: list[tuple[str, dict[str, Any]]] = []
    for line in values.lines(text):
        head = _NVME_HEAD.search(line[:200])
        label, mark, said = line[:400].partition(":")
        if head is not None:
            found.append((head[1], {}))
        elif found and mark:
            name = values.name_of(label)
            kelvin = re.search(r"(\d{1,4})\s?K\b", said, re.ASCII)
            number: Any = int(kelvin[1]) if kelvin is not None else count(said)
            if name.startswith("temperature") and kelvin is None and isinstance(number, int):
                number += 273
            if said.strip().startswith("0x"):
                number = values.hexadecimal(said)
            found[-1][1].setdefault(_NVME.get(name, name), number)
    return [(where, document) for where, document in found if document]


def count(said: str) -> int | None:
    """Return the whole number that a text begins with, however its digits are grouped; None where there is none."""
    match = _COUNT.match(said.strip())
    return None if match is None else int(re.sub(r"\D", "", match[0]))
