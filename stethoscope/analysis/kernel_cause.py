"""Which event of an incident is its first cause, and how bad the incident is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.analysis.kernel_layers import lowest
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.analysis.kernel_incidents import Incident, Sign
    from stethoscope.specs.codes import Code, Codes

BUS = frozenset({79, 110, 167})
MEMORY = frozenset({48, 64, 94, 95, 140, 168, 171, 172})
BOOKED = frozenset({63, 92, 156, 160, 161, 177})
"""A repair that waits: harmless by itself, part of the story when memory failed beside it."""
FIRMWARE = frozenset({46, 59, 61, 62, 119, 120, 143, 158, 169, 175})
FABRIC = frozenset({74, 136, 144, 145, 146, 147, 148, 149, 150, 155, 159, 166, 170, 173})
ECHOES = (8, 109, 43, 174, 45, 154)
"""Consequences, those that say most first."""
_TIMED_OUT = frozenset({119, 175})
"""Somebody asked a controller that had been dead for a while."""
_WITNESSES = frozenset({14017, 19084, 24007, 29006, 30006})
"""The switch noticed that a GPU does not answer: the GPU is the cause."""
_STORM = 10
"""What is harmless once is a sign of wear when it comes so often."""
_ANNOTATIONS = frozenset({171, 172})
"""Where the memory was in which an error is reported beside them."""
_HALTS = frozenset({46, 62, 109, 158})
"""One step less urgent after a fault of a program: a reset clears it."""
AFTERMATH = ("os.", "k8s.", "dcgm.", "persistenced", "nvrm.rc_", "nvrm.reset_required", "nvrm.uvm_fatal")
"""Ids of what the machine prints because a GPU failed."""
_RESET_NEAR_S = 60.0

_CLASS_BUS, _CLASS_MEMORY, _CLASS_FIRMWARE, _CLASS_FABRIC, _CLASS_APP, _CLASS_LATER, _CLASS_ECHO = range(7)


class Choice(NamedTuple):
    """The first cause of an incident."""

    sign: Sign
    """The event that shows it, or shows a consequence that names it."""
    named: Code | None
    """The code that other lines name as their cause, where its own line is missing."""


def choose(incident: Incident, codes: Codes) -> Choice | None:
    """Return the first cause of an incident; None when nothing in it can be one."""
    signs = [sign for sign in incident.signs if sign.role not in ("context", "benign")]
    signs = signs or [sign for sign in incident.signs if _counts_alone(sign)]
    if not signs:
        return None
    first_code = next((sign.index for sign in signs if sign.reading is not None), None)
    causes = [sign for sign in signs if sign.xid not in ECHOES and _may_cause(sign, first_code)]
    named = [sign for sign in signs if _named(sign) is not None]
    for sign in named:
        own = next((other for other in causes if other.xid == _named(sign)), None)
        if own is not None and own.severity.rank <= Severity.P1.rank:
            return Choice(_before(own, causes), None)
    if not causes and named:
        worst = min(named, key=lambda sign: (codes.xid(_named(sign) or 0).severity.rank, sign.index))
        return Choice(worst, codes.xid(_named(worst) or 0))
    if not causes:
        return Choice(min(signs, key=lambda sign: (_echo_rank(sign), sign.index)), None)
    return Choice(_first_cause(causes), None)


def severity_of(incident: Incident, choice: Choice) -> Severity:
    """Return how bad an incident is: the worst of its lines, consequences of a known cause left out."""
    cause = choice.sign
    if choice.named is not None:
        return choice.named.severity
    found = [cause.severity]
    app = _class(cause) == _CLASS_APP and cause.xid is not None
    last_state: dict[str | None, Sign] = {}
    for sign in incident.signs:
        if sign is cause or sign.role == "benign":
            continue
        if sign.xid == 154:
            last_state[sign.event.pci] = sign
        elif sign.xid in _HALTS and app:
            found.append(_one_less(sign.severity))
        elif sign.xid in ECHOES and cause.xid not in ECHOES:
            continue
        else:
            found.append(sign.severity)
    if cause.xid == 154:
        # The driver's last word about each GPU counts: an earlier one may have been settled by a reset.
        last = [sign for sign in incident.signs if sign.xid == 154 and sign.event.pci == cause.event.pci][-1]
        found[0] = last.severity
    found += [sign.severity for sign in last_state.values()]
    return min(found, key=lambda severity: severity.rank)


def is_after_reset(incident: Incident, resets: Sequence[Sign], near_s: float = _RESET_NEAR_S) -> bool:
    """Tell whether links went down because GPUs were reset or the driver was loaded within a minute."""
    from stethoscope.analysis.kernel_incidents import host_of, near

    downs = [sign for sign in incident.signs if sign.sxid is not None or sign.xid is not None]
    if not downs or any(sign.sxid not in (20034, 20012, 22012) for sign in downs):
        return False
    return any(
        host_of(reset) == incident.host
        and _known_apart(down, reset)
        and (near(down, reset, near_s) or near(reset, down, near_s))
        for down in downs
        for reset in resets
    )


def _known_apart(one: Sign, other: Sign) -> bool:
    from stethoscope.analysis.kernel_incidents import seconds_between

    return seconds_between(one, other) is not None


def _counts_alone(sign: Sign) -> bool:
    """Tell whether what raises nothing beside other lines does by itself: a repair that waits, or what repeats."""
    if sign.role == "benign" or sign.severity.rank > Severity.P2.rank:
        return False
    times = sign.event.fields.get("count", 1)
    return sign.xid is not None or max(sign.event.count, times if isinstance(times, int) else 1) >= _STORM


def _before(named: Sign, causes: Sequence[Sign]) -> Sign:
    """Return what broke before the cause that victims name, on another GPU and more gravely: they name the nearest."""
    other = [
        sign
        for sign in causes
        if sign.index < named.index
        and sign.event.pci != named.event.pci
        and sign.severity.rank < named.severity.rank
        and _class(sign, causes) <= _class(named, causes)
    ]
    return other[0] if other else named


def _may_cause(sign: Sign, first_code: int | None) -> bool:
    """What is no code can be the cause of codes only when it was there before them, and is not the machine's reaction
    to them."""
    if sign.reading is not None or sign.off_bus or first_code is None:
        return True
    return sign.index < first_code and not sign.event.signature.startswith(AFTERMATH)


def _first_cause(causes: Sequence[Sign]) -> Sign:
    classes = {_class(sign, causes) for sign in causes}
    best = min(classes)
    own = [sign for sign in causes if _class(sign, causes) == best]
    if best == _CLASS_LATER and (disk := lowest(own)) is not None:
        return disk
    if best == _CLASS_MEMORY:
        detected = [sign for sign in own if sign.xid == 48]
        if detected:
            return detected[0]
        own = [sign for sign in own if sign.xid not in _ANNOTATIONS] or own
    if best in (_CLASS_MEMORY, _CLASS_FIRMWARE, _CLASS_FABRIC, _CLASS_LATER):
        first = min(own, key=lambda sign: (sign.severity.rank, _is_doubtful(sign), sign.index))
    else:
        first = min(own, key=lambda sign: sign.index)
    if best == _CLASS_FIRMWARE:
        before = [sign for sign in causes if sign.index < first.index]
        reasons = [sign for sign in before if _class(sign, causes) == _CLASS_APP and sign.xid is not None]
        if first.xid in _TIMED_OUT:
            reasons += [sign for sign in before if _broke_link(sign)]
        same = [sign for sign in reasons if sign.event.pci == first.event.pci or sign.sxid is not None]
        if same:
            return min(same, key=lambda sign: sign.index)
    return first


def _class(sign: Sign, causes: Iterable[Sign] = ()) -> int:
    code = sign.xid
    if code is None:
        return _class_without_code(sign)
    if code in BUS:
        return _CLASS_BUS
    if code in MEMORY and sign.severity is not Severity.P2:
        if code == 140 and any(other.xid in FIRMWARE and other.index < sign.index for other in causes):
            return _CLASS_LATER
        return _CLASS_MEMORY
    if code in BOOKED or code in MEMORY:
        return _CLASS_MEMORY if any(other.xid in MEMORY - {64} for other in causes) else _CLASS_LATER
    if code in FIRMWARE:
        return _CLASS_FIRMWARE
    if code in FABRIC:
        return _CLASS_FABRIC if sign.severity.rank <= Severity.P1.rank else _CLASS_LATER
    return _CLASS_ECHO if code in ECHOES else _CLASS_APP


def _class_without_code(sign: Sign) -> int:
    if sign.sxid is not None:
        return _CLASS_FABRIC if sign.severity.rank <= Severity.P1.rank else _CLASS_LATER
    if sign.off_bus:
        return _CLASS_BUS
    # What else is printed beside Xids tells the same story with less in it.
    return _CLASS_LATER if sign.severity.rank <= Severity.P1.rank else _CLASS_ECHO


def _is_doubtful(sign: Sign) -> bool:
    """Tell whether a line without a code may as well be a consequence, where others of its device are not."""
    return sign.reading is None and sign.role != "cause"


def _broke_link(sign: Sign) -> bool:
    if sign.severity is not Severity.P0:
        return False
    return sign.xid in FABRIC or (sign.sxid is not None and sign.sxid not in _WITNESSES)


def _named(sign: Sign) -> int | None:
    fields = sign.reading.fields if sign.reading is not None else None
    named = (fields or {}).get("caused_by")
    return named if isinstance(named, int) and named not in (45, sign.xid) else None


def _echo_rank(sign: Sign) -> int:
    return ECHOES.index(sign.xid) // 2 if sign.xid in ECHOES else len(ECHOES)


def _one_less(severity: Severity) -> Severity:
    return {Severity.P0: Severity.P1, Severity.P1: Severity.P2}.get(severity, severity)
