"""Python exceptions: which of them are echoes of others, and what the rest says about the cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, SYMPTOM, Candidate, Note, culprits_of
from stethoscope.analysis.judge_ends import crash
from stethoscope.analysis.judge_generic import alive_after, saving_before

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene

_ECHOES = re.compile(
    r"(?:^|\.)(?:Dist\w*Error|ChildFailedError|RayTaskError|EngineDeadError|SystemExit|SignalException|KeyboardInterrupt"
    r"|CalledProcessError|ProcessRaisedException|ProcessExitedException|BrokenPipeError|ConnectionResetError|EOFError"
    r"|EngineGenerateError|WorkerCrashedError|ActorDiedError|RayActorError|ActorHandleNotFoundError|CancelledError)$"
)
_ECHO_TEXT = re.compile(
    r"NCCL (?:error|communicator)|nccl\w* ?(?:error|failed)|Socket Timeout|Connection (?:reset|closed|refused)"
    r"|Broken pipe|Engine core init|See (?:stack trace|root cause)|worker\w* (?:died|exited|failed)"
    r"|The connection to the C10d store",
    re.IGNORECASE,
)
_BROKEN = re.compile(r"Broken ?[Pp]ipe|Connection ?(?:[Rr]eset|closed)")
_OUT_OF_SPACE = re.compile(r"No space left on device")
_PYTHON: tuple[tuple[str, str, float], ...] = (
    (r"^(?:ModuleNotFoundError|ImportError)$", "config_env_error", 0.7),
    (r"", "cuda_app_bug", 0.65),
)
_PYTHON_TEXTS: tuple[tuple[str, str, float], ...] = (
    (
        r"undefined symbol|version `GLIBC|incompatible with|requires .{0,60}(?:version|[<>=]=)|version mismatch"
        r"|not compatible with|no kernel image|unsupported toolchain|driver on your system is too old"
        r"|driver version is insufficient|unsupported display driver|cannot import name"
        r"|forward compatibility was attempted",
        "version_mismatch",
        0.75,
    ),
    (r"mismatches the version that was used", "version_mismatch", 0.8),
    (r"Address already in use|another process is utilizing it", "multi_job_contention", 0.8),
    (r"devices are busy or unavailable", "multi_job_contention", 0.65),
    (
        r"(?:doesn't have NCCL|NCCL is not available)|must be divisible|Error building extension",
        "config_env_error",
        0.65,
    ),
    (r"Permission denied|Please set NCCL_|is required to load|[Pp]lease (?:pip )?install", "config_env_error", 0.6),
    (
        r"cannot open shared object file|No module named|Found no NVIDIA driver|no CUDA-capable",
        "config_env_error",
        0.75,
    ),
    (r"NameResolutionError|name resolution|Name or service not known|getaddrinfo failed", "dns_or_hostname", 0.75),
    (r"No such file or directory: '[^']*(?:checkpoint|ckpt)", "ckpt_io", 0.65),
    (r"Caught \w+ in DataLoader worker process", "data_loading", 0.65),
    (r"Read-only file system", "fs_full_or_readonly", 0.85),
    (r"Input/output error|Stale file handle|transport endpoint", "storage_io", 0.85),
    (r"[Cc]an't start new thread|Too many open files|Resource temporarily unavailable", "resource_limits", 0.85),
    (r"uncorrectable ECC", "gpu_memory_fault", 0.9),
    (r"[Nn]v[Ll]ink error", "nvlink_fault", 0.9),
    (r"GPU is lost|fallen off the bus", "gpu_fallen_off_bus", 0.9),
    (r"world[_ ]size|\bRANK\b|MASTER_ADDR|environment variable|invalid device", "config_env_error", 0.65),
    (r"out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemory", "gpu_oom", 0.8),
    (r"Cannot allocate memory|bad_alloc|^MemoryError", "host_oom", 0.7),
    (r"size mismatch for|(?:Missing|Unexpected) key|in loading state_dict", "config_env_error", 0.6),
    (
        r"(?i)(?:check-?point|ckpt|safetensors|PytorchStream).{0,80}(?:fail|corrupt|truncat|incomplete|not found)"
        r"|(?:fail|corrupt|truncat|error|invalid)\w* .{0,60}(?:check-?point|ckpt|safetensors)"
        r"|PytorchStream|inline_container",
        "ckpt_io",
        0.6,
    ),
)
_FULL = re.compile(r"Disk quota exceeded|quota exceeded")


def exceptions(scene: Scene) -> list[Candidate]:
    """Python exceptions that are nobody's echo: the first of them ended its rank, and the others met its absence."""
    groups: dict[str, tuple[float, list[Clue]]] = {}
    broken: list[Clue] = []
    for clue in scene.find("python.exception", "python.fatal", "run.native_abort", "run.bus_error", "run.usage_error"):
        kind, text = clue.text("type"), clue.text("text", "what")
        if _ECHOES.search(kind) or _ECHO_TEXT.search(text):
            if _BROKEN.search(f"{kind}: {text}") and not alive_after(scene, clue) and not scene.finished_before(clue):
                broken.append(clue)
            continue
        if clue.signature == "python.fatal":
            cause, weight, _, _ = crash(scene)
        elif clue.signature in {"run.native_abort", "run.bus_error", "run.usage_error"}:
            cause, weight = clue.root_cause or "cuda_app_bug", 0.6
        elif _OUT_OF_SPACE.search(text):
            continue
        elif _FULL.search(text):
            cause, weight = ("ckpt_io" if saving_before(scene, clue) else "fs_full_or_readonly"), 0.85
        else:
            cause, weight = python_class(kind, text)
        groups.setdefault(cause, (weight, []))[1].append(clue)
    found = []
    if broken:
        missing = ["the log of the process at the other end of the connection"]
        found.append(Candidate("peer_process_died", 0.4, broken, SYMPTOM, [], missing=missing))
    for cause, (weight, clues) in groups.items():
        if alive_after(scene, clues[0]):
            weight *= 0.4
        head = clues[0]
        meaning = scene.meaning(head.event)
        candidate = Candidate(cause, weight, clues, DIRECT, culprits_of(scene, clues[:1]))
        candidate.checks = list(meaning.next_checks) if meaning and cause == meaning.root_cause else []
        candidate.supports.append(Note("the first exception that is not an echo of NCCL or the store", head))
        found.append(candidate)
    return found


def python_class(kind: str, text: str) -> tuple[str, float]:
    """Return the class and weight of an exception by its text, else by its type."""
    for pattern, cause, weight in _PYTHON_TEXTS:
        if re.search(pattern, f"{kind}: {text}"):
            return cause, weight
    name = kind.rsplit(".", 1)[-1]
    for pattern, cause, weight in _PYTHON:
        if re.search(pattern, name):
            return cause, weight
    return "cuda_app_bug", 0.6
