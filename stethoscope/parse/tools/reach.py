"""What probes/ondemand/reach.sh prints: whether a node reaches others of its job, and over which interface."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "reach"

_TOLD = re.compile(r"told ([A-Za-z0-9._-]{1,15})", re.ASCII)
_ADDRESS = re.compile(r"peer (\S{1,100}) address ([0-9.]{7,15}) over ([A-Za-z0-9._-]{1,15}|no route)", re.ASCII)
_UNKNOWN = re.compile(r"peer (\S{1,100}) has no address here", re.ASCII)
_TRIED = re.compile(r"peer (\S{1,100}) (ping|tcp/\d{1,5}) (answers|connects|refused|no answer|no route)", re.ASCII)
_USUAL = ("tcp/22", "tcp/29500")
"""Ports that are always tried: nobody need listen there."""
_SILENT = ("no answer", "no route")
_MOST = 512


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return of each node that was tried its address, the interface that leads there, and what came of each try; what
    gets no answer is critical. Raises ToolError for an output of something else."""
    items: list[Item] = []
    tried: dict[str, dict[str, str]] = {}
    for line in values.lines(text):
        line = line.strip()
        told, address, unknown, try_ = (form.fullmatch(line) for form in (_TOLD, _ADDRESS, _UNKNOWN, _TRIED))
        if len(items) >= _MOST:
            break
        if told is not None:
            items.append(Item("", "told_interface", told[1]))
        elif address is not None:
            level = "critical" if address[3] == "no route" else ""
            items += [Item(address[1], "address", address[2]), Item(address[1], "interface", address[3], "", level)]
        elif unknown is not None:
            items.append(Item(unknown[1], "address", "not known here", "", "warning"))
        elif try_ is not None:
            items.append(Item(try_[1], try_[2], try_[3], "", "critical" if try_[3] in _SILENT else ""))
            tried.setdefault(try_[1], {})[try_[2]] = try_[3]
    if not items:
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, tuple(items), tuple(_remarks(tried)))


def _remarks(tried: dict[str, dict[str, str]]) -> list[str]:
    remarks = []
    for peer, said in tried.items():
        answers = [what for what, word in said.items() if word not in _SILENT]
        silent = [what for what, word in said.items() if word in _SILENT]
        if silent and answers:
            remarks.append(f"{peer}: {', '.join(silent)} is not answered, {', '.join(answers)} is: a filter between")
        elif silent:
            remarks.append(f"{peer}: nothing is answered")
        refused = [what for what, word in said.items() if word == "refused" and what not in _USUAL]
        if refused:
            # Who refuses cannot be seen from here.
            which = f"{', '.join(refused)} is being tried and refused"
            remarks.append(f"{peer}: {which}: nobody listens, or a filter refuses it; ss on {peer} tells which")
    return remarks
