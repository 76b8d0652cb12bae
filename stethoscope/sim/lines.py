"""The lines that faults and dying jobs write, with their placeholders filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim import board
from stethoscope.sim.files import net
from stethoscope.sim.kinds.kind import Line
from stethoscope.sim.run import DONE_BEFORE
from stethoscope.specs.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stethoscope.sim.kinds.kind import Kind
    from stethoscope.sim.layout import Layout
    from stethoscope.sim.run import JobRun
    from stethoscope.specs.scenario import Value

PEER_CLOSED = Line(
    "job",
    0.0,
    "neighbours",
    "{peer_node}:{pid}:{tid} [{gpu}] misc/socket.cc:50 NCCL WARN socketProgress: "
    "Connection closed by remote peer {node}.cluster<{peer_port}>",
)
PEER_LOST = Line(
    "job",
    0.0,
    "others",
    "[rank{rank}]:[E{ts_torch} ProcessGroupNCCL.cpp:552] [Rank {rank}] Collective WorkNCCL(SeqNum={seq}, "
    "OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) raised the following async exception: "
    "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5",
)
STEP_CANCELLED = Line("slurm", 0.0, "node", "slurmstepd: error: *** STEP {job}.0 ON {node} CANCELLED AT {ts_slurm} ***")
WATCHDOG = (
    Line(
        "job",
        0.0,
        "others",
        "[rank{rank}]:[E{ts_torch} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) "
        "ran for 600031 milliseconds before timing out.",
    ),
    Line(
        "job",
        0.0,
        "others",
        "[rank{rank}]:[E{ts_torch} ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception "
        "(either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq}, last "
        "completed NCCL work: {prev_seq}.",
    ),
)

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NUMEL = 25_165_824
FIRST_ENTRIES = 5
"""What the log of every management controller begins with."""


@dataclass(frozen=True, slots=True)
class Said:
    """One line that something in the fleet wrote, at scenario time `at_s`."""

    at_s: float
    sink: str
    """kernel, job or slurm."""
    node: str
    rank: int | None
    text: str


class Writer:
    """Fills lines in for one fleet; `wall` turns scenario seconds into seconds since 1970."""

    def __init__(self, layout: Layout, runs: Mapping[str, JobRun], wall: Callable[[float], float]) -> None:
        """Keep what placeholders are filled from."""
        self._layout = layout
        self._runs = runs
        self._wall = wall
        self._entries: dict[int, int] = {}
        """How many entries the log of each node's management controller has."""

    def of_fault(self, kind: Kind, line: Line, at_s: float) -> Iterator[Said]:
        """Yield what a line of a fault becomes: one line for each node or rank that writes it."""
        if all(kind.fault.params.get(name) == value for name, value in line.when.items()):
            yield from self.of_place(line, kind.fault.where, at_s, kind.fault.params, rank=kind.local_rank())

    def of_place(
        self,
        line: Line,
        where: Place,
        at_s: float,
        params: Mapping[str, Value],
        delays_s: Mapping[int, float] | None = None,
        rank: int | None = None,
    ) -> Iterator[Said]:
        """Yield `line` as written because of something at `where`, on each node (by position) with its delay; `rank` is
        the GPU of the one rank of a node that it hits first."""
        one_gpu = where.form in ("gpu", "rank", "nvlink") or rank is not None
        index = (where.index if rank is None else rank) % self._layout.gpu_shape[1] if one_gpu else 0
        home = where.node if where.node >= 0 else self._layout.first_node(where)
        writers = self._writers(line, home, index, one_gpu) if where.node >= 0 else self._spread(line, where)
        for node, gpu in writers:
            moment_s = at_s + (delays_s or {}).get(node, 0.0)
            given = {name: f"{value:g}" if isinstance(value, float) else value for name, value in params.items()}
            values = {**given, **self._values(where, home if where.node >= 0 else node, node, gpu, moment_s)}
            if line.sink == "sel":
                self._entries[node] = self._entries.get(node, FIRST_ENTRIES) + 1
                values["n"] = f"{self._entries[node]:x}"
            rank = self._layout.rank(node, gpu) if line.sink == "job" else None
            yield Said(moment_s, line.sink, self._layout.nodes[node], rank, _filled(line.text, values))

    def of_spot(self, text: str, spot: tuple[int, int], at_s: float, more: Mapping[str, object] | None = None) -> Said:
        """Return a line of a job's log that the rank on (node, GPU) writes about itself."""
        node, gpu = spot
        place = self.node_place(node)
        values = {**(more or {}), **self._values(place, node, node, gpu, at_s)}
        return Said(at_s, "job", place.text, self._layout.rank(node, gpu), _filled(text, values))

    def node_place(self, node: int) -> Place:
        """Return the place of the node at that position."""
        return Place(self._layout.nodes[node], "node", node)

    def number_of(self, node: str) -> int:
        """Return the position of a node."""
        return self._layout.numbers[node]

    def _writers(self, line: Line, node: int, gpu: int, one_gpu: bool) -> Iterator[tuple[int, int]]:
        """Yield (node, GPU) of each writer; of what is not a job's log, nodes write, not ranks."""
        job = self._layout.job_of(node)
        gpus = range(self._layout.gpu_shape[1]) if line.sink == "job" else range(1)
        if line.who in ("self", "node"):
            yield from ((node, gpu),) if one_gpu or line.sink != "job" else ((node, one) for one in gpus)
        elif job is not None and line.who == "rank0":
            yield job.nodes[0], 0
        elif job is not None:
            position = job.nodes.index(node)
            near = {job.nodes[position - 1], job.nodes[(position + 1) % len(job.nodes)]} - {node}
            for other in job.nodes:
                if line.who == "neighbours" and other not in near:
                    continue
                if line.who == "others" and not one_gpu and other == node:
                    continue
                yield from ((other, one) for one in gpus if line.who == "all" or (other, one) != (node, gpu))

    def _spread(self, line: Line, where: Place) -> Iterator[tuple[int, int]]:
        """Yield the writers of what is not on one node: all nodes of a leaf, a rack, a job, a fleet; or their ranks."""
        layout = self._layout
        nodes = layout.ports_at(where).any(axis=1) if where.form == "leaf" else layout.nodes_at(where)
        # All nodes mount what they share.
        for node in range(len(layout.nodes)) if where.form == "storage" else np.flatnonzero(nodes).tolist():
            if line.who == "rank0":
                job = layout.job_of(node)
                yield from ((node, 0),) if job is not None and job.nodes[0] == node else ()
            elif line.sink != "job":
                yield node, 0
            elif layout.job_of(node) is not None:
                yield from ((node, gpu) for gpu in range(layout.gpu_shape[1]))

    def _values(self, where: Place, cause: int, node: int, gpu: int, at_s: float) -> dict[str, object]:
        """Return the placeholders: of the cause at `where` (on node `cause`), and of the writer (node, gpu)."""
        layout = self._layout
        index = where.index if where.form in ("gpu", "ib", "nvlink") else gpu
        port = layout.port_at(where)
        port = index if port < 0 else port
        run = next((run for run in self._runs.values() if node in run.job.nodes), None)
        steps = run.steps_at(at_s) if run is not None else 0
        sequence = run.sequence_at(at_s) if run is not None else 0
        wall = datetime.fromtimestamp(self._wall(at_s), UTC)
        pid = board.rank_pid(node, gpu)
        return {
            "node": layout.nodes[cause],
            "peer_node": layout.nodes[node],
            "gpu": gpu if where.form != "gpu" or node != cause else index,
            "gpu_pci": board.gpu_pci(index),
            "gpu_pci_full": board.gpu_pci(index) + ".0",
            "root_port": board.port_root_pci(index) if where.form == "ib" else board.root_port_pci(index),
            "device_pci": board.port_pci(index) if where.form == "ib" else board.gpu_pci(index) + ".0",
            "device_driver": "mlx5_core" if where.form == "ib" else "nvidia",
            "daemon_pid": 2_900 + 7 * node,
            "root_port_hca": board.port_root_pci(port),
            "hca": f"mlx5_{port}",
            "hca_idx": port,
            "hca_pci": board.port_pci(port),
            "netdev": net.name_of(port, on_ethernet=layout.on_ethernet),
            "rank": layout.rank(node, gpu),
            "pid": pid,
            "launcher": board.rank_pid(node, 0) - 40,
            "worker_pid": pid + 9_000,
            "smi_pid": board.rank_pid(cause, 0) + 4_000,
            "fm_pid": 2_100 + cause,
            "tid": pid + 600,
            "gpus": layout.gpu_shape[1],
            "gpus_left": layout.gpu_shape[1] - 1,
            "job": run.job.id if run is not None else "",
            "user": "train",
            "node_ip": board.node_address(cause),
            "peer_ip": board.node_address(node),
            "peer_port": 40_000 + (node * 31 + gpu * 7) % 20_000,
            "seq": sequence,
            "prev_seq": max(0, sequence - 1),
            "numel": _NUMEL if run is None or not run.waits_at_barrier else 1,
            "step": f"{DONE_BEFORE + steps:07d}",
            "steps_done": DONE_BEFORE + steps,
            "storage": where.name if where.form == "storage" else layout.storage,
            "leaf": layout.fleet.leaf(cause, port % max(1, layout.port_shape[1])),
            "link": where.link,
            "disk": where.name if where.form == "disk" else "",
            "ctrl": where.name[: where.name.rindex("n")] if where.form == "disk" else "",
            "ts_torch": f"{wall:%m%d %H:%M:%S.%f}",
            "ts_slurm": f"{wall:%Y-%m-%dT%H:%M:%S}",
            "ts_sel": f"{wall:%m/%d/%Y} | {wall:%H:%M:%S}",
        }


def _filled(text: str, values: Mapping[str, object]) -> str:
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)
