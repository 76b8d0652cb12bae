"""The short outputs of nvidia-smi: `-L` (GPUs and MIG devices), `--version`, `dmon` and `pmon`."""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nvidia_smi_lines"

_GPU = re.compile(r"GPU (\d{1,3}): (.{1,100}?) \(UUID: ([A-Za-z0-9-]{1,64})\)\s*", re.ASCII)
_MIG = re.compile(r"\s+MIG (\S{1,30})\s+Device\s+(\d{1,3}): \(UUID: ([A-Za-z0-9/-]{1,80})\)\s*", re.ASCII)
_VERSION = re.compile(
    r"(NVIDIA-SMI|NVML|DRIVER|CUDA|KMD|CUDA UMD) version\s*: (.{1,120}?)\s*", re.ASCII | re.IGNORECASE
)
_ROWS = 20_000
_MONITOR = {
    "pwr": "gpu_power_draw", "gtemp": "gpu_temp", "mtemp": "gpu_mem_temp", "sm": "gpu_util", "mem": "gpu_mem_copy_util",
    "mclk": "gpu_mem_clock", "pclk": "gpu_sm_clock", "fb": "gpu_fb_used", "rxpci": "gpu_pcie_rx",
    "txpci": "gpu_pcie_tx", "pviol": "violation_power", "tviol": "violation_thermal", "type": "process_kind",
    "command": "process_name",
}  # fmt: skip


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return what the lines say; of a monitor's rounds the last; raises ToolError for an output without any."""
    items: dict[tuple[str, str], Item] = {}
    rounds: dict[tuple[str, str], list[str]] = {}
    gpu, columns, units = "", list[str](), list[str]()
    for line in values.lines(text):
        if (match := _GPU.fullmatch(line)) is not None:
            gpu = f"gpu/{match[1]}"
            found = [Item(gpu, "name", match[2]), Item(gpu, "uuid", match[3])]
        elif (match := _MIG.fullmatch(line)) is not None and gpu:
            where = f"{gpu}/mig/{match[2]}"
            found = [Item(where, "profile", match[1]), Item(where, "uuid", match[3])]
        elif (match := _VERSION.fullmatch(line)) is not None:
            found = [] if match[2].startswith("Deprecated") else [Item("", _version_name(match[1]), match[2])]
        elif line.startswith("# "):
            words = line[2:].split()
            if words[:1] == ["gpu"]:
                items.update(_monitored(rounds, columns, units))
                columns, units, rounds = words, [], {}
            elif columns:
                units = words
            found = []
        else:
            words = line.split(None, len(columns) - 1) if columns else []
            if words and len(words) == len(columns) and words[0].isdigit():
                rounds[words[0], words[1] if "pid" in columns else ""] = words
                if len(rounds) > _ROWS:
                    raise ToolError("not_this_tool", f"a monitor shows no more than {_ROWS:,} processes")
            continue
        items.update({(item.where, item.name): item for item in found})
    items.update(_monitored(rounds, columns, units))
    if not items:
        # A monitor with no process to show prints its head alone, which is an answer.
        if columns:
            return Report(TOOL)
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi")
    return Report(TOOL, tuple(items.values()))


def _version_name(label: str) -> str:
    name = values.name_of(label)
    return {"driver": "driver_version", "kmd": "driver_version", "cuda": "cuda_version",
            "cuda_umd": "cuda_version"}.get(name, f"{name}_version")  # fmt: skip


def _monitored(
    rounds: dict[tuple[str, str], list[str]], columns: list[str], units: list[str]
) -> dict[tuple[str, str], Item]:
    """Return the values of the last round of each GPU or process."""
    return {(item.where, item.name): item for cells in rounds.values() for item in _monitor(cells, columns, units)}


def _monitor(cells: list[str], columns: list[str], units: list[str]) -> list[Item]:
    row = dict(zip(columns, [cell.strip() for cell in cells], strict=True))
    where = f"gpu/{row['gpu']}"
    if "pid" in row:
        if not row["pid"].isdigit():
            return []
        where += f"/process/{row['pid']}"
    unit_of = dict(zip(columns, units, strict=False))
    items = []
    for name, text in row.items():
        if name == "gpu":
            continue
        unit = unit_of.get(name, "")
        worded = name in ("type", "command")
        value: Value = text if worded else Missing(Reason.UNSUPPORTED) if text == "-" else values.only_number(text)
        items.append(Item(where, _MONITOR.get(name, name), value, "" if worded or unit == "#" else unit))
    return items
