"""What places have in common: the leaf of a port, the rack, driver or job of a node. Where the topology is not known
there is no group, and so no cause rather than a wrong one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.ids import device_place, gpu_place, job_place, port_name
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.model.fleet import FleetSnapshot, Node, PartAge

REFRESH_S = 30.0
"""Drivers, kernels and jobs of nodes are looked up again after so long."""
_REMOTE = ("nfs", "lustre", "ceph", "gpfs", "beegfs", "weka", "cifs", "smb", "glusterfs", "panfs", "orangefs", "pvfs")


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to have something in common."""

    name: str
    """leaf, rack ...; the order of KINDS is that of preference among groups of the same places: physical first."""
    of_nodes: bool
    """Whether nodes have it in common, or rows of a scope."""
    says: str = "of {}"
    """How its places are told, behind their number: `12 of 12 ports of leaf-01-3`."""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("gpu", of_nodes=False),
        Kind("node", of_nodes=False),
        Kind("leaf", of_nodes=False),
        Kind("rail", of_nodes=False, says="{}"),
        Kind("mount", of_nodes=False),
        Kind("storage", of_nodes=False),
        Kind("rack", of_nodes=True),
        Kind("leaf of nodes", of_nodes=True, says="behind {}"),
        Kind("pod", of_nodes=True),
        Kind("jump", of_nodes=True, says="behind {}"),
        Kind("job", of_nodes=True),
        Kind("firmware", of_nodes=True, says="with {}"),
        Kind("driver", of_nodes=True, says="with {}"),
        Kind("kernel", of_nodes=True, says="with {}"),
        Kind("model", of_nodes=True, says="with {}"),
    )
}
"""Every kind, the preferred one first."""
ORDER = {name: position for position, name in enumerate(KINDS)}
_OF_ROWS = {
    Scope.NVLINK: ("gpu", "node"),
    Scope.GPU: ("node",),
    Scope.PORT: ("node", "leaf", "rail"),
    Scope.PCIE: ("node",),
    Scope.NET: ("node",),
    Scope.DISK: ("node",),
    Scope.FS: ("mount", "storage"),
}
_NONE: Mapping[str, PartAge] = {}
_FIXED = frozenset({"gpu", "node", "leaf", "leaf of nodes", "rack", "pod", "rail"})
"""What does not change while the layout stands."""
_OF_NODES = tuple(kind.name for kind in KINDS.values() if kind.of_nodes)


@dataclass(frozen=True, slots=True)
class Groups:
    """Who has what of one kind in common."""

    kind: Kind
    numbers: Numbers
    """Number of the group of each row (of each node for a kind of nodes), -1 for none."""
    causes: tuple[str, ...]
    """By number: the id of the place, or words: `leaf/leaf-01-3`, `driver 550.90.07`."""


class Sharing:
    """The groups of one layout, each looked up when it is asked for first."""

    def __init__(self, snapshot: FleetSnapshot, layout: Layout, before: Sharing | None = None) -> None:
        """Read what `snapshot` says of its nodes; where they stand is taken from what was known `before` of the same
        layout."""
        # It stands for half a minute, and on while nodes say the same: what the values were then, and when parts came,
        # is not kept for that.
        nodes = tuple([replace(node, parts=_NONE) for node in snapshot.nodes])
        self._snapshot = replace(snapshot, nodes=nodes, tables={}, findings=())
        self._layout = layout
        self.mono = snapshot.mono
        self._known: dict[tuple[Scope, str], Groups] = {}
        if before is not None and before._layout is layout:
            self._known = {key: known for key, known in before._known.items() if key[1] in _FIXED}
        self._jobs: list[str] | None = None

    def fits(self, layout: Layout, mono: float) -> bool:
        """Tell whether this still holds."""
        return layout is self._layout and 0 <= mono - self.mono < REFRESH_S

    def renewed(self, snapshot: FleetSnapshot, layout: Layout) -> Sharing:
        """Return what holds from this moment on: the same object where all nodes say what they said, for what was
        found of it stands then."""
        before = self._snapshot
        if (
            layout is self._layout
            and [(job.id, job.nodes) for job in snapshot.jobs] == [(job.id, job.nodes) for job in before.jobs]
            and all(map(_is_alike, before.nodes, snapshot.nodes))
        ):
            self.mono = snapshot.mono
            return self
        return Sharing(snapshot, layout, self)

    def kinds(self, scope: Scope, *, per_node: bool) -> tuple[str, ...]:
        """Return what rows of `scope` can have in common; where findings are about whole nodes, what nodes can."""
        return _OF_NODES if per_node or scope is Scope.NODE else (*_OF_ROWS.get(scope, ()), *_OF_NODES)

    def groups(self, scope: Scope, kind: str) -> Groups:
        """Return the groups of a kind among the rows of `scope`, among nodes for a kind of nodes."""
        key = (Scope.NODE if KINDS[kind].of_nodes else scope, kind)
        if key not in self._known:
            names = self._of_nodes(kind) if KINDS[kind].of_nodes else self._of_rows(scope, kind)
            self._known[key] = _numbered(KINDS[kind], names)
        return self._known[key]

    def _of_nodes(self, kind: str) -> list[str]:
        if kind == "job":
            return [job_place(job) if job else "" for job in self.jobs()]
        name = _NODE_NAMES[kind]
        return [name(node) for node in self._snapshot.nodes]

    def jobs(self) -> list[str]:
        """Return the id of the job of each node, empty where there is none or more than one."""
        if self._jobs is None:
            self._jobs = [_job_of(node) for node in self._snapshot.nodes]
            for job in self._snapshot.jobs:
                for name in job.nodes:
                    index = self._snapshot.by_name.get(name)
                    if index is not None and not self._jobs[index]:
                        self._jobs[index] = job.id
        return self._jobs

    def _of_rows(self, scope: Scope, kind: str) -> list[str]:
        if kind == "node":
            nodes = [*(node.name for node in self._snapshot.nodes), ""]
            return [nodes[owner] for owner in self._layout.owner[scope].tolist()]
        names = [""] * len(self._layout.owner[scope])
        if kind in ("leaf", "rail"):
            for node in self._snapshot.nodes:
                if node.port_first >= 0:
                    of_node = _leaves(node) if kind == "leaf" else _rails(node)
                    names[node.port_first : node.port_first + len(node.ports)] = of_node
            return names
        points = _points(self._snapshot.nodes) if kind == "mount" else {}
        for node in self._snapshot.nodes:
            for position, row in enumerate(self._snapshot.rows(node, scope)):
                names[row] = _row_name(node, scope, position, kind, points)
        return names


def _numbered(kind: Kind, names: Iterable[str]) -> Groups:
    numbers: dict[str, int] = {}
    of = np.array([numbers.setdefault(name, len(numbers)) if name else -1 for name in names], dtype=np.int64)
    return Groups(kind, of, tuple(numbers))


def _leaves(node: Node) -> list[str]:
    if not node.leaves:
        return [""] * len(node.ports)
    places = {port: f"leaf/{leaf}" if leaf else "" for port, leaf in node.leaves.items()}
    return [places.get(port.device if port.port == 1 else port_name(port.device, port.port), "") for port in node.ports]


def _rails(node: Node) -> list[str]:
    behind = f" of {node.pod or 'all nodes'}"
    return [(port.device if port.port == 1 else port_name(port.device, port.port)) + behind for port in node.ports]


def _row_name(node: Node, scope: Scope, position: int, kind: str, points: dict[str, str]) -> str:
    name = node.devices[scope][position]
    if kind == "gpu":
        gpu, _, link = name.partition("/")
        return gpu_place(node.name, int(gpu)) if link and gpu.isdigit() else device_place(node.name, scope, gpu)
    about = node.about.get((scope, name), {})
    device = about.get("device", "")
    if not about.get("type", "").startswith(_REMOTE):
        return ""
    if kind == "mount":
        return f"storage/{points.get(device, name).strip('/')}" if name != "/" else ""
    # nfs: `server:/export`; Lustre: `10.0.0.1@o2ib:10.0.0.2@o2ib:/fs`.
    server, colon, _ = device.rpartition(":/")
    return f"storage/{server}" if colon and server else ""


def _points(nodes: Iterable[Node]) -> dict[str, str]:
    """Return where each remote file system is mounted on most nodes."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        for name in node.devices.get(Scope.FS, ()):
            device = node.about.get((Scope.FS, name), {}).get("device", "")
            if device:
                counts[device, name] += 1
    points: dict[str, str] = {}
    for (device, name), _ in counts.most_common():
        points.setdefault(device, name)
    return points


def _job_of(node: Node) -> str:
    if node.scheduler is not None and node.scheduler.jobs:
        jobs = set(node.scheduler.jobs)
    else:
        jobs = {process.slurm_job for process in node.processes or () if process.slurm_job}
    return jobs.pop() if len(jobs) == 1 else ""


def _is_alike(one: Node, other: Node) -> bool:
    """Tell whether a node says of itself what it said; what is built into it stands as long as the layout does."""
    return (
        (one.words is other.words or one.words == other.words)
        and one.kernel == other.kernel
        and one.link.via == other.link.via
        and (one.about is other.about or one.about == other.about)
        and one.gpus == other.gpus
        and ((one.processes is other.processes and one.scheduler is other.scheduler) or _job_of(one) == _job_of(other))
    )


def _only_leaf(node: Node) -> str:
    leaves = set(node.leaves.values())
    return f"leaf/{leaves.pop()}" if len(leaves) == 1 else ""


def _model(node: Node) -> str:
    names = {gpu.name for gpu in node.gpus}
    return names.pop() if len(names) == 1 else ""


def _firmware(node: Node) -> str:
    bios, product = node.words.get("bios", ""), node.words.get("product", "")
    return f"BIOS {bios} ({product})" if bios and product else f"BIOS {bios}" if bios else ""


_NODE_NAMES: dict[str, Callable[[Node], str]] = {
    "rack": lambda node: f"rack/{node.rack}" if node.rack else "",
    "leaf of nodes": _only_leaf,
    "pod": lambda node: f"pod/{node.pod}" if node.pod else "",
    "jump": lambda node: f"jump host {node.link.via}" if node.link.via else "",
    "firmware": _firmware,
    "driver": lambda node: f"driver {node.words['driver_version']}" if node.words.get("driver_version") else "",
    "kernel": lambda node: f"kernel {node.kernel}" if node.kernel else "",
    "model": _model,
}
