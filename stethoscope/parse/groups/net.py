"""Network interfaces that are hardware, from /sys/class/net, /proc/net/dev and the statistics of their adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import (
    ABSENT,
    ERROR,
    NONSENSE,
    PERMISSION,
    UNSUPPORTED,
    are_numbers,
    bounded,
    numbers,
    whole,
)
from stethoscope.parse.pci import normal_pci

if TYPE_CHECKING:
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
_NO_STATISTICS: tuple[Cell, ...] = (UNSUPPORTED,) * len(_FROM_ADAPTER)
_Reading = Callable[["str | None", str], "Cell"]


_MOST_PATHS, _MOST_WORDS, _MOST_SHARED = 512, 64, 16_384
"""Paths, words in place of texts, and characters of texts that are remembered of a node; more is read each time."""


@dataclass(frozen=True, eq=False, slots=True)
class _Places:
    """Which of many paths says what of which interface, by the interface's name."""

    devices: Mapping[str, str]
    names: tuple[str, ...]
    """Those of the devices, in their order."""
    adapters: Mapping[str, str]
    """The adapter's name, and ..."""
    statistics: Mapping[str, str]
    """... the path of what it counts."""
    files: Mapping[str, Mapping[str, str]]
    """The same for each file of `_FIXED` and `_COUNTED`."""
    fixed: tuple[str, ...]
    """The paths of what hardly ever changes."""


class _Fixed(NamedTuple):
    """What hardly ever changes: values of `_FIXED`, and words about each interface."""

    values: Mapping[str, list[Cell]]
    about: Mapping[str, Mapping[str, str]]


def read(part: wire.Part) -> Facts:
    """Return the state and the counters of each interface, and how much TCP sent again."""
    places, failed = _places_of(part.files), _places_of(part.failed)
    names = places.names
    texts = tuple([part.files[path] for path in places.fixed])
    words = tuple([(path, part.failed[path]) for path in failed.fixed])
    is_usual = len("".join(texts)) <= _MOST_SHARED and len(words) <= _MOST_WORDS
    fixed = (_fixed if is_usual else _fixed.__wrapped__)(places, failed, texts, words)
    values: dict[str, list[Cell]] = {**fixed.values}
    for file, (metric, reading) in _COUNTED.items():
        values[metric] = _column(part.files, part.failed, places, failed, file, reading)
    counted = _dev(part.files.get("/proc/net/dev", ""), places.devices)
    rows = [counted.get(name, _NOT_COUNTED) for name in names]
    values.update((metric, [row[place] for row in rows]) for place, metric in enumerate(_FROM_DEV))
    found = [
        _statistics(_short(part.files[places.statistics[name]], _LONGEST_STATISTICS))
        if name in places.statistics
        else _NO_STATISTICS
        for name in names
    ]
    values.update((metric, [row[place] for row in found]) for place, metric in enumerate(_FROM_ADAPTER))
    return Facts(
        part.name,
        node={"net_tcp_retrans": _retransmitted(part.files.get("/proc/net/snmp"))},
        devices={Scope.NET: Devices(names, values, fixed.about)},
    )


def _column(
    files: Mapping[str, str], failed: Mapping[str, str], places: _Places, unread: _Places, file: str, reading: _Reading
) -> list[Cell]:
    """Return what a file says of each interface."""
    paths, why = places.files[file], unread.files[file]
    return [
        reading(
            _short(files[paths[name]]) if name in paths else None, failed[why[name]] if name in why else UNSUPPORTED
        )
        for name in places.names
    ]


@lru_cache(maxsize=64)
def _fixed(places: _Places, failed: _Places, texts: tuple[str, ...], words: tuple[tuple[str, str], ...]) -> _Fixed:
    """Return what those texts say, the same for nodes of one kind: nobody changes it."""
    files, why = dict(zip(places.fixed, texts, strict=True)), dict(words)
    values = {metric: _column(files, why, places, failed, file, reading) for file, (metric, reading) in _FIXED.items()}
    about = {name: _about(_short(files[places.devices[name]]), places.adapters.get(name, "")) for name in places.names}
    return _Fixed(values, about)


def _places_of(paths: Mapping[str, str]) -> _Places:
    return (_places if len(paths) <= _MOST_PATHS else _places.__wrapped__)(tuple(paths))


@lru_cache(maxsize=64)
def _places(paths: tuple[str, ...]) -> _Places:
    """Return where to look: a node has the same files each time, and nodes of one kind have the same ones."""
    devices: dict[str, str] = {}
    adapters: dict[str, str] = {}
    statistics: dict[str, str] = {}
    files: dict[str, dict[str, str]] = {name: {} for name in (*_FIXED, *_COUNTED)}
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
    fixed = chain(devices.values(), *[files[file].values() for file in _FIXED])
    return _Places(devices, tuple(sorted(devices)), adapters, statistics, files, tuple(fixed))


def _short(text: str, longest: int = _LONGEST) -> str:
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


_Files = Mapping[str, tuple[str, _Reading]]
_FIXED: _Files = {
    "operstate": ("net_operstate", _state),
    "mtu": ("net_mtu", _number),
    "speed": ("net_speed", _speed),
}
"""File of an interface -> its metric, and what reads it: from its text, or from the word of why there is none; ..."""
_COUNTED: _Files = {"carrier_changes": ("net_carrier_changes", _number)}
"""... and of those that each interface has of its own."""


def _dev(text: str, names: Mapping[str, str]) -> dict[str, list[Cell]]:
    """Return bytes in and out, drops and errors of each of the interfaces in /proc/net/dev."""
    rows: dict[str, list[str]] = {}
    for entry in text.split("\n"):
        name, _, rest = entry.rpartition(":")
        name = name.strip()
        if name in names:
            rows[name] = rest.split()[:_COLUMNS]
    # Whether they are numbers is seen as quickly of all rows as of one.
    if rows and min(map(len, rows.values())) == _COLUMNS and are_numbers([*chain.from_iterable(rows.values())]):
        return {name: _counts(columns) for name, columns in rows.items()}
    found: dict[str, list[Cell]] = {}
    for name, columns in rows.items():
        is_row = len(columns) == _COLUMNS and numbers(columns) is not None
        found[name] = _counts(columns) if is_row else [ERROR] * len(_FROM_DEV)
    return found


def _counts(columns: list[str]) -> list[Cell]:
    drops, errors = int(columns[3]) + int(columns[11]), int(columns[2]) + int(columns[10])
    return [int(columns[0]), int(columns[8]), _known(bounded(drops)), _known(bounded(errors))]


@lru_cache(maxsize=512)
def _statistics(text: str) -> tuple[Cell, ...]:
    """Return the metrics that an adapter counts, from lines such as `rx_discards_phy 12`."""
    words = text.split()
    counts = numbers(words[1::2]) if words else []
    if counts is None or len(words) % 2:
        return (ERROR,) * len(_FROM_ADAPTER)
    found: dict[str, int] = {}
    others: dict[str, int] = {}
    for name, count in zip(words[::2], counts, strict=True):
        metric = _COUNTERS.get(name)
        if metric is not None:
            found[metric] = found.get(metric, 0) + count
        elif name in _SECOND_CHOICE:
            others[_SECOND_CHOICE[name]] = count
    said = {metric: _known(bounded(count)) for metric, count in {**others, **found}.items()}
    return tuple([said.get(metric, UNSUPPORTED) for metric in _FROM_ADAPTER])


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
