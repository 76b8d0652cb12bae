"""What decides how the training processes of a node talk to others: versions, and the variables of each rank."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "env_diff"
_HOST = re.compile(r"host (driver|kernel|nccl) (\S{1,80})", re.ASCII)
_FILE = re.compile(r"file (NCCL_[A-Z0-9_]{1,40}) *= *(.{1,300})", re.ASCII)
_RANK = re.compile(r"rank (\d{1,7}) ([A-Z][A-Z0-9_]{0,60})=(.{0,300})", re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return versions of the node, variables that all its ranks share, and as `rank/N` those in which they differ;
    raises ToolError for none of them."""
    items: list[Item] = []
    ranks: dict[int, dict[str, str]] = {}
    for line in values.lines(text):
        if (match := _HOST.fullmatch(line.strip())) is not None:
            items.append(Item("", f"{match[1]}_version", match[2]))
        elif (match := _FILE.fullmatch(line.strip())) is not None:
            items.append(Item("/etc/nccl.conf", match[1], match[2]))
        elif (match := _RANK.fullmatch(line.strip())) is not None:
            ranks.setdefault(int(match[1]), {})[match[2]] = match[3]
    names = sorted({name for variables in ranks.values() for name in variables})
    for name in names:
        said = {rank: variables.get(name) for rank, variables in ranks.items()}
        first = next(iter(said.values()))
        if first is not None and all(value == first for value in said.values()):
            items.append(Item("", name, first))
        else:
            items += [Item(f"rank/{rank}", name, value) for rank, value in said.items() if value is not None]
    if ranks:
        items.append(Item("", "ranks", len(ranks)))
    if not items:
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, tuple(items))
