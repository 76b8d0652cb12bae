"""The shape of a simulated fleet and the places in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec

from stethoscope.errors import did_you_mean
from stethoscope.specs.load import Spec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_Count = Annotated[int, msgspec.Meta(ge=1, le=20_000)]
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class FleetShape(Spec, frozen=True):
    """The machines: nodes gpu-001 ..., racks and pods filled in order, port i of a pod's nodes on leaf-<pod>-<i>."""

    nodes: _Count
    gpus_per_node: Annotated[int, msgspec.Meta(ge=1, le=16)]
    gpu: str
    ib_ports_per_node: Annotated[int, msgspec.Meta(ge=0, le=16)] = 8
    ib_rate_gbps: _Positive = 400
    nodes_per_rack: _Count = 4
    nodes_per_pod: _Count = 32
    driver: str = "550.90.07"
    drift: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)

    def node_names(self) -> list[str]:
        """Return the names of the nodes, in order."""
        width = max(3, len(str(self.nodes)))
        return [f"gpu-{number:0{width}d}" for number in range(1, self.nodes + 1)]

    def rack(self, node: int) -> str:
        """Return the rack of the node at that position (from 0), such as `rack-01`."""
        return f"rack-{node // self.nodes_per_rack + 1:02d}"

    def pod(self, node: int) -> str:
        """Return the pod of the node at that position (from 0), such as `pod-01`."""
        return f"pod-{node // self.nodes_per_pod + 1:02d}"

    def leaf(self, node: int, port: int) -> str:
        """Return the leaf switch that serves that port of that node, such as `leaf-02-6`."""
        return f"leaf-{node // self.nodes_per_pod + 1:02d}-{port}"


@dataclass(frozen=True, slots=True)
class Place:
    """A place; `form` is node, gpu, ib, nvlink, disk, cpu, rack, pod, leaf, job, rank, storage or fleet."""

    text: str
    form: str
    node: int = -1
    """Position of its node (from 0), -1 for places that are not on one node."""
    index: int = -1
    """GPU, port or rank number."""
    link: int = -1
    name: str = ""
    """Disk, rack, pod, leaf, job or storage."""


class _Job(Protocol):
    @property
    def nodes(self) -> tuple[int, ...]: ...


def place(text: str, fleet: FleetShape, nodes: Mapping[str, int], jobs: Mapping[str, _Job]) -> Place:
    """Return the place that `text` names; ValueError when the fleet has no such place."""
    head, *rest = text.split("/")
    if head == "fleet" and not rest:
        return Place(text, "fleet")
    if head == "storage" and len(rest) == 1 and rest[0]:
        return Place(text, "storage", name=rest[0])
    if head in ("rack", "pod", "leaf") and len(rest) == 1:
        _known(rest[0], head, _groups(fleet, head))
        return Place(text, head, name=rest[0])
    if head == "job" and len(rest) in (1, 3):
        _known(rest[0], "job", jobs)
        if len(rest) == 1:
            return Place(text, "job", name=rest[0])
        ranks = len(jobs[rest[0]].nodes) * fleet.gpus_per_node
        if rest[1] == "rank":
            rank = _number(rest[2], "rank", ranks)
            return Place(text, "rank", jobs[rest[0]].nodes[rank // fleet.gpus_per_node], rank, name=rest[0])
    if head not in nodes:
        near = did_you_mean(head, nodes)
        raise ValueError(f'no node "{head}" in this fleet of {fleet.nodes}{near}')
    node = nodes[head]
    match rest:
        case []:
            return Place(text, "node", node)
        case ["cpu"]:
            return Place(text, "cpu", node)
        case ["gpu", number]:
            return Place(text, "gpu", node, _number(number, "GPU", fleet.gpus_per_node))
        case ["ib", name] if name.startswith("mlx5_"):
            return Place(text, "ib", node, _number(name[5:], "port mlx5_", fleet.ib_ports_per_node), name=name)
        case ["nvlink", number, link]:
            return Place(text, "nvlink", node, _number(number, "GPU", fleet.gpus_per_node), _number(link, "NVLink", 18))
        case ["disk", name] if name in ("nvme0n1", "nvme1n1", "nvme2n1"):
            return Place(text, "disk", node, name=name)
    raise ValueError(f'"{text}" is not a place such as gpu-007, gpu-007/gpu/3, gpu-007/ib/mlx5_3 or leaf/leaf-01-3')


def _groups(fleet: FleetShape, form: str) -> set[str]:
    if form == "rack":
        return {fleet.rack(node) for node in range(fleet.nodes)}
    if form == "pod":
        return {fleet.pod(node) for node in range(fleet.nodes)}
    return {fleet.leaf(node, port) for node in range(fleet.nodes) for port in range(fleet.ib_ports_per_node)}


def _known(name: str, form: str, known: Collection[str]) -> None:
    if name not in known:
        raise ValueError(f'no {form} "{name}" in this scenario{did_you_mean(name, known)}')


def _number(text: str, what: str, limit: int) -> int:
    if not text.isdecimal() or int(text) >= limit:
        named = f"{what}{text}" if what.endswith("_") else f'{what} "{text}"'
        raise ValueError(f"no {named}: there are {limit}, counted from 0")
    return int(text)
