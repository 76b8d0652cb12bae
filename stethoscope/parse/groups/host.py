"""What of the host is read rarely: killed and stuck processes, memory errors, swap, open files."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.model.facts import Facts, Task
from stethoscope.parse.groups.values import ERROR, UNSUPPORTED, bounded, cell, numbers, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

MAX_TASKS = 512
"""Processes that are named; all are counted."""
_COUNTS = re.compile(r"/sys/devices/system/edac/mc/mc\d{1,4}/(ce|ue)_count", re.ASCII)
_DRIVER = re.compile(r"_?nv\d|nvidia|uvm_|os_acquire_|os_alloc_|rm_|nvkms|nvUvm", re.ASCII)
"""How the kernel functions of the NVIDIA driver begin; those of NVMe begin with `nvme`."""


def read(part: wire.Part) -> Facts:
    """Return the counters of the host and the processes in state D and Z."""
    node: dict[str, Cell] = {
        "oom_kills": _column(part, "/proc/vmstat", "oom_kill "),
        "hung_tasks": cell(part, "/proc/sys/kernel/hung_task_detect_count"),
        "edac_ce": _edac(part, "ce"),
        "edac_ue": _edac(part, "ue"),
        "swap_used": _swap(part),
        "file_nr": _first(part, "/proc/sys/fs/file-nr"),
    }
    text = part.files.get("tasks")
    if text is None:
        word = part.failed.get("tasks", UNSUPPORTED)
        return Facts(part.name, node={**node, "dstate_processes": word, "zombie_processes": word})
    tasks = [task for entry in text.split("\n") if (task := _task(entry)) is not None]
    node["dstate_processes"] = sum(task.state == "D" for task in tasks)
    node["zombie_processes"] = sum(task.state == "Z" for task in tasks)
    return Facts(part.name, node=node, tasks=tuple(tasks[:MAX_TASKS]))


def _column(part: wire.Part, path: str, name: str) -> Cell:
    """Return the number behind `name` on a line of its own."""
    text = part.files.get(path)
    if text is None:
        return part.failed.get(path, UNSUPPORTED)
    for entry in text.split("\n"):
        if entry.startswith(name):
            number = whole(entry[len(name) :].strip().partition(" ")[0])
            return ERROR if number is None else number
    return UNSUPPORTED


def _first(part: wire.Part, path: str) -> Cell:
    text = part.files.get(path)
    if text is None:
        return part.failed.get(path, UNSUPPORTED)
    number = whole((text.split() or [""])[0])
    return ERROR if number is None else number


def _swap(part: wire.Part) -> Cell:
    """Return used swap in MiB."""
    total, free = (_column(part, "/proc/meminfo", f"{name}:") for name in ("SwapTotal", "SwapFree"))
    if not isinstance(total, int) or not isinstance(free, int):
        return total if not isinstance(total, int) else free
    return max(0, total - free) / 1024


def _edac(part: wire.Part, kind: str) -> Cell:
    """Return the sum over all memory controllers; one that cannot be read makes it unknown."""
    for path in _controllers(tuple(part.failed))[kind]:
        return part.failed[path]
    paths = _controllers(tuple(part.files))[kind]
    if not paths:
        return UNSUPPORTED
    counts = numbers([part.files[path].strip() for path in paths])
    total = None if counts is None else bounded(sum(counts))
    return ERROR if total is None else total


@lru_cache(maxsize=256)
def _controllers(paths: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Return the paths that are counts of memory controllers, by their kind: nodes of one kind have the same ones."""
    found: dict[str, list[str]] = {"ce": [], "ue": []}
    for path in paths:
        match = _COUNTS.fullmatch(path)
        if match:
            found[match[1]].append(path)
    return found


def _task(entry: str) -> Task | None:
    """Return the process of a line: id, state, parent, user, name, and the function it waits in, with tabs between."""
    words = entry.split("\t")
    pid = whole(words[0])
    if pid is None or not 0 < pid < 2**32 or len(words) < 2 or words[1] not in ("D", "Z"):
        return None
    _, state, _, user, name, waits_in = [*words, "", "", "", ""][:6]
    waits_in = "" if waits_in.strip() in ("0", "-") else waits_in.strip()
    return Task(pid, state, name.strip(), user.strip(), waits_in, bool(_DRIVER.match(waits_in)))
