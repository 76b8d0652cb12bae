"""What a metric is, and why a value can be missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Scope(StrEnum):
    """What one value belongs to."""

    NODE = "node"
    GPU = "gpu"
    PORT = "ib_port"
    NVLINK = "nvlink"
    PCIE = "pcie_dev"
    NET = "net"
    DISK = "disk"
    FS = "fs"
    JOB = "job"


DEVICE_SCOPES = (Scope.NVLINK, Scope.PCIE, Scope.NET, Scope.DISK, Scope.FS)
"""Scopes whose rows are known by a name, and come in parts (model.facts)."""


class Kind(StrEnum):
    """How the numbers of a metric behave."""

    GAUGE = "gauge"
    COUNTER = "counter"
    STATE = "state"
    INFO = "info"


class Reason(IntEnum):
    """Why there is no value; PRESENT is the one code that says there is one. Stored as uint8 beside the numbers."""

    PRESENT = 0
    WAITING = 1
    """Nothing was received yet."""
    UNSUPPORTED = 2
    """The device, driver or kernel does not have it."""
    PERMISSION = 3
    """It exists and this user may not read it."""
    HUNG = 4
    """The driver did not answer in time."""
    LOST = 5
    """The device no longer answers on its bus."""
    ERROR = 6
    """Reading it failed in another way."""
    UNREACHABLE = 7
    """The node cannot be reached."""
    ONE_READING = 8
    """A rate needs a second reading."""
    RESET = 9
    """The counter went back: the rate of this interval is not known."""
    SATURATED = 10
    """The counter stands at its highest value and cannot move: its rate is not known."""
    ABSENT = 11
    """There is no such device on this node."""


REASON_WORDS: dict[Reason, str] = {
    Reason.PRESENT: "present",
    Reason.WAITING: "waiting",
    Reason.UNSUPPORTED: "unsupported",
    Reason.PERMISSION: "permission",
    Reason.HUNG: "hung",
    Reason.LOST: "lost",
    Reason.ERROR: "error",
    Reason.UNREACHABLE: "unreachable",
    Reason.ONE_READING: "one reading",
    Reason.RESET: "reset",
    Reason.SATURATED: "saturated",
    Reason.ABSENT: "absent",
}
"""The word of each reason, as it stands on the wire, in JSON and on the screen."""

WIRE_REASONS: dict[str, Reason] = {
    word: reason
    for reason, word in REASON_WORDS.items()
    if reason
    in (Reason.UNSUPPORTED, Reason.PERMISSION, Reason.HUNG, Reason.LOST, Reason.ERROR, Reason.ABSENT, Reason.WAITING)
}
"""The reasons that a probe may give instead of a number."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no number, and this is why."""

    reason: Reason

    def __str__(self) -> str:
        """Return the reason's word."""
        return REASON_WORDS[self.reason]


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the metric catalogue (`playbooks/metrics.yaml`)."""

    id: str
    title: str
    """Short name for a column or a headline: `SM clock`."""
    scope: Scope
    unit: str
    """Unit of the value; of a counter, the unit of what it counts."""
    kind: Kind
    tier: str = "fast"
    group: str = ""
    """The part that brings it (probes/manifest.yaml); empty for what full and delta frames bring."""
    meaning: str = ""
    """One sentence for the cursor line and the help."""
    alias: str = ""
    """The short name that a filter may use, as operators say it: `temp`."""
    bits: int | None = None
    """Width at which a counter wraps around to 0; null when it does not wrap in the life of a machine."""
    pins: tuple[int, ...] = ()
    """Totals at which a counter stands still for ever: 255 for an 8-bit one, 65535, 2**32 - 1."""
    lasting: bool = False
    """The total of a counter is kept in the device: a boot does not set it to 0."""
    rate_unit: str = ""
    """Unit of the displayed rate of a counter (`Gb/s`, `/s`)."""
    rate_scale: float = 1.0
    """Counts per second times this is the rate in `rate_unit`."""
    low: float | None = None
    """Lower end of the colour scale; null takes it from the data."""
    high: float | None = None
    """Upper end of the colour scale; null takes it from the data."""
    worse: str = "none"
    """Which direction is bad: high, low, or none."""
    warn: float | None = None
    """A value at or beyond this, in the `worse` direction, is drawn as a warning."""
    critical: float | None = None
    """A value at or beyond this is drawn as critical."""
    critical_total: int | None = None
    """A counter that has counted so many in all is critical, however long that is ago."""
    words: tuple[tuple[int, str], ...] = ()
    """Names of the values of a state metric: (4, "Active")."""
    bitmask: bool = False
    """`words` name bits instead of values."""
    kept: bool = False
    """Its changes are remembered for weeks (analysis.past)."""
    fleet: bool = True
    """Can be chosen as the one metric of the fleet screen."""

    @property
    def shown_unit(self) -> str:
        """Return the unit of the number that is shown: of the rate for counters."""
        return self.rate_unit if self.kind is Kind.COUNTER else self.unit
