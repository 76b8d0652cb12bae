"""`nfsiostat` of one interval: how long requests of each NFS mount were queued here and under way; and the servers of
Lustre as `lctl get_param osc.*.import` tells them."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nfsiostat"
_MOUNT = re.compile(r"(\S{1,300}) mounted on (/\S{0,300}):", re.ASCII)
_PAIR = re.compile(r" *(\d{1,9}\.\d{1,3}) +(\d{1,9}\.\d{1,3})", re.ASCII)
_OPERATION = re.compile(r"(read|write): +ops/s .*", re.ASCII)
_ROW = re.compile(
    r" *(\d{1,9}\.\d{1,3}) +(\d{1,12}\.\d{1,3}) +\d{1,12}\.\d{1,3} +-?(\d{1,9}) \(-?\d{1,6}\.\d%\) +"
    r"(\d{1,9}\.\d{1,3}) +(\d{1,9}\.\d{1,3})(?: +(\d{1,9}\.\d{1,3}))?.*",
    re.ASCII,
)
_TARGET = re.compile(r"osc\.(\S{1,80}?)-osc-\S{1,40}\.import=", re.ASCII)
_STATE = re.compile(r" *state: (\w{1,20})", re.ASCII)
_WAIT = re.compile(r" *avg_waittime: (\d{1,12}) usec", re.ASCII)
_INFLIGHT = re.compile(r" *inflight: (\d{1,9})", re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return by mount point the times of reads and writes in milliseconds, and by target of Lustre its state and time;
    raises ToolError for none of them."""
    items: list[Item] = []
    where = operation = ""
    for line in values.lines(text):
        if (match := _MOUNT.fullmatch(line.strip())) is not None:
            where, operation = match[2], ""
            items.append(Item(where, "server", match[1]))
        elif (match := _TARGET.match(line.strip())) is not None:
            where, operation = match[1], ""
        elif (match := _OPERATION.fullmatch(line.strip())) is not None:
            operation = match[1]
        elif where and operation and (match := _ROW.fullmatch(line)) is not None:
            items += [
                Item(where, f"{operation}_per_s", float(match[1])),
                Item(where, f"{operation}_again", int(match[3])),
            ]
            items += [
                Item(where, f"{operation}_{name}", float(match[at]), "ms")
                for at, name in ((4, "rtt"), (5, "time"), (6, "queue"))
                if match[at] is not None
            ]
            operation = ""
        elif where and not operation and (match := _PAIR.fullmatch(line)) is not None:
            items.append(Item(where, "backlog", float(match[2])))
        elif where and (match := _STATE.fullmatch(line)) is not None:
            items.append(Item(where, "lustre_state", match[1].lower(), "", "" if match[1] == "FULL" else "critical"))
        elif where and (match := _WAIT.fullmatch(line)) is not None:
            items.append(Item(where, "wait", int(match[1]) / 1000, "ms"))
        elif where and (match := _INFLIGHT.fullmatch(line)) is not None:
            items.append(Item(where, "under_way", int(match[1])))
    if not items:
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, tuple(items))
