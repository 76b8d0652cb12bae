"""`ncclras -v` of NCCL 2.24 and later: how the communicators of a job stand, who is missing, and who is behind."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nccl_ras"
_SUMMARY = re.compile(r" *(\d{1,6}) +(\d{1,4}) +(\d{1,4}) +(\d{1,8}) +(\d{1,8})", re.ASCII)
_GROUP = re.compile(
    r" *(\d{1,4}) +(\d{1,6}) +(?:\d{1,6}-?){1,2} +(?:\d{1,6}-?){1,2} +(?:\d{1,8}-?){1,2} +(\d{1,8}) +"
    r"([A-Z]{2,16}) +([A-Z]{2,16})",
    re.ASCII,
)
_PROBLEM = re.compile(r"(?:#\S{1,24} \(\w{1,32}\) )?(DEAD|INCOMPLETE|MISMATCH|TIMEOUT)", re.ASCII)
_LAUNCHED = re.compile(r"(\d{1,8}) ranks? ha(?:s|ve) launched up to operation (\d{1,15})", re.ASCII)
_RANK = re.compile(r"Rank (\d{1,7}) -- GPU (\d{1,3}) managed by process (\d{1,10}) on node (\S{1,80})", re.ASCII)
_MISSING = re.compile(r"The missing ranks?: ([\d, -]{1,400})", re.ASCII)
_DEAD = re.compile(r"Process (\d{1,10}) on node (\S{1,80}) managing GPUs? ([\d, -]{1,80})", re.ASCII)
_MOST = 256


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return size of the job, state of each group, and as `rank/N` whoever is missing or behind; raises ToolError for
    another text."""
    items: list[Item] = []
    remarks: list[str] = []
    problem, counts = "", [0, 0]
    """Kind of trouble of the part that is read; most ranks that agree, and at which operation."""
    operation = 0
    for raw in values.lines(text):
        line = raw.strip()
        if (match := _GROUP.fullmatch(raw.rstrip())) is not None:
            where = f"group/{match[1]}"
            level = "" if match[5] == "OK" else "critical"
            items += [Item(where, "status", match[4].lower()), Item(where, "errors", match[5].lower(), "", level)]
        elif (match := _SUMMARY.fullmatch(raw.rstrip())) is not None and not any(i.name == "ranks" for i in items):
            items += [Item("", "nodes", int(match[1])), Item("", "ranks", int(match[4]))]
        elif (match := _PROBLEM.fullmatch(line)) is not None:
            problem, counts = match[1], [0, 0]
            remarks.append(line)
        elif (match := _LAUNCHED.fullmatch(line)) is not None:
            operation = int(match[2])
            if int(match[1]) > counts[0]:
                counts = [int(match[1]), operation]
                items.append(Item("", "operation", operation))
        elif problem and (match := _RANK.match(line)) is not None and len(items) < _MOST:
            behind = counts[1] - operation
            word = "behind" if behind > 0 else "ahead" if behind < 0 else problem.lower()
            items.append(Item(f"rank/{match[1]}", word, abs(behind) or match[4], "", "critical"))
        elif (match := _MISSING.fullmatch(line)) is not None:
            items += [Item(f"rank/{rank}", "missing", True, "", "critical") for rank in _numbers(match[1])[:_MOST]]
        elif problem and (match := _DEAD.fullmatch(line)) is not None:
            items += [Item(f"{match[2]}/gpu/{gpu}", problem.lower(), int(match[1]), "", "critical")
                      for gpu in _numbers(match[3])]  # fmt: skip
    if not items:
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, tuple(items), tuple(remarks))


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            found += range(int(first), min(int(last) if last.isdigit() else int(first), int(first) + _MOST) + 1)
    return found
