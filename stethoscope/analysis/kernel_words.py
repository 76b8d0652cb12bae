"""The verdict over one incident in words: what failed where, what followed, what to do and what would settle it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.analysis.kernel_cause import ECHOES
from stethoscope.analysis.kernel_layers import gpus_below, what_failed
from stethoscope.analysis.kernel_ports import came_back, times_down
from stethoscope.analysis.kernel_repeats import FAULTS
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit, LogVerdict

if TYPE_CHECKING:
    from stethoscope.analysis.kernel_cause import Choice
    from stethoscope.analysis.kernel_incidents import Incident, Sign
    from stethoscope.analysis.kernel_repeats import Suspect
    from stethoscope.specs.codes import Codes

_DRIVERS = {"nvidia": "gpu", "mlx5_core": "nic", "nvme": "disk"}
_OF_DRIVER = frozenset({"nvidia", "nvidia_uvm", "nvidia_modeset"})
_OF_SHARED_STORAGE = frozenset({
    "nfs", "nfsv4", "sunrpc", "lustre", "ptlrpc", "osc", "wekafsio", "wekafsgw", "mmfs26", "mmfslinux", "ceph",
    "libceph", "fuse", "beegfs",
})  # fmt: skip
_MOST_FACTS = 12
_MOST_CULPRITS = 4
_TEXT = 160


def verdict_of(
    incident: Incident, choice: Choice, severity: Severity, codes: Codes, *, suspect: Suspect | None = None
) -> LogVerdict:
    """Return the verdict over one incident; `suspect` when programs keep failing on this GPU alone."""
    cause = choice.sign
    code = choice.named or (cause.reading.code if cause.reading is not None else None)
    root_cause = (choice.named.root_cause if choice.named is not None else cause.root_cause) or "unknown"
    if suspect is not None:
        root_cause = "gpu_hw_fault"
    elif root_cause == "ib_link_down" and came_back(incident, cause):
        root_cause = "ib_link_fault"
    elif cause.event.signature == "ghes" and (part := what_failed(incident)) is not None:
        root_cause = part.root_cause or root_cause
    elif _has_stuck_task(incident) and (root_cause == "unknown" or cause.event.signature == "os.hung_task"):
        root_cause = _root_cause_of_hang(incident, root_cause)
    return LogVerdict(
        root_cause=root_cause,
        confidence=_confidence(choice, suspect, root_cause),
        severity=severity,
        summary=_summary(incident, choice, suspect),
        signature=code.signature if code is not None else cause.event.signature,
        culprits=_culprits(incident, choice),
        supports=tuple(_fact(sign) for sign in _shown(incident, cause)),
        next_checks=_checks(incident, choice, suspect),
        missing=_missing(choice),
    )


def _summary(incident: Incident, choice: Choice, suspect: Suspect | None) -> str:
    cause = choice.sign
    place = _place(cause, incident)
    if choice.named is not None:
        lines = "lines" if len(incident.signs) > 1 else "line"
        head = (
            f"{choice.named.label} ({choice.named.title}) is named as the cause on {place}; its own {lines} are missing"
        )
    elif cause.reading is not None:
        says = cause.reading.says[0].rstrip(".") if cause.reading.says and cause.xid in (64, 95, 94, 154) else ""
        title = f"{cause.reading.code.title} ({says})" if says else cause.reading.code.title
        head = f"{cause.reading.code.label} on {place}: {title}"
    elif cause.off_bus:
        head = f"{place[:1].upper()}{place[1:]} has fallen off the bus (no Xid was printed)"
    elif cause.event.signature == "os.hung_task" and (stuck := _stuck_tasks(incident)):
        head = f"{', '.join(stuck[:3])} {'waits' if len(stuck) == 1 else 'wait'} in the kernel and cannot be killed"
        host = f" on {cause.event.origin.host}" if cause.event.origin.host else ""
        return f"{head}{host}; only a reboot helps."
    else:
        where = _where(cause)
        head = f"{_first_sentence(cause.meaning) or cause.event.text[:_TEXT]}{f' ({where})' if where else ''}"
        if came_back(incident, cause):
            times = times_down(incident)
            head += f"; it came back{f', {times} times' if times > 1 else ''}: the link is sick, not gone"
        if cause.event.signature.startswith("aer.uncorrected") and (below := gpus_below(incident, cause.event.pci)):
            head += f"; below it {'is GPU' if len(below) == 1 else 'are GPUs'} {', '.join(below[:4])}"
        if cause.event.signature == "ghes" and (part := what_failed(incident)) is not None:
            head += f": {part.event.fields.get('section')}"
    if suspect is not None:
        where = f" at {suspect.place}" if suspect.place else ""
        head += f"; {suspect.times} times{where} and on no other GPU: the GPU itself is suspect"
    witnesses = _others(incident, cause, before=True)
    if witnesses:
        head += f"; {witnesses} came before it"
    codes = _others(incident, cause, before=False)
    if codes:
        head += f"; {codes} followed from it"
    if len(incident.members) > 1:
        head += f"; {len(incident.members)} GPUs are hit"
        if choice.sign.xid in FAULTS:
            head += " at once: the program, not a GPU"
    if _has_stuck_task(incident):
        names = ", ".join(_stuck_tasks(incident)[:3])
        head += f"; {names} cannot be killed any more, only a reboot helps" if names else ""
    return f"{head}."


def _where(cause: Sign) -> str:
    event = cause.event
    return " of ".join(part for part in (event.device or event.pci, event.origin.host) if part)


def _others(incident: Incident, cause: Sign, *, before: bool) -> str:
    seen: dict[str, None] = {}
    for sign in incident.signs:
        if sign.reading is None or sign.reading.code.signature == cause.event.signature:
            continue
        if (sign.index < cause.index) is before:
            seen.setdefault(sign.reading.code.label)
    return ", ".join(list(seen)[:6])


def _culprits(incident: Incident, choice: Choice) -> tuple[Culprit, ...]:
    cause = choice.sign
    named = cause.event.fields.get("host")
    host = cause.event.origin.host if not isinstance(named, str) else named
    slots = [cause.event.pci or incident.pci] if cause.event.pci or incident.pci else []
    if choice.named is not None:
        same = [s.event.pci for s in incident.signs if (s.event.fields or {}).get("caused_by") == choice.named.code]
        slots = list(dict.fromkeys(slot for slot in same if slot)) or slots
    found = [_culprit(incident, cause, host, slot) for slot in slots[:_MOST_CULPRITS] if slot]
    if cause.event.signature.startswith("aer.uncorrected"):
        below = [f"gpu/{slot}" for slot in gpus_below(incident, cause.event.pci)]
        found = [Culprit(None, host, device, f"{host}/{device}" if host else None) for device in below] + found
        found = found[:_MOST_CULPRITS]
    if not found and (host or cause.event.device):
        device = cause.event.device
        found = [Culprit(None, host, device, f"{host}/{device}" if host and device else host)]
    return tuple(found)


def _culprit(incident: Incident, cause: Sign, host: str | None, slot: str) -> Culprit:
    kind = _kind(incident, cause, slot)
    device = cause.event.device or f"{kind}/{slot}"
    return Culprit(None, host, device, f"{host}/{device}" if host else None)


def _shown(incident: Incident, cause: Sign) -> list[Sign]:
    useful = [sign for sign in incident.signs if sign is cause or sign.role not in ("context", "benign")]
    return useful[:_MOST_FACTS]


def _fact(sign: Sign) -> Fact:
    event = sign.event
    count = f" ({event.count} times)" if event.count > 1 else ""
    at = datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if event.at is not None else ""
    where = "/".join(part for part in (event.origin.host, event.device or event.pci) if part)
    name = sign.reading.code.label if sign.reading is not None else event.signature
    return Fact(f"{name}: {event.text[:_TEXT]}{count}", event.count, "none", where, at, f"line {event.line}")


def _checks(incident: Incident, choice: Choice, suspect: Suspect | None) -> tuple[str, ...]:
    cause = choice.sign
    checks: list[str] = []
    if _has_stuck_task(incident):
        checks.append("drain and reboot the node: tasks in D state do not end otherwise")
    wanted = [sign for sign in incident.signs if sign.xid == 154 and sign.reading is not None and sign.reading.action]
    checks += list(dict.fromkeys(sign.reading.action for sign in wanted if sign.reading is not None))[-1:]
    if suspect is not None:
        checks.append("take the GPU out of service and run dcgmi diag (EUD), then field diag; open a case")
    if choice.named is not None:
        checks.append(choice.named.action)
    elif cause.reading is not None:
        checks.append(cause.reading.action or cause.reading.code.action)
        checks += [says for says in cause.reading.says if "link-down reason" in says or " bit " in says]
        if cause.reading.code.rma and suspect is None:
            checks.append(f"replace when: {cause.reading.code.rma}")
    checks += cause.checks
    return tuple(dict.fromkeys(checks))[:5]


def _missing(choice: Choice) -> tuple[str, ...]:
    if choice.named is not None:
        return (f"the {choice.named.label} line itself: the kernel log of the same boot, a little earlier",)
    if choice.sign.xid in ECHOES:
        return ("what came before it: the kernel log of the same minutes, the job's log, OOM and scheduler kills",)
    return ()


def _confidence(choice: Choice, suspect: Suspect | None, root_cause: str) -> float:
    if root_cause == "unknown":
        return 0.3
    if choice.named is not None or suspect is not None or root_cause == "driver_hung":
        return 0.7
    if choice.sign.xid in ECHOES:
        return 0.4
    return 0.9 if choice.sign.severity is Severity.P0 else 0.75


def _kind(incident: Incident, cause: Sign, slot: str) -> str:
    """Return the kind of a device of which only the address is known: the driver that speaks of it tells."""
    if cause.sxid is not None or cause.event.signature.startswith("fm."):
        return "nvswitch"
    if cause.xid is not None or cause.off_bus or cause.event.signature.startswith("nvrm."):
        return "gpu"
    said = re.compile(rf"\b({'|'.join(_DRIVERS)}) {re.escape(slot)}")
    drivers = [found[1] for sign in incident.signs if (found := said.search(sign.event.text))]
    return _DRIVERS[drivers[0]] if drivers else "pci"


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")


def _root_cause_of_hang(incident: Incident, otherwise: str) -> str:
    """Return why tasks hang, from the module in which their stacks wait, or from who they are."""
    modules = [str(sign.event.fields["module"]) for sign in incident.signs if sign.event.fields.get("module")]
    if any(module in _OF_DRIVER for module in modules):
        return "driver_hung"
    if any(module in _OF_SHARED_STORAGE for module in modules):
        return "shared_fs_stall"
    if not modules and any(name.startswith(("nvidia", "nv-", "nv_", "UVM")) for name in _stuck_tasks(incident)):
        return "driver_hung"
    return "driver_hung" if otherwise == "unknown" and not modules else otherwise


def _stuck_tasks(incident: Incident) -> list[str]:
    found = [s.event.fields.get("process", "") for s in incident.signs if s.event.signature == "os.hung_task"]
    return list(dict.fromkeys(str(name) for name in found if name))


def _has_stuck_task(incident: Incident) -> bool:
    return any(sign.event.signature == "os.hung_task" for sign in incident.signs)


def _place(cause: Sign, incident: Incident) -> str:
    slot = cause.event.pci or incident.pci
    what = f"NVSwitch {slot}" if cause.sxid is not None else f"GPU {slot}" if slot else "a GPU"
    host = cause.event.origin.host
    return f"{what} of {host}" if host else what
