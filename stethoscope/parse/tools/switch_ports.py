"""What a switch says of its ports: `port N name value ...` a line, as probes/ondemand/switch_counters.sh and
switch_qos.sh print it, and as tables of switches with a word and a number for each property do.

A switch has dozens of ports that do the same: what one of them does otherwise than most is what counts.
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import median

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values
from stethoscope.text import clean_text

TOOL = "switch_ports"

_PORT = re.compile(r"\s*(?:port|Port|swp)\s*:?\s*(\d{1,3}(?:/\d{1,3}){0,2})\b[:\s]*(.*)", re.ASCII)
_NUMBER = re.compile(
    r"\b([A-Za-z][A-Za-z0-9_-]{1,40})\s*[:=]?\s+?(-?\d{1,20}(?:\.\d{1,6})?)\s?(/s|%|us|KB|Gb/s)?(?=[\s,;)]|$)", re.ASCII
)
_ARBITRATION = re.compile(r"vl-arb:\s*([a-z_]{1,40})\s*(\([^)]{0,400}\))?", re.ASCII)
_MAP = re.compile(r"\bsl2vl\s+([\w-]{1,40})", re.ASCII)
_NAME = re.compile(r"Node Description:\.*(.{1,80})", re.ASCII)
_MOST = 1024
_WAITS = 10_000_000
"""Ticks a second: less waiting is no congestion."""
_TIMES = 5.0
_ERRORS = ("symbol_errors", "rcv_errors", "xmit_discards")


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return name and number of each property by `port/N`; raises ToolError for an output without any."""
    items: list[Item] = []
    lanes: dict[str, str] = {}
    for line in values.lines(text):
        named = _NAME.fullmatch(line.strip())
        if named is not None:
            items.append(Item("", "switch", clean_text(named[1].strip())))
        port = _PORT.match(line)
        if port is None or len(items) > _MOST * 8:
            continue
        where, rest = f"port/{port[1]}", port[2]
        shared = _ARBITRATION.search(rest)
        if shared is not None:
            lanes[where] = " ".join(f"{shared[1]} {shared[2] or ''}".split())
            mapped = _MAP.search(rest)
            if mapped is not None:
                items.append(Item(where, "sl2vl", mapped[1]))
            continue
        items += [
            Item(where, found[1].lower().replace("-", "_"), float(found[2]), found[3] or "")
            for found in _NUMBER.finditer(rest)
        ]
    usual = Counter(lanes.values()).most_common(1)
    odd = {where for where, said in lanes.items() if said != usual[0][0]} if len(lanes) > 2 else set[str]()
    items += [
        Item(where, "vl_arbitration", said, "", "critical" if where in odd else "") for where, said in lanes.items()
    ]
    if not items:
        raise without_values(text, exit=exit, err=err, tool="smpquery")
    remarks = [f"{where}: arbitration is {lanes[where]}, that of most ports {usual[0][0]}" for where in sorted(odd)]
    return Report(TOOL, tuple(_graded(items)), tuple(remarks))


def _graded(items: list[Item]) -> list[Item]:
    waits = [float(item.value) for item in items if item.name == "xmit_wait" and isinstance(item.value, float)]
    usual = median(waits) if waits else 0.0
    graded = []
    for item in items:
        level = item.level
        if item.name == "xmit_wait" and isinstance(item.value, float):
            level = "warning" if item.value > max(_WAITS, _TIMES * usual) else ""
        elif item.name in _ERRORS and isinstance(item.value, float):
            level = "warning" if item.value > 0 else ""
        graded.append(item._replace(level=level))
    return graded
