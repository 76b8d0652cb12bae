"""The table that `nvidia-smi` prints without options: what fits into it, for people who paste it.

Two lines a GPU, three with MIG. The uncorrected errors are the volatile ones, or On with MIG.
"""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nvidia_smi_table"

_VERSION = re.compile(r"Driver Version: (\S+)(?:\s+CUDA Version: (\S+))?", re.ASCII)
_FIRST = re.compile(
    r"\|\s*(\d{1,3})\s+(.{1,60}?)\s+(On|Off|N/A|ERR!)?\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s+(\S+)\s*\|\s*(\S+)\s*\|",
    re.ASCII,
)
_SECOND = re.compile(
    r"\|\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s+(\S.*?)\s*\|", re.ASCII
)
_PROCESS = re.compile(
    r"\|\s+(\d{1,3})\s+(\S+)\s+(\S+)\s+(\d{1,10})\s+([CGM+]+)\s+(\S.*?)\s+(\d{1,9}MiB|N/A)\s*\|", re.ASCII
)
_OLD_PROCESS = re.compile(r"\|\s+(\d{1,3})\s+(\d{1,10})\s+([CGM+]+)\s+(\S.*?)\s+(\d{1,9}MiB|N/A)\s*\|", re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the cells of every GPU and process; raises ToolError for an output without a GPU."""
    items: list[Item] = []
    version = _VERSION.search(text)
    gpu = ""
    for line in text.split("\n"):
        first = _FIRST.match(line)
        second = _SECOND.match(line)
        process = _PROCESS.match(line)
        older = _OLD_PROCESS.match(line)
        if first is not None:
            gpu = f"gpu/{first[1]}"
            items += _head(gpu, first)
        elif second is not None and gpu:
            items += _body(gpu, second)
            gpu = ""
        elif process is not None:
            items += _process(process[1], process[4], process[5], process[6], process[7])
        elif older is not None:
            items += _process(*older.groups())
    if not items:
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi")
    if version is not None:
        items[:0] = [Item("", "driver_version", version[1])]
        items[1:1] = [Item("", "cuda_version", version[2])] if version[2] else []
    broken = dict.fromkeys(
        item.where for item in items if isinstance(item.value, Missing) and item.value.reason is Reason.ERROR
    )
    return Report(TOOL, tuple(items), tuple(f"{where}: ERR!" for where in broken))


def _head(gpu: str, match: re.Match[str]) -> list[Item]:
    name = match[2].strip()
    items = [Item(gpu, "name", values.missing(name) or name), Item(gpu, "pci", normal_pci(match[4]))]
    if match[3]:
        items.append(Item(gpu, "gpu_persistence_mode", values.switch(match[3])))
    if match[6] != "On":
        items.append(Item(gpu, "gpu_ecc_uncorr_volatile", values.only_number(match[6]), "errors"))
    return items


def _body(gpu: str, match: re.Match[str]) -> list[Item]:
    fan, temperature, state, draw, limit, used, total, busy, mode = match.groups()
    return [
        Item(gpu, "fan_speed", values.only_number(fan), "%"),
        Item(gpu, "gpu_temp", values.only_number(temperature), "C"),
        Item(gpu, "gpu_pstate", values.missing(state) or state),
        Item(gpu, "gpu_power_draw", values.only_number(draw), "W"),
        Item(gpu, "gpu_power_limit", values.only_number(limit), "W"),
        Item(gpu, "gpu_fb_used", values.only_number(used), "MiB"),
        Item(gpu, "gpu_fb_total", values.only_number(total), "MiB"),
        Item(gpu, "gpu_util", values.only_number(busy), "%"),
        Item(gpu, "compute_mode", values.missing(mode) or mode),
    ]


def _process(gpu: str, pid: str, kind: str, name: str, memory: str) -> list[Item]:
    where = f"gpu/{gpu}/process/{pid}"
    return [
        Item(where, "pid", int(pid)),
        Item(where, "process_kind", kind),
        Item(where, "process_name", name),
        Item(where, "process_memory", values.only_number(memory), "MiB"),
    ]
