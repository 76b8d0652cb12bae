"""`mlxlink` (and mstlink) `-d DEVICE -m -c`, as text or as JSON: light, bit errors and what the port itself says.

Values by lane are items at `lane/N`. Billions of raw errors are normal at 400 Gb/s: the effective ones count. A range
behind a value is what the module allows; a value at or beyond it is a warning.
"""

from __future__ import annotations

import re
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import Missing
from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.tools import values
from stethoscope.parse.tools.documents import documents
from stethoscope.parse.tools.errors import without_values
from stethoscope.text import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "mlxlink"

_PAIR = re.compile(r"([A-Z][A-Za-z0-9 /\[\]()._-]{1,60}?)\s*: (.{0,400}?)\s*", re.ASCII)
_RANGE = re.compile(r"(.*?)\s*\[(-?[\d.]{1,12})\.\.(-?[\d.]{1,12})\]", re.ASCII)
_BER = re.compile(r"\d{1,4}(?:\.\d{1,4})?E-?\d{1,4}", re.ASCII)
_NAMES: dict[str, tuple[str, str]] = {
    "state": ("state", ""), "physical_state": ("physical_state", ""), "speed": ("speed", ""), "width": ("width", ""),
    "fec": ("fec", ""), "loopback_mode": ("loopback_mode", ""), "auto_negotiation": ("auto_negotiation", ""),
    "status_opcode": ("status_opcode", ""), "group_opcode": ("group_opcode", ""),
    "recommendation": ("recommendation", ""), "firmware_version": ("ib_fw_version", ""),
    "identifier": ("module", ""), "cable_type": ("cable_type", ""), "compliance": ("compliance", ""),
    "vendor_name": ("module_vendor", ""), "vendor_part_number": ("module_part", ""),
    "vendor_serial_number": ("module_serial", ""), "rev": ("module_revision", ""),
    "temperature_c": ("ib_module_temp", "C"), "voltage_mv": ("module_voltage", "mV"),
    "bias_current_ma": ("module_bias", "mA"), "rx_power_current_dbm": ("ib_module_rx_power", "dBm"),
    "tx_power_current_dbm": ("ib_module_tx_power", "dBm"), "tx_fault_per_lane": ("tx_fault", ""),
    "rx_los_per_lane": ("rx_los", ""), "tx_los_per_lane": ("tx_los", ""),
    "time_since_last_clear_min": ("since_clear", "min"), "symbol_errors": ("symbol_errors", ""),
    "symbol_ber": ("symbol_ber", ""), "effective_physical_errors": ("effective_errors", ""),
    "effective_physical_ber": ("ib_effective_ber", ""), "raw_physical_errors_per_lane": ("raw_errors", ""),
    "raw_physical_ber": ("ib_raw_ber", ""), "link_down_counter": ("ib_link_down_counter", ""),
    "link_error_recovery_counter": ("ib_link_error_recovery", ""),
}  # fmt: skip
_WORDS = {"state", "physical_state", "speed", "width", "fec", "loopback_mode", "auto_negotiation", "group_opcode",
          "recommendation", "ib_fw_version", "module", "cable_type", "compliance", "module_vendor", "module_part",
          "module_serial", "module_revision"}  # fmt: skip
_SILENT = {"enabled_link_speed", "supported_cable_speed", "amber_version", "mft_version", "tool_information"}
_DARK_DB = 3.0
"""A lane that receives half the light of its neighbours in the same module is not like them."""
_LANES, _PORTS = 16, 2048
_JSON = re.compile(r"^[ \t]{0,40}\{", re.MULTILINE)
_LONGEST = 600
_DEVICE = re.compile(
    r"\s(?:-d|--device)[ =](\S{1,60})|\b(mlx\d_[a-z0-9_]{1,16}|mt\d{3,6}_\w{1,16}(?:\.\d)?)\b", re.ASCII
)
"""The device in a command line, or in a title that a script printed."""
_Port = tuple[str, list[tuple[str, list[str] | str]]]
_NO_ERRORS = 1e-250
"""A rate of `15E-255` is the tool's way to write that there was no error."""


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return every value of the port; of several ports in one text each at the device that a line above it names, or
    at `port/N`. Raises ToolError for an output without a value."""
    ports = _from_json(text, exit, err) if _JSON.search(text) else list(islice(_from_text(text), _PORTS + 1))
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    if len(ports) > _PORTS:
        raise ToolError("not_this_tool", f"no text of mlxlink holds more than {_PORTS:,} ports")
    for number, (device, pairs) in enumerate(ports):
        found: list[Item] = []
        for label, said in pairs:
            name = values.name_of(label)
            if name in _NAMES:
                found += _items(*_NAMES[name], said)
            elif name not in _SILENT:
                unknown[label] = None
        if len(ports) > 1:
            place = device or f"port/{number}"
            found = [item._replace(where=f"{place}/{item.where}".rstrip("/")) for item in found]
        items += found
        remarks += _remarks(found)
    if not items:
        raise without_values(text, exit=exit, err=err, tool="mlxlink")
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _from_text(text: str) -> Iterator[_Port]:
    device, pairs = "", dict[str, list[str] | str]()
    for line in values.lines(text):
        line = line[:_LONGEST].strip()
        pair = _PAIR.fullmatch(line)
        named = _DEVICE.search(line) if pair is None else None
        if (pair is not None and pair[1] in pairs) or (named is not None and pairs):
            yield device, list(pairs.items())
            device, pairs = "", {}
        if named is not None:
            device = (named[1] or named[2]).removeprefix("/dev/mst/")
        elif pair is not None:
            pairs[pair[1]] = pair[2]
    if pairs:
        yield device, list(pairs.items())


def _from_json(text: str, exit: int, err: str) -> list[_Port]:  # noqa: A002  the shell's word
    read = documents(text)
    ports: list[_Port] = []
    said = ""
    for before, document in read.found:
        try:
            sections = [section for section in document["result"]["output"].values() if isinstance(section, dict)]
        except (KeyError, TypeError, AttributeError):
            status = document.get("status")
            said += f"{status.get('message')}\n" if isinstance(status, dict) and status.get("message") else ""
            continue
        named = _DEVICE.search(before[-_LONGEST:])
        device = (named[1] or named[2]).removeprefix("/dev/mst/") if named is not None else ""
        ports.append((device, [(label, _listed(value)) for section in sections for label, value in section.items()]))
    if ports:
        return ports
    if read.cut:
        raise ToolError("truncated", "the JSON of mlxlink ends in its middle")
    if said:
        error = without_values(clean_text(said), exit=exit, err=err, tool="mlxlink")
        raise ToolError("no_answer", str(error)) if error.reason == "not_this_tool" else error
    raise ToolError("not_this_tool", "this is not the JSON that mlxlink prints")


def _listed(value: Any) -> list[str] | str:
    if isinstance(value, dict):
        value = value.get("values", value)
    return [str(entry) for entry in value] if isinstance(value, list) else str(value)


def _items(name: str, unit: str, said: list[str] | str) -> list[Item]:
    low = high = None
    if isinstance(said, str):
        bounds = _RANGE.fullmatch(said)
        if bounds is not None:
            said, low, high = bounds[1], float(bounds[2]), float(bounds[3])
        if name in _WORDS:
            return [Item("", name, values.missing(said) or said)]
        parts = said.split(",", _LANES)[:_LANES]
    else:
        parts = said[:_LANES]
    numbers = [_number(part.strip()) for part in parts]
    places = [f"lane/{lane}" for lane in range(len(parts))] if len(parts) > 1 else [""]
    return [
        Item(place, name, number, unit, _level(name, number, low, high))
        for place, number in zip(places, numbers, strict=True)
    ]


def _number(text: str) -> Value:
    if _BER.fullmatch(text):
        rate = float(text)
        return 0.0 if rate < _NO_ERRORS else rate
    return values.only_number(text)


def _level(name: str, number: Value, low: float | None, high: float | None) -> str:
    if isinstance(number, Missing | str):
        return ""
    if name in ("tx_fault", "rx_los", "tx_los"):
        return "critical" if number else ""
    beyond = (low is not None and number <= low) or (high is not None and number >= high)
    return "warning" if beyond else ""


def _remarks(items: list[Item]) -> Iterator[str]:
    light = {
        item.where: item.value
        for item in items
        if item.name == "ib_module_rx_power" and item.where and isinstance(item.value, int | float)
    }
    for lane, power in light.items():
        others = [other for place, other in light.items() if place != lane]
        if others and median(others) - power >= _DARK_DB:
            yield f"{lane} receives {power} dBm, the other lanes {median(others)} dBm"
    for item in items:
        if item.name == "recommendation" and isinstance(item.value, str):
            if not item.value.lower().startswith("no issue"):
                yield item.value
        elif item.level:
            yield f"{item.where} {item.name.replace('_', ' ')} {item.value} {item.unit}".strip()
