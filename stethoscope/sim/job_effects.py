"""What faults do to a whole job, to its file system and to the GPUs that it shares; part of Effects."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How Slurm tells the end of a job that did not fail by itself."""

    state: str
    """COMPLETED, PREEMPTED, TIMEOUT, CANCELLED, NODE_FAIL or FAILED."""
    exit_code: str = "0:0"
    """Status and signal."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A collective in which the ranks do not agree, and what the tools that look into it can see."""

    behind: tuple[int, ...] = ()
    """Ranks that did not join."""
    ras: str = "ok"
    """ok or mismatch, as NCCL's RAS tells it."""
    recorded: bool = False
    """The flight recorder was on."""
    stacks_differ: bool = False


@dataclass(slots=True)
class JobEffect:
    """One job; everything starts at "no effect"."""

    end: JobEnd | None = None
    """It has ended so."""
    saves_itself: bool = False
    """It writes its checkpoints as a fault of the scenario says, and no others."""
    is_saving: bool = False
    """All its ranks write a checkpoint and do nothing else."""
    is_broken: bool = False
    """A rank has died and the others know it: their connections to it are closed."""
    is_patient: bool = False
    """Its collectives have no time-out that matters."""
    spikes: float = 0.0
    """By so much its loss jumps up now and then, for a step."""
    loss: float = 1.0
    """Factor on its loss, NaN once it is no number; `grad_norm` likewise."""
    grad_norm: float = 1.0
    environment: dict[int, dict[str, str]] = field(default_factory=dict)
    """Node -> variables that differ there."""
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class Foreign:
    """A process on a GPU that is not a rank of the job there."""

    name: str
    job: str
    """Its Slurm job, empty for one that no job has."""
    memory_mib: float


@dataclass(frozen=True, slots=True)
class Storage:
    """The shared file system as its clients meet it."""

    read_ms: float = 2.0
    """Time of a request from its start to its end."""
    write_ms: float = 4.0
    backlog: float = 1.0
    """Requests of a client that wait for a slot to be sent."""
    is_silent: bool = False
    """Its server does not answer at all."""
