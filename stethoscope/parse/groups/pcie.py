"""PCIe links of GPUs, NVSwitches, adapters and NVMe disks, and of the ports above them, from /sys/bus/pci/drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import ERROR, UNSUPPORTED, real, whole
from stethoscope.parse.pci import normal_pci

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_DRIVERS = "/sys/bus/pci/drivers/"
_PORTS = "pcieport"
_VIRTUAL = "physfn"
_SPEEDS = {"current_link_speed": "pcie_link_speed", "max_link_speed": "pcie_max_link_speed"}
_WIDTHS = {"current_link_width": "pcie_link_width", "max_link_width": "pcie_max_link_width"}
_ERRORS = {
    "aer_dev_correctable": ("pcie_aer_correctable", "TOTAL_ERR_COR"),
    "aer_dev_nonfatal": ("pcie_aer_nonfatal", "TOTAL_ERR_NONFATAL"),
    "aer_dev_fatal": ("pcie_aer_fatal", "TOTAL_ERR_FATAL"),
}
_LANES = frozenset({1, 2, 4, 8, 12, 16, 32})
"""What a link can have; 63 and 255 are all ones, read from a device that does not answer."""

_Files = dict[str, tuple[str | None, str]]
"""Name of a file -> its text, or None and the word of why it has none."""


def read(part: wire.Part) -> Facts:
    """Return the links of the devices, and of those ports that stand above one of them."""
    paths: dict[str, str] = {}
    drivers: dict[str, str] = {}
    values: dict[str, _Files] = {}
    virtual = set[str]()
    start = len(_DRIVERS)
    for path, text in part.files.items():
        if not path.startswith(_DRIVERS):
            continue
        words = path[start:].split("/")
        if len(words) == 2:
            paths[words[1]], drivers[words[1]] = text, words[0]
        elif len(words) == 3:
            if words[2] == _VIRTUAL:
                virtual.add(words[1])
            values.setdefault(words[1], {})[words[2]] = (text, "")
            if words[0] == _PORTS:
                drivers[words[1]] = _PORTS
    for path, word in part.failed.items():
        words = path[start:].split("/")
        if path.startswith(_DRIVERS) and len(words) == 3:
            values.setdefault(words[1], {})[words[2]] = (None, word)
    found = _found(paths, virtual)
    above = _above(found, drivers)
    names = sorted({*found, *above}, key=lambda name: normal_pci(name) or name)
    rows = [_row(values.get(name, {})) for name in names]
    metrics = (*_SPEEDS.values(), *_WIDTHS.values(), *(metric for metric, _ in _ERRORS.values()))
    about: dict[str, dict[str, str]] = {}
    for name in names:
        chain = found.get(name)
        said = {"driver": drivers.get(name, ""), "upstream": (chain[-1] if chain else "") if name in found else ""}
        if name in above:
            said["upstream"], said["above"] = above[name][0], " ".join(above[name][1])
        said.update(_kinds(values.get(name, {})))
        about[name] = {key: text for key, text in said.items() if text}
    return Facts(
        part.name,
        devices={
            Scope.PCIE: Devices(tuple(names), {metric: [row[metric] for row in rows] for metric in metrics}, about)
        },
    )


def _found(paths: dict[str, str], virtual: set[str]) -> dict[str, list[str]]:
    """Return each device with the addresses above it, the root first; virtual functions have no link of their own."""
    found: dict[str, list[str]] = {}
    for name, path in paths.items():
        if name in virtual or not normal_pci(name):
            continue
        found[name] = [step for step in path.split("/")[:-1] if step.count(":") == 2 and normal_pci(step)]
    return found


def _above(found: dict[str, list[str]], drivers: dict[str, str]) -> dict[str, tuple[str, list[str]]]:
    """Return each port above a device, with what is above the port itself and the devices below it."""
    above: dict[str, tuple[str, list[str]]] = {}
    for name in sorted(found):
        upper = ""
        for port in found[name]:
            if drivers.get(port) == _PORTS and port not in found:
                above.setdefault(port, (upper, []))[1].append(name)
            upper = port
    return above


def _row(files: _Files) -> dict[str, Cell]:
    row: dict[str, Cell] = {}
    for name, metric in _SPEEDS.items():
        width, _ = files.get(name.replace("speed", "width"), (None, ""))
        row[metric] = _cell(files.get(name), "speed", width or "")
    for name, metric in _WIDTHS.items():
        row[metric] = _cell(files.get(name), "width", "")
    for name, (metric, total) in _ERRORS.items():
        row[metric] = _errors(files.get(name), total)
    return row


def _cell(file: tuple[str | None, str] | None, what: str, width: str) -> Cell:
    if file is None:
        return UNSUPPORTED
    text, word = file
    if text is None:
        return word
    text = text.strip()
    if what == "width":
        lanes = whole(text)
        if lanes in _LANES:
            return lanes
        return UNSUPPORTED if lanes == 0 else ERROR
    number, _, unit = text.partition(" ")
    speed = real(number) if unit.startswith("GT/s") else None
    if speed is not None and speed > 0:
        return speed
    # A device inside the processor has no link: its width is 0, and its speed unknown.
    return UNSUPPORTED if width.strip() == "0" else ERROR


def _errors(file: tuple[str | None, str] | None, total: str) -> Cell:
    """Return the total; lines that are 0 are not sent, so that no line at all is none, and not no file."""
    if file is None:
        return UNSUPPORTED
    text, word = file
    if text is None:
        return word
    counts = _counts(text)
    if counts is None:
        return ERROR
    return counts.get(total, sum(counts.values()))


def _counts(text: str) -> dict[str, int] | None:
    counts: dict[str, int] = {}
    for entry in text.split("\n"):
        name, _, count = entry.strip().rpartition(" ")
        if not count:
            continue
        number = whole(count)
        if number is None or not name:
            return None
        counts[name] = number
    return counts


def _kinds(files: _Files) -> dict[str, str]:
    """Return which errors there were: {"aer_correctable": "BadTLP 911, RxErr 18233"}."""
    said: dict[str, str] = {}
    for name, (metric, total) in _ERRORS.items():
        text = files.get(name, (None, ""))[0]
        if text:
            kinds = sorted((_counts(text) or {}).items())
            said[metric.removeprefix("pcie_")] = ", ".join(f"{kind} {count}" for kind, count in kinds if kind != total)
    return said
