"""The table that `nvidia-smi` prints without options: what fits into it, for people who paste it.

Two lines a GPU, three with MIG; a part of a GPU is `gpu/0/mig/2`, by its number among the MIG devices. The
uncorrected errors are the volatile ones, or On with MIG.
"""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nvidia_smi_table"

_VERSION = re.compile(r"(?:Driver|KMD) Version: (\S{1,40})(?: {1,40}CUDA (?:UMD )?Version: (\S{1,20}))?", re.ASCII)
_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{1,12}) {1,8}(\S{1,8})", re.ASCII)
_NAMED = re.compile(r"(\d{1,3}) {1,4}(\S.*)", re.ASCII)
_MODES = {"On", "Off", "N/A", "ERR!", "WDDM", "TCC", "MCDM"}
"""What stands behind the name: the persistence mode, on Windows the driver model."""
_MODELS = {"WDDM", "TCC", "MCDM"}
_SLICE = re.compile(r"(\d{1,3}) {1,6}(\d{1,3}|N/A) {1,6}(\d{1,3}|N/A) {1,6}(\d{1,3})", re.ASCII)
_PROCESS = re.compile(
    r"(\d{1,3})(?: {1,6}(\d{1,3}|N/A) {1,6}(\d{1,3}|N/A))? {1,12}(\d{1,10}) {1,8}([CGM+]{1,5}) (.*)", re.ASCII
)
_MEMORY = re.compile(r"(?:(.*\S) )? *(\d{1,9}MiB|N/A)", re.ASCII)
_OF = re.compile(r"(N/A|[^/]{1,20})/(N/A|[^/]{1,20})", re.ASCII)
"""`97W/250W`: so much of so much."""
_LONGEST = 400


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the cells of every GPU and process; raises ToolError for an output without a GPU."""
    items: list[Item] = []
    version = _VERSION.search(text)
    gpu = place = ""
    for line in values.lines(text):
        cells = [cell.strip() for cell in line[:_LONGEST].strip().strip("|").split("|")]
        if len(cells) == 3 and (bus := _ADDRESS.fullmatch(cells[1])) and (named := _NAMED.fullmatch(cells[0])):
            gpu = f"gpu/{named[1]}"
            items += _head(gpu, named[2], bus[1], cells[2])
        elif len(cells) == 3 and gpu and (found := _body(gpu, cells)):
            items += found
            gpu = ""
        elif len(cells) == 4 and (part := _SLICE.fullmatch(cells[0])) is not None:
            place = f"gpu/{part[1]}/mig/{part[4]}"
            items += _slice(place, part, cells)
        elif len(cells) == 1 and (process := _PROCESS.fullmatch(cells[0])) is not None:
            items += _process(process)
    if not items:
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi")
    if version is not None:
        items[:0] = [Item("", "driver_version", version[1])]
        items[1:1] = [Item("", "cuda_version", version[2])] if version[2] else []
    items = values.latest(items)
    broken = dict.fromkeys(
        item.where for item in items if isinstance(item.value, Missing) and item.value.reason is Reason.ERROR
    )
    return Report(TOOL, tuple(items), tuple(f"{where}: ERR!" for where in broken))


def _head(gpu: str, label: str, address: str, errors: str) -> list[Item]:
    name, _, mode = label.rpartition(" ")
    if mode not in _MODES or not name:
        name, mode = label, ""
    name = name.strip()
    items = [Item(gpu, "name", values.missing(name) or name), Item(gpu, "pci", normal_pci(address))]
    if mode in _MODELS:
        items.append(Item(gpu, "driver_model", mode))
    elif mode:
        items.append(Item(gpu, "gpu_persistence_mode", values.switch(mode)))
    if errors not in ("On", "Off"):
        # Compared with nothing: the driver counts them since it was loaded.
        count = values.only_number(errors)
        bad = not isinstance(count, Missing) and count > 0
        items.append(Item(gpu, "gpu_ecc_uncorr_volatile", count, "errors", "warning" if bad else ""))
    return items


def _body(gpu: str, cells: list[str]) -> list[Item]:
    """Return the values of the second line of a GPU, nothing for another line."""
    readings, load = cells[0].split(), cells[2].split(None, 1)
    power = _OF.fullmatch("".join(readings[3:]))
    memory = _OF.fullmatch(cells[1].replace(" ", ""))
    if power is None or memory is None or len(load) != 2:
        return []
    fan, temperature, state = readings[:3]
    return [
        Item(gpu, "fan_speed", values.only_number(fan), "%"),
        Item(gpu, "gpu_temp", values.only_number(temperature), "C"),
        Item(gpu, "gpu_pstate", values.missing(state) or state),
        Item(gpu, "gpu_power_draw", values.only_number(power[1]), "W"),
        Item(gpu, "gpu_power_limit", values.only_number(power[2]), "W"),
        Item(gpu, "gpu_fb_used", values.only_number(memory[1]), "MiB"),
        Item(gpu, "gpu_fb_total", values.only_number(memory[2]), "MiB"),
        Item(gpu, "gpu_util", values.only_number(load[0]), "%"),
        Item(gpu, "compute_mode", values.missing(load[1]) or load[1]),
    ]


def _slice(place: str, part: re.Match[str], cells: list[str]) -> list[Item]:
    """Return what a MIG device has; its memory is that of its GPU instance, which several may share."""
    used, _, total = cells[1].partition("/")
    counts = cells[2].split()
    items = [Item(place, "gpu_instance", values.only_number(part[2])),
             Item(place, "compute_instance", values.only_number(part[3])),
             Item(place, "gpu_fb_used", values.only_number(used), "MiB"),
             Item(place, "gpu_fb_total", values.only_number(total), "MiB")]  # fmt: skip
    if len(counts) == 2:
        items.append(Item(place, "multiprocessors", values.only_number(counts[0])))
        items.append(Item(place, "gpu_ecc_uncorr_volatile_sram", values.only_number(counts[1]), "errors"))
    return items


def _process(match: re.Match[str]) -> list[Item]:
    gpu, instance, _, pid, kind, rest = match.groups()
    named = _MEMORY.fullmatch(rest.strip())
    if named is None:
        return []
    where = f"gpu/{gpu}/process/{pid}"
    items = [
        Item(where, "pid", int(pid)),
        Item(where, "process_kind", kind),
        Item(where, "process_name", (named[1] or "").strip()),
        Item(where, "process_memory", values.only_number(named[2]), "MiB"),
    ]
    if instance and instance != "N/A":
        items.append(Item(where, "gpu_instance", int(instance)))
    return items
