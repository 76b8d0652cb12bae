"""PCIe links of GPUs, NVSwitches, adapters and NVMe disks, and of the ports above them, from /sys/bus/pci/drivers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import ERROR, NONSENSE, UNSUPPORTED, bounded, real, whole
from stethoscope.parse.pci import normal_pci

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_ROOT = ["", "sys", "bus", "pci", "drivers"]
_PORTS = "pcieport"
_VIRTUAL = "physfn"
_LANES = frozenset({1, 2, 4, 8, 12, 16, 32})
"""What a link can have; 63 and 255 are all ones, read from a device that does not answer."""
_METRICS = {
    "current_link_speed": "pcie_link_speed",
    "max_link_speed": "pcie_max_link_speed",
    "current_link_width": "pcie_link_width",
    "max_link_width": "pcie_max_link_width",
    "aer_dev_correctable": "pcie_aer_correctable",
    "aer_dev_nonfatal": "pcie_aer_nonfatal",
    "aer_dev_fatal": "pcie_aer_fatal",
}
_TOTAL = "TOTAL_ERR_"
_LONGEST, _MOST_NAMED = 2048, 64


def read(part: wire.Part) -> Facts:
    """Return the links of the devices, and of those ports that stand above one of them."""
    links: dict[str, str] = {}
    drivers: dict[str, str] = {}
    texts: dict[str, dict[str, str]] = {name: {} for name in (*_METRICS, _VIRTUAL)}
    for path, text in part.files.items():
        driver, address, file = _place(path)
        if file in texts:
            texts[file][address] = text if len(text) <= _LONGEST else NONSENSE
            drivers.setdefault(address, driver)
        elif address and not file:
            links[address], drivers[address] = text if len(text) <= _LONGEST else NONSENSE, driver
    found = {name: _upstream(path) for name, path in links.items() if name not in texts[_VIRTUAL] and _is_address(name)}
    above = _above(found, drivers)
    # Addresses of the usual length first: a longer one has a longer domain.
    names = sorted(sorted({*found, *above}), key=len)
    values: dict[str, list[Cell]] = {}
    for file, metric in _METRICS.items():
        column = texts[file]
        if file.endswith("speed"):
            widths = texts[file.replace("speed", "width")]
            values[metric] = [_speed(column.get(name), widths.get(name)) for name in names]
        else:
            reading: Callable[[str | None], Cell] = _lanes if file.endswith("width") else _errors
            values[metric] = [reading(column.get(name)) for name in names]
    places = {name: place for place, name in enumerate(names)} if part.failed else {}
    for path, word in part.failed.items():
        _, address, file = _place(path)
        if file in _METRICS and address in places:
            values[_METRICS[file]][places[address]] = word
    errors = {metric: texts[file] for file, metric in _METRICS.items() if file.startswith("aer")}
    faulty = {name for column in errors.values() for name, text in column.items() if text}
    about: dict[str, Mapping[str, str]] = {}
    for name in names:
        upstream, below = above[name] if name in above else (found[name][-1] if found[name] else "", ())
        kinds = tuple((metric, column.get(name, "")) for metric, column in errors.items()) if name in faulty else ()
        about[name] = _about(drivers.get(name, ""), upstream, tuple(below[:_MOST_NAMED]), kinds)
    return Facts(part.name, devices={Scope.PCIE: Devices(tuple(names), values, about)})


@lru_cache(maxsize=16_384)
def _place(path: str) -> tuple[str, str, str]:
    """Return driver, address and file of a path; without a file it is the link to the device."""
    words = path.split("/")
    if words[:5] != _ROOT or not 7 <= len(words) <= 8:
        return "", "", ""
    return words[5], words[6], words[7] if len(words) == 8 else ""


@lru_cache(maxsize=16_384)
def _is_address(name: str) -> bool:
    return name.count(":") == 2 and bool(normal_pci(name))


@lru_cache(maxsize=16_384)
def _upstream(path: str) -> tuple[str, ...]:
    """Return the addresses above a device, the root first."""
    return tuple(step for step in path.strip().split("/")[:-1] if _is_address(step))


def _above(found: Mapping[str, tuple[str, ...]], drivers: Mapping[str, str]) -> dict[str, tuple[str, list[str]]]:
    """Return each port above a device, with what is above the port itself and the devices below it."""
    above: dict[str, tuple[str, list[str]]] = {}
    for name in sorted(found):
        upper = ""
        for port in found[name]:
            if drivers.get(port) == _PORTS and port not in found:
                above.setdefault(port, (upper, []))[1].append(name)
            upper = port
    return above


@lru_cache(maxsize=1024)
def _speed(text: str | None, width: str | None) -> Cell:
    """Return GT/s from `16.0 GT/s PCIe`, or `16 GT/s` of older kernels."""
    if text is None:
        return UNSUPPORTED
    number, _, unit = text.strip().partition(" ")
    speed = real(number) if unit.startswith("GT/s") else None
    if speed is not None and speed > 0:
        return speed
    # A device inside the processor has no link: its width is 0, and its speed unknown.
    return UNSUPPORTED if width is not None and width.strip() == "0" else ERROR


@lru_cache(maxsize=1024)
def _lanes(text: str | None) -> Cell:
    if text is None:
        return UNSUPPORTED
    lanes = whole(text)
    if lanes in _LANES:
        return lanes
    return UNSUPPORTED if lanes == 0 else ERROR


@lru_cache(maxsize=4096)
def _errors(text: str | None) -> Cell:
    """Return the total; lines that are 0 are not sent, so that no line at all is none, and not no file."""
    if text is None:
        return UNSUPPORTED
    counts = _counts(text)
    if counts is None:
        return ERROR
    total = next((count for kind, count in counts.items() if kind.startswith(_TOTAL)), sum(counts.values()))
    return ERROR if bounded(total) is None else total


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


@lru_cache(maxsize=4096)
def _about(
    driver: str, upstream: str, below: tuple[str, ...], errors: tuple[tuple[str, str], ...]
) -> Mapping[str, str]:
    """Return the words, with which errors there were: {"aer_correctable": "BadTLP 911, RxErr 18233"}."""
    said = {"driver": driver, "upstream": upstream, "above": " ".join(below)}
    for metric, text in errors:
        kinds = sorted((_counts(text) or {}).items())
        said[metric.removeprefix("pcie_")] = ", ".join(
            f"{kind} {count}" for kind, count in kinds if not kind.startswith(_TOTAL)
        )
    return {key: text for key, text in said.items() if text}
