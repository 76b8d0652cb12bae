"""`top -b -n 1`, `ps` of processes that hang in the kernel, and how many cores have which clock and governor."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "top"

_LOAD = re.compile(r"load average: (\d{1,6}\.\d\d), (\d{1,6}\.\d\d), (\d{1,6}\.\d\d)", re.ASCII)
_SHARES = re.compile(r"%Cpu\(s\):(.{10,120})", re.ASCII)
_SHARE = re.compile(r"(\d{1,3}\.\d) (us|sy|ni|id|wa|hi|si|st)\b", re.ASCII)
_NAMES = {"us": "cpu_user", "sy": "cpu_system", "ni": "cpu_nice", "id": "cpu_idle", "wa": "cpu_iowait",
          "hi": "cpu_interrupts", "si": "cpu_softirq", "st": "cpu_steal"}  # fmt: skip
_PROCESS = re.compile(
    r" *(\d{1,10}) (\S{1,32}) +(?:rt|-?\d{1,4}) +-?\d{1,3} +\S{1,12} +\S{1,12} +\S{1,12} ([A-Z]) +(\d{1,6}\.\d) +"
    r"\d{1,3}\.\d +\S{1,16} (.{1,80})",
    re.ASCII,
)
_STUCK = re.compile(r" *(\d{1,10}) +(D\S{0,6}) +(\S{1,32}) +(\d{1,10}) +(\S{1,32}) +(.{1,40})", re.ASCII)
_CORES = re.compile(r"scaling_(governor|cur_freq|max_freq) +(\d{1,6}) (\S{1,20})", re.ASCII)
_MOST = 24
"""Processes of which something is said."""


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return load, shares of time, processes as `process/PID`, clock, governor; raises ToolError for none of them."""
    items: list[Item] = []
    remarks: list[str] = []
    cores: dict[str, dict[str, int]] = {}
    processes = 0
    for line in values.lines(text):
        if (match := _LOAD.search(line[:200])) is not None:
            items.append(Item("", "load1", float(match[1])))
        elif (match := _SHARES.match(line)) is not None:
            items += [Item("", _NAMES[name], float(share), "%") for share, name in _SHARE.findall(match[1])]
        elif (match := _CORES.fullmatch(line.strip())) is not None:
            cores.setdefault(match[1], {})[match[3]] = int(match[2])
        elif (match := _STUCK.fullmatch(line)) is not None:
            where = f"process/{match[1]}"
            items += [Item(where, "name", match[6].strip()), Item(where, "waits_in", match[3])]
            items.append(Item(where, "age", int(match[4]), "s"))
            remarks.append(f"{match[6].strip()} ({match[1]}) hangs in {match[3]}")
        elif processes < _MOST and (match := _PROCESS.fullmatch(line)) is not None:
            processes += 1
            where = f"process/{match[1]}"
            items += [Item(where, "name", match[5].strip()), Item(where, "user", match[2])]
            items.append(Item(where, "cpu_used", float(match[4]), "%"))
    items += _of_cores(cores)
    if not items:
        if text.strip().startswith("PID"):
            return Report(TOOL, (Item("", "stuck_processes", 0),))
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, tuple(items), tuple(remarks))


def _of_cores(cores: dict[str, dict[str, int]]) -> list[Item]:
    """Return the governor that most cores have, and the clocks of the middle one."""
    items = []
    governors = cores.get("governor", {})
    if governors:
        items.append(Item("", "cpu_governor", max(governors, key=lambda word: governors[word])))
    for name, said in (("cur_freq", "cpu_freq"), ("max_freq", "cpu_freq_max")):
        clocks = sorted((int(word), count) for word, count in cores.get(name, {}).items() if word.isdigit())
        half, seen = sum(count for _, count in clocks) / 2, 0
        for clock_khz, count in clocks:
            seen += count
            if seen >= half:
                items.append(Item("", said, clock_khz / 1000, "MHz"))
                break
    return items
