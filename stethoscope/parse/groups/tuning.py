"""Settings of a node that make training slow or uneven when they differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.facts import Facts
from stethoscope.parse.groups.values import ERROR, UNSUPPORTED, answer, cell, counted, line, said, whole

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
_NUMA = "/proc/sys/kernel/numa_balancing"
_MTU = "/sys/class/infiniband/*/device/net/*/mtu"
_CHOSEN = re.compile(r"\[(\w+)\]", re.ASCII)
_LOCKED = re.compile(r"Max locked memory +(\S+)", re.ASCII)
_UNLIMITED, _UNLIMITED_KIB = 2**63, 2**54
"""From the first on it is no limit, as systemd and PAM write it: a number a little below 2**64 bytes, the second."""
_PEERMEM = frozenset({"nvidia_peermem", "nv_peer_mem"})
_SERVICES = {"fabricmanager": "nvidia-fabricmanager", "persistenced": "nvidia-persistenced"}


def read(part: wire.Part) -> Facts:
    """Return the settings as numbers and as words that compare."""
    locked, memlock = _memlock(part)
    node: dict[str, Cell] = {
        "numa_balancing": _switched(cell(part, _NUMA)),
        "memlock_limit": locked,
        "peermem_loaded": _peermem(part),
    }
    blocks = _blocks(part)
    for name, service in _SERVICES.items():
        node[f"{name}_active"] = _active(part, name, blocks.get(service))
    chosen = _CHOSEN.search(part.files.get("/sys/kernel/mm/transparent_hugepage/enabled", ""))
    words = {
        "cpu_governor": said(counted(part.files.get(_GOVERNORS, ""))),
        "numa_balancing": line(part, _NUMA),
        "memlock": memlock,
        "transparent_hugepage": chosen[1] if chosen else "",
        "clocksource": line(part, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "mtu": said(counted(part.files.get(_MTU, ""))),
    }
    return Facts(part.name, node=node, words={word: text for word, text in words.items() if text})


def _switched(value: Cell) -> Cell:
    """Return 0 or 1; since 5.18 the kernel has more modes than one, as bits."""
    return min(1, value) if isinstance(value, int) and value >= 0 else value


def _memlock(part: wire.Part) -> tuple[Cell, str]:
    """Return the soft limit of a new session in KiB, and as a word; without a limit it is all that can be counted."""
    text = part.files.get("/proc/self/limits")
    if text is None:
        return part.failed.get("/proc/self/limits", UNSUPPORTED), ""
    match = _LOCKED.search(text)
    if match is None:
        return UNSUPPORTED, ""
    limit = whole(match[1])
    if match[1] == "unlimited" or (limit is not None and limit >= _UNLIMITED):
        return _UNLIMITED_KIB, "unlimited"
    return (ERROR, "") if limit is None else (limit // 1024, f"{limit // 1024} KiB")


def _peermem(part: wire.Part) -> Cell:
    text = part.files.get("/proc/modules")
    if text is None:
        return part.failed.get("/proc/modules", UNSUPPORTED)
    return int(any(entry.partition(" ")[0] in _PEERMEM for entry in text.split("\n")))


def _blocks(part: wire.Part) -> dict[str, dict[str, str]]:
    """Return what `systemctl show` says of each service, by its name; their blocks have an empty line between."""
    ran, word = answer(part, "services")
    blocks: dict[str, dict[str, str]] = {}
    for block in ran.out.split("\n\n") if ran is not None and not word else ():
        properties = dict(entry.strip().partition("=")[::2] for entry in block.split("\n"))
        blocks[properties.get("Id", "").removesuffix(".service")] = properties
    return blocks


def _active(part: wire.Part, name: str, properties: dict[str, str] | None) -> Cell:
    """Return whether a service runs; one that is not installed is neither active nor not."""
    if properties is not None:
        if properties.get("LoadState") == "not-found" or not properties.get("ActiveState"):
            return UNSUPPORTED
        return int(properties["ActiveState"] in ("active", "reloading"))
    ran, word = answer(part, name if name in part.ran else "services")
    if ran is None or word:
        return word
    state = ran.out.strip()
    # Status 4 is that there is no such service, whatever its state is called.
    if ran.exit == 4 or state not in ("active", "reloading", "inactive", "failed", "activating", "deactivating"):
        return UNSUPPORTED
    return int(state in ("active", "reloading"))
