"""What a training job says of itself in its log, and how it goes: steps, phases, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

SAME = -1
"""Number of a step whose line names none: it goes on about that of the line above."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step as a log tells it. None is what the line does not say; a loss or norm that is NaN was printed so."""

    step: int
    """Its number, or SAME."""
    total: int | None = None
    """Steps that the run is to have."""
    at: float | None = None
    """Wall seconds: of the line's own stamp, else of its arrival."""
    is_own_time: bool = False
    """`at` is the line's own."""
    step_time_s: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    per_gpu: bool = False
    """`tokens_per_s` is of one GPU."""
    batch: float | None = None
    """Samples of one step, over all ranks."""
    loss: float | None = None
    lr: float | None = None
    grad_norm: float | None = None
    data_time_s: float | None = None
    """Part of the step that waited for data."""
    skipped: bool = False
    """The optimizer left this step out: overflow."""
    family: str = ""
    """Who writes such lines: megatron, deepspeed ..."""


class PhaseKind(StrEnum):
    """What a job does beside its steps."""

    CHECKPOINT_BEGIN = "checkpoint begin"
    CHECKPOINT_END = "checkpoint end"
    EVALUATION_BEGIN = "evaluation begin"
    EVALUATION_END = "evaluation end"
    LOADED = "checkpoint loaded"
    """The job began, or began again, from a checkpoint."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One line that says what the job does beside its steps."""

    kind: PhaseKind
    at: float | None = None
    step: int | None = None
    duration_s: float | None = None
    """As the line says it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One number of a job over its last steps; None where a step did not say it."""

    steps: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class JobLog:
    """Where a job's log lies, and how reading it goes."""

    node: str = ""
    """The node that it was read on; empty for a file of this machine."""
    path: str = ""
    trouble: str = ""
    """Why it cannot be read, or not on; empty while it can."""
    read_at: float | None = None
    """Wall seconds at which it was last read to its end."""
    line_at: float | None = None
    """Wall seconds at which something was last added."""
    lines: int = 0
    """Lines that were read."""
    family: str = ""
    """Who writes its step lines; empty when none were understood."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a job goes, as far as its log says."""

    log: JobLog = JobLog()
    last: Step | None = None
    """The last step."""
    phase: str = ""
    """What it does now beside its steps: checkpoint, evaluation, warm-up, restarted; empty while it steps."""
    phase_since: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """Metric id -> number, those that are known."""
    since: Mapping[str, float] = field(default_factory=dict)
    """Metric id -> wall seconds since when it deviates, for those that do."""
    usual: Mapping[str, float] = field(default_factory=dict)
    """Metric id -> what it was in the job's own healthy past."""
    step_time: Curve = Curve()
    throughput: Curve = Curve()
    loss: Curve = Curve()
    checkpoints: tuple[tuple[float, float], ...] = ()
    """Wall seconds and duration of the last checkpoints."""
    skipped: int = 0
    """Steps left out because of overflow, among those that are kept."""
    restarts: int = 0
    """How often the step went back: restarts from a checkpoint."""


@dataclass(frozen=True, slots=True)
class Rank:
    """Where one rank of a job runs."""

    rank: int
    node: str
    gpu: int
