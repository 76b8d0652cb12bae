"""What one Xid or SXid line says beyond its number: the texts, words and registers that decide over the defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.model.finding import Severity
from stethoscope.parse.xid import SxidLine, XidLine, body_fields, find_sxid_line, find_xid_line, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.logs import Role
    from stethoscope.specs.codes import Code, Codes, Job, Node

_ECHOES = frozenset({"echo", "echo_reset", "normal"})
_STALLS_ANYWAY = frozenset({11004, 12028})
"""Non-fatal by name, and yet jobs die of them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One line read with its code: severity and effects as this line has them."""

    code: Code
    severity: Severity
    role: Role
    job: Job
    node: Node
    pci: str
    says: tuple[str, ...] = ()
    """What its body says, in plain sentences."""
    action: str = ""
    """In place of the action of the code; empty where that stands."""
    fields: Mapping[str, str | int] | None = None
    follow_up: bool = False
    """A second or third line of one event."""


class CodeEvent(NamedTuple):
    """What the scanner makes an event of."""

    signature: str
    role: Role
    severity: Severity
    pci: str
    fields: dict[str, str | int]
    meaning: str
    follow_up: bool
    """It belongs to the event before it, of the same code and address."""
    fold_by: tuple[str, ...]
    """Fields that keep two of its events apart; channels, pids and rows do not."""


_FOLD_BY = ("xid", "sxid", "pci", "mig", "link", "unit", "label", "caused_by")


def code_event(text: str, codes: Codes) -> CodeEvent | None:
    """Return the event of a line that reports an Xid or SXid, or None; `text` is cleaned and without prefixes."""
    reading = read_line(text, codes)
    if reading is None:
        return None
    return CodeEvent(
        reading.code.signature, reading.role, reading.severity, reading.pci, dict(reading.fields or {}),
        reading.code.title, reading.follow_up, _FOLD_BY,
    )  # fmt: skip


def read_line(text: str, codes: Codes, *, quoted: bool = False) -> Reading | None:
    """Return what a line says, or None when it reports neither Xid nor SXid; `quoted` as for `find_xid_line`."""
    if "Xid (" not in text:
        return None
    xid = find_xid_line(text, quoted=quoted)
    if xid is not None:
        return read_xid(xid, codes)
    sxid = find_sxid_line(text, quoted=quoted)
    return read_sxid(sxid, codes) if sxid is not None else None


def reading_of(code: Code) -> Reading:
    """Return a code without a line as it is by default."""
    return Reading(code, code.severity, code.role, code.job, code.node, "", fields={code.kind: code.code})


def read_xid(line: XidLine, codes: Codes) -> Reading:
    """Return what an Xid line says."""
    code = codes.xid(line.code)
    body = body_fields(line)
    fields: dict[str, str | int] = {"xid": line.code, "pci": line.pci}
    said = (("pid", line.pid), ("name", line.name), ("mig", line.instance), ("caused_by", line.caused_by))
    fields.update({name: value for name, value in said if value})
    fields.update(body)
    reading = Reading(code, code.severity, code.role, code.job, code.node, line.pci, fields=fields)
    if 144 <= line.code <= 150 and body:
        reading = _nvlink5(reading, body, codes)
    elif line.code == 154:
        reading = _recovery(reading, str(body.get("label", "")), codes)
    elif line.code in (94, 95) and "contained" in body:
        reading = _containment(reading, body, codes)
    elif line.code == 74 and "words" in body:
        reading = replace(reading, says=tuple(registers(words_of(str(body["words"])), codes)))
    elif state := codes.body(line.code, line.body):
        reading = replace(reading, severity=state.severity, job=state.job, node=state.node, says=(state.says,))
        if state.severity.rank > code.severity.rank:
            reading = replace(reading, role="context", action=_sentence(state.says))
    return replace(reading, says=(*reading.says, *_plain(line, body)))


def read_sxid(line: SxidLine, codes: Codes) -> Reading:
    """Return what an SXid line says: the printed word decides over the table."""
    code = codes.sxid(line.code)
    fields: dict[str, str | int] = {"sxid": line.code, "pci": line.pci}
    said = (("switch", line.switch), ("link", line.link), ("word", line.word))
    fields.update({name: value for name, value in said if value is not None and value != ""})
    severity, job, node = code.severity, code.job, code.node
    action = ""
    if line.word == "Fatal" and severity is not Severity.P0:
        severity, job, node = Severity.P0, "stops", "drain"
        action = "The line says Fatal: drain, reset all GPUs and NVSwitches together; look at the GPU on that port."
    elif line.word == "Non-fatal" and line.code not in _STALLS_ANYWAY:
        by_word = (code.printed or {}).values()
        if severity is Severity.P0 or ("either" in by_word and severity is Severity.P1):
            severity, job, node = Severity.P2, "may_stop", "watch"
            action = "The line says Non-fatal: record it, watch the link, look at the GPU on that port."
    elif "Shutting Down" in line.text:
        severity, job, node = Severity.P0, "stops", "drain"
        action = codes.sxid(10006).action
    says = [f"port {line.link} of NVSwitch {line.pci} (the board decides which GPU is there)"] if line.link else []
    return Reading(code, severity, code.role, job, node, line.pci, tuple(says), action, fields, line.follow_up)


def _recovery(reading: Reading, label: str, codes: Codes) -> Reading:
    state = codes.recovery(label)
    if state is None:
        return replace(reading, severity=Severity.P1 if label else reading.severity, node="drain" if label else "watch")
    return replace(
        reading, severity=state.severity, job=state.job, node=state.node, says=(f"wants: {state.label}",),
        action=_sentence(state.says), role="context" if state.severity is Severity.INFO else reading.role,
    )  # fmt: skip


def _containment(reading: Reading, body: Mapping[str, str | int], codes: Codes) -> Reading:
    where = str(body["location"])
    words = codes.xid_table["containment"].get(where, "")
    says = f"bad data was caught in {where}{f' ({words})' if words else ''}"
    if body["contained"] == "Uncontained":
        reading = replace(reading, severity=Severity.P0, job="stops", node="drain")
    else:
        reading = replace(reading, severity=Severity.P1, job="stops")
        asks = body["reset"] == "Yes" or body["drain_reset"] == "Yes"
        reading = replace(reading, node="drain" if asks else "watch")
    need = "a reset is needed" if body["reset"] == "Yes" else "no reset is asked for"
    if body["drain_reset"] == "Yes":
        need = "drain and reset are needed"
    return replace(reading, says=(says, need))


def _nvlink5(reading: Reading, body: Mapping[str, str | int], codes: Codes) -> Reading:
    row, promoted = nvlink5_row(reading.code.code, body, codes)
    table = codes.xid_table
    fatal = body["fatality"] == "Fatal"
    says = [f"unit {body['unit']}, {'fatal' if fatal else 'not fatal'}, link {_link(body['link'])}"]
    if body["xc"]:
        says.append("the error was contained across GPUs: programs on other GPUs may die")
    if body["injected"]:
        says.append("injected by a test, no fault of the hardware")
    reason = link_down_reason(body, codes)
    if reason:
        says.append(f"link-down reason: {reason}")
    action = ""
    severity: Severity
    job, node = reading.job, reading.node
    if row is None:
        says.append("no row of the decode table fits: judged by the printed word alone")
        severity = Severity.P0 if fatal else Severity.P1 if body["xc"] else Severity.P2
    else:
        for side in ("local", "remote"):
            effects = [table["effects"].get(name, name) for name in row.get(side, ())]
            if effects:
                says.append(f"{'here' if side == 'local' else 'at the other end'}: {'; '.join(effects)}")
        first = row.get("promoted", row["action"]) if promoted else row["action"]
        action = f"{_sentence(codes.vendor_words(first))} Follow-up: {codes.vendor_words(row['then'])}."
        severity = _nvlink5_severity(first, fatal=fatal)
    if severity is Severity.P0:
        job, node = "stops", "drain"
    elif severity is Severity.P2:
        job, node = "may_stop", "watch"
    if body["injected"]:
        severity = Severity.INFO
    return replace(reading, severity=severity, job=job, node=node, says=tuple(says), action=action)


def _nvlink5_severity(action: str, *, fatal: bool) -> Severity:
    if action == "RESET_GPU" or (fatal and action != "IGNORE"):
        return Severity.P0
    if action == "XID_154_EVAL":
        return Severity.P1
    return Severity.P1 if fatal else Severity.P2


def nvlink5_row(code: int, body: Mapping[str, str | int], codes: Codes) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the row of the decode table that fits the unit and the first two words, and whether it is promoted.

    The driver's version is not in the line: the masks of both are tried, those of R575 and newer last, as their unit
    names are the same for all but a few units.
    """
    words = words_of(str(body["words"]))
    rows = [row for row in codes.xid_table["nvlink5"] if row["xid"] == code]
    named = [row for row in rows if body["unit"] in (row["unit"], row.get("unit_v2"))]
    second = words[1] if len(words) > 1 else 0
    fitting = [row for row in named or rows if not row.get("status") or second in row["status"]]
    for mask in ("v1", "v2"):
        for row in fitting:
            if mask == "v2" and "promoted_v2" in row and _fits(words[0], row["promoted_v2"]):
                return row, True
            if "promoted_v1" in row and _fits(words[0], row["promoted_v1"]):
                return row, True
            if _fits(words[0], row[mask]):
                return row, False
    # The unit is printed and the word is not as any mask has it: the rows of that unit still tell what to do.
    return (fitting[0], False) if named and len({row["action"] for row in fitting}) == 1 else (None, False)


def _fits(word: int, mask: str) -> bool:
    bits = f"{word:032b}"[-len(mask) :]
    return all(want in ("-", have) for want, have in zip(mask, bits, strict=True))


def link_down_reason(body: Mapping[str, str | int], codes: Codes) -> str:
    """Return why a NETIR link event took the link down (bits 25 to 20 of the first word), or an empty string."""
    if not str(body.get("unit", "")).startswith("NETIR_LINK"):
        return ""
    number = words_of(str(body["words"]))[0] >> 20 & 0x3F
    words = codes.xid_table["link_down_reasons"].get(str(number), "not in the table")
    return f"{words} ({number})" if number else ""


def registers(words: tuple[int, ...], codes: Codes) -> list[str]:
    """Return what the registers of an Xid 74 say, one sentence for each kind of bit; the worst first."""
    found: dict[str, list[str]] = {}
    for name, kinds in codes.xid_table["registers"].items():
        position = int(name[1:]) - 1
        value = words[position] if position < len(words) else 0
        for kind, bits in kinds.items():
            hit = [bit for bit in bits if value >> bit & 1]
            found.setdefault(kind, []).extend(f"{name} bit {bit}" for bit in hit)
    texts = codes.xid_table["register_words"]
    lines = [f"{', '.join(bits)}: {texts.get(kind, kind)}" for kind, bits in found.items() if bits]
    return sorted(lines, key=lambda line: any(line.endswith(texts.get(kind, kind)) for kind in _ECHOES))


def _plain(line: XidLine, body: Mapping[str, str | int]) -> list[str]:
    says = []
    if line.code == 13 and "gpc" in body:
        sm = f", SM {body['sm']}" if "sm" in body else ""
        says.append(f"{body['reason']} on GPC {body['gpc']}, TPC {body['tpc']}{sm}: compare with the last time")
    if line.code == 31 and "engine" in body:
        says.append(f"{body['client']} of engine {body['engine']} at {body['address']}")
    if line.code in (74, 136, 137) and "link" in body:
        peer = f" to {body['peer']}" if "peer" in body else ""
        says.append(f"link {body['link']}{peer}")
    if line.code in (119, 175) and "function_name" in body:
        says.append(f"the call was {body['function_name']}; who made it is a victim")
    if line.caused_by is not None:
        echo = line.caused_by == line.code
        says.append(f"caused by Xid {line.caused_by}{', which says nothing new' if echo else ': look for that line'}")
    if line.instance:
        says.append(f"MIG instance {line.instance}")
    return says


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."


def _link(number: str | int) -> str:
    return "not tied to one" if number == -1 else str(number)
