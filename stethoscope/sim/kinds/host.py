"""Fault kinds of processors, memory and clock of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.board import CPU_MHZ, CPUS
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_BUSY_LOAD = 24.0
"""Load of a healthy busy node."""
_LEFT = 0.01 / 0.62
"""What is left of the available memory when the kernel kills."""


class CpuContention(Kind):
    """Something that is no rank takes the processors: kernels start late on all GPUs of the node."""

    name = "cpu_contention"
    title = "Something takes the processors of a node"
    root_cause = "cpu_contention"
    scope = "local"
    severity = "P1"
    targets = frozenset({"cpu", "node"})
    params: ClassVar[Mapping[str, Param]] = {
        "factor": Param(3.0, "ratio", meaning="how much longer the host's part of a step takes"),
        "load": Param(380.0, "load", meaning="load average"),
        "softirq_pct": Param(None, "%", meaning="share of time in interrupts, where they are the reason"),
        "proc": Param("rogue", "text", meaning="name of the process"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Delay the host's work, and show who does it."""
        effects.other[self.node] *= self.number("factor")
        effects.data[self.node] *= 1.5
        load = max(self.number("load") - _BUSY_LOAD, 0.0)
        share = min(load / CPUS, 1.0)
        effects.add("load1", load, self.node)
        effects.add("cpu_util", 86 * share, self.node)
        effects.add("psi_cpu_some", 59.5 * share, self.node)
        if self.given("softirq_pct"):
            effects.add("cpu_softirq", self.number("softirq_pct"), self.node)
            effects.add("cpu_softirq_max", 95.0, self.node)
        effects.hogs.setdefault(self.node, []).append((str(self.fault.params["proc"]), 0.86 * CPUS * share))


class CpuGovernor(Kind):
    """The processors are set to save power."""

    name = "cpu_governor_powersave"
    title = "The processors are set to run slowly"
    root_cause = "cpu_config"
    scope = "local"
    severity = "P2"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "freq_mhz": Param(1500.0, "MHz", meaning="clock of busy cores; 3400 is healthy"),
        "governor": Param("powersave", "text", meaning="what the kernel is set to"),
        "clocksource": Param("tsc", "text", meaning="from what the kernel reads the time; hpet is slow"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Slow the cores down, and the host's part of each step with them."""
        where, freq_mhz = self.fault.where.text, self.number("freq_mhz")
        effects.other[self.node] *= max(1.0, min(2.5, CPU_MHZ / freq_mhz))
        effects.data[self.node] *= 1.5
        effects.cpu_mhz[self.node] = min(effects.cpu_mhz[self.node], freq_mhz)
        effects.shown[where, "cpu_governor"] = str(self.fault.params["governor"])
        effects.shown[where, "clocksource"] = str(self.fault.params["clocksource"])


class CpuMce(Kind):
    """A memory module or processor of the host has errors that are corrected, or at last one that is not."""

    name = "cpu_mce"
    title = "The host's memory or processor has errors"
    root_cause = "cpu_or_memory_fault"
    scope = "local"
    severity = "P1"
    core = False
    targets = frozenset({"cpu", "node"})
    params: ClassVar[Mapping[str, Param]] = {
        "ce_per_min": Param(60.0, "1/min", meaning="errors that are corrected"),
        "fatal_at": Param(None, "s", meaning="when one is not, and the node panics"),
    }
    lines = (
        Line(
            "kernel", 0.0, "node",
            "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x10b544 "
            "offset:0xfc0 grain:32 syndrome:0x0 -  err_code:0x0101:0x0090)",
        ),
        Line("kernel", 0.0, "node", "mce: [Hardware Error]: Machine check events logged"),
        Line("sel", 0.0, "node", " {n} | {ts_sel} | Memory CPU1_DIMM_B1 | Correctable ECC | Asserted"),
        Line("sel", "fatal_at", "node", " {n} | {ts_sel} | Processor CPU1_Status | IERR | Asserted"),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the end of the node and of its job."""
        return (self.number("fatal_at"), self.number("fatal_at") + 30.0) if self.given("fatal_at") else ()

    def apply(self, effects: Effects, age_s: float) -> None:
        """Count the errors; after a fatal one the node is gone."""
        node = effects.layout.nodes[self.node]
        effects.grow(node, "edac_ce", self.number("ce_per_min") / 60)
        effects.grow(node, "mce_events", self.number("ce_per_min") / 60)
        effects.other[self.node] *= 1.02
        if self.given("fatal_at") and age_s >= self.number("fatal_at"):
            effects.links[self.node] = "panic"
            effects.stuck[self.node] = True
            job = effects.layout.job_of(self.node)
            if job is not None and age_s >= self.number("fatal_at") + 30.0:
                effects.ended.add(job.id)


class HostOomKill(Kind):
    """The host's memory runs out, and the kernel kills a rank or one of its loaders; the fault starts with the kill."""

    name = "host_oom_kill"
    title = "The host's memory runs out and a rank is killed"
    root_cause = "host_oom"
    scope = "local"
    severity = "P1"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "victim": Param("rank", "text", ("rank", "loader_worker"), "what is killed"),
        "rank_on_node": Param(0.0, "index", meaning="on which GPU of the node that rank is"),
        "cgroup": Param(False, "bool", meaning="the limit of the job is reached, not that of the host"),
        "leak_for": Param("3m", "s", meaning="over which time before the kill memory runs down"),
    }
    lines = (
        Line(
            "kernel", 0.0, "node",
            "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        ),
        Line(
            "kernel", 0.0, "self",
            "Out of memory: Killed process {pid} (python3) total-vm:412311552kB, anon-rss:201326592kB, file-rss:0kB, "
            "shmem-rss:4096kB, UID:4021 pgtables:401234kB oom_score_adj:0",
            when={"cgroup": False},
        ),
        Line(
            "kernel", 0.0, "self",
            "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:412311552kB, anon-rss:201326592kB, "
            "file-rss:0kB, shmem-rss:4096kB, UID:4021 pgtables:401234kB oom_score_adj:0",
            when={"cgroup": True},
        ),
        Line(
            "slurm", 3.0, "node",
            "slurmstepd: error: Detected 1 oom_kill event in StepId={job}.0. Some of the step tasks have been OOM "
            "Killed.",
        ),
        Line(
            "job", 1.0, "self",
            "[rank{rank}]: RuntimeError: DataLoader worker (pid {worker_pid}) is killed by signal: Killed. ",
            when={"victim": "loader_worker"},
        ),
    )  # fmt: skip

    def lead_s(self) -> float:
        """Return for how long memory runs down before the kill."""
        return self.number("leak_for")

    def ramp(self) -> tuple[float, float]:
        """Return that time."""
        return (-self.number("leak_for"), 0.0)

    def changes(self) -> Iterable[float]:
        """Return the death of the rank whose loader is gone, and of the job."""
        return (1.0, 2.0, 15.0)

    def local_rank(self) -> int | None:
        """Return the rank that is hit."""
        return int(self.number("rank_on_node"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take memory away, then the rank."""
        where = effects.layout.nodes[self.node]
        gone = progress(age_s, -self.number("leak_for"), 0.0)
        if age_s < 0:
            # A limit of the job is reached while the host has plenty.
            effects.memory_left[self.node] *= 1 - (0.25 if self.fault.params["cgroup"] else 1 - _LEFT) * gone
            if not self.fault.params["cgroup"] and gone > 0.8:
                effects.add("psi_memory_full", 40 * (gone - 0.8) / 0.2, self.node)
                effects.shown[where, "swap_used"] = 8_000 * (gone - 0.8) / 0.2
            return
        if age_s < 1:
            effects.grow(where, "oom_kills", 1.0)
        rank = int(self.number("rank_on_node")) % effects.layout.gpu_shape[1]
        effects.stuck[self.node, rank] = True
        effects.dead[self.node, rank] |= self.fault.params["victim"] == "rank" or age_s >= 2
        effects.exits[self.node, rank] = -9 if self.fault.params["victim"] == "rank" else 1
        job = effects.layout.job_of(self.node)
        if job is not None and age_s >= 15:
            effects.ended.add(job.id)


class ClockSkew(Kind):
    """The clock of the node is wrong."""

    name = "clock_skew"
    title = "The clock of a node is wrong"
    root_cause = "clock_skew"
    scope = "local"
    severity = "P2"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "offset_ms": Param(4200.0, "ms", meaning="how far it is ahead", signed=True)
    }
    lines = (Line("syslog", 0.0, "node", "chronyd[911]: Can't synchronise: no selectable sources"),)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Shift the clock."""
        effects.clock_s[self.node] += self.number("offset_ms") / 1000


KINDS = (CpuContention, CpuGovernor, CpuMce, HostOomKill, ClockSkew)
