"""`smartctl -j` with `-a` or `-x`, version 7 and later: health of NVMe, ATA and SCSI disks, also behind a RAID.

Without -j its text is read as far as the JSON has the same (drive_text).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stethoscope.model.report import Item, Report, ToolError
from stethoscope.parse.tools.documents import documents
from stethoscope.parse.tools.drive_text import is_smartctl, smartctl_documents
from stethoscope.parse.tools.errors import without_values
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "smartctl"
MAX_TEXT = 4 * 1024 * 1024

_WORDS = {"model_name": "model", "scsi_model_name": "model", "firmware_version": "firmware", "revision": "firmware",
          "scsi_revision": "firmware", "serial_number": "serial"}  # fmt: skip
_LOG = "nvme_smart_health_information_log"
_NVME = {
    "critical_warning": ("nvme_critical_warning", "bits"),
    "media_errors": ("nvme_media_errors", "errors"),
    "percentage_used": ("nvme_percentage_used", "%"),
    "available_spare": ("nvme_available_spare", "%"),
    "available_spare_threshold": ("nvme_available_spare_threshold", "%"),
    "unsafe_shutdowns": ("nvme_unsafe_shutdowns", "events"),
    "num_err_log_entries": ("nvme_error_log_entries", "entries"),
    "temperature": ("temperature", "C"),
    "power_cycles": ("power_cycles", "events"),
    "data_units_read": ("data_units_read", "1000 sectors"),
    "data_units_written": ("data_units_written", "1000 sectors"),
    "host_reads": ("host_reads", "operations"),
    "host_writes": ("host_writes", "operations"),
    "controller_busy_time": ("controller_busy_time", "min"),
    "warning_temp_time": ("warning_temperature_time", "min"),
    "critical_comp_time": ("critical_temperature_time", "min"),
}
_READ_ELSEWHERE = frozenset({"power_on_hours", "temperature_sensors", "nsid"})
_ATTRIBUTES = {
    5: ("smart_reallocated_sectors", "sectors"),
    187: ("reported_uncorrectable", "errors"),
    188: ("command_timeouts", "events"),
    197: ("smart_pending_sectors", "sectors"),
    198: ("smart_uncorrectable", "sectors"),
    199: ("crc_errors", "errors"),
}
"""ATA attributes by number: their names differ between vendors."""
_PACKED = frozenset({188})
"""Attributes whose raw value is several 16-bit counts in one."""
_SAID = 200
_KEYS = re.compile(
    r'"(?:smartctl|json_format_version|smart_status|power_on_time|(?:ata|nvme|scsi)_\w{4,40})"', re.ASCII
)
"""Keys of which one stands in any output of smartctl that is not cut off at once; their order differs."""
_LEADING = re.compile(r"-?\d{1,20}", re.ASCII)
_WORN = 100
_FAILING, _PREFAIL = 8, 16
"""Bits of the exit status: the disk fails now; an attribute is below its threshold."""
_SECTIONS = frozenset({
    "json_format_version", "smartctl", "device", "smart_status", "temperature", "power_on_time", "power_cycle_count",
    "ata_smart_attributes", "scsi_error_counter_log", "scsi_grown_defect_list", "user_capacity", "local_time",
    "smart_support", "nvme_total_capacity", "logical_block_size", "physical_block_size", "rotation_rate",
    "ata_smart_error_log", "ata_smart_self_test_log", "endurance_used", "spare_available", "nvme_self_test_log",
    "scsi_percentage_used_endurance_indicator", _LOG, *_WORDS,
})  # fmt: skip


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the values of each disk; raises ToolError for an output that holds none."""
    reports: list[Report] = []
    failure: ToolError | None = None
    for document in _documents(text, exit, err):
        try:
            reports.append(_disk(document, exit, err))
        except ToolError as error:
            failure = failure or error
    if not reports:
        raise failure or without_values(text, exit=exit, err=err, tool=TOOL)
    if len(reports) == 1:
        return reports[0]
    return Report(
        TOOL,
        tuple(item for report in reports for item in report.items),
        tuple(f"{report.items[0].where}: {remark}" for report in reports for remark in report.remarks),
        tuple(dict.fromkeys(name for report in reports for name in report.unknown)),
    )


def _disk(document: dict[str, Any], exit: int, err: str) -> Report:  # noqa: A002  the shell's word
    device = document.get("device")
    where = ""
    if isinstance(device, dict):
        where = clean(str(device.get("info_name") or device.get("name") or ""), 80).removeprefix("/dev/")
    items = [
        *_identity(document),
        *_health(document),
        *_nvme(document.get(_LOG)),
        *_ata(document.get("ata_smart_attributes")),
        *_scsi(document),
    ]
    remarks = tuple(dict.fromkeys(_remarks(document)))
    values = [
        item for item in items if item.name not in _WORDS.values() and item.name not in ("capacity", "exit_status")
    ]
    if not values:
        raise _nothing(remarks, document, exit, err)
    unknown = [name for name in document if name not in _SECTIONS and not name.startswith("scsi_self_test_")]
    log = document.get(_LOG)
    if isinstance(log, dict):
        unknown += [f"{_LOG}/{name}" for name in log if name not in _NVME and name not in _READ_ELSEWHERE]
    return Report(
        TOOL,
        tuple([Item(where, *item[1:]) for item in items]),
        remarks,
        tuple([clean(name, 120) for name in unknown]),
    )


def _documents(text: str, exit: int, err: str) -> list[dict[str, Any]]:  # noqa: A002  the shell's word
    if len(text) > MAX_TEXT:
        raise ToolError("not_this_tool", f"smartctl printed {len(text):,} characters")
    read = documents(text)
    known = [document for _, document in read.found if document.keys() & {"smartctl", "smart_status", _LOG}]
    if known:
        if all("devices" in document for document in known):
            raise ToolError("not_this_tool", "this is smartctl's list of disks, not what it says of one")
        return [document for document in known if "devices" not in document]
    if read.cut and _KEYS.search(text):
        raise ToolError("truncated", "the output of smartctl ends in its middle")
    if printed := smartctl_documents(text):
        return printed
    if read.found:
        raise ToolError("not_this_tool", "this JSON is not what smartctl prints")
    error = without_values(text, exit=exit, err=err, tool=TOOL)
    if error.reason == "not_this_tool" and is_smartctl(text):
        raise ToolError("empty", "smartctl printed no values")
    raise error


def _nothing(remarks: tuple[str, ...], document: dict[str, Any], exit: int, err: str) -> ToolError:  # noqa: A002
    """Return why there is no value: smartctl says it among its messages."""
    if remarks:
        error = without_values("\n".join(remarks), exit=exit, err=err, tool=TOOL)
        return ToolError("no_answer" if error.reason == "not_this_tool" else error.reason, f"smartctl: {remarks[0]}")
    if "device" in document:
        return ToolError("no_device", "the disk has no SMART values")
    return ToolError("empty", "smartctl printed no values")


def _identity(document: dict[str, Any]) -> Iterator[Item]:
    seen = set[str]()
    for key, name in _WORDS.items():
        word = document.get(key)
        if isinstance(word, str) and name not in seen:
            seen.add(name)
            yield Item("", name, clean(word.strip(), 120))
    capacity = _number(document.get("user_capacity"), "bytes")
    if capacity is None:
        capacity = _number(document, "nvme_total_capacity")
    if capacity:
        yield Item("", "capacity", capacity, "bytes")
    status = _number(document.get("smartctl"), "exit_status")
    if status is not None:
        level = "critical" if int(status) & _FAILING else "warning" if int(status) & _PREFAIL else ""
        yield Item("", "exit_status", status, "bits", level)


def _health(document: dict[str, Any]) -> Iterator[Item]:
    status = document.get("smart_status")
    passed = status.get("passed") if isinstance(status, dict) else None
    if isinstance(passed, bool):
        yield Item("", "smart_passed", int(passed), "", "" if passed else "critical")
    hours = _number(document.get("power_on_time"), "hours")
    if hours is None:
        hours = _number(document.get(_LOG), "power_on_hours")
    if hours is not None:
        yield Item("", "smart_power_on_hours", hours, "h")
    temperature = document.get("temperature")
    current = _number(temperature, "current")
    # A disk that does not measure says 0 or less.
    if current and current > 0 and not isinstance(document.get(_LOG), dict):
        trip = _number(temperature, "drive_trip")
        yield Item("", "temperature", current, "C", "critical" if trip and current >= trip else "")
    # Since 7.5 of every disk that wears; an NVMe disk says the same in its own log.
    if not isinstance(document.get(_LOG), dict):
        used = _number(document.get("endurance_used"), "current_percent")
        if used is None:
            used = _number(document, "scsi_percentage_used_endurance_indicator")
        if used is not None:
            yield Item("", "endurance_used", used, "%", "warning" if used >= _WORN else "")
        spare = _number(document.get("spare_available"), "current_percent")
        if spare is not None:
            low = _number(document.get("spare_available"), "threshold_percent")
            yield Item("", "spare_available", spare, "%", "critical" if low is not None and spare < low else "")
    cycles = _number(document, "power_cycle_count")
    if cycles is not None and not isinstance(document.get(_LOG), dict):
        yield Item("", "power_cycles", cycles, "events")


def _nvme(log: object) -> Iterator[Item]:
    if not isinstance(log, dict):
        return
    for key, (name, unit) in _NVME.items():
        value = _number(log, key)
        if value is not None:
            yield Item("", name, value, unit, _nvme_level(log, key, value))
    sensors = log.get("temperature_sensors")
    for position, sensor in enumerate(sensors if isinstance(sensors, list) else (), 1):
        celsius = _as_number(sensor)
        if celsius is not None:
            yield Item("", f"temperature_sensor_{position}", celsius, "C")


def _nvme_level(log: dict[str, Any], key: str, value: float) -> str:
    """Return what the disk itself calls wrong: its warning bits, and spare blocks below its own threshold."""
    if key == "critical_warning":
        return "critical" if value else ""
    if key == "available_spare":
        threshold = _number(log, "available_spare_threshold")
        return "critical" if threshold is not None and value < threshold else ""
    return ""


def _ata(section: object) -> Iterator[Item]:
    table = section.get("table") if isinstance(section, dict) else None
    for attribute in table if isinstance(table, list) else ():
        if not isinstance(attribute, dict):
            continue
        number = _number(attribute, "id")
        known = None if number is None else _ATTRIBUTES.get(int(number))
        failed = str(attribute.get("when_failed") or "").strip()
        level = {"now": "critical", "FAILING_NOW": "critical"}.get(failed, "warning" if failed else "")
        value = _raw(attribute)
        if known is not None and value is not None:
            yield Item("", known[0], value, known[1], level)
        elif level:
            name = re.sub(r"[^a-z0-9]+", "_", str(attribute.get("name", "")).lower()).strip("_")
            yield Item("", clean(name, 64) or "attribute", "failed" if value is None else value, "", level)


def count_of(said: str, value: float | None) -> int | None:
    """Return the count that the text of an attribute begins with, else its raw value; None where there is neither."""
    match = _LEADING.match(said)
    if match:
        return int(match[0])
    return None if value is None else int(value)


def _raw(attribute: dict[str, Any]) -> int | None:
    """Return the count of an attribute. Its text says how the vendor means the raw value: `0 (Average 22)`."""
    raw = attribute.get("raw")
    if not isinstance(raw, dict):
        return None
    said = str(raw.get("string", "")).strip()
    number = count_of(said, _number(raw, "value"))
    if number is None:
        return None
    if _number(attribute, "id") in _PACKED and " " not in said and number >= 2**16:
        return sum(number >> shift & 0xFFFF for shift in (0, 16, 32))
    return number if 0 <= number < 2**63 else None


def _scsi(document: dict[str, Any]) -> Iterator[Item]:
    defects = _number(document, "scsi_grown_defect_list")
    if defects is not None:
        yield Item("", "smart_reallocated_sectors", defects, "sectors")
    log = document.get("scsi_error_counter_log")
    if not isinstance(log, dict):
        return
    counts = [_number(log.get(way), "total_uncorrected_errors") for way in ("read", "write", "verify") if way in log]
    found = [count for count in counts if count is not None]
    if found and len(found) == len(counts):
        yield Item("", "smart_uncorrectable", sum(found), "errors")


def _remarks(document: dict[str, Any]) -> Iterator[str]:
    """Yield what smartctl says itself: its messages, a failed verdict, errors and failed tests in the disk's logs."""
    head = document.get("smartctl")
    messages = head.get("messages") if isinstance(head, dict) else None
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("string"):
            yield clean(str(message["string"]).strip(), 200)
    log = document.get("ata_smart_error_log")
    for kind in ("extended", "summary"):
        count = _number(log.get(kind), "count") if isinstance(log, dict) else None
        if count:
            yield f"{count:g} errors in the disk's error log"
            break
    for test in _self_tests(document):
        status = test.get("status", test.get("self_test_result", test.get("result")))
        if not isinstance(status, dict) or not status.get("string"):
            continue
        words = str(status["string"])
        # Only the log of ATA says whether a test passed; the others say it in words.
        passed = status.get("passed")
        if passed is False or (
            passed is None and re.search(r"fail|fatal|(?<!without )error", words[:_SAID], re.IGNORECASE)
        ):
            yield clean(f"self-test: {words}", _SAID)


def _self_tests(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the entries of the logs of self-tests, whatever the kind of disk."""
    tests = document.get("ata_smart_self_test_log")
    logs = [tests.get(kind) for kind in ("extended", "standard")] if isinstance(tests, dict) else []
    for log in (*logs, document.get("nvme_self_test_log")):
        table = log.get("table") if isinstance(log, dict) else None
        yield from (test for test in (table if isinstance(table, list) else ()) if isinstance(test, dict))
    yield from (
        test for name, test in document.items() if name.startswith("scsi_self_test_") and isinstance(test, dict)
    )


def _number(section: object, key: str) -> int | float | None:
    return _as_number(section.get(key)) if isinstance(section, dict) else None


def _as_number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -(2**63) <= value < 2**64 else None
