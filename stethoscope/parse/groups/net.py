"""Network interfaces that are hardware, from /sys/class/net, /proc/net/dev and the statistics of their adapter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import ABSENT, ERROR, PERMISSION, UNSUPPORTED, bounded, cell, numbers, whole
from stethoscope.parse.pci import normal_pci

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_INTERFACE = re.compile(r"/sys/class/net/([^/]{1,32})/device", re.ASCII)
_ADAPTER = re.compile(r"/sys/class/infiniband/([^/]{1,64})/device/net/([^/]{1,32})", re.ASCII)
_STATES = {
    "unknown": 0, "notpresent": 1, "down": 2, "lowerlayerdown": 3, "testing": 4, "dormant": 5, "up": 6,
}  # fmt: skip
_UNKNOWN_SPEEDS = frozenset({0, 65_535})
_COLUMNS = 16
_STATISTICS = {
    "net_rx_discards_phy": ("rx_discards_phy",),
    "net_rx_crc_errors_phy": ("rx_crc_errors_phy",),
    "net_rx_symbol_err_phy": ("rx_symbol_err_phy", "rx_pcs_symbol_err_phy"),
    "net_link_down_events_phy": ("link_down_events_phy",),
    "net_pci_stalled_wr": ("outbound_pci_stalled_wr",),
}
"""Metric -> the names of its counter in the driver, the first that is there."""
_PRIORITIES = {
    "net_pfc_rx_pause_duration": re.compile(r"rx_prio\d_pause_duration", re.ASCII),
    "net_pfc_tx_pause": re.compile(r"tx_prio\d_pause", re.ASCII),
}
_FROM_DEV = ("net_rx_bytes", "net_tx_bytes", "net_drops", "net_errors")


def read(part: wire.Part) -> Facts:
    """Return the state and the counters of each interface, and how much TCP sent again."""
    retransmitted = _retransmitted(part.files.get("/proc/net/snmp"))
    counted = _dev(part.files.get("/proc/net/dev", ""))
    adapters: dict[str, str] = {}
    statistics: dict[str, dict[str, int | None]] = {}
    names: dict[str, str] = {}
    for path, text in part.files.items():
        if match := _INTERFACE.fullmatch(path):
            names[match[1]] = text.strip()
        elif match := _ADAPTER.fullmatch(path):
            adapters[match[2]] = match[1]
            statistics[match[2]] = _pairs(text)
    rows = {name: _row(part, name, counted.get(name), statistics.get(name)) for name in sorted(names)}
    metrics = list(next(iter(rows.values()), {}))
    values = {metric: [row[metric] for row in rows.values()] for metric in metrics}
    about = {}
    for name in rows:
        said = {"pci": normal_pci(names[name].rpartition("/")[2]), "adapter": adapters.get(name, "")}
        about[name] = {key: text for key, text in said.items() if text}
    return Facts(
        part.name,
        node={"net_tcp_retrans": retransmitted},
        devices={Scope.NET: Devices(tuple(rows), values, about)},
    )


def _row(
    part: wire.Part, name: str, counted: list[Cell] | None, statistics: Mapping[str, int | None] | None
) -> dict[str, Cell]:
    folder = f"/sys/class/net/{name}"
    row: dict[str, Cell] = {
        "net_operstate": _state(part, f"{folder}/operstate"),
        "net_mtu": cell(part, f"{folder}/mtu"),
        "net_speed": _speed(part, f"{folder}/speed"),
        "net_carrier_changes": cell(part, f"{folder}/carrier_changes"),
    }
    row.update(zip(_FROM_DEV, counted or [UNSUPPORTED] * len(_FROM_DEV), strict=True))
    for metric, keys in _STATISTICS.items():
        row[metric] = next((_known(statistics[key]) for key in keys if statistics and key in statistics), UNSUPPORTED)
    for metric, pattern in _PRIORITIES.items():
        row[metric] = _sum([count for key, count in (statistics or {}).items() if pattern.fullmatch(key)])
    return row


def _state(part: wire.Part, path: str) -> Cell:
    text = part.files.get(path)
    if text is None:
        return part.failed.get(path, UNSUPPORTED)
    return _STATES.get(text.strip(), ERROR)


def _speed(part: wire.Part, path: str) -> Cell:
    """Return Mb/s; without a link there is none: the kernel then says -1, or refuses to read."""
    text = part.files.get(path)
    if text is None:
        word = part.failed.get(path, UNSUPPORTED)
        return word if word in (PERMISSION, UNSUPPORTED) else ABSENT
    speed = whole(text)
    if speed is None:
        return ERROR
    return ABSENT if speed < 0 or speed >= 2**31 or speed in _UNKNOWN_SPEEDS else speed


def _dev(text: str) -> dict[str, list[Cell]]:
    """Return bytes in and out, drops and errors of each interface of /proc/net/dev."""
    found: dict[str, list[Cell]] = {}
    for entry in text.split("\n"):
        name, colon, rest = entry.rpartition(":")
        columns = rest.split()
        if not colon or len(columns) < _COLUMNS:
            continue
        counts = numbers(columns[:_COLUMNS])
        if counts is None:
            found[name.strip()] = [ERROR] * len(_FROM_DEV)
        else:
            found[name.strip()] = [counts[0], counts[8], _sum([counts[3], counts[11]]), _sum([counts[2], counts[10]])]
    return found


def _pairs(text: str) -> dict[str, int | None]:
    pairs = {}
    for entry in text.split("\n"):
        name, _, count = entry.strip().rpartition(" ")
        if name:
            pairs[name.strip().removesuffix(":")] = whole(count)
    return pairs


def _known(count: int | None) -> Cell:
    return ERROR if count is None else count


def _sum(counts: list[int | None] | list[int]) -> Cell:
    if not counts:
        return UNSUPPORTED
    if None in counts:
        return ERROR
    return _known(bounded(sum(count for count in counts if count is not None)))


def _retransmitted(text: str | None) -> Cell:
    """Return RetransSegs of the two lines of TCP: the names, then the numbers."""
    if text is None:
        return UNSUPPORTED
    lines = [entry.split() for entry in text.split("\n") if entry.startswith("Tcp:")]
    if len(lines) < 2 or "RetransSegs" not in lines[0]:
        return UNSUPPORTED
    place = lines[0].index("RetransSegs")
    return _known(whole(lines[1][place])) if place < len(lines[1]) else ERROR
