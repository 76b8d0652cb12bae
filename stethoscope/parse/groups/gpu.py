"""What the driver says rarely: values of GPUs and their NVLinks, versions, and the processes that hold GPUs."""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING

from stethoscope.model.facts import Devices, Facts, GpuProcess
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.cgroup import owner
from stethoscope.parse.groups.values import UNSUPPORTED, line

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_STUCK = ("D", "Z")


def read(part: wire.Part) -> Facts:
    """Return the values in the order of the inventory, and every process with whose it is."""
    processes = tuple(_process(part, app) for app in part.apps)
    stuck = {process.pid for process in processes if process.state in _STUCK}
    words = {name: value for name, value in part.words.items() if isinstance(value, str) and value}
    gpu_words = {name: tuple(value) for name, value in part.words.items() if not isinstance(value, str) and any(value)}
    return Facts(
        part.name,
        node={"zombie_gpu_holders": len(stuck)},
        gpu={metric: _filled(row) for metric, row in part.gpu.items()},
        devices={Scope.NVLINK: _shared(part)} if part.links else {},
        words=words,
        gpu_words=gpu_words,
        processes=processes,
    )


_MOST_SHARED = 64
_shared_links: dict[int, tuple[object, Devices]] = {}
"""What was read of lists that many nodes share (parse.stream), by the identity of these, with them."""


def _shared(part: wire.Part) -> Devices:
    known = _shared_links.get(id(part.links))
    if known is None:
        if len(_shared_links) >= _MOST_SHARED:
            _shared_links.clear()
        known = _shared_links[id(part.links)] = part.links, _links(part)
    return known[1]


def _links(part: wire.Part) -> Devices:
    """Return the links as `5/11`, GPU and link; a GPU without NVLink has none."""
    gpus = max(map(len, part.links.values()))
    counts = [
        max((len(rows[gpu]) for rows in part.links.values() if gpu < len(rows)), default=0) for gpu in range(gpus)
    ]
    values: dict[str, list[Cell]] = {}
    for metric, rows in part.links.items():
        column: list[Cell] = []
        for gpu, count in enumerate(counts):
            row = rows[gpu] if gpu < len(rows) else []
            column.extend(_filled(row))
            column.extend([UNSUPPORTED] * (count - len(row)))
        values[metric] = column
    return Devices(_link_names(tuple(counts)), values)


def _filled(row: list[Cell]) -> list[Cell]:
    return [UNSUPPORTED if cell is None else cell for cell in row] if None in row else row


@lru_cache(maxsize=64)
def _link_names(counts: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"{gpu}/{link}" for gpu, count in enumerate(counts) for link in range(count))


def _process(part: wire.Part, app: list[Cell]) -> GpuProcess:
    gpu, pid, memory_mib, kind = app
    folder = f"/proc/{pid}"
    whose = owner(part.files.get(f"{folder}/cgroup", ""))
    # A job has thousands of processes of one name and user.
    return GpuProcess(
        pid=int(pid or 0),
        gpu=int(gpu or 0),
        memory_mib=None if memory_mib is None else float(memory_mib),
        kind=intern(str(kind or "")),
        name=intern(line(part, f"{folder}/comm")),
        user=intern(line(part, f"{folder}/user")),
        state=_state(part.files.get(f"{folder}/stat", "")),
        slurm_job=intern(whose.slurm_job),
        pod=intern(whose.pod),
        container=intern(whose.container),
    )


def _state(stat: str) -> str:
    """Return the letter behind the name, which may hold spaces and parentheses itself."""
    letter = stat.rpartition(")")[2].strip()[:1]
    return letter if letter.isalpha() else ""
