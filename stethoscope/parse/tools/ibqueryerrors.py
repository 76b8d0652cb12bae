"""`ibqueryerrors`: the ports of the whole fabric whose error counters are beyond their thresholds."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values
from stethoscope.parse.tools.perfquery import COUNTERS, ERRORS

TOOL = "ibqueryerrors"

_NODE = re.compile(r'Errors for (?:(0x[0-9A-Fa-f]{1,16}) )?"(.{1,80}?)"\s*', re.ASCII)
_PORT = re.compile(r"\s+GUID (0x[0-9A-Fa-f]{1,16}) port (\d{1,3}|ALL): (.{1,4000}?)\s*", re.ASCII)
_COUNTER = re.compile(r"\[(\w{1,60}) == (\d{1,20})(?: \([^)]{1,40}\))?\]", re.ASCII)
_LINK = re.compile(r"\s+Link info:\s.*", re.ASCII)
_SUMMARY = re.compile(r"## Summary: (\d{1,7}) nodes checked, (\d{1,7}) bad nodes found\s*", re.ASCII)
_PORTS = re.compile(r"##\s+(\d{1,8}) ports checked, (\d{1,8}) ports have errors beyond threshold\s*", re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the counters of each bad port as `node:port`, and how much was checked; the sums over all ports of a
    switch are left out. Raises ToolError for an output without ports and without a summary."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    node = ""
    for line in values.lines(text):
        if (match := _NODE.fullmatch(line)) is not None:
            node = match[2]
        elif (match := _PORT.fullmatch(line)) is not None and node:
            if match[2] == "ALL":
                continue
            where = f"{node}:{match[2]}"
            found = _COUNTER.findall(match[3])
            for name, total in found:
                metric = COUNTERS.get(name, name)
                level = "warning" if metric in ERRORS else ""
                items.append(Item(where, metric, int(total), "4 B" if metric.endswith("_data") else "", level))
            bad = [f"{name} {total}" for name, total in found if COUNTERS.get(name, name) in ERRORS]
            if bad:
                remarks.append(f"{where}: {', '.join(bad)}")
        elif (match := _SUMMARY.fullmatch(line)) is not None:
            items += [Item("", "nodes_checked", int(match[1])), Item("", "bad_nodes", int(match[2]))]
        elif (match := _PORTS.fullmatch(line)) is not None:
            items += [Item("", "ports_checked", int(match[1])), Item("", "bad_ports", int(match[2]))]
        elif line.strip() and not line.startswith(("##", "ibwarn")) and not _LINK.fullmatch(line):
            unknown[line.strip()[:60]] = None
    if not items:
        raise without_values(text, exit=exit, err=err, tool="ibqueryerrors")
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))
