"""What several codes mean together: which is the first cause, what followed from it, what the set says to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.analysis.kernel_cause import BOOKED, BUS, ECHOES, FABRIC, FIRMWARE, MEMORY, choose, severity_of
from stethoscope.analysis.kernel_incidents import Incident, Sign
from stethoscope.model.logs import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.xid import Reading
    from stethoscope.model.finding import Severity
    from stethoscope.specs.codes import Code, Codes


@dataclass(frozen=True, slots=True)
class Together:
    """Several codes read as one story, in the order in which they were given."""

    first: Code | None
    """The first cause; None when only consequences and notes are there."""
    is_named: bool
    """Its own line is not among them: another line names it."""
    others: tuple[Code, ...]
    severity: Severity
    says: tuple[str, ...]


def together(readings: Sequence[Reading], codes: Codes) -> Together:
    """Return what `readings`, of one GPU and what it is connected to, mean together."""
    incident = Incident("gpu", "", 0, None, [_sign(index, reading) for index, reading in enumerate(readings)])
    choice = choose(incident, codes)
    distinct = {reading.code.signature: reading.code for reading in readings}
    if choice is None:
        worst = min((reading.severity for reading in readings), key=lambda severity: severity.rank)
        return Together(None, False, tuple(distinct.values()), worst, ("none of them is a fault",))
    own = choice.named or (choice.sign.reading.code if choice.sign.reading is not None else None)
    first = own if choice.named is not None or choice.sign.xid not in ECHOES else None
    others = tuple(code for name, code in distinct.items() if first is None or name != first.signature)
    says = _says(first, {(code.kind, code.code) for code in distinct.values()}, readings)
    return Together(first, choice.named is not None, others, severity_of(incident, choice), tuple(says))


def _sign(index: int, reading: Reading) -> Sign:
    event = Event(
        reading.code.signature, reading.role, reading.severity, "", line=index + 1, pci=reading.pci or None,
        fields=reading.fields or {},
    )  # fmt: skip
    return Sign(index, event, reading, reading.code.root_cause, reading.code.title, ())


def _says(first: Code | None, found: set[tuple[str, int]], readings: Sequence[Reading]) -> list[str]:
    xids = {code for kind, code in found if kind == "xid"}
    says = []
    if first is None:
        says.append("only consequences: the cause is not among them; look for what came before")
    elif first.kind == "xid":
        says.append(_why(first.code))
    if xids & MEMORY or xids & BOOKED:
        says += _memory(xids)
    if ("xid", 74) in found and any(kind == "sxid" for kind, _ in found):
        says.append("the switch and the GPU report the two ends of one link: find the GPU on that port")
    if 109 in xids and first is not None and first.code != 109:
        says.append("109 adds nothing: an engine could not be switched because of the first cause")
    echoes = sorted(xids & {43, 45, 8, 174} - ({first.code} if first is not None else set()))
    if echoes:
        says.append(f"{', '.join(map(str, echoes))}: clean-up, no cause")
    asked = [reading.action for reading in readings if reading.code.signature == "xid.154" and reading.action]
    if asked:
        says.append(f"the driver asks (Xid 154, the last one counts): {asked[-1]}")
    elif 154 in xids:
        says.append("154 says in words what the GPU needs now: do that")
    return [text for text in says if text]


def _why(code: int) -> str:
    if code in BUS:
        return "a GPU that left the bus explains everything beside it"
    if code in MEMORY:
        return "lost data comes first; what contains, repairs and cleans up follows"
    if code in FIRMWARE:
        return "a controller that stopped explains time-outs and clean-up"
    if code in FABRIC:
        return "the link failed first; look at its other end"
    return "the fault of a program comes first; what stops it follows"


def _memory(xids: set[int]) -> list[str]:
    says = []
    if 64 in xids:
        says.append("64: the repair failed; replace the GPU (unless its text says already pending)")
    elif 63 in xids:
        says.append("63: the row is booked; let other jobs end, then reset the GPU to activate it")
    elif 48 in xids:
        says.append("48 without 63 or 64: no repair was booked; reset the GPU and run field diag")
    if 95 in xids:
        says.append("95: not contained, all jobs of the GPU are lost")
    elif 94 in xids:
        says.append("94: contained, only the programs that used the data died")
    if 171 in xids or 172 in xids:
        where = "DRAM" if 171 in xids else "memory on the chip, which has no spare rows"
        says.append(f"the error was in {where}")
    return says
