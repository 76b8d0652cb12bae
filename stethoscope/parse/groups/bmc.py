"""What the management controller says of power supplies, fans and the air that the node draws in.

Its log has what failed and when; what was asserted and not taken back still holds. Only the last entries are read, and
without the names of sensors, because those cost the controller seconds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.facts import Facts
from stethoscope.model.report import ToolError
from stethoscope.parse.groups.values import ERROR, PERMISSION, UNSUPPORTED, answer, real
from stethoscope.parse.tools import ipmitool

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_LONGEST = 16_384
_SUPPLY = re.compile(r"failure detected|AC lost|input lost|redundancy lost|non-redundant", re.IGNORECASE)
_FAN = re.compile(r"lower (?:critical|non-recoverable) going low|failure|redundancy lost|non-redundant", re.IGNORECASE)
_FULL_AGAIN = re.compile(r"fully redundant|redundancy regained", re.IGNORECASE)
_CLEARED = re.compile(r"log area reset|log cleared", re.IGNORECASE)
_WRONG = re.compile(r"(Main Power Fault|Power Control Fault|Cooling/Fan Fault)\s*: *(true|false)", re.ASCII)
_DEGREES = re.compile(r"([+-]?\d{1,3}(?:\.\d)?) ?C$", re.ASCII)
_LINES, _LINE, _NUMBER = 64, 120, 16


def read(part: wire.Part) -> Facts:
    """Return whether a supply or a fan has failed, and the temperature at the inlet."""
    supply, fan, refused = _log(part)
    for name, state in _chassis(part):
        if name.startswith("Cooling"):
            fan = 1 if state else 0 if not isinstance(fan, int) else fan
        elif state:
            supply = 1
    node = {"bmc_psu_status": supply, "bmc_fan_status": fan, "bmc_inlet_temp": _inlet(part)}
    return Facts(part.name, node=node, notes={"bmc": "ipmitool needs root"} if refused else {})


def _log(part: wire.Part) -> tuple[Cell, Cell, bool]:
    """Return whether the log has a supply and a fan as failed, and whether it may not be read."""
    ran, word = answer(part, "sel")
    if ran is None or word:
        return word, word, False
    try:
        report = ipmitool.read(ran.out[-_LONGEST:], exit=ran.exit, err=ran.err)
    except ToolError as error:
        said = PERMISSION if error.reason == "permission" else UNSUPPORTED
        return said, said, said == PERMISSION
    standing: dict[tuple[str, str], bool] = {}
    for item in report.items:
        if item.name != "event" or not item.where.startswith("sel/"):
            continue
        sensor, _, event = str(item.value).partition(": ")
        over = event.endswith(", over")
        event = event.removesuffix(", over").split(",")[0].strip()
        if _CLEARED.search(event):
            standing.clear()
        elif _FULL_AGAIN.search(event):
            standing = {key: holds for key, holds in standing.items() if key[0] != sensor}
        elif (sensor.startswith("Power Supply") and _SUPPLY.search(event)) or (
            sensor.startswith("Fan") and _FAN.search(event)
        ):
            standing[sensor, event] = not over
    failed = {sensor.split(" ")[0] for (sensor, _), holds in standing.items() if holds}
    return int("Power" in failed), int("Fan" in failed), False


def _chassis(part: wire.Part) -> list[tuple[str, bool]]:
    ran, word = answer(part, "chassis")
    if ran is None or word:
        return []
    return [(name, state == "true") for name, state in _WRONG.findall(ran.out[:_LONGEST])]


def _inlet(part: wire.Part) -> Cell:
    ran, word = answer(part, "air")
    if ran is None or word:
        return word
    for line in ran.out[:_LONGEST].split("\n")[:_LINES]:
        name, said = line.strip()[:_LINE].lower(), line.strip()[-_NUMBER:]
        match = _DEGREES.search(said) if name.startswith(("inlet", "ambient")) else None
        if match is not None:
            value = real(match[1])
            return ERROR if value is None else value
    return UNSUPPORTED
