"""`ethtool IF` (link), `ethtool -S IF` (statistics) and `ethtool -m IF` (module and its light)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "ethtool"

_SETTINGS = re.compile(r"Settings for (\S{1,40}):\s*", re.ASCII)
_STATISTICS = re.compile(r"(?:NIC|Standard) (?:statistics|stats)(?: for (\S{1,40}))?:\s*", re.ASCII)
_COMMAND = re.compile(r"\bethtool((?:\s+-{1,2}[A-Za-z-]{1,20}){0,3})\s+([A-Za-z][A-Za-z0-9_.@-]{0,30})\s*$", re.ASCII)
"""The command line above an output: the statistics and the module do not name their interface."""
_STATISTIC = re.compile(r"\s+([A-Za-z0-9_.\-\[\]: ]{1,80}?): (-?\d{1,20})\s*", re.ASCII)
_PAIR = re.compile(r"\s*([A-Z][A-Za-z0-9 ,()./_-]{1,60}?)\s*: (.{0,400}?)\s*", re.ASCII)
_DECIBEL = re.compile(r".*?/ (-?\d{1,3}\.\d{1,3}|-?inf) dBm", re.ASCII)
_QUANTITY = re.compile(r"(-?\d{1,9}(?:\.\d{1,6})?) (mA|V|mV|degrees C)\b.*", re.ASCII)
_ERROR_COUNTERS = re.compile(r"(err|drop|discard|crc|link_down_events|timeout|out_of_buffer|stalled)", re.IGNORECASE)
_LINK = {"speed": "net_speed", "duplex": "duplex", "port": "port", "auto_negotiation": "auto_negotiation",
         "link_detected": "link_detected", "transceiver": "transceiver", "active_fec_encoding": "fec",
         "link_partner_advertised_link_modes": "partner_modes"}  # fmt: skip
_MODULE = {"identifier": "module", "vendor_name": "module_vendor", "vendor_pn": "module_part",
           "vendor_sn": "module_serial", "vendor_rev": "module_revision", "connector": "connector",
           "length_copper": "cable_length", "transceiver_type": "module_type"}  # fmt: skip
_POWERS = (("receiver_signal", "ib_module_rx_power"), ("rcvr_signal", "ib_module_rx_power"),
           ("rx_power", "ib_module_rx_power"), ("laser_output_power", "ib_module_tx_power"),
           ("laser_tx_power", "ib_module_tx_power"), ("transmit_avg_optical_power", "ib_module_tx_power"))  # fmt: skip
_LONGEST = 200
# What the kernel says of a cage without a module, or an interface without a cage, differs from driver to driver.
_NO_MODULE = re.compile(
    r"(?:Cannot get [Mm]odule EEPROM (?:information|data)|netlink error): "
    r"(Invalid argument|Input/output error|Operation not supported|No such device or address)"
)
_LANE = re.compile(r"\(?channel[_ ](\d{1,2})\)?", re.IGNORECASE | re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return link, statistics and module values, as many as the output has; raises ToolError for one without any."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    part, where = "module", ""
    for line in values.lines(text):
        if (match := _SETTINGS.fullmatch(line)) is not None:
            part, where = "link", match[1]
        elif (match := _STATISTICS.fullmatch(line)) is not None:
            part, where = "statistics", match[1] or where
        elif "ethtool" in line and (match := _COMMAND.search(line[-_LONGEST:])) is not None:
            part, where = "module", match[2]
        elif part == "statistics" and (match := _STATISTIC.fullmatch(line)) is not None:
            items.append(_statistic(where, match[1].strip(), int(match[2])))
        elif (match := _PAIR.fullmatch(line)) is not None:
            found = list(_pair(where, part, match[1], match[2], unknown))
            items += found
            remarks += [f"{where} {match[1]}: {match[2]}".strip() for item in found if item.level]
    if not items and (match := _NO_MODULE.search(f"{err}\n{text}")) is not None:
        raise ToolError("no_device", f"ethtool: there is no module that could be read ({match[1]})")
    if not items:
        raise without_values(text, exit=exit, err=err, tool="ethtool")
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _statistic(where: str, name: str, total: int) -> Item:
    bad = total > 0 and _ERROR_COUNTERS.search(name) is not None
    return Item(where, name, total, "", "warning" if bad else "")


def _pair(where: str, part: str, label: str, said: str, unknown: dict[str, None]) -> Iterator[Item]:
    name = values.name_of(label)
    if part == "link":
        if name == "speed":
            speed, unit = values.quantity(said.rstrip("!").strip())
            if isinstance(speed, str | Missing):
                speed, unit = Missing(Reason.ABSENT), ""
            yield Item(where, "net_speed", speed, unit)
        elif name == "link_detected":
            state = values.switch(said.split(" ")[0])
            yield Item(where, name, state, "", "critical" if state == 0 else "")
        elif name in _LINK:
            yield Item(where, _LINK[name], values.missing(said) or said)
        return
    if "threshold" in name:
        # With the value beside it a threshold says nothing that the alarm flag does not.
        yield Item(where, name, _measured(said)[0], _measured(said)[1])
    elif name.endswith(("alarm", "warning")):
        state = values.switch(said)
        level = "critical" if "alarm" in name else "warning"
        yield Item(where, name, state, "", level if state == 1 else "")
    elif (power := next((metric for start, metric in _POWERS if start in name), None)) is not None:
        lane = _LANE.search(label)
        yield Item(f"lane/{int(lane[1]) - 1}" if lane else where, power, *_measured(said))
    elif name in ("module_temperature", "module_voltage") or "bias_current" in name:
        lane = _LANE.search(label)
        known = {"module_temperature": "ib_module_temp", "module_voltage": "module_voltage"}.get(name, "module_bias")
        yield Item(f"lane/{int(lane[1]) - 1}" if lane else where, known, *_measured(said))
    elif name in _MODULE:
        if name != "transceiver_type" or said:
            yield Item(where, _MODULE[name], values.missing(said) or said)
    elif part == "module" and not name.startswith(("length", "br", "option", "rate", "encoding", "extended", "date",
                                                   "transceiver", "laser_wavelength", "vendor_oui", "optical",
                                                   "alarm", "passive", "active", "revision", "cable", "transmitter",
                                                   "power", "max", "attenuation", "reserved", "cdr", "rx_los", "tx",
                                                   "rx", "media", "clei", "memory")):  # fmt: skip
        unknown[label] = None


def _measured(said: str) -> tuple[Value, str]:
    """Return a measured value in its first unit, light in dBm; -inf dBm is darkness: there is no light at all."""
    light = _DECIBEL.fullmatch(said)
    if light is not None:
        return (Missing(Reason.ABSENT), "dBm") if "inf" in light[1] else (float(light[1]), "dBm")
    match = _QUANTITY.fullmatch(said)
    if match is None:
        return values.missing(said) or Missing(Reason.ERROR), ""
    return float(match[1]), match[2].replace("degrees C", "C")
