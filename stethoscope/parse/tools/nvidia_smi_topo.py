"""`nvidia-smi topo -m` and `-p2p`: how each GPU reaches every other GPU and network adapter."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nvidia_smi_topo"

_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\[[0-9;]{1,3}m", re.ASCII)
_DEVICE = re.compile(r"GPU\d{1,3}|NIC\d{1,3}|mlx\d_\d{1,3}|(?:ib|eth|bnxt_re)\w{0,12}", re.ASCII)
_NIC = re.compile(r"\s+(NIC\d{1,3}): (\S{1,40})\s*", re.ASCII)
_LEGEND = re.compile(r"\s+(?:X|SYS|NODE|PHB|PXB|PIX|PIN|NV#|C2C|OK|CNS|GNS|TNS|NS|DR|U)\s+= .*", re.ASCII)
_CPUS = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*", re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return `GPU0` -> `path/GPU1` = NV18 and the like, the CPUs near each GPU, and what each NIC is called; raises
    ToolError for an output without the matrix."""
    items: list[Item] = []
    unknown: dict[str, None] = {}
    columns: list[str] = []
    rows: set[str] = set()
    names = {match[1]: match[2] for line in values.lines(text) if (match := _NIC.fullmatch(line)) is not None}
    for raw in values.lines(text):
        line = _COLOUR.sub("", raw)
        words = line.split()
        if not words or _LEGEND.fullmatch(line) or _NIC.fullmatch(raw) or words[-1] == "Legend:":
            continue
        if not columns or (words[: len(columns)] == columns and "X" not in words):
            columns = columns or _columns(words)
        elif _DEVICE.fullmatch(words[0]) and len(words) > len(columns):
            rows.add(words[0])
            items += _row(words, columns, names, _cells(line, len(columns)))
        else:
            unknown[line.strip()[:60]] = None
    items = values.latest(items)
    if rows:
        # A GPU that is alone has no path to anything, which is an answer.
        items.insert(0, Item("", "devices", len(rows)))
    if not items:
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi topo")
    return Report(TOOL, tuple(items), (), tuple(unknown))


def _columns(words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if not _DEVICE.fullmatch(word) or (word == "GPU" and found):
            break
        found.append(word)
    return found


def _cells(line: str, paths: int) -> list[str]:
    """Return what stands behind the paths: the cells are parted by tabs, and one may be empty."""
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")[paths + 1 :]]
    return line.split()[paths + 1 :]


def _row(words: list[str], columns: list[str], names: dict[str, str], rest: list[str]) -> list[Item]:
    device = words[0]
    where = _place(device, names)
    items = [
        Item(where, f"path/{_place(other, names)}", word)
        for other, word in zip(columns, words[1:], strict=False)
        if word != "X"
    ]
    bonds = [
        int(item.value[2:]) for item in items if isinstance(item.value, str) and re.fullmatch(r"NV\d{1,3}", item.value)
    ]
    if bonds:
        items.append(Item(where, "nvlink_bonded", max(bonds), "links"))
    if device.startswith("GPU") and rest and (_CPUS.fullmatch(rest[0]) or not rest[0]):
        near = [rest[0], "".join(rest[1:2]), next((cell for cell in reversed(rest[2:]) if cell), "")]
        for name, cell in zip(("cpu_affinity", "numa_affinity", "gpu_numa_id"), near, strict=True):
            if cell:
                items.append(Item(where, name, values.missing(cell) or cell))
    return items


def _place(device: str, names: dict[str, str]) -> str:
    return f"gpu/{device[3:]}" if device.startswith("GPU") else names.get(device, device)
