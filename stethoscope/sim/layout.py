"""Where everything of a scenario's fleet is: rows of nodes, GPUs and ports, and which of them a place stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.board import DISKS, Board, boards
from stethoscope.specs.scenario import Fault

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.specs.place import Place
    from stethoscope.specs.scenario import Job, Scenario


def _storage(scenario: Scenario) -> tuple[str, str]:
    places = [event.where for event in scenario.events if event.where.form == "storage"]
    kinds = [
        str(event.params["kind"])
        for event in scenario.events
        if isinstance(event, Fault) and event.where.form == "storage" and "kind" in event.params
    ]
    return places[0].name if places else "shared", kinds[0] if kinds else "nfs"


class Layout:
    """The fixed part of a simulated fleet."""

    def __init__(self, scenario: Scenario) -> None:
        """Lay out the scenario's fleet and jobs."""
        self.fleet = scenario.fleet
        self.jobs: dict[str, Job] = {job.id: job for job in scenario.jobs}
        self.board: Board = boards()[scenario.fleet.gpu]
        self.nodes = scenario.fleet.node_names()
        self.numbers = {name: number for number, name in enumerate(self.nodes)}
        self.gpu_shape = (scenario.fleet.nodes, scenario.fleet.gpus_per_node)
        self.port_shape = (scenario.fleet.nodes, scenario.fleet.ib_ports_per_node)
        self.disk_shape = (scenario.fleet.nodes, len(DISKS))
        self.node_shape = (scenario.fleet.nodes,)
        self.storage, self.storage_kind = _storage(scenario)
        """Name of the file system that all nodes share, and whether it is nfs or lustre."""
        self.on_ethernet = False
        """The fabric is Ethernet (RoCE), not InfiniBand."""
        self.management_gbps = 10.0
        """Rate of the management network."""

    def shape(self, kind: str) -> tuple[int, ...]:
        """Return the shape of an array with one value for each `gpu`, `disk` or `node`."""
        return {"gpu": self.gpu_shape, "disk": self.disk_shape, "node": self.node_shape}[kind]

    def job_of(self, node: int) -> Job | None:
        """Return the job that runs on the node at that position, or None for an idle node."""
        return next((job for job in self.jobs.values() if node in job.nodes), None)

    def rank(self, node: int, gpu: int) -> int | None:
        """Return the rank that runs on a GPU, or None on an idle node."""
        job = self.job_of(node)
        return None if job is None else job.nodes.index(node) * self.gpu_shape[1] + gpu

    def nodes_at(self, place: Place) -> npt.NDArray[np.bool_]:
        """Return which nodes a place stands for or has parts on."""
        wanted: npt.NDArray[np.bool_] = np.zeros(self.gpu_shape[0], dtype=np.bool_)
        if place.form == "fleet":
            wanted[:] = True
        elif place.form in ("rack", "pod"):
            group = self.fleet.rack if place.form == "rack" else self.fleet.pod
            wanted[[node for node in range(len(wanted)) if group(node) == place.name]] = True
        elif place.form == "job":
            wanted[list(self.jobs[place.name].nodes)] = True
        elif place.form in ("node", "cpu", "gpu", "ib", "nvlink", "rank", "disk"):
            wanted[place.node] = True
        return wanted

    def port_at(self, place: Place) -> int:
        """Return the number of the port that a port's or a leaf's place is about, -1 for other places."""
        if place.form == "leaf":
            return int(self.ports_at(place).any(axis=0).argmax())
        return place.index if place.form == "ib" else -1

    def first_node(self, place: Place) -> int:
        """Return the first node (by position) that has a part in a place; node 0 where none does (storage)."""
        nodes = self.ports_at(place).any(axis=1) if place.form == "leaf" else self.nodes_at(place)
        return int(nodes.argmax())

    def gpus_at(self, place: Place) -> npt.NDArray[np.bool_]:
        """Return which GPUs a place stands for."""
        wanted: npt.NDArray[np.bool_] = np.zeros(self.gpu_shape, dtype=np.bool_)
        if place.form in ("gpu", "nvlink", "rank"):
            wanted[place.node, place.index % self.gpu_shape[1]] = True
        elif place.form != "ib":
            wanted[self.nodes_at(place)] = True
        return wanted

    def ports_at(self, place: Place) -> npt.NDArray[np.bool_]:
        """Return which ports a place stands for."""
        wanted: npt.NDArray[np.bool_] = np.zeros(self.port_shape, dtype=np.bool_)
        if place.form == "ib":
            wanted[place.node, place.index] = True
        elif place.form == "leaf":
            for node, port in np.ndindex(wanted.shape):
                wanted[node, port] = self.fleet.leaf(node, port) == place.name
        elif place.form not in ("gpu", "nvlink", "rank"):
            wanted[self.nodes_at(place)] = True
        return wanted

    def disks_at(self, place: Place) -> npt.NDArray[np.bool_]:
        """Return which disks a place stands for."""
        wanted: npt.NDArray[np.bool_] = np.zeros(self.disk_shape, dtype=np.bool_)
        if place.form == "disk":
            wanted[place.node, DISKS.index(place.name)] = True
        elif place.form in ("fleet", "rack", "pod", "job", "node"):
            wanted[self.nodes_at(place)] = True
        return wanted

    def rail_partners(self, node: int, port: int) -> list[int]:
        """Return the other nodes whose port of that number is on the same leaf switch."""
        leaf = self.fleet.leaf(node, port)
        return [other for other in range(len(self.nodes)) if other != node and self.fleet.leaf(other, port) == leaf]
