"""Errors that say their own reason: every line that may be a cause, taken at its word and grouped by class."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, INFERRED, Candidate, Note, culprits_of, first_ones
from stethoscope.analysis.judge_scene import before, of_kernel
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene

SPECIAL = (
    "nccl.ib.completion",
    "nccl.ib.cqe_error",
    "nccl.ib.async.",
    "nccl.ib.speed_change",
    "nccl.ib.failover",
    "nccl.net.mixed_counts",
    "nccl.socket.connect",
    "nccl.socket.retries",
    "nccl.socket.closed",
    "nccl.socket.recv",
    "nccl.ib.size_mismatch",
    "nccl.socket.truncated",
    "nccl.verbs.modify_qp",
    "nccl.cuda_failure",
    "nccl.gdr.",
    "torch.watchdog.",
    "torch.desync.",
    "torch.store.",
    "torch.gloo.full_mesh",
    "torch.gloo.loopback",
    "torch.gloo.bad_interface",
    "torch.gloo.timeout",
    "torch.gloo.closed",
    "torch.monitored_barrier",
    "ras.",
    "elastic.",
    "slurm.",
    "k8s.",
    "launcher.",
    "ray.actor_died",
    "ray.worker_died",
    "ray.memory_pressure",
    "vllm.",
    "tests.",
    "training.straggler",
    "training.nan",
    "training.loss",
    "os.oom",
    "loader.exited",
    "python.",
    "run.stopped",
    "run.mpi_exit",
    "run.interrupted",
    "run.horovod",
    "run.native_abort",
    "run.bus_error",
    "run.usage_error",
    "run.spawn_failed",
    "health.",
    "pcie.acs",
    "storage.no_space",
)
"""Signatures that a method of their own weighs."""
BY_HOST = {
    "shm_too_small",
    "resource_limits",
    "fabric_manager_fault",
    "nvlink_fault",
    "driver_bug",
    "version_mismatch",
    "p2p_acs_iommu",
    "multi_job_contention",
    "dns_or_hostname",
    "wrong_interface",
    "driver_hung",
    "node_down",
    "pcie_fault",
}
"""Classes of a host rather than of one rank."""
_CUDA_TEXTS: tuple[tuple[str, str, float], ...] = (
    (r"out of memory", "gpu_oom", 0.85),
    (r"uncorrectable ECC", "gpu_memory_fault", 0.9),
    (r"[Nn]v[Ll]ink", "nvlink_fault", 0.9),
    (r"system not yet initialized", "fabric_manager_fault", 0.9),
    (
        r"driver version is insufficient|forward compatibility|unsupported toolchain|no kernel image",
        "version_mismatch",
        0.85,
    ),
    (r"invalid device ordinal|no CUDA-capable device", "config_env_error", 0.85),
    (
        r"illegal memory access|device-side assert|misaligned address|illegal instruction|an illegal",
        "cuda_app_bug",
        0.75,
    ),
    (r"unspecified launch failure", "cuda_app_bug", 0.6),
    (r"busy or unavailable", "multi_job_contention", 0.65),
    (r"GPU is lost|device.*not ready|unknown error", "gpu_hw_fault", 0.6),
    (r"operation not supported", "driver_bug", 0.6),
    (r"peer access|invalid argument|invalid resource handle", "nccl_bug", 0.45),
)
_ENDS_ITS_PROCESS = ("python.", "cuda.", "loader.", "storage.", "checkpoint.", "torch.watchdog.exception", "nccl.c")
_OF_RUNNING_WORK = ("torch.watchdog.timeout", "nccl.socket.closed", "nccl.socket.recv", "nccl.ib.completion")
_DEATHS = ("elastic.failed", "elastic.child_failed", "slurm.task_exit", "launcher.deepspeed", "run.mpi_exit")
_ALIASES = {"gpu_hw_fault": {"cuda.ecc": "gpu_memory_fault", "cuda.gpu_lost": "gpu_fallen_off_bus"}}
_NO_NUMBER = re.compile(r"(?i)(?:loss|grad[ _]norm)[^|]{0,20}\bnan\b")
FEW_STEPS = 3
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where it is mounted, nothing is written there
_OWNERS = re.compile(r"Process (\d+) has [\d.]+ \w+ memory in use")


def direct_errors(scene: Scene) -> list[Candidate]:
    """Return one candidate for each class that lines of the log name as their own reason."""
    groups: dict[tuple[str, int], list[Clue]] = {}
    for clue in scene.clues:
        if clue.role not in {"cause", "either"}:
            continue
        if not scene.is_of_operator(clue) and (clue.signature.startswith(SPECIAL) or of_kernel(clue.event)):
            continue
        cause = _ALIASES.get(clue.root_cause or "", {}).get(clue.signature, clue.root_cause)
        if cause and cause not in {"unknown", "healthy"}:
            groups.setdefault((cause, DIRECT if clue.role == "cause" else INFERRED), []).append(clue)
    found = [_candidate(scene, cause, clues, kind) for (cause, kind), clues in groups.items()]
    return [*found, *_cuda_failures(scene), *_numbers(scene), *_space(scene)]


def alive_after(scene: Scene, clue: Clue) -> bool:
    """Tell whether the job did two more steps, or came to its end, after this line: then it did not stop there."""
    if scene.finished_after(clue):
        return True
    if not scene.went_on(clue):
        return False
    # What a dead process had printed before may come out of its buffers, or stand in its other file, after its error.
    if not clue.signature.startswith((*_ENDS_ITS_PROCESS, *_OF_RUNNING_WORK)):
        return True
    return not (_before_all_work(scene, clue) or _job_died_after(scene, clue))


def _before_all_work(scene: Scene, clue: Clue) -> bool:
    """Tell whether a line that only work can bring about stands before all work, with no clock to say it was so."""
    if not clue.without_clock or scene.progressed_before(clue):
        return False
    return not any(before(start, clue) for start in scene.find("nccl.init.start", "launch.rank"))


def _job_died_after(scene: Scene, clue: Clue) -> bool:
    """Tell whether launchers report a failed process after this line, and nothing was started anew in between."""
    if not clue.signature.startswith(_ENDS_ITS_PROCESS):
        return False
    again = [c for c in scene.find("nccl.init.start", "launch.rank") if before(clue, c, strictly=True)]
    died = [c for c in scene.find(*_DEATHS) if before(clue, c, strictly=True)]
    return bool(died) and not (again and before(again[0], died[-1]))


def saving_before(scene: Scene, clue: Clue) -> bool:
    """Tell whether the last thing that was begun before this line was to save a checkpoint."""
    begun = [c for c in scene.find("checkpoint.begin") if c.index < clue.index]
    steps = [c for c in scene.progress() if c.index < clue.index]
    return bool(begun) and (not steps or steps[-1].index < begun[-1].index)


def _candidate(scene: Scene, cause: str, clues: list[Clue], kind: int, weight: float | None = None) -> Candidate:
    head = clues[0]
    if weight is None:
        weight = 0.9 if kind == DIRECT else 0.5
        if min(clue.severity.rank for clue in clues) >= Severity.P2.rank and kind == DIRECT:
            weight = 0.55
    if alive_after(scene, head):
        weight *= 0.5
    meaning = scene.meaning(head.event)
    candidate = Candidate(
        cause,
        weight,
        clues,
        kind,
        culprits_of(scene, first_ones(clues), by_host=cause in BY_HOST),
        checks=list(meaning.next_checks) if meaning else [],
    )
    if meaning is not None and scene.is_of_operator(head):
        candidate.summary = meaning.meaning.strip().rstrip(".")
    if cause == "gpu_oom":
        _other_owner(scene, candidate)
    if len({c.rank for c in clues if c.rank is not None}) > 1:
        ranks = sorted({c.rank for c in clues if c.rank is not None})
        candidate.supports.append(Note(f"{len(ranks)} ranks say the same", clues[-1]))
    return candidate


def _other_owner(scene: Scene, candidate: Candidate) -> None:
    """Memory that other processes hold, with little in this one's hands, is somebody else's doing."""
    for clue in candidate.clues:
        owners = set(_OWNERS.findall(clue.event.text))
        ours = re.search(r"allocated memory ([\d.]+) ([GM])iB is allocated by PyTorch", clue.event.text)
        total = re.search(r"total capac\w+ of ([\d.]+) GiB", clue.event.text)
        own = float(ours[1]) / (1 if ours[2] == "G" else 1024) if ours else None
        if len(owners) > 1 and own is not None and total and own < 0.5 * float(total[1]):
            candidate.root_cause = "multi_job_contention"
            candidate.supports.append(Note("other processes hold most of this GPU's memory", clue))
            return


def _cuda_failures(scene: Scene) -> list[Candidate]:
    """CUDA calls inside NCCL: the text decides, and an earlier error of the application is what they meet."""
    groups: dict[str, tuple[float, list[Clue]]] = {}
    for clue in scene.find("nccl.cuda_failure", "torch.watchdog.exception", "tests.failure"):
        text = clue.text("text") or clue.event.text
        if clue.signature == "torch.watchdog.exception" and "CUDA error" not in clue.event.text:
            continue
        if clue.signature == "tests.failure" and "CUDA failure" not in clue.event.text:
            continue
        for pattern, cause, weight in _CUDA_TEXTS:
            if re.search(pattern, text):
                groups.setdefault(cause, (weight, []))[1].append(clue)
                break
    return [_candidate(scene, cause, clues, DIRECT, weight) for cause, (weight, clues) in groups.items()]


def _numbers(scene: Scene) -> list[Candidate]:
    """NaN and loss scale: the recipe where all ranks see it, a GPU where one does."""
    clues = scene.find("training.nan", "training.loss_scale_minimum")
    if not clues:
        return []
    stopped = not alive_after(scene, clues[0])
    for clue in clues:
        named = re.search(r"(?i)\brank[ :=]*(\d+)", clue.event.text)
        if clue.rank is None and named:
            clue.rank = int(named[1])
        clue.host = clue.text("host") or clue.host
    found = _candidate(scene, "loss_divergence", clues, DIRECT, 0.6)
    steps = scene.progress()[-FEW_STEPS:]
    one_rank = len({clue.rank for clue in clues}) == 1 and clues[0].rank is not None
    other = "gpu_hw_fault" if one_rank else "cuda_app_bug"
    if stopped:
        return [found, Candidate(other, 0.3, clues, INFERRED, list(found.culprits))]
    if len(steps) < FEW_STEPS or not all(_NO_NUMBER.search(step.event.text) for step in steps):
        found.weight = 0.2
        return [found]
    found.weight = 0.55
    found.summary = "loss or gradient is no number any more and stays so, while the job goes on"
    return [found]


def _space(scene: Scene) -> list[Candidate]:
    """No space left: the path says whether it is shared memory, a checkpoint or another file system."""
    groups: dict[str, list[Clue]] = {}
    bus_error = [c for c in scene.find("loader.killed", "loader.bus_error") if c.root_cause == "shm_too_small"]
    for clue in scene.find("storage.no_space"):
        path = clue.text("path") or clue.event.text
        if SHARED_MEMORY in path or (bus_error and not clue.text("path")):
            cause = "shm_too_small"
        elif re.search(r"check-?points?|ckpt|\.pt\b|\.safetensors|optim", path) or (
            not clue.text("path") and saving_before(scene, clue)
        ):
            cause = "ckpt_io"
        else:
            cause = "fs_full_or_readonly"
        groups.setdefault(cause, []).append(clue)
    return [_candidate(scene, cause, clues, DIRECT) for cause, clues in groups.items()]
