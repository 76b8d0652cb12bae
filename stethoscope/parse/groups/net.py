"""Network interfaces that are hardware, from /sys/class/net, /proc/net/dev and the statistics of their adapter."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import ABSENT, ERROR, NONSENSE, PERMISSION, UNSUPPORTED, bounded, numbers, whole
from stethoscope.parse.pci import normal_pci

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_INTERFACES, _ADAPTERS = "/sys/class/net/", "/sys/class/infiniband/"
_STATES = {
    "unknown": 0, "notpresent": 1, "down": 2, "lowerlayerdown": 3, "testing": 4, "dormant": 5, "up": 6,
}  # fmt: skip
_UNKNOWN_SPEEDS = frozenset({0, 65_535})
_COLUMNS = 16
_LONGEST, _LONGEST_STATISTICS = 512, 16_384
_COUNTERS = {
    "rx_discards_phy": "net_rx_discards_phy",
    "rx_crc_errors_phy": "net_rx_crc_errors_phy",
    "rx_symbol_err_phy": "net_rx_symbol_err_phy",
    "link_down_events_phy": "net_link_down_events_phy",
    "outbound_pci_stalled_wr": "net_pci_stalled_wr",
    **{f"rx_prio{priority}_pause_duration": "net_pfc_rx_pause_duration" for priority in range(8)},
    **{f"tx_prio{priority}_pause": "net_pfc_tx_pause" for priority in range(8)},
}
"""Counter of the adapter's driver -> metric; those of several priorities are added."""
_SECOND_CHOICE = {"rx_pcs_symbol_err_phy": "net_rx_symbol_err_phy"}
"""Counters that stand for the metric when the first one is not there."""
_FROM_ADAPTER = tuple(dict.fromkeys(_COUNTERS.values()))
_FROM_DEV = ("net_rx_bytes", "net_tx_bytes", "net_drops", "net_errors")
_NOT_COUNTED: list[Cell] = [UNSUPPORTED] * len(_FROM_DEV)


class _Places(NamedTuple):
    """Which of many paths says what of which interface, by the interface's name."""

    devices: Mapping[str, str]
    adapters: Mapping[str, str]
    """The adapter's name, and ..."""
    statistics: Mapping[str, str]
    """... the path of what it counts."""
    files: Mapping[str, Mapping[str, str]]
    """The same for each file of `_FILES`."""


def read(part: wire.Part) -> Facts:
    """Return the state and the counters of each interface, and how much TCP sent again."""
    places, failed = _places(tuple(part.files)), _places(tuple(part.failed)).files
    names = sorted(places.devices)
    values: dict[str, list[Cell]] = {}
    for file, (metric, reading) in _FILES.items():
        texts, words = places.files[file], failed[file]
        values[metric] = [
            reading(
                _text(part, texts[name]) if name in texts else None,
                part.failed[words[name]] if name in words else UNSUPPORTED,
            )
            for name in names
        ]
    counted = _dev(part.files.get("/proc/net/dev", ""), places.devices)
    rows = [counted.get(name, _NOT_COUNTED) for name in names]
    values.update((metric, [row[place] for row in rows]) for place, metric in enumerate(_FROM_DEV))
    found = [
        _statistics(_text(part, places.statistics[name], _LONGEST_STATISTICS)) if name in places.statistics else {}
        for name in names
    ]
    values.update((metric, [row.get(metric, UNSUPPORTED) for row in found]) for metric in _FROM_ADAPTER)
    about = {name: _about(_text(part, places.devices[name]), places.adapters.get(name, "")) for name in names}
    return Facts(
        part.name,
        node={"net_tcp_retrans": _retransmitted(part.files.get("/proc/net/snmp"))},
        devices={Scope.NET: Devices(tuple(names), values, about)},
    )


@lru_cache(maxsize=256)
def _places(paths: tuple[str, ...]) -> _Places:
    """Return where to look: a node has the same files each time, and nodes of one kind have the same ones."""
    devices: dict[str, str] = {}
    adapters: dict[str, str] = {}
    statistics: dict[str, str] = {}
    files: dict[str, dict[str, str]] = {name: {} for name in _FILES}
    for path in paths:
        above, _, last = path.rpartition("/")
        if path.startswith(_INTERFACES):
            if last in files:
                files[last][above.rpartition("/")[2]] = path
            elif last == "device":
                devices[above.rpartition("/")[2]] = path
        elif path.startswith(_ADAPTERS):
            adapters[last] = path[len(_ADAPTERS) :].partition("/")[0]
            statistics[last] = path
    return _Places(devices, adapters, statistics, files)


def _text(part: wire.Part, path: str, longest: int = _LONGEST) -> str:
    text = part.files[path]
    return text if len(text) <= longest else NONSENSE


@lru_cache(maxsize=16_384)
def _about(device: str, adapter: str) -> Mapping[str, str]:
    said = {"pci": normal_pci(device.strip().rpartition("/")[2]), "adapter": adapter}
    return {key: text for key, text in said.items() if text}


@lru_cache(maxsize=4096)
def _number(text: str | None, word: str) -> Cell:
    number = None if text is None else whole(text)
    return word if text is None else _known(number)


@lru_cache(maxsize=256)
def _state(text: str | None, word: str) -> Cell:
    return word if text is None else _STATES.get(text.strip(), ERROR)


@lru_cache(maxsize=256)
def _speed(text: str | None, word: str) -> Cell:
    """Return Mb/s; without a link there is none: the kernel then says -1, or refuses to read."""
    if text is None:
        return word if word in (PERMISSION, UNSUPPORTED) else ABSENT
    speed = whole(text)
    if speed is None:
        return ERROR
    return ABSENT if speed < 0 or speed >= 2**31 or speed in _UNKNOWN_SPEEDS else speed


_FILES: Mapping[str, tuple[str, Callable[[str | None, str], Cell]]] = {
    "operstate": ("net_operstate", _state),
    "mtu": ("net_mtu", _number),
    "speed": ("net_speed", _speed),
    "carrier_changes": ("net_carrier_changes", _number),
}
"""File of an interface -> its metric, and what reads it: from its text, or from the word of why there is none."""


def _dev(text: str, names: Mapping[str, str]) -> dict[str, list[Cell]]:
    """Return bytes in and out, drops and errors of each of the interfaces in /proc/net/dev."""
    found: dict[str, list[Cell]] = {}
    for entry in text.split("\n"):
        name, _, rest = entry.rpartition(":")
        name = name.strip()
        if name not in names:
            continue
        columns = rest.split()
        counts = numbers(columns[:_COLUMNS]) if len(columns) >= _COLUMNS else None
        if counts is None:
            found[name] = [ERROR] * len(_FROM_DEV)
        else:
            drops, errors = bounded(counts[3] + counts[11]), bounded(counts[2] + counts[10])
            found[name] = [counts[0], counts[8], _known(drops), _known(errors)]
    return found


@lru_cache(maxsize=512)
def _statistics(text: str) -> Mapping[str, Cell]:
    """Return the metrics that an adapter counts, from lines such as `rx_discards_phy 12`."""
    words = text.split()
    counts = numbers(words[1::2]) if words else []
    if counts is None or len(words) % 2:
        return dict.fromkeys(_FROM_ADAPTER, ERROR)
    found: dict[str, int] = {}
    others: dict[str, int] = {}
    for name, count in zip(words[::2], counts, strict=True):
        metric = _COUNTERS.get(name)
        if metric is not None:
            found[metric] = found.get(metric, 0) + count
        elif name in _SECOND_CHOICE:
            others[_SECOND_CHOICE[name]] = count
    return {metric: _known(bounded(count)) for metric, count in {**others, **found}.items()}


def _known(count: int | None) -> Cell:
    return ERROR if count is None else count


def _retransmitted(text: str | None) -> Cell:
    """Return RetransSegs of the two lines of TCP: the names, then the numbers."""
    if text is None:
        return UNSUPPORTED
    lines = [entry.split() for entry in text.split("\n") if entry.startswith("Tcp:")]
    if len(lines) < 2 or "RetransSegs" not in lines[0]:
        return UNSUPPORTED
    place = lines[0].index("RetransSegs")
    return _known(whole(lines[1][place])) if place < len(lines[1]) else ERROR
