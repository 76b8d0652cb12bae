"""Which devices of a new inventory are which of the old one, so that a row never mixes values of two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.metric import Scope
from stethoscope.model.wire import GpuIdentity, PortIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DEVICES = 128
"""Devices of one scope that are kept for one node, those that are gone included."""
MAX_NVLINKS = 512
"""The same of NVLinks: 16 GPUs with 18 links each are 288."""


def most_of(scope: Scope) -> int:
    """Return how many devices of `scope` are kept for one node."""
    return MAX_NVLINKS if scope is Scope.NVLINK else MAX_DEVICES


class GpuInventory(NamedTuple):
    """The GPUs of a node, known ones at the position they had."""

    gpus: tuple[GpuIdentity, ...]
    order: tuple[int, ...]
    """Position in `gpus` of each GPU that the node lists, in the order of its lists."""
    new: frozenset[int]
    """Positions that hold another device than before, or had none: their values and counters start anew."""


class PortInventory(NamedTuple):
    """The ports of a node, known ones at the position they had; the fields are those of GpuInventory."""

    ports: tuple[PortIdentity, ...]
    order: tuple[int, ...]
    new: frozenset[int]


class NamedInventory(NamedTuple):
    """The devices of a node that are known by their names; the fields are those of GpuInventory."""

    names: tuple[str, ...]
    order: tuple[int, ...]
    new: frozenset[int]


def merge_names(known: Sequence[str], listed: Sequence[str], most: int) -> NamedInventory:
    """Return the inventory after a part named all devices of a scope, `most` at most and each once; one that is gone
    keeps its position for as long as there is room."""
    names, order, new = list(known), list[int](), set[int]()
    positions = {name: position for position, name in enumerate(known)}
    named = set(listed)
    gone = (position for position, name in enumerate(known) if name not in named)
    for name in listed:
        position = positions.get(name, -1)
        if position < 0:
            position = len(names) if len(names) < most else next(gone)
            new.add(position)
            if position == len(names):
                names.append(name)
            else:
                names[position] = name
        order.append(position)
    return NamedInventory(tuple(names), tuple(order), frozenset(new))


def merge_gpus(known: Sequence[GpuIdentity], listed: Sequence[GpuIdentity], expected: int | None) -> GpuInventory:
    """Return the inventory after a node listed its GPUs.

    A GPU that was there and is no longer listed keeps its position. So does one that is expected and was never seen: a
    bare index stands for it. GPUs are matched by UUID, else by PCI address (another UUID there is another board in the
    same slot), else a bare index by its index. A listed GPU has the index that the node gives it now, for this is what
    every tool on the node calls it; one that is gone moves to a free index when its own was given away.
    """
    free = dict(enumerate(known))
    position_of: dict[int, int] = {}
    for same in (_same_uuid, _same_slot, _same_index):
        for number, gpu in enumerate(listed):
            if number not in position_of:
                for position, old in free.items():
                    if same(old, gpu):
                        position_of[number] = position
                        del free[position]
                        break
    gpus, new = list(known), set[int]()
    for number, gpu in enumerate(listed):
        if number not in position_of:
            spare = next((position for position in free if len(gpus) >= MAX_DEVICES), None)
            position_of[number] = len(gpus) if spare is None else spare
            new.add(position_of[number])
            if spare is None:
                gpus.append(gpu)
            else:
                del free[spare]
                gpus[spare] = gpu
            continue
        position = position_of[number]
        old = gpus[position]
        if gpu.uuid and old.uuid and gpu.uuid != old.uuid:
            new.add(position)
            gpus[position] = gpu
        else:
            gpus[position] = GpuIdentity(gpu.index, gpu.name or old.name, gpu.uuid or old.uuid, gpu.pci or old.pci)
    taken = {gpu.index for gpu in listed}
    for position in free:
        old = gpus[position]
        index = old.index if old.index not in taken else _first_free(taken)
        taken.add(index)
        gpus[position] = GpuIdentity(index, old.name, old.uuid, old.pci)
    while len(gpus) < min(expected or 0, MAX_DEVICES):
        new.add(len(gpus))
        gpus.append(GpuIdentity(_first_free(taken)))
        taken.add(gpus[-1].index)
    return GpuInventory(tuple(gpus), tuple(position_of[number] for number in range(len(listed))), frozenset(new))


def merge_ports(known: Sequence[PortIdentity], listed: Sequence[PortIdentity]) -> PortInventory:
    """Return the inventory after a node listed its ports; a port is the same when its device and number are."""
    ports, order, new = list(known), list[int](), set[int]()
    positions = {(port.device, port.port): position for position, port in enumerate(known)}
    names = {(port.device, port.port) for port in listed}
    for port in listed:
        position = positions.get((port.device, port.port), -1)
        if position < 0 and len(ports) >= MAX_DEVICES:
            gone = (at for at, old in enumerate(ports) if (old.device, old.port) not in names)
            position = next(gone)
            new.add(position)
        if position < 0:
            position = len(ports)
            new.add(position)
            ports.append(port)
        else:
            ports[position] = port
        order.append(position)
    return PortInventory(tuple(ports), tuple(order), frozenset(new))


def _same_uuid(old: GpuIdentity, gpu: GpuIdentity) -> bool:
    return bool(gpu.uuid) and old.uuid == gpu.uuid


def _same_slot(old: GpuIdentity, gpu: GpuIdentity) -> bool:
    return bool(gpu.pci) and old.pci == gpu.pci


def _same_index(old: GpuIdentity, gpu: GpuIdentity) -> bool:
    bare = not (old.uuid or old.pci) or not (gpu.uuid or gpu.pci)
    return bare and old.index == gpu.index


def _first_free(taken: set[int]) -> int:
    return next(index for index in range(len(taken) + 1) if index not in taken)
