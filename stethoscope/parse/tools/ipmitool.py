"""The management controller: `ipmitool sel list|elist`, `sensor` and `sdr [elist]`, FreeIPMI's `ipmi-sel`,
`ipmimonitoring` and
`ipmi-dcmi`, and `ipmitool mc info`."""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "ipmitool_sel"

_DATE = re.compile(r"\d{2}/\d{2}/\d{2,4}|[A-Z][a-z]{2}-\d{2}-\d{4}|Pre-Init|PreInit|PostInit|Unspecified", re.ASCII)
_SENSOR_STATES = {"nc": "warning", "cr": "critical", "nr": "critical", "lnc": "warning", "unc": "warning",
                  "lcr": "critical", "ucr": "critical", "lnr": "critical", "unr": "critical"}  # fmt: skip
_SDR_STATES = {"ok", "ns", "na", *_SENSOR_STATES}
_NUMBERED = re.compile(r"[0-9A-Fa-f]{2}h", re.ASCII)
_NO_READING = ("no reading", "disabled", "not readable", "na", "n/a", "not available", "")
_UNITS = {"degrees c": "C", "degrees f": "F", "volts": "V", "watts": "W", "amps": "A", "percent": "%"}
_READING = re.compile(r"(-?\d{1,9}(?:\.\d{1,6})?)(?: (?:% )?([A-Za-z%][A-Za-z %]{0,20}?))?(?:, (.{1,100}))?", re.ASCII)
_CRITICAL = re.compile(
    r"non-recoverable|uncorrectable|fatal|critical going|AC lost|failure|PCI SERR|PERR|thermal trip|IERR|machine check"
    r"|redundancy lost|critical threshold|drive fault|degraded",
    re.IGNORECASE,
)
_WARNING = re.compile(r"non-critical|correctable|predictive|incorrect|throttl|limit", re.IGNORECASE)
_PAIR = re.compile(r"([A-Z][A-Za-z /]{2,50}?)\s*: (.{1,120}?)\s*", re.ASCII)
_CONTROLLER = {"firmware_revision": "bmc_firmware", "manufacturer_name": "bmc_manufacturer", "product_name": "product",
               "ipmi_version": "ipmi_version", "device_id": "device_id", "current_power": "bmc_power",
               "average_power_over_sampling_duration": "bmc_power_average",
               "minimum_power_over_sampling_duration": "bmc_power_min",
               "maximum_power_over_sampling_duration": "bmc_power_max"}  # fmt: skip


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return log entries as `sel/ID`, sensors as `sensor/NAME`; raises ToolError for an output without any."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    for line in values.lines(text):
        if line.startswith("ID "):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 5 and any(_DATE.fullmatch(cell) for cell in cells[1:2]):
            items += _entry(cells, remarks)
        elif len(cells) == 3 and cells[2].lower() in _SDR_STATES:
            items += _record(cells[0], cells[1], cells[2], remarks)
        elif len(cells) == 5 and cells[2].lower() in _SDR_STATES and _NUMBERED.fullmatch(cells[1]):
            # Several sensors may have one name: the number is what tells them apart.
            items += _record(f"{cells[0]} {cells[1]}", cells[4], cells[2], remarks)
        elif len(cells) >= 10:
            items += _sensor(cells, remarks)
        elif len(cells) == 7 and cells[0].isdigit():
            items += _monitored(cells, remarks)
        elif line.count(",") >= 5 and line.split(",")[0].strip().isdigit():
            items += _monitored_csv(line, remarks)
        elif (pair := _PAIR.fullmatch(line.strip())) is not None and values.name_of(pair[1]) in _CONTROLLER:
            value, unit = values.quantity(pair[2])
            name = _CONTROLLER[values.name_of(pair[1])]
            power = name.startswith("bmc_power")
            items.append(Item("", name, value if power else pair[2], unit[:1].upper() if power else ""))
        else:
            unknown[line.strip()[:60]] = None
    if not items:
        if re.search(r"SEL has no entries", text + err):
            return Report(TOOL, (Item("", "entries", 0),))
        raise without_values(text, exit=exit, err=err, tool="ipmitool")
    items = _told_apart(items)
    count = len({item.where for item in items if item.where.startswith("sel/")})
    if count:
        items.insert(0, Item("", "entries", count))
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _told_apart(items: list[Item]) -> list[Item]:
    """Return the items with each log entry once; sensors of one name are numbered, because they are several."""
    times: dict[tuple[str, str], int] = {}
    kept: dict[tuple[str, str], Item] = {}
    for item in items:
        key = item.where, item.name
        times[key] = times.get(key, 0) + 1
        if times[key] > 1 and item.where.startswith("sensor/"):
            item = item._replace(where=f"{item.where} {times[key]}")
        kept[item.where, item.name] = item
    return list(kept.values())


def _severity(text: str) -> str:
    if _CRITICAL.search(text) and not re.search(r"non-critical", text, re.IGNORECASE):
        return "critical"
    return "warning" if _WARNING.search(text) else ""


def _entry(cells: list[str], remarks: list[str]) -> list[Item]:
    number, date, time, sensor, *rest = cells
    where = f"sel/{number}"
    if len(cells) == 7 and rest[1] in ("Critical", "Warning", "Nominal", "N/A"):
        level = {"Critical": "critical", "Warning": "warning"}.get(rest[1], "")
        event, over = rest[2], False
    else:
        over = "Deasserted" in rest
        event = ", ".join(cell for cell in rest if cell not in ("Asserted", "Deasserted"))
        level = "" if over else _severity(f"{event} {sensor}")
    words = f"{sensor}: {event}" + (", over" if over else "")
    at = date if date == time else f"{date} {time}"
    if level:
        remarks.append(f"{at} {words}")
    return [Item(where, "at", at), Item(where, "sensor", sensor), Item(where, "event", words, "", level)]


def _sensor(cells: list[str], remarks: list[str]) -> list[Item]:
    name, reading, unit, state = cells[:4]
    where = f"sensor/{name}"
    level = _SENSOR_STATES.get(state.lower(), "")
    if reading.lower() == "na":
        value: float | int | str | Missing = Missing(Reason.UNSUPPORTED)
    elif reading.startswith("0x"):
        value = values.hexadecimal(reading)
    else:
        value = values.only_number(reading)
    unit = _UNITS.get(unit.lower(), unit)
    if level:
        remarks.append(f"{name} {value} {unit} is {level}")
    items = [Item(where, "reading", value, "" if unit == "discrete" else unit, level)]
    for label, text in zip(
        ("lower_non_recoverable", "lower_critical", "lower_warning", "upper_warning", "upper_critical",
         "upper_non_recoverable"), cells[4:10], strict=False):  # fmt: skip
        if text.lower() != "na" and text:
            items.append(Item(where, label, values.only_number(text), unit))
    return items


def _record(name: str, said: str, state: str, remarks: list[str]) -> list[Item]:
    """Return what a sensor reads in `ipmitool sdr`: a value with its unit, or the states of a discrete sensor."""
    where = f"sensor/{name}"
    level = _SENSOR_STATES.get(state.lower(), "")
    if level:
        remarks.append(f"{name}: {said} is {level}")
    reading = _READING.fullmatch(said)
    if reading is not None:
        unit = reading[2] or ""
        items = [Item(where, "reading", values.number(reading[1]), _UNITS.get(unit.lower(), unit), level)]
        return [*items, Item(where, "event", reading[3])] if reading[3] else items
    if said.lower() in _NO_READING:
        # An elist leaves the words of a discrete sensor out when no state of it is set.
        quiet = not said and state.lower() == "ok"
        return [Item(where, "event", "") if quiet else Item(where, "reading", Missing(Reason.UNSUPPORTED), "", level)]
    if said.startswith("0x"):
        return [Item(where, "reading", values.hexadecimal(said), "", level)]
    bad = level or _severity(said)
    if bad and not level:
        remarks.append(f"{name}: {said}")
    return [Item(where, "event", said, "", bad)]


def _monitored(cells: list[str], remarks: list[str]) -> list[Item]:
    _, name, kind, state, reading, unit, event = cells
    return _read_sensor(name, kind, state, reading, unit, event.strip("'"), remarks)


def _monitored_csv(line: str, remarks: list[str]) -> list[Item]:
    _, name, kind, reading, unit, event = (cell.strip() for cell in line.split(",", 5))
    events = event.strip("'").replace("' '", "; ")
    state = "Critical" if re.search(r"critical|lost|degraded|fail", events, re.IGNORECASE) else "Nominal"
    return _read_sensor(name, kind, state, reading, unit, events, remarks)


def _read_sensor(
    name: str, kind: str, state: str, reading: str, unit: str, event: str, remarks: list[str]
) -> list[Item]:
    where = f"sensor/{name}"
    level = {"critical": "critical", "warning": "warning"}.get(state.lower(), "")
    if level:
        remarks.append(f"{name}: {event}")
    value = Missing(Reason.UNSUPPORTED) if reading == "N/A" else values.only_number(reading)
    return [
        Item(where, "reading", value, "" if unit == "N/A" else unit, level),
        Item(where, "kind", kind),
        Item(where, "event", event, "", level),
    ]
