"""Drafts of signatures: lines of a log that an incident kept and that nothing knows yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stethoscope.model.finding import Severity
from stethoscope.model.ids import node_of
from stethoscope.model.incident_body import lines_of as text_lines
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.parse.prefix import PeelState, peel
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.incident import Incident
    from stethoscope.specs.signature import Signatures

MOST = 3
"""Signatures of one incident."""
_FENCE = re.compile(r" {0,3}(```|~~~)")
_QUOTED = re.compile(r"[-*] `([^`]{12,400})`")
_CODE = re.compile(r"NVRM: Xid |nvidia-nvswitch\d+: SXid ")
"""Lines of the tables of codes, which need no signature."""
_PCI = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_PARTS = (
    ("pci", rf"\b{_PCI}", _PCI),
    ("", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", r"[0-9a-fA-F-]{36}"),
    ("address", r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b", r"[0-9.]{7,15}(?::\d{1,5})?"),
    ("hca", r"\bmlx5_\d{1,3}\b", r"mlx5_\d{1,3}"),
    ("", r"\b0x[0-9a-fA-F]{1,16}\b", r"0x[0-9a-fA-F]{1,16}"),
    ("path", r"(?<![\w/])/(?:[\w.@-]+/)+[\w.@-]*", r"/[\w./@-]{1,200}"),
    ("", r"(?:(?<![\w-])-)?\b\d+(?:\.\d+)?", r"-?\d{1,18}(?:\.\d{1,9})?"),
)  # fmt: skip
"""Parts of a line that differ from night to night: group, how it is found, and how it is written in a pattern."""
_TROUBLE = re.compile(
    r"(?i)\berr|error|fail|(?<!de)fault|time[d-]? ?out|stuck|h[au]ng|lost|reset|abort|assert|panic|fatal|warn|\bbad\b|"
    r"corrupt|invalid|cannot|can't|unable|denied|refus|unreach|\bdown\b|drop|exceed|degrad|broken|dead|kill|overflow|"
    r"underrun|uncorrect|retr[yi]|mismatch|missing|not found|exception|traceback|out of memory|\boom\b|throttl|stall|"
    r"crash|\bxid\b|[错误失败超时异常掉卡死断坏]"
)
"""What a line says that tells of trouble; one beside it that says nothing of the kind stood there by chance."""
_SHORTEST, _LONGEST = 10, 60
"""Characters of an anchor."""


def signature_drafts(incident: Incident, known: Signatures, cause: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return drafts as they stand in a file, and why there are none or not more."""
    lines = list(dict.fromkeys(lines_of(incident)))
    if not lines:
        return [], ["no signature: the incident keeps no line of a log (a block of code below Evidence)"]
    new = [line for line in lines if not known.find(line) and not _CODE.search(line)]
    if not new:
        return [], [f"no signature: its {len(lines)} lines of logs are known already"]
    drafts: list[dict[str, Any]] = []
    seen: dict[str, dict[str, Any]] = {}
    for line in new:
        pattern, groups, anchor = generalised(line, incident)
        if pattern in seen:
            seen[pattern]["samples"]["match"].append(line)
        elif anchor and len(drafts) < MOST:
            others = [other for other in lines if re.search(pattern, other, re.ASCII) is None]
            seen[pattern] = _draft(line, pattern, groups, anchor, others, incident, cause, known, drafts)
            drafts.append(seen[pattern])
    if any(_TROUBLE.search(line) for line in new):
        for draft in drafts:
            if not any(map(_TROUBLE.search, draft["samples"]["match"])):
                # A harmless line that every healthy night has must not make one bad.
                draft.pop("root_cause", None)
                draft |= {"role": "context", "severity": Severity.INFO.value, "next_checks": []}
                draft["meaning"] = f"Said beside it: {what_of(incident)}."
    left = len(new) - sum(len(draft["samples"]["match"]) for draft in drafts)
    notes = [f"{left} more lines are unknown and have nothing to find them by, or are too many"] if left else []
    return drafts, notes


def lines_of(incident: Incident) -> Iterator[str]:
    """Yield the lines of logs that the text of an incident keeps, without what logs put before them."""
    state = PeelState(newest=incident.at or 0.0)
    for line, is_code, _ in text_lines(incident.body):
        if _FENCE.match(line):
            continue
        quoted = _QUOTED.match(line.strip())
        if is_code or quoted is not None:
            text = peel(line if quoted is None else quoted[1], state).text.strip()
            # What people type to get at a log is none of it.
            if len(text) >= _SHORTEST and not text.startswith(("$ ", "# ")):
                yield text


def generalised(line: str, incident: Incident) -> tuple[str, list[str], str]:
    """Return a pattern for lines like this one, its groups, and the piece to find them by; empty where all of it
    differs from night to night."""
    hosts = sorted({node_of(place) for place in incident.places}, key=len, reverse=True)
    parts = [("host", rf"\b{re.escape(host)}\b", r"[\w.-]{1,80}") for host in hosts if host in line]
    whole = re.compile("|".join(f"({found})" for _, found, _ in (*parts, *_PARTS)))
    pieces, groups, at = [], [], 0
    literals = []
    for match in whole.finditer(line):
        name, _, written = (*parts, *_PARTS)[_which(match)]
        literals.append(line[at : match.start()])
        pieces.append(re.escape(line[at : match.start()]))
        if line[: match.start()].endswith("-"):
            # `stor-04`: this is no minus.
            written = written.removeprefix("-?")
        is_new = bool(name) and name not in groups
        pieces.append(f"(?P<{name}>{written})" if is_new else f"(?:{written})")
        groups += [name] if is_new else []
        at = match.end()
    literals.append(line[at:])
    pieces.append(re.escape(line[at:]))
    anchor = max(literals, key=len).strip()[:_LONGEST].strip()
    pattern = "".join(pieces).replace("\\ ", " ").replace("\\-", "-")
    return pattern, groups, anchor if len(anchor) >= _SHORTEST and " " in anchor else ""


def _which(match: re.Match[str]) -> int:
    return next(number for number, text in enumerate(match.groups()) if text is not None)


def _draft(
    line: str,
    pattern: str,
    groups: list[str],
    anchor: str,
    others: list[str],
    incident: Incident,
    cause: str,
    known: Signatures,
    drafts: list[dict[str, Any]],
) -> dict[str, Any]:
    fixed = clean(" ".join(incident.resolution.split()), 200)
    named = cause and cause not in (HEALTHY, UNKNOWN)
    draft: dict[str, Any] = {
        "id": _id(anchor, {*known.by_id, *(one["id"] for one in drafts)}),
        "anchors": [anchor],
        "patterns": [pattern],
        "role": "cause" if named else "symptom",
    }
    if named:
        draft["root_cause"] = cause
    draft |= {"severity": incident.severity.value, "meaning": f"{what_of(incident)}."}
    draft["next_checks"] = [f"last time it helped: {fixed}"] if fixed else []
    draft["notes"] = f"learned from {incident.id}"
    names = {"pci": "pci", "host": "host"}
    culprit = {key: group for key, group in names.items() if group in groups}
    if "hca" in groups:
        culprit["device"] = "ib/{hca}"
    draft["culprit"] = {"blame": "named", **culprit} if culprit else {"blame": "reporter"}
    # A line that was cut off, and what stood beside it, are others.
    cut = line[: line.index(anchor) + len(anchor) // 2].strip()
    draft["samples"] = {"match": [line], "no_match": [*dict.fromkeys([cut] if cut else []), *others[:2]]}
    return draft


def what_of(incident: Incident) -> str:
    """Return the title of an incident without the places of its night: the next one is elsewhere."""
    title = incident.title
    names = {*incident.places, *map(node_of, incident.places), *incident.nodes.split(",")} - {""}
    for name in sorted(names, key=len, reverse=True):
        # `gpu-007: hot`, `hot on gpu-007`, `gpu-007 is hot`: a longer name that begins so is another one.
        title = re.sub(
            rf"^{re.escape(name)}:?\s+|\s+(?:(?:of|on|at|in|from)\s+)?{re.escape(name)}(?![\w/.-])", "", title
        )
    title = title.strip(" :;,") or incident.title
    return title[:1].upper() + title[1:].rstrip(".")


def _id(anchor: str, taken: set[str]) -> str:
    words = re.findall(r"[a-z]{2,}", anchor.lower())[:4]
    first = f"own.{'_'.join(words) or 'line'}"
    return next(name for name in (first, *(f"{first}_{number}" for number in range(2, MOST + 9))) if name not in taken)
