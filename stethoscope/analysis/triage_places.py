"""Places of one fleet as the diagnosis turns them into one another: which GPU a PCI address is, which rank, which leaf,
which storage."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.job_list import known_nodes
from stethoscope.model.ids import gpu_place, job_place, node_of, port_place
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.finding import Fact
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric
    from stethoscope.model.scheduler import Job
    from stethoscope.model.verdict import Scene

_REMOTE = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "wekafs", "panfs", "cifs", "smb3")
_DEFAULT_STORAGE = "storage/shared"
"""Where nothing says which one."""
_LINK = re.compile(r"\blink (\d{1,2})\b")
_OF_LINKS = ("xid.74", "xid.145", "xid.149", "xid.150")
_NOT_NODES = ("job", "leaf", "rack", "pod", "storage")


class Places:
    """The places of one scene."""

    def __init__(self, scene: Scene) -> None:
        """Look at the inventory of the snapshot."""
        self._snapshot: FleetSnapshot = scene.snapshot
        self._logs = scene.logs
        known = {job.id: job for job in (*scene.snapshot.jobs, *scene.jobs)}
        self.jobs: tuple[Job, ...] = tuple(known[id_] for id_ in sorted(known))
        self._nodes: dict[str, tuple[Node, ...]] = {job.id: tuple(self._known(job)) for job in self.jobs}
        self._usual: dict[str, str] = {}

    def _known(self, job: Job) -> Iterable[Node]:
        return known_nodes(job, self._snapshot)

    def nodes_of(self, job: Job) -> frozenset[str]:
        """Return the names of a job's nodes."""
        return frozenset(node.name for node in self._nodes[job.id])

    def ranks(self, job: Job) -> tuple[str, ...]:
        """Return the GPU of each rank of a job, in the order of ranks."""
        return tuple(gpu_place(node.name, gpu.index) for node in self._nodes[job.id] for gpu in node.gpus)

    def leaves(self, job: Job) -> set[str]:
        """Return the leaves that serve a job's nodes."""
        return {f"leaf/{leaf}" for node in self._nodes[job.id] for leaf in node.leaves.values()}

    def node(self, name: str) -> Node | None:
        """Return a node of the fleet, None where there is none of that name."""
        index = self._snapshot.by_name.get(name)
        return None if index is None else self._snapshot.nodes[index]

    def names(self) -> set[str]:
        """Return the names of all nodes of the fleet."""
        return set(self._snapshot.by_name)

    def is_usual(self, fact: Fact) -> bool:
        """Tell whether a fact that nothing was expected of is the state that most such devices of the fleet are in."""
        metric = self._snapshot.catalogue.get(fact.fact)
        if fact.expected or metric is None or not metric.words or metric.bitmask:
            return False
        return fact.value == self._usual_word(metric)

    def _usual_word(self, metric: Metric) -> str:
        """Return the state that more than half of the devices are in, of which it is known; else nothing."""
        if metric.id not in self._usual:
            self._usual[metric.id] = ""
            table = self._snapshot.tables.get(metric.scope)
            if table is not None and metric.id in table.index:
                number = table.index[metric.id]
                known = table.values[number][table.reasons[number] == 0]
                for code, word in metric.words:
                    if 2 * np.count_nonzero(known == code) > len(known):
                        self._usual[metric.id] = word
        return self._usual[metric.id]

    def order(self, place: str) -> tuple[int, str]:
        """Return what places are sorted by: the order of nodes, then their names."""
        return (self._snapshot.by_name.get(node_of(place), len(self._snapshot.nodes)), place)

    def jobs_on(self, place: str) -> tuple[Job, ...]:
        """Return the jobs that have something to do with a place."""
        first, _, rest = place.partition("/")
        if first == "job":
            id_ = rest.partition("/")[0]
            return tuple(job for job in self.jobs if job.id == id_)
        if first == "storage":
            return self.jobs
        nodes = set(self.members(place))
        return tuple(job for job in self.jobs if any(node.name in nodes for node in self._nodes[job.id]))

    def members(self, place: str) -> Iterable[str]:
        """Return the nodes of a leaf, a rack or a pod; of any other place its node."""
        first, _, rest = place.partition("/")
        if first == "leaf":
            return [node.name for node in self._snapshot.nodes if rest in node.leaves.values()]
        if first == "rack":
            return [node.name for node in self._snapshot.nodes if node.rack == rest]
        if first == "pod":
            return [node.name for node in self._snapshot.nodes if node.pod == rest]
        return [first]

    def rack(self, place: str) -> str:
        """Return the rack of the node of a place, or of a rack itself; empty when it is not known."""
        if place.startswith("rack/"):
            return place.partition("/")[2]
        node = self.node(node_of(place))
        return node.rack if node is not None else ""

    def unit(self, place: str) -> str:
        """Return what a place is part of when hypotheses are put together: its node, or itself."""
        first = node_of(place)
        return place if first in _NOT_NODES else first

    def leaf(self, place: str) -> str:
        """Return the leaf of a port as a place, empty when it is not known."""
        node, (_, _, device) = self.node(node_of(place)), place.partition("/ib/")
        leaf = node.leaves.get(device, "") if node is not None and device else ""
        return f"leaf/{leaf}" if leaf else ""

    def leaf_ports(self, leaf: str) -> int:
        """Return how many ports a leaf serves."""
        name = leaf.partition("/")[2]
        return sum(list(node.leaves.values()).count(name) for node in self._snapshot.nodes)

    @cached_property
    def storages(self) -> Mapping[str, tuple[str, str]]:
        """Return mount -> (storage, type) of the shared file systems that any node has mounted."""
        found: dict[str, tuple[str, str]] = {}
        for node in self._snapshot.nodes:
            for name in node.devices.get(Scope.FS, ()):
                about = node.about.get((Scope.FS, name), {})
                kind = about.get("type", "")
                if kind in _REMOTE:
                    found.setdefault(name.strip("/"), (f"storage/{name.strip('/').split('/')[0]}", kind))
        return found

    def by_pci(self, node: str, address: str) -> str:
        """Return the GPU or port at a PCI address such as `0000:4f:00` of a node, empty when there is none."""
        known = self.node(node)
        slot = address.lower().partition(".")[0]
        if known is None or not slot:
            return ""
        for gpu in known.gpus:
            if gpu.pci.lower().partition(".")[0] == slot:
                return gpu_place(node, gpu.index)
        for port in known.ports:
            if port.pci.lower().partition(".")[0] == slot:
                return port_place(node, port.device, port.port)
        return ""

    def by_rank(self, job: str, rank: int) -> str:
        """Return the GPU of a rank, empty when it is not known."""
        for known in self.jobs:
            if known.id == job:
                ranks = self.ranks(known)
                return ranks[rank] if 0 <= rank < len(ranks) else ""
        return ""

    # ---- the part that is meant

    def part(self, place: str, part: str, job: str = "") -> tuple[str, ...]:
        """Return what a place is in the form of a culprit: of a port its leaf, of a GPU its rank ..."""
        place = self._plain(place)
        first, _, rest = place.partition("/")
        kind = rest.partition("/")[0]
        if part == "leaf":
            leaf = place if first == "leaf" else self.leaf(place)
            return (leaf,) if leaf else (place,)
        if part == "storage":
            return self._storage(place)
        if first in _NOT_NODES:
            return (place,)
        if part in ("node", "rack"):
            return (first,)
        if part == "cpu":
            return (f"{first}/cpu",)
        if part == "nvlink" and kind == "gpu":
            link = self._links.get(place)
            return (f"{first}/nvlink/{rest.partition('/')[2]}/{link}",) if link else (place,)
        if part == "gpu" and kind == "nvlink":
            return (f"{first}/gpu/{rest.split('/')[1]}",)
        if part == "disk" and kind.startswith("fs"):
            return (self._disk(first, place),)
        if part == "job":
            return tuple(job_place(one.id) for one in self.jobs_on(place) if not job or one.id == job)
        if part == "rank":
            return self._rank(place, job)
        return (place,)

    @cached_property
    def _links(self) -> Mapping[str, str]:
        """Return GPU -> the link that its driver named first in the kernel log."""
        found: dict[str, str] = {}
        for heard in self._logs:
            for event in heard.log.events:
                named = _LINK.search(event.text) if event.signature in _OF_LINKS else None
                if named is not None and event.origin.host and event.pci:
                    found.setdefault(self.by_pci(event.origin.host, event.pci), named[1])
        return found

    def _plain(self, place: str) -> str:
        node, _, rest = place.partition("/")
        kind, _, name = rest.partition("/")
        if kind in ("pcie", "nic") or (kind in ("gpu", "ib") and ":" in name and name.count(":") >= 2):
            return self.by_pci(node, name) or place
        if kind == "nvswitch":
            # It is a part of the board of its node.
            return node
        if kind == "net":
            known = self.node(node)
            for port in known.ports if known is not None else ():
                if port.netdev == name:
                    return port_place(node, port.device, port.port)
        return place

    def _storage(self, place: str) -> tuple[str, ...]:
        if place.startswith("storage/"):
            return (place,)
        mount = place.partition("/fs/")[2].strip("/")
        if mount in self.storages:
            return (self.storages[mount][0],)
        names = sorted({storage for storage, _ in self.storages.values()})
        return (_DEFAULT_STORAGE if _DEFAULT_STORAGE in names or not names else names[0],)

    def _disk(self, node: str, place: str) -> str:
        known = self.node(node)
        name = place.partition("/fs")[2]
        about = known.about.get((Scope.FS, name), {}) if known is not None else {}
        disk = about.get("device", "").rpartition("/")[2]
        names = known.devices.get(Scope.DISK, ()) if known is not None else ()
        held = {one: disk.startswith(one) for one in names}
        found = next((one for one in names if held[one] and not one.startswith("md")), "")
        if not found and disk.startswith("md"):
            # Which disks an array is made of nobody tells; those that hold nothing else are in it.
            taken = {about.get("device", "").rpartition("/")[2] for about in self._mounts(node)}
            free = [one for one in names if not one.startswith("md") and not any(t.startswith(one) for t in taken)]
            found = free[0] if free else ""
        return f"{node}/disk/{found}" if found else place

    def _mounts(self, node: str) -> Iterable[Mapping[str, str]]:
        known = self.node(node)
        return [about for (scope, _), about in known.about.items() if scope is Scope.FS] if known is not None else []

    def _rank(self, place: str, job: str) -> tuple[str, ...]:
        for known in self.jobs_on(place):
            if job and known.id != job:
                continue
            ranks = self.ranks(known)
            if place in ranks:
                return (f"{job_place(known.id)}/rank/{ranks.index(place)}",)
        return (place,)
