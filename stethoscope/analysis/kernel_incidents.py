"""Groups the kernel's events into incidents: what happened to one GPU, switch or part of a host within minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from stethoscope.analysis.decode_steps import with_steps
from stethoscope.analysis.xid import Reading, read_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.analysis.judge_scene import KnownSignatures
    from stethoscope.model.finding import Severity
    from stethoscope.model.logs import Event, Log, Role
    from stethoscope.specs.codes import Codes

GAP_S = 180.0
"""Lines of one GPU that are further apart are two incidents."""
FAMILIES = frozenset({
    "xid", "sxid", "aer", "pcie", "nvrm", "mlx5", "nic", "roce", "rdma", "bond", "ib", "nvme", "blk", "md", "ext4",
    "xfs", "fs", "vfs", "mce", "edac", "memory_failure", "ghes", "os", "cpu", "iommu", "nfs", "lustre", "lnet", "gpfs",
    "weka", "cephfs", "beegfs", "persistenced", "fm", "imex", "dcgm", "k8s", "sel", "time", "log", "boot",
})  # fmt: skip
"""First words of the ids of what kernel, driver and BMC print."""

_OF_SCHEDULER = ("slurm.gres_low",)
_GPU_FAMILIES = ("nvrm", "dcgm")
_OFF_BUS = ("nvrm.off_bus.short", "nvrm.off_bus.probe", "nvrm.gpu_lost", "nvrm.no_gpu")

Kind = Literal["gpu", "switch", "host"]


@dataclass(slots=True)
class Sign:
    """One event with what it says."""

    index: int
    """Place in the order of the log."""
    event: Event
    reading: Reading | None
    root_cause: str | None
    meaning: str
    checks: tuple[str, ...]

    @property
    def xid(self) -> int | None:
        """Return the code when it is an Xid."""
        return self.reading.code.code if self.reading is not None and self.reading.code.kind == "xid" else None

    @property
    def sxid(self) -> int | None:
        """Return the code when it is an SXid."""
        return self.reading.code.code if self.reading is not None and self.reading.code.kind == "sxid" else None

    @property
    def severity(self) -> Severity:
        """Return how bad the line is by itself."""
        return self.reading.severity if self.reading is not None else self.event.severity

    @property
    def role(self) -> Role:
        """Return what the line may be in a verdict."""
        return self.reading.role if self.reading is not None else self.event.role

    @property
    def off_bus(self) -> bool:
        """Tell whether it says that a GPU does not answer on PCIe any more."""
        if self.event.signature == "pcie.power_state":
            return self.root_cause == "gpu_fallen_off_bus"
        return self.xid == 79 or self.event.signature in _OFF_BUS


@dataclass(slots=True)
class Incident:
    """What belongs together: of one GPU, of one switch, or one kind of trouble of a host."""

    kind: Kind
    host: str
    boot: int
    pci: str | None
    signs: list[Sign] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    """Slots of all GPUs in it, the first one first."""
    consequence_of: Incident | None = None

    @property
    def first(self) -> Sign:
        """Return its earliest event."""
        return self.signs[0]

    def codes(self) -> list[int]:
        """Return its Xids in the order of their first lines."""
        return list(dict.fromkeys(sign.xid for sign in self.signs if sign.xid is not None))

    def merge(self, other: Incident) -> None:
        """Take over the events of `other`."""
        self.signs = sorted([*self.signs, *other.signs], key=lambda sign: sign.index)
        for slot in other.members:
            if slot not in self.members:
                self.members.append(slot)


def read_signs(log: Log, codes: Codes, signatures: KnownSignatures | None) -> list[Sign]:
    """Return what the kernel's events of `log` say, in their order."""
    signs = []
    for index, event in enumerate(with_steps(log.events)):
        if event.signature.partition(".")[0] not in FAMILIES and event.signature not in _OF_SCHEDULER:
            continue
        reading = read_line(event.text, codes) if event.signature.startswith(("xid.", "sxid.")) else None
        cause: str | None = reading.code.root_cause if reading is not None else None
        says = reading.code.title if reading is not None else ""
        checks: tuple[str, ...] = ()
        known = signatures.by_id.get(event.signature) if signatures is not None and reading is None else None
        if known is not None:
            meaning = known.variant(event.fields)
            cause, says, checks = meaning.root_cause, meaning.meaning, meaning.next_checks
        signs.append(Sign(index, event, reading, cause, says, checks))
    return signs


def group(signs: Iterable[Sign]) -> list[Incident]:
    """Return the incidents of `signs`: each GPU, switch and kind of trouble by itself, split where it paused."""
    found: list[Incident] = []
    running: dict[tuple[object, ...], Incident] = {}
    for sign in signs:
        event = sign.event
        host, boot = host_of(sign), event.origin.boot
        kind, what = _subject(sign)
        key = (host, boot, kind, what)
        incident = running.get(key)
        if incident is None or not near(incident.signs[-1], sign):
            pci = event.pci or _slot(event.fields)
            incident = Incident(kind, host, boot, pci)
            if kind == "gpu" and incident.pci:
                incident.members.append(incident.pci)
            running[key] = incident
            found.append(incident)
        incident.signs.append(sign)
    return found


def near(earlier: Sign, later: Sign, within_s: float = GAP_S) -> bool:
    """Tell whether two events lie within `within_s`; without stamps that compare, the order of lines is all there is
    and they do."""
    apart = seconds_between(earlier, later)
    return apart is None or abs(apart) <= within_s


def seconds_between(earlier: Sign, later: Sign) -> float | None:
    """Return the seconds from the end of one event (its last repetition) to the start of another, None if unknown."""
    one, other = earlier.event, later.event
    if one.at is not None and other.at is not None:
        end = one.last_at if one.last_at is not None and one.last_at <= other.at else one.at
        return other.at - end
    if one.uptime_s is not None and other.uptime_s is not None and one.file == other.file:
        return other.uptime_s - one.uptime_s
    return None


def host_of(sign: Sign) -> str:
    """Return the host of an event; files that name none are hosts of their own."""
    return sign.event.origin.host or f"file {sign.event.file}"


def _subject(sign: Sign) -> tuple[Kind, str]:
    event = sign.event
    family = event.signature.partition(".")[0]
    slot = event.pci or _slot(event.fields)
    if sign.xid is not None:
        return "gpu", slot or ""
    if sign.sxid is not None:
        return "switch", slot or ""
    if family in _GPU_FAMILIES and slot:
        return "gpu", slot
    if sign.off_bus:
        return "gpu", slot or ""
    return "host", f"{family} {slot or event.device or ''}"


def _slot(fields: Mapping[str, str | int | float]) -> str | None:
    value = fields.get("pci")
    return str(value) if value else None
