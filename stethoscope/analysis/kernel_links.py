"""Puts incidents together that tell one story: PCIe errors before a lost GPU, a switch and its GPU, what hung then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.kernel_cause import AFTERMATH, BUS, ECHOES, FABRIC, FIRMWARE
from stethoscope.analysis.kernel_incidents import GAP_S, Incident, near, seconds_between
from stethoscope.analysis.kernel_layers import is_attempt_to_repair, rests_on_disk
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.analysis.kernel_incidents import Sign

_AFTERMATH_S = 900.0
"""Tasks that hang in the driver are reported minutes later; a second GPU that waits for the first fails then, too."""
_MOST = 64
_BEFORE_LOSS = ("aer.", "pcie.", "sel.pcie", "ghes", "iommu.")
_PROGRAM = frozenset({8, 13, 31, 43, 45, 69, 109})
"""What one program can do on all of its GPUs at once."""
_OUT_OF_MEMORY = ("os.oom_global", "os.oom_memcg", "k8s.oomkilled")


def link(incidents: list[Incident]) -> list[Incident]:
    """Return the incidents with those of one story merged, and consequences marked as such."""
    return [incident for era in _eras(incidents) for incident in _link_era(era)]


def _eras(incidents: list[Incident]) -> list[list[Incident]]:
    """Return the incidents of each machine, cut where it was quiet for so long that nothing hangs together across.

    An era is bounded in size too: a machine that fails every minute for days must not take hours to read.
    """
    machines: dict[tuple[str, int], list[list[Incident]]] = {}
    ends: dict[tuple[str, int], Sign] = {}
    for incident in incidents:
        key = (incident.host, incident.boot)
        eras = machines.setdefault(key, [[]])
        if eras[-1] and (len(eras[-1]) >= _MOST or not near(ends[key], incident.first, _AFTERMATH_S)):
            eras.append([])
        eras[-1].append(incident)
        last = incident.signs[-1]
        if key not in ends or ends[key].index < last.index:
            ends[key] = last
    return [era for eras in machines.values() for era in eras]


def _link_era(incidents: list[Incident]) -> list[Incident]:
    kept = incidents
    for step in (
        _unnamed, _switch_and_gpu, _gpus_of_one_fabric, _gpus_of_one_program, is_attempt_to_repair, _signs_before_loss,
        _aftermath, rests_on_disk,
    ):  # fmt: skip
        kept = _merged(kept, step)
    for one in kept:
        for other in kept:
            if one is not other and one.consequence_of is None and _is_consequence(one, other):
                one.consequence_of = other
    return kept


def _merged(incidents: list[Incident], belongs: Callable[[Incident, Incident], bool]) -> list[Incident]:
    """Return the incidents with each one for which `belongs(main, part)` is true taken into the nearest such main."""
    kept: list[Incident] = list(incidents)
    for part in incidents:
        mains = [main for main in kept if main is not part and belongs(main, part)]
        if mains and part in kept:
            nearest = min(mains, key=lambda main: abs(main.first.index - part.first.index))
            nearest.merge(part)
            kept.remove(part)
    return kept


def _overlap(one: Incident, other: Incident, within_s: float = GAP_S) -> bool:
    early, late = (one, other) if one.first.index <= other.first.index else (other, one)
    if early.signs[-1].index < late.first.index:
        return any(near(sign, late.first, within_s) for sign in early.signs)
    return any(
        near(a, b, within_s) if a.index <= b.index else near(b, a, within_s) for a in one.signs for b in other.signs
    )


def _matters(incident: Incident) -> bool:
    return any(sign.role not in ("context", "benign") for sign in incident.signs)


def _on_fabric(incident: Incident) -> bool:
    return any(
        sign.xid in FABRIC or sign.sxid is not None or sign.xid in BUS for sign in incident.signs
    ) or _names_fabric(incident)


def _names_fabric(incident: Incident) -> bool:
    for sign in incident.signs:
        named = (sign.reading.fields or {}).get("caused_by") if sign.reading is not None else None
        if isinstance(named, int) and named in FABRIC:
            return True
    return False


def _unnamed(main: Incident, part: Incident) -> bool:
    """The second and third line of a message name no address, nor do some of the driver's lines about one GPU."""
    if main.kind != "gpu" or main.pci is None or part.pci is not None or not _overlap(main, part):
        return False
    return part.kind == "gpu" or (
        _matters(part) and all(sign.event.signature.startswith("nvrm.") for sign in part.signs)
    )


def _switch_and_gpu(main: Incident, part: Incident) -> bool:
    """A switch's report belongs to the GPU that fails in the same minutes, and to other switches that report."""
    if part.kind != "switch" or main.kind == "host" or not _matters(main):
        return False
    hit = main.kind == "switch" or any(
        sign.xid in FABRIC or sign.xid in FIRMWARE or sign.xid in BUS or sign.xid in ECHOES or sign.xid == 31
        for sign in main.signs
    )
    return hit and _overlap(main, part)


def _gpus_of_one_fabric(main: Incident, part: Incident) -> bool:
    """GPUs that report NVLink trouble together are one incident, the earliest of them its head."""
    if main.kind != "gpu" or part.kind != "gpu" or main.first.index > part.first.index:
        return False
    only_echoes = all(sign.xid in ECHOES for sign in part.signs if sign.xid is not None) and bool(part.codes())
    return _on_fabric(main) and (_on_fabric(part) or only_echoes) and _overlap(main, part)


def _gpus_of_one_program(main: Incident, part: Incident) -> bool:
    """The same fault on several GPUs in the same minutes is one program's."""
    if main.kind != "gpu" or part.kind != "gpu" or main.first.index > part.first.index:
        return False
    ours, theirs = main.codes(), part.codes()
    return (
        bool(ours) and ours[0] in _PROGRAM and set(ours) <= _PROGRAM and set(theirs) <= set(ours)
        and theirs[:1] == ours[:1] and _overlap(main, part)
    )  # fmt: skip


def _signs_before_loss(main: Incident, part: Incident) -> bool:
    """PCIe errors of the port above belong to the GPU that is lost after them; the port says not which GPU it is."""
    if part.kind != "host" or not part.first.event.signature.startswith(_BEFORE_LOSS) or main.kind != "gpu":
        return False
    lost = [sign for sign in main.signs if sign.off_bus or sign.xid in BUS or sign.xid in (32, 80, 176)]
    return any(
        near(sign, loss, _AFTERMATH_S) for sign in part.signs for loss in lost if sign.index < loss.index
    ) or any(near(loss, sign) for sign in part.signs for loss in lost if sign.index > loss.index)


def _aftermath(main: Incident, part: Incident) -> bool:
    """Tasks that hang, programs that crash and lines of the driver without an address follow the GPU's trouble."""
    if main.kind != "gpu" or part.codes() or not (main.codes() or any(sign.off_bus for sign in main.signs)):
        return False
    if part.kind == "gpu" and part.pci is not None:
        return False
    if not part.first.event.signature.startswith((*AFTERMATH, "nvrm.")):
        return False
    if part.first.event.signature.startswith("nvrm.") and _overlap(main, part):
        return True
    return any(
        near(sign, later, _AFTERMATH_S)
        for later in part.signs
        for sign in main.signs
        if sign.index < later.index and sign.role not in ("context", "benign")
    )


def _is_consequence(one: Incident, other: Incident) -> bool:
    if not _matters(other):
        return False
    lead = _lead_s(other.first, one.first)
    if one.kind == "gpu" and one.codes() and all(code in ECHOES for code in one.codes()):
        if other.first.event.signature in _OUT_OF_MEMORY:
            return lead is None or -5.0 <= lead <= GAP_S
        return other.kind == "gpu" and _worse(other, one) and (lead is None or 0.0 <= lead <= _AFTERMATH_S)
    if one.kind == "gpu" and set(one.codes()) & {119, 175} and not set(one.codes()) & (BUS | {62, 120}):
        broken = _on_fabric(other) and any(sign.severity is Severity.P0 for sign in other.signs)
        return other.kind == "gpu" and broken and lead is not None and 0.0 < lead <= _AFTERMATH_S
    return False


def _worse(one: Incident, other: Incident) -> bool:
    return min(sign.severity.rank for sign in one.signs) < min(sign.severity.rank for sign in other.signs)


def _lead_s(first: Sign, second: Sign) -> float | None:
    if first.index > second.index:
        apart = seconds_between(second, first)
        return None if apart is None else -apart
    return seconds_between(first, second)
