"""Fault kinds of what feeds jobs and takes their checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.board import CPUS
from stethoscope.sim.job_effects import Storage
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.sim.kinds.ranks import job_of, ranks_of, spots
from stethoscope.sim.run import WATCHDOG_S
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_WORKERS = 8
"""Loader processes of a rank."""
_HEALTHY = Storage()
_SOFT_S = 60.0
"""After so long the kernel says that a server does not respond (timeo=600)."""


class DataLoaderSlow(Kind):
    """The ranks of the place wait for their own loaders; they decode too slowly, or get too little themselves."""

    name = "data_loader_slow"
    title = "The input pipeline starves the GPUs"
    root_cause = "data_loading"
    scope = "local"
    severity = "P1"
    targets = frozenset({"rank", "node", "job"})
    params: ClassVar[Mapping[str, Param]] = {
        "stall_s": Param(0.4, "s", meaning="more waiting for data in every step"),
        "workers_busy": Param(True, "bool", meaning="the loaders decode all the time, or wait for input"),
        "ramp": Param("10s", "s", meaning="time until it is that bad"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the ranks wait, and their loaders work."""
        reached = progress(age_s, *self.ramp())
        for node, gpu in ranks_of(effects, self.fault.where):
            effects.stall_s[node, gpu] += self.number("stall_s") * reached
            effects.doing[node, gpu] = "load"
            if self.fault.params["workers_busy"]:
                effects.add("cpu_util", 100 * _WORKERS / CPUS * reached, node)
                effects.add("load1", _WORKERS * reached, node)
            else:
                effects.doing[node, gpu] = "wait_for_loader"


class SharedFsStall(Kind):
    """The file system that all nodes share answers late, or not at all: every rank of every job waits for its data."""

    name = "shared_fs_stall"
    title = "The shared file system stalls"
    root_cause = "shared_fs_stall"
    scope = "global"
    severity = "P1"
    targets = frozenset({"storage"})
    params: ClassVar[Mapping[str, Param]] = {
        "read_lat_ms": Param(900.0, "ms", meaning="2 when healthy"),
        "write_lat_ms": Param(1500.0, "ms", meaning="4 when healthy"),
        "rpc_backlog": Param(400.0, "count", meaning="requests of a client that wait for a slot; 1 when healthy"),
        "stall_s": Param(1.5, "s", meaning="waiting for data in every step of every rank"),
        "kind": Param("nfs", "text", ("nfs", "lustre"), meaning="type of the file system"),
        "not_responding": Param(False, "bool", meaning="no answer at all"),
        "ramp": Param("30s", "s", meaning="time until it is that bad"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def changes(self) -> Iterable[float]:
        """Return when looks at the file system begin to hang."""
        return (_SOFT_S,)

    def written(self) -> Iterable[Line]:
        """Return what the kernels of all nodes say of a server that does not answer."""
        if self.fault.params["not_responding"]:
            text = "nfs: server {storage} not responding, still trying"
            if self.fault.params["kind"] == "lustre":
                text = (
                    "LustreError: 11-0: {storage}-OST0001-osc-ffff9a3c8d2e1000: operation ost_read to node "
                    "10.0.254.1@o2ib failed: rc = -110"
                )
            yield Line("kernel", _SOFT_S, "all", text)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Slow the file system, and every rank that reads from it."""
        reached = progress(age_s, *self.ramp())
        goal = (self.number("read_lat_ms"), self.number("write_lat_ms"), self.number("rpc_backlog"))
        usual = (_HEALTHY.read_ms, _HEALTHY.write_ms, _HEALTHY.backlog)
        read, write, backlog = (a + (b - a) * reached for a, b in zip(usual, goal, strict=True))
        silent = bool(self.fault.params["not_responding"]) and age_s >= _SOFT_S
        effects.storage = Storage(read, write, backlog, silent)
        for job in effects.layout.jobs.values():
            effects.stall_s[list(job.nodes)] += self.number("stall_s") * reached
            effects.io_stall_s[list(job.nodes)] += self.number("stall_s") * reached
            for spot in spots(effects, job):
                effects.doing[spot] = "wait_for_loader"


class CheckpointStall(Kind):
    """One rank writes a checkpoint for far longer than ever; the others wait in their next collective."""

    name = "checkpoint_stall"
    title = "A checkpoint blocks its job"
    root_cause = "ckpt_io"
    scope = "local"
    severity = "P1"
    targets = frozenset({"rank", "job"})
    params: ClassVar[Mapping[str, Param]] = {
        "write_s": Param(900.0, "s", meaning="20 to 40 when healthy"),
        "watchdog": Param(True, "bool", meaning="the others give up after 600 s"),
    }
    lines = (Line("job", 0.0, "rank0", "[rank0]: saving checkpoint to /shared/ckpt/step_{step} ..."),)

    def written(self) -> Iterable[Line]:
        """Return the beginning, and the end where the others do not give up before it."""
        yield from self.lines
        took_s = self.number("write_s")
        if took_s < WATCHDOG_S or not self.fault.params["watchdog"]:
            text = f"[rank0]: saved checkpoint to /shared/ckpt/step_{{step}} in {took_s:.1f} s"
            yield Line("job", took_s, "rank0", text)

    def changes(self) -> Iterable[float]:
        """Return the end of the write."""
        return (self.number("write_s"),)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Keep the rank in its write."""
        if age_s >= self.number("write_s"):
            return
        node, gpu = ranks_of(effects, self.fault.where)[0]
        effects.job(job_of(effects, self.fault.where).id).saves_itself = True
        effects.stuck[node, gpu] = True
        effects.doing[node, gpu] = "save"
        effects.add("mem_dirty_writeback", 60_000.0, node)
        effects.add("procs_blocked", 1.0, node)
        effects.nfs_writes[node] += 40.0
        if not self.fault.params["watchdog"]:
            effects.job(job_of(effects, self.fault.where).id).is_patient = True


KINDS = (DataLoaderSlow, SharedFsStall, CheckpointStall)
