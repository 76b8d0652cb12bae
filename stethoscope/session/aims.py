"""What an on-demand probe can be aimed at, as far as a snapshot knows the nodes, and what forbids to run it there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.collect.ondemand import WORD
from stethoscope.errors import UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.model.metric import Missing, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.specs.probes import OnDemand

BUSY_UTIL = 5.0
"""A GPU that is used this much, in percent, is busy."""
GROUPS = {"disk": "disks", "net": "net", "pci": "pcie"}
"""The group of rarely read values that finds the devices of a target."""


class Aim(NamedTuple):
    """One run: on which node, and with which arguments."""

    node: str
    arguments: tuple[str, ...] = ()
    place: str = ""
    """What it is aimed at, as it is called everywhere: `gpu-007/ib/mlx5_3`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a probe is not run."""

    words: str
    can_force: bool = False
    """A person may take it upon themselves."""


def aims_of(snapshot: FleetSnapshot, probe: OnDemand, places: Iterable[str]) -> list[Aim]:
    """Return the runs that `places` (nodes and devices on them) mean for `probe`: one for each node, or one for each
    device where it looks at one at a time.

    A leaf switch is asked through one port that hangs on it. UsageError for a place that is not there or that the probe
    cannot be aimed at.
    """
    found: dict[Aim, None] = {}
    for place in places:
        if place.startswith("leaf/") and probe.target == "port":
            found[_through(snapshot, probe, place)] = None
            continue
        name = ids.node_of(place)
        if name not in snapshot.by_name:
            raise UsageError(f'no node is called "{name}" here')
        node = snapshot.node(name)
        if probe.peers:
            found[Aim(name, _peers(snapshot, name, probe.peers), name)] = None
            continue
        if probe.target == "node" or (place == name and probe.whole):
            found[Aim(name, (), name)] = None
            continue
        known = devices_of(snapshot, probe, name)
        if place == name:
            found.update(dict.fromkeys(known))
            continue
        fitting = [aim for aim in known if aim.place == place] or _behind(node, probe, place, known)
        if not fitting:
            near = did_you_mean(place, [aim.place for aim in known])
            raise UsageError(f"{probe.id} looks at one {_WORDS[probe.target]}, and {place} is none that is known{near}")
        found.update(dict.fromkeys(fitting))
    return list(found)


def _peers(snapshot: FleetSnapshot, name: str, most: int) -> tuple[str, ...]:
    """Return nodes of the same job that a node is to reach: its neighbours in the ring first, then a few from all
    over it; UsageError where no such job is known."""
    nodes = next((job.nodes for job in snapshot.jobs if name in job.nodes and len(job.nodes) > 1), ())
    if not nodes:
        raise UsageError(f"no job is known that runs on {name} and on others")
    at, count = nodes.index(name), len(nodes)
    near = [nodes[(at + 1) % count], nodes[(at - 1) % count]]
    step = max(1, count // max(1, most - len(near)))
    far = [nodes[(at + step // 2 + step * number) % count] for number in range(most)]
    return tuple(one for one in dict.fromkeys((*near, *far)) if one != name)[:most]


def _through(snapshot: FleetSnapshot, probe: OnDemand, leaf: str) -> Aim:
    """Return the run at a port that hangs on a leaf and is up, on a node that answers; of many the first."""
    table = snapshot.tables[Scope.PORT]
    for node in snapshot.nodes:
        if not node.link.state.is_live:
            continue
        for position, port in enumerate(node.ports):
            state = table.get("ib_port_state", node.port_first + position)
            fits = not probe.only or re.fullmatch(probe.only, port.layer)
            if fits and f"leaf/{node.leaf(position)}" == leaf and state == _ACTIVE:
                return Aim(node.name, (port.device, str(port.port)), leaf)
    raise UsageError(f"{probe.id} asks {leaf} through a port that hangs on it, and none that is up is known")


_ACTIVE = 4
"""State of a port that sends and receives."""

_WORDS = {
    "node": "node",
    "gpu": "GPU",
    "port": "adapter port",
    "disk": "disk",
    "net": "network interface",
    "pci": "PCIe device",
}


def devices_of(snapshot: FleetSnapshot, probe: OnDemand, name: str) -> list[Aim]:
    """Return an aim for every device of a node that the probe is for, none for a probe of nodes; UsageError where it
    needs one and none is known."""
    if probe.peers:
        return [Aim(name, _peers(snapshot, name, probe.peers), name)]
    found = _devices(snapshot.node(name), probe) if probe.target != "node" else []
    if not found and not probe.whole and probe.target != "node":
        raise UsageError(f"{probe.id} looks at one {_WORDS[probe.target]}, and none is known on {name}")
    return found


def _devices(node: Node, probe: OnDemand) -> list[Aim]:
    name = node.name
    if probe.target == "gpu":
        return [Aim(name, (str(gpu.index),), ids.gpu_place(name, gpu.index)) for gpu in node.gpus]
    if probe.target == "port":
        return [
            Aim(name, (port.device, str(port.port)), ids.port_place(name, port.device, port.port))
            for port in node.ports
            if not probe.only or re.fullmatch(probe.only, port.layer)
        ]
    scope = {"disk": Scope.DISK, "net": Scope.NET, "pci": Scope.PCIE}[probe.target]
    return [
        Aim(name, (device,), ids.device_place(name, scope, device))
        for device in node.devices.get(scope, ())
        if not probe.only or re.fullmatch(probe.only, device)
    ]


def _behind(node: Node, probe: OnDemand, place: str, known: Sequence[Aim]) -> list[Aim]:
    """Return the run for what is behind a place of another kind: the GPU of an NVLink, the address of a GPU or an
    adapter, the network interface of a port."""
    words = ""
    for gpu in node.gpus:
        here = ids.gpu_place(node.name, gpu.index)
        if place == here and probe.target == "pci":
            words = gpu.pci
        elif probe.target == "gpu" and place.startswith(f"{node.name}/nvlink/{gpu.index}/"):
            return [aim for aim in known if aim.place == here]
    for port in node.ports:
        if place == ids.port_place(node.name, port.device, port.port):
            words = {"pci": port.pci, "net": port.netdev}.get(probe.target, "")
    if not words:
        return []
    return [Aim(node.name, (words,), place)]


def driver_hangs(node: Node) -> bool:
    """Tell whether the GPU driver of a node does not answer."""
    return node.notes.get("nvml", "").startswith("hung")


def refusal(snapshot: FleetSnapshot, probe: OnDemand, aim: Aim) -> Refusal | None:
    """Return why `probe` is not run there now, None when nothing forbids it."""
    if snapshot.read_only:
        return Refusal("--read-only allows no command but the stream probe")
    node = snapshot.node(aim.node)
    if not node.link.state.is_live:
        detail = f": {node.link.detail}" if node.link.detail else ""
        return Refusal(f"there is no link: {node.link.state.value}{detail}")
    for word in aim.arguments:
        if not WORD.fullmatch(word):
            return Refusal(f'"{word}" has characters that are not given to a command')
    if probe.asks_driver and driver_hangs(node):
        return Refusal("the GPU driver does not answer there, and this would wait for it as well", can_force=True)
    if probe.loads_gpu:
        busy = _busy(snapshot, node, {int(aim.arguments[0])} if probe.target == "gpu" and aim.arguments else None)
        if busy:
            return Refusal(busy, can_force=True)
    return None


def _busy(snapshot: FleetSnapshot, node: Node, wanted: set[int] | None) -> str:
    """Return what keeps the GPUs of the set (None: all) busy, nothing when all are known to be idle."""
    table = snapshot.tables[Scope.GPU]
    used: list[int] = []
    unknown: list[int] = []
    for gpu, row in zip(node.gpus, snapshot.rows(node, Scope.GPU), strict=False):
        if wanted is not None and gpu.index not in wanted:
            continue
        util = table.get("gpu_util", row)
        if isinstance(util, Missing):
            unknown.append(gpu.index)
        elif util >= BUSY_UTIL:
            used.append(gpu.index)
    holders = [
        process
        for process in node.processes or ()
        if (wanted is None or process.gpu in wanted) and process.memory_mib != 0
    ]
    busy = sorted({*used, *(process.gpu for process in holders)})
    if busy:
        return f"busy: GPU {_numbers(busy)}{_holders(node, busy)}"
    if unknown:
        return f"it is not known whether GPU {_numbers(unknown)} is busy"
    if node.processes is None:
        return "it is not known whether processes hold a GPU"
    return ""


def _holders(node: Node, busy: Sequence[int]) -> str:
    """Return who holds the GPUs, by job, else by pod, else by process: `, held by job 4242 of ana (8 processes)`."""
    counts: dict[str, int] = {}
    for process in node.processes or ():
        if process.gpu not in busy:
            continue
        if process.slurm_job:
            what = f"job {process.slurm_job}"
        elif process.pod:
            what = f"pod {process.pod}"
        else:
            what = f"process {process.pid}" + (f" {process.name}" if process.name else "")
        if process.user:
            what += f" of {process.user}"
        counts[what] = counts.get(what, 0) + 1
    if not counts:
        return ""
    shown = [f"{what} ({count} processes)" if count > 1 else what for what, count in counts.items()]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f", held by {', '.join(shown[:3])}{more}"


def _numbers(numbers: Sequence[int]) -> str:
    """Return `0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
