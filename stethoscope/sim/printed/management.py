"""What ipmitool prints of a simulated node's management controller: its log, its sensors, its state."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.sim.board import FANS, INLET_C, SUPPLIES, WEAK_FAN
from stethoscope.sim.lines import FIRST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.sim.files.view import View

FAN_RPM, SLOWEST_RPM = 9800.0, 1500.0
"""What a fan turns at as a rule, and below what it counts as failed."""
_FAILING = (3, 5, 1, 6, 2, 4)
"""Which supply fails first, and so on."""
_HELD_TOGETHER = 4
"""Supplies without which the others cannot carry the node."""


def ipmitool(view: View, words: Sequence[str]) -> tuple[int, str, str]:
    """Return exit status, output and error output of ipmitool with these arguments."""
    match list(words):
        case ["mc", "info"]:
            return 0, _controller(view), ""
        case ["chassis", "status"]:
            return 0, _chassis(view), ""
        case ["dcmi", "get_temp_reading"]:
            return 0, _air(view), ""
        case ["sel", "list" | "elist" as how, "last", count]:
            return 0, "".join(f"{line}\n" for line in _log(view, named=how == "elist")[-int(count) :]), ""
        case ["sdr", "elist"]:
            return 0, "".join(_sensors(view)), ""
    return 1, "", f"Invalid command: {' '.join(words)}\n"


def inlet_c(view: View) -> float:
    """Return the temperature of the air that the node draws in."""
    usual = INLET_C + 2 * view.draw("inlet", 1)[0] - 1
    return view.state("bmc_inlet_temp", usual + float(view.twin.effects.inlet_rise_c[view.node]))


def fans(view: View) -> dict[str, float]:
    """Return how fast each fan turns; the others do the work of one that does not."""
    first = view.state("bmc_fan_rpm", FAN_RPM)
    faster = 1.18 if first < SLOWEST_RPM else 1.0
    spread = view.draw("fan rpm", len(FANS))
    return {
        name: first if name == WEAK_FAN and first != FAN_RPM else FAN_RPM * faster * (0.98 + 0.04 * spread[number])
        for number, name in enumerate(FANS)
    }


def _supplies_ok(view: View) -> int:
    return round(view.state("bmc_psu_status", SUPPLIES))


def _controller(view: View) -> str:
    return (
        "Device ID                 : 32\nDevice Revision           : 1\n"
        f"Firmware Revision         : {view.build.bmc_firmware}\nIPMI Version              : 2.0\n"
        "Manufacturer ID           : 10876\nManufacturer Name         : Super Micro Computer Inc.\n"
        "Product ID                : 7073 (0x1ba1)\nProduct Name              : Unknown (0x1BA1)\n"
        "Device Available          : yes\nProvides Device SDRs      : no\n"
    )


def _chassis(view: View) -> str:
    slow = min(fans(view).values()) < SLOWEST_RPM
    short = _supplies_ok(view) < _HELD_TOGETHER
    return (
        "System Power         : on\nPower Overload       : false\nPower Interlock      : inactive\n"
        f"Main Power Fault     : {str(short).lower()}\nPower Control Fault  : false\n"
        "Power Restore Policy : always-on\nLast Power Event     : command\nChassis Intrusion    : inactive\n"
        f"Front-Panel Lockout  : inactive\nDrive Fault          : false\nCooling/Fan Fault    : {str(slow).lower()}\n"
    )


def _air(view: View) -> str:
    rows = (
        ("Inlet air temperature(40h)", 1, inlet_c(view)),
        ("CPU temperature sensors(41h)", 1, inlet_c(view) + 26),
        ("CPU temperature sensors(41h)", 2, inlet_c(view) + 29),
        ("Baseboard temperature sensors(42h)", 1, inlet_c(view) + 11),
    )
    head = "\n\tEntity ID\t\t\tEntity Instance\t   Temp. Readings\n"
    return head + "".join(f"{name} \t\t{number}\t\t{round(degrees):+d} C\n" for name, number, degrees in rows)


def _log(view: View, *, named: bool) -> list[str]:
    """Return the entries of the log: when its racks were built, when the node started, and what happened since. Without
    the names of sensors it gives their numbers."""
    boot_s = view.twin.wall_at_0 + view.booted_s
    first = (
        ("Event Logging Disabled", "#0x51", "Log area reset/cleared", "Asserted", -86_400 * 30),
        ("Power Supply", "PSU1_Status", "Power Supply AC lost", "Asserted", -86_400 * 29),
        ("Power Supply", "PSU1_Status", "Power Supply AC lost", "Deasserted", -86_400 * 29 + 540),
        ("System Event", "#0x20", "Timestamp Clock Sync", "Asserted", -40),
        ("System Boot Initiated", "#0x22", "Initiated by power up", "Asserted", -35),
    )
    lines = []
    for number, (kind, sensor, what, way, offset_s) in enumerate(first[:FIRST_ENTRIES]):
        at = datetime.fromtimestamp(boot_s + offset_s, UTC)
        lines.append(f"{number + 1:4x} | {at:%m/%d/%Y} | {at:%H:%M:%S} | {kind} {sensor} | {what} | {way}")
    # The number of an entry is one hexadecimal word, right-aligned.
    for written in view.twin.written(view.name, "sel"):
        entry, _, rest = written.text.strip().partition(" ")
        lines.append(f"{entry:>4} {rest}")
    return lines if named else [_SENSOR.sub(_numbered, line, count=1) for line in lines]


_SENSOR = re.compile(r"(?<= \| )((?:Power Supply|Power Unit|Fan|Memory|Processor|OS Stop/Shutdown) )([A-Z]\w+)(?= \| )")


def _numbered(match: re.Match[str]) -> str:
    return f"{match[1]}#0x{zlib.crc32(match[2].encode()) % 200 + 32:02x}"


def _sensors(view: View) -> Iterator[str]:
    """Yield the lines of `sdr elist`."""
    inlet, temperatures = inlet_c(view), view.readings.gpu["gpu_temp"][view.node]
    yield _sensor("Inlet Temp", 0x0B, "ok" if inlet < 35 else "nc" if inlet < 42 else "cr", "7.1",
                  f"{round(inlet)} degrees C")  # fmt: skip
    for number in (1, 2):
        yield _sensor(f"CPU{number} Temp", number, "ok", f"3.{number}", f"{round(inlet) + 23 + 3 * number} degrees C")
    for gpu, degrees in enumerate(temperatures):
        reading = f"{degrees} degrees C" if isinstance(degrees, int) else "No Reading"
        yield _sensor(f"GPU{gpu + 1} Temp", 0x90 + gpu, "ok" if reading != "No Reading" else "ns", f"11.{gpu}", reading)
    for number, (name, rpm) in enumerate(fans(view).items()):
        state = "ok" if rpm >= SLOWEST_RPM else "cr"
        yield _sensor(name, 0x41 + number, state, f"29.{number}", f"{round(rpm / 70) * 70} RPM")
    failed = set(_FAILING[: max(SUPPLIES - _supplies_ok(view), 0)])
    for number in range(1, SUPPLIES + 1):
        words = "Presence detected, Failure detected, Power Supply AC lost" if number in failed else "Presence detected"
        yield _sensor(f"PSU{number}_Status", 0xC0 + number, "ok", f"10.{number}", words)


def _sensor(name: str, number: int, state: str, entity: str, reading: str) -> str:
    return f"{name:<16} | {number:02X}h | {state:<3} | {entity:>4} | {reading}\n"
