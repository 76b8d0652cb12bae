"""What a log says: events that signatures found in it, and the verdict over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stethoscope.model.finding import Fact, Severity

Role = Literal["cause", "symptom", "either", "context", "benign"]
"""What a signature may be in a verdict: `either` depends on its fields and on what came before it; `context` is
evidence and raises nothing; `benign` looks bad and is not."""

HEALTHY, UNKNOWN = "healthy", "unknown"
"""The two root causes that name none."""


@dataclass(slots=True)
class Origin:
    """Who printed a line, as far as its prefixes and the file's name say; None where they do not."""

    host: str | None = None
    rank: int | None = None
    """Global rank of the job."""
    local_rank: int | None = None
    task: int | None = None
    """Task number of `srun -l`: the rank where there is one task for each GPU."""
    cuda_device: int | None = None
    """Number in NCCL's prefix: the device of that process, not the rank."""
    pid: int | None = None
    tid: int | None = None
    pod: str | None = None
    boot: int = 0
    """Which boot of the host, counted in one file: state of the driver starts anew with each."""


@dataclass(slots=True)
class Event:
    """One line, or a run of equal ones, that a signature found."""

    signature: str
    role: Role
    severity: Severity
    text: str
    """The message without its prefixes, cleaned."""
    file: int = 0
    """Number of the file in `Log.files`."""
    line: int = 0
    """Line in that file, from 1."""
    at: float | None = None
    """Wall seconds (UTC); None where no stamp says it."""
    at_is_near: bool = False
    """The line has no stamp of its own: `at` is that of the last one above it of the same origin."""
    uptime_s: float | None = None
    """Seconds since boot, where the prefix says them."""
    origin: Origin = field(default_factory=Origin)
    pci: str | None = None
    """Slot that the line is about, `0000:81:00`."""
    device: str | None = None
    """Device that the line is about in the words of places: gpu/3, ib/mlx5_3, disk/nvme0n1, net/eth0."""
    fields: Mapping[str, str | int | float] = field(default_factory=dict)
    """Named groups of the signature, as integers where they are whole numbers; Xids have `xid`, SXids `sxid`."""
    count: int = 1
    last_at: float | None = None


@dataclass(slots=True)
class Seen:
    """What was seen of one rank or process over all files, matched or not."""

    origin: Origin
    lines: int = 0
    first_at: float | None = None
    last_at: float | None = None
    last_text: str = ""
    """The last line before it fell silent, cleaned."""


@dataclass(slots=True)
class LogFile:
    """One file that was read."""

    name: str
    size: int = 0
    lines: int = 0
    modified_at: float | None = None
    trouble: str = ""
    """Why it could not be read to its end, in words."""
    first_at: float | None = None
    last_at: float | None = None
    """Earliest and latest stamp of the lines that were looked at, wall seconds."""
    kernel_lines: int = 0
    """How many of the lines that were looked at the kernel printed."""


@dataclass(slots=True)
class Log:
    """Everything that was found in a set of files, in the order of time as far as it is known, else of files."""

    files: list[LogFile]
    events: list[Event]
    seen: list[Seen] = field(default_factory=list)
    """Empty when the files are too large to look at each line."""
    bytes: int = 0
    lines: int = 0
    matched: int = 0
    seconds: float = 0.0


@dataclass(slots=True, frozen=True)
class Culprit:
    """Who did it, as far as the logs tell: any of them may be unknown."""

    rank: int | None = None
    host: str | None = None
    device: str | None = None
    place: str | None = None
    """host/device in the words of places; filled where both are known."""


@dataclass(slots=True, frozen=True)
class LogVerdict:
    """What happened first, to whom, how bad it is, and what would settle it."""

    root_cause: str
    """An id of root_causes.yaml."""
    confidence: float
    severity: Severity
    summary: str
    """One plain sentence."""
    signature: str | None = None
    """Of the first cause."""
    culprits: tuple[Culprit, ...] = ()
    supports: tuple[Fact, ...] = ()
    contradicts: tuple[Fact, ...] = ()
    next_checks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What is not there and would settle it: a log, a variable, a command."""
