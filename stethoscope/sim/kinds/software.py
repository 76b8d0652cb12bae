"""Fault kinds of programs: ranks that die, collectives that do not match, losses that diverge."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.board import CPUS
from stethoscope.sim.job_effects import Foreign, Mismatch
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.sim.kinds.ranks import ENDS_S, job_of, lose_rank, ranks_of
from stethoscope.sim.run import START_S
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_FULL = 0.998
_GIB = 1024.0
_TOKENIZERS = 32


class RankProcessDied(Kind):
    """The process of one rank ends before all others, by a signal, an exception, or without a word."""

    name = "rank_process_died"
    title = "The process of one rank ends first"
    root_cause = "peer_process_died"
    scope = "local"
    severity = "P1"
    targets = frozenset({"rank", "job"})
    params: ClassVar[Mapping[str, Param]] = {
        "signal": Param(
            "SIGSEGV", "text", ("SIGSEGV", "SIGKILL", "exception", "silent"), meaning="what ends the process"
        ),
        "log": Param(True, "bool", meaning="the rank or the kernel leaves a line"),
        "all_ranks": Param(False, "bool", meaning="all ranks of the job end in the same second"),
        "outcome": Param("crash", "text", ("crash", "hang"), meaning="the others get an error, or wait"),
    }
    lines = (
        Line(
            "kernel",
            0.0,
            "node",
            "python3[{pid}]: segfault at 0 ip 00007f10a2c41d20 sp 00007ffd01234560 error 4 in "
            "libtorch_cuda.so[7f10a2400000+9000000]",
            when={"signal": "SIGSEGV", "log": True},
        ),
        Line(
            "job", 0.0, "self", "[rank{rank}]: Traceback (most recent call last):",
            when={"signal": "exception", "log": True},
        ),
        Line(
            "job", 0.0, "self", '[rank{rank}]:   File "/shared/train/train.py", line 412, in train_step',
            when={"signal": "exception", "log": True},
        ),
        Line(
            "job", 0.0, "self", "[rank{rank}]: ValueError: cannot reshape array of size 4095 into shape (8,512)",
            when={"signal": "exception", "log": True},
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the end of the job."""
        return (ENDS_S,)

    def apply(self, effects: Effects, age_s: float) -> None:
        """End the rank, and after it its job."""
        found = ranks_of(effects, self.fault.where)
        code = {"SIGSEGV": -11, "SIGKILL": -9, "exception": 1}.get(str(self.fault.params["signal"]))
        for spot in found if self.fault.params["all_ranks"] else found[:1]:
            effects.dead[spot] = True
            effects.exits[spot] = code
        if self.fault.params["outcome"] == "crash":
            lose_rank(effects, job_of(effects, self.fault.where).id, age_s)


class AppIllegalAccess(Kind):
    """A program reads where it may not on a GPU: the driver ends its channel, and its rank dies."""

    name = "app_illegal_access"
    title = "A program makes an illegal access on a GPU"
    root_cause = "cuda_app_bug"
    scope = "local"
    severity = "P1"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "xid": Param(31.0, "code", meaning="31 or 13"),
        "outcome": Param("crash", "text", ("crash", "hang"), meaning="the rank gets an error, or never returns"),
    }
    lines = (
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 31, pid={pid}, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE "
            "GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f2a_6c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            when={"xid": 31.0},
        ),
        Line(
            "kernel",
            0.0,
            "node",
            "NVRM: Xid (PCI:{gpu_pci}): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on "
            "(GPC 5, TPC 2, SM 1): Out Of Range Address",
            when={"xid": 13.0},
        ),
        Line("kernel", 0.1, "node", "NVRM: Xid (PCI:{gpu_pci}): 43, pid={pid}, name=python3, Ch 00000008"),
        Line(
            "job", 1.0, "self", "[rank{rank}]: RuntimeError: CUDA error: an illegal memory access was encountered"
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the deaths of the rank and of the job."""
        return (2.0, 2.0 + ENDS_S)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Stop the rank, and after it its job."""
        job = effects.layout.job_of(self.node)
        if job is None:
            return
        effects.stuck[self.node, self.index] = True
        if self.fault.params["outcome"] == "hang" or age_s < 2.0:
            return
        effects.dead[self.node, self.index] = True
        effects.exits[self.node, self.index] = 1
        lose_rank(effects, job.id, age_s - 2.0)


class RankCudaOom(Kind):
    """A rank asks for more memory than its GPU has left."""

    name = "rank_cuda_oom"
    title = "The memory of a GPU is used up"
    root_cause = "gpu_oom"
    scope = "local"
    severity = "P1"
    targets = frozenset({"rank"})
    params: ClassVar[Mapping[str, Param]] = {
        "foreign_gb": Param(0.0, "GB", meaning="held by somebody else on that GPU"),
    }
    lines = (
        Line(
            "job",
            0.0,
            "self",
            "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {gpu} has a "
            "total capacity of 79.11 GiB of which 1.21 GiB is free.",
        ),
    )
    _DIES_S = 6.0
    """So long a full GPU is seen: a trace is written and the process ends."""

    def changes(self) -> Iterable[float]:
        """Return the deaths of the rank and of the job."""
        return (self._DIES_S, self._DIES_S + ENDS_S)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Fill the memory, then end the rank, and after it its job."""
        ((node, gpu),) = ranks_of(effects, self.fault.where)
        foreign_mib = self.number("foreign_gb") * _GIB
        total_mib = effects.layout.board.memory_mib
        if foreign_mib > 0:
            effects.foreign[node, gpu] = Foreign("python3", "", foreign_mib)
        effects.stuck[node, gpu] = True
        effects.fill[node, gpu] = max(_FULL - foreign_mib / total_mib, 0.0)
        if age_s >= self._DIES_S:
            effects.dead[node, gpu] = True
            effects.exits[node, gpu] = 1
            lose_rank(effects, job_of(effects, self.fault.where).id, age_s - self._DIES_S)


class CollectiveMismatch(Kind):
    """The ranks issue different collectives: all wait for each other, and nothing fails."""

    name = "collective_mismatch"
    title = "Ranks issue different collectives and hang"
    root_cause = "collective_mismatch_desync"
    scope = "global"
    severity = "P1"
    targets = frozenset({"job", "rank"})
    params: ClassVar[Mapping[str, Param]] = {
        "behind": Param((), "list", meaning="ranks that did not join; none: all are at the same count"),
        "ras": Param("ok", "text", ("ok", "mismatch"), "what NCCL's RAS says of it"),
        "flight_recorder": Param("off", "text", ("off", "on"), "on: its dumps show what differs"),
        "py_spy": Param("same", "text", ("same", "differs"), "whether all ranks are in the same frame"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Hang the job: the ranks behind do nothing, all others spin."""
        job, params = job_of(effects, self.fault.where), self.fault.params
        listed = params["behind"] if isinstance(params["behind"], tuple) else ()
        behind = tuple(int(rank) for rank in listed) or ((self.index,) if self.fault.where.form == "rank" else ())
        effect = effects.job(job.id)
        effect.mismatch = Mismatch(
            behind, str(params["ras"]), params["flight_recorder"] == "on", params["py_spy"] == "differs"
        )
        gpus = effects.layout.gpu_shape[1]
        for rank in behind:
            if 0 <= rank < gpus * len(job.nodes):
                spot = job.nodes[rank // gpus], rank % gpus
                effects.stuck[spot] = True
                effects.doing[spot] = "elsewhere"


class TimeoutTooShort(Kind):
    """Rank 0 prepares data before the first collective of a job that starts, for longer than the others wait."""

    name = "timeout_too_short"
    title = "Legitimate work outlives the time-out"
    root_cause = "timeout_too_short"
    scope = "local"
    severity = "P1"
    core = False
    targets = frozenset({"rank"})
    params: ClassVar[Mapping[str, Param]] = {
        "work_s": Param(1200.0, "s", meaning="of preparation before the first barrier"),
    }
    lines = (
        Line(
            "job",
            0.0,
            "rank0",
            "[rank0]: Tokenizing train split:  31%|###1      | 310411/1000000 [02:14<04:58, 2311.02 examples/s]",
        ),
    )

    def changes(self) -> Iterable[float]:
        """Return the end of the preparation."""
        return (START_S, self.number("work_s"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Start the job anew, with one rank that prepares."""
        effects.restarts[job_of(effects, self.fault.where).id] = self.fault.at_s
        if age_s >= self.number("work_s"):
            return
        ((node, gpu),) = ranks_of(effects, self.fault.where)
        effects.stuck[node, gpu] = True
        effects.doing[node, gpu] = "prepare"
        effects.add("cpu_util", 100 * _TOKENIZERS / CPUS, node)
        effects.add("load1", float(_TOKENIZERS), node)


class LossDivergence(Kind):
    """The loss climbs away, or becomes no number, at full speed."""

    name = "loss_divergence"
    title = "The loss diverges or becomes NaN"
    root_cause = "loss_divergence"
    scope = "global"
    severity = "P1"
    targets = frozenset({"job"})
    params: ClassVar[Mapping[str, Param]] = {
        "to": Param("nan", "text", meaning="nan, or the loss that it reaches"),
        "ramp": Param("2m", "s", meaning="time until it is there"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def written(self) -> Iterable[Line]:
        """Return the step that is skipped once the loss is no number."""
        if self._goal() is None:
            text = "[rank0]: step {steps_done} | loss nan | grad_norm nan | lr 2.95e-04 | skipping update"
            yield Line("job", 0.75 * self.number("ramp"), "rank0", text)

    def _goal(self) -> float | None:
        text = str(self.fault.params["to"])
        try:
            value = float(text)
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def apply(self, effects: Effects, age_s: float) -> None:
        """Bend the loss of the job and its gradients."""
        reached = progress(age_s, *self.ramp())
        effect, goal = effects.job(self.fault.where.name), self._goal()
        if goal is None and reached >= 0.75:
            effect.loss = effect.grad_norm = math.nan
            return
        # From about 1.8 to the goal; on its way to no number it grows to five times that.
        factor = max((goal if goal is not None else 9.0) / 1.8, 1.0)
        effect.loss *= factor**reached
        effect.grad_norm *= 44.0**reached


KINDS = (
    RankProcessDied, AppIllegalAccess, RankCudaOom, CollectiveMismatch, TimeoutTooShort, LossDivergence,
)  # fmt: skip
