"""What `nvidia-smi --query-gpu=... --format=csv,noheader,nounits` says, in the terms of the probe's wire."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.model import wire
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools.nvidia_smi_csv import METRICS, SWITCHES

if TYPE_CHECKING:
    from stethoscope.model.wire import Cell

COLUMNS = {
    "gpu_sm_clock": "clocks.sm",
    "gpu_util": "utilization.gpu",
    "gpu_power_draw": "power.draw",
    "gpu_temp": "temperature.gpu",
    "gpu_temp_margin": "temperature.gpu.tlimit",
    "gpu_mem_temp": "temperature.memory",
    "gpu_fb_used": "memory.used",
    "gpu_fb_total": "memory.total",
    "gpu_mem_copy_util": "utilization.memory",
    "gpu_power_limit": "enforced.power.limit",
}
"""The field that gives each metric; throttle reasons have two names."""
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_RARE = {
    "gpu_mem_clock", "gpu_sm_clock_max", "gpu_power_limit_default", "gpu_pstate", "gpu_persistence_mode",
    "gpu_mig_mode", "gpu_ecc_mode", "gpu_recovery_action", "gpu_sram_threshold_exceeded", "gpu_row_remap_banks_none",
    "gpu_row_remap_pending", "gpu_row_remap_failure", "fabric_state", "fabric_status", "gpu_vbios_version",
    "driver_version",
}  # fmt: skip
_RARE_FAMILIES = ("gpu_pcie_link_", "gpu_throttle_time_", "gpu_ecc_", "gpu_retired_pages_", "gpu_remapped_rows_")
RARE_FIELDS = tuple(name for name, metric in METRICS.items() if metric in _RARE or metric.startswith(_RARE_FAMILIES))
"""What is asked for rarely, of what the driver knows of it; some are two names of one metric."""
_WORD_METRICS = ("gpu_vbios_version", "driver_version")
_ACTIONS = {
    "none": 0,
    "reset": 1,
    "gpu reset": 1,
    "reboot": 2,
    "node reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
    "drain + reset": 4,
}
_FABRIC_STATES = {"not started": 1, "in progress": 2, "completed": 3}
_FABRIC_COMPLETED = 3
"""NVML's numbers for what nvidia-smi says in words."""
NOT_GIVEN = ("gpu_pcie_rx", "gpu_pcie_tx", "nvlink_rx", "nvlink_tx")
"""What only NVML gives."""

_WORDS = {
    "n/a": "unsupported",
    "not supported": "unsupported",
    "gpu is lost": "lost",
    "insufficient permissions": "permission",
    "no permission": "permission",
}
_REFUSALS = (
    ("no devices were found", "no devices"),
    ("communicate with the nvidia driver", "no driver loaded"),
    ("driver not loaded", "no driver loaded"),
    ("driver/library version mismatch", "driver/library version mismatch"),
    ("find libnvidia-ml", "no NVML library"),
    ("insufficient permissions", "permission"),
)
_SWITCHED = {"enabled": 1, "disabled": 0, "yes": 1, "no": 0, "active": 1, "not active": 0, "1": 1, "0": 0}
_LOST = 15
"""NVML's code for a GPU that is not on its bus any more; 999 is its unknown error."""
_UNKNOWN = 999
_HANDLE = re.compile(r"device handle for GPU ?([0-9A-Fa-f:.]+): (.*)", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,6})?", re.ASCII)


@dataclass(slots=True)
class Reading:
    """The part of a full frame that comes from the driver."""

    gpus: list[wire.GpuIdentity] = field(default_factory=list)
    gpu: dict[str, list[Cell]] = field(default_factory=dict)
    node: dict[str, Cell] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def read(
    state: str, said: str, fields: str, rows: list[str], *, first: list[str] | None = None, no_gpus: bool
) -> Reading:
    """Return what the rows mean.

    `state` is how nvidia-smi stands: `ok`, `starting`, `ended`, `absent`, or `hung` with the process id of one that is
    stuck; unless it is `ok`, rows are old, and only tell which GPUs there are. `said` is what it said instead of a
    row, `first` the first rows, which have the identity of a GPU that was lost since, `no_gpus` that the PCI bus shows
    none.
    """
    names = fields.split(",")
    parsed = _cells(rows, names)
    known = {index: _identity(index, cells) for index, cells in _cells(first or [], names).items()}
    reading = Reading()
    kind, _, stuck = state.partition(" ")
    lost = _lost(said)
    if lost:
        for index, identity in known.items():
            if identity.pci == lost:
                parsed.setdefault(index, {})
    columns: dict[str, list[Cell]] = {}
    for index, cells in sorted(parsed.items()):
        identity = _identity(index, cells)
        if not identity.uuid or not identity.pci:
            identity = known.get(index, identity)
        reading.gpus.append(identity)
        values = _values(cells)
        if lost and identity.pci == lost:
            values = _broken(values, "lost", _LOST)
        elif not cells:
            values = dict.fromkeys(values, "error")
        for metric, value in values.items():
            columns.setdefault(metric, []).append(value)
    reading.gpu = columns
    working = sum(code == 0 for code in columns.get("gpu_handle_error", []))
    reading.node = {"gpu_count": working, "nvml_latency": "unsupported"}
    if kind == "ok":
        if lost:
            reading.notes["nvml"] = said
        return reading
    word, note = _trouble(kind, said)
    reading.notes["nvml"] = note
    if stuck:
        reading.notes["nvml_pid"] = stuck
    reading.node = dict.fromkeys(reading.node, word)
    if note == "no devices":
        reading.node = {"gpu_count": 0, "nvml_latency": "absent"}
    elif no_gpus and kind in ("ended", "absent"):
        reading.node = dict.fromkeys(reading.node, "absent")
    for position, identity in enumerate(reading.gpus):
        gone = kind == "ended" and lost and identity.pci == lost
        for metric, column in columns.items():
            column[position] = (_LOST if metric == "gpu_handle_error" else "lost") if gone else word
    return reading


@dataclass(slots=True)
class Rare:
    """The part of what the driver says rarely."""

    gpu: dict[str, list[Cell]] = field(default_factory=dict)
    apps: list[list[Cell]] = field(default_factory=list)
    words: dict[str, str | list[str]] = field(default_factory=dict)


def rare(fields: str, known: str, rows: wire.Ran | None, apps: wire.Ran | None) -> Rare:
    """Return what two questions gave, without units and heads: the `fields` of each GPU, index and UUID first, and UUID
    of the GPU, process id and MiB of each process. `known` are the indexes of all GPUs, with spaces between."""
    names = fields.split(",")
    parsed = _cells(rows.out.split("\n"), names) if rows else {}
    indexes = sorted(
        {int(word) for word in known.split()[:64] if re.fullmatch(r"\d{1,3}", word, re.ASCII)} | set(parsed)
    )
    missing = "hung" if rows and rows.status in ("timeout", "hung") else "error"
    found = Rare()
    columns = [(name, METRICS[name]) for name in names if name in RARE_FIELDS]
    for name, metric in columns:
        if metric in _WORD_METRICS:
            continue
        column = [_rare_cell(metric, parsed[gpu][name]) if parsed.get(gpu) else missing for gpu in indexes]
        before = found.gpu.get(metric, ["unsupported"] * len(indexes))
        found.gpu[metric] = [new if old == "unsupported" else old for old, new in zip(before, column, strict=True)]
    for position, state in enumerate(found.gpu.get("fabric_state", [])):
        if "fabric_status" in found.gpu and isinstance(state, int) and state != _FABRIC_COMPLETED:
            found.gpu["fabric_status"][position] = "waiting"
    places = {cells.get("uuid", ""): position for position, gpu in enumerate(indexes) if (cells := parsed.get(gpu))}
    if indexes:
        found.apps = _apps(apps, places)
        word = _word_of(apps) if parsed else missing
        count = Counter(app[0] for app in found.apps)
        found.gpu["gpu_process_count"] = [word or count[place] for place in range(len(indexes))]
    for name, metric in columns:
        texts = [_text(parsed.get(gpu, {}).get(name, "")) for gpu in indexes]
        if metric == "gpu_vbios_version":
            found.words[metric] = texts
        elif metric == "driver_version" and any(texts):
            found.words.setdefault(metric, next(filter(None, texts)))
    return found


def _word_of(ran: wire.Ran | None) -> str:
    """Return the word for why a question has no answer."""
    if ran is None or (ran.status == "ok" and ran.exit):
        return "error"
    return {"ok": "", "timeout": "hung", "hung": "hung"}.get(ran.status, "error")


def _apps(ran: wire.Ran | None, places: dict[str, int]) -> list[list[Cell]]:
    """Return the processes of the GPUs whose UUID is among `places`; an instance of a GPU adds to what a process has
    there."""
    found: dict[tuple[int, int], list[Cell]] = {}
    for line in ran.out.split("\n") if ran else []:
        uuid, pid, used = [*(cell.strip() for cell in line.split(",")), "", ""][:3]
        if uuid not in places or not re.fullmatch(r"[1-9]\d{0,9}", pid, re.ASCII):
            continue
        memory = _cell(used)
        app = found.setdefault((places[uuid], int(pid)), [places[uuid], int(pid), None, "C"])
        if isinstance(memory, int | float):
            app[2] = memory if app[2] is None else app[2] + memory  # type: ignore[operator]
    return list(found.values())


def _rare_cell(metric: str, text: str) -> Cell:
    """Return a number, also of what nvidia-smi says in words, or the reason why there is none."""
    bare = text.strip().lower()
    if metric in SWITCHES and bare in _SWITCHED:
        return _SWITCHED[bare]
    if metric == "gpu_pstate" and re.fullmatch(r"p\d{1,2}", bare, re.ASCII):
        return int(bare[1:])
    if metric == "gpu_recovery_action":
        return _ACTIONS.get(bare, _cell(text))
    if metric == "fabric_state":
        return "unsupported" if bare == "0" else _FABRIC_STATES.get(bare, _cell(text))
    if metric == "fabric_status":
        # Anything else is an error of the fabric, whose number is not told.
        return 0 if bare == "success" else _word(text) or _UNKNOWN
    value = _cell(text)
    return round(value, 1) if metric == "gpu_power_limit_default" and isinstance(value, float) else value


def _cells(rows: list[str], names: list[str]) -> dict[int, dict[str, str]]:
    """Return the cells of each GPU by the names of the fields; of a row that is damaged only that the GPU is there."""
    found = {}
    for row in rows:
        cells = [cell.strip() for cell in row.split(",")]
        if cells[0].isascii() and cells[0].isdigit() and len(cells[0]) < 4:
            found[int(cells[0])] = dict(zip(names, cells, strict=True)) if len(cells) == len(names) else {}
    return found


def _trouble(kind: str, said: str) -> tuple[str, str]:
    """Return the word for values and the note."""
    if kind == "hung":
        return "hung", "hung"
    if kind == "starting":
        return "waiting", "starting"
    if kind == "absent":
        return "error", "no nvidia-smi"
    lowered = said.lower()
    for part, note in _REFUSALS:
        if part in lowered:
            return ("permission" if note == "permission" else "error"), note
    return "error", f"nvidia-smi: {said}" if said else "nvidia-smi ended"


def _lost(said: str) -> str:
    """Return the address of the GPU that nvidia-smi says is lost, or an empty string."""
    match = _HANDLE.search(said)
    return normal_pci(match[1]) if match and "is lost" in match[2] else ""


def _identity(index: int, cells: dict[str, str]) -> wire.GpuIdentity:
    name, uuid = (_text(cells.get(key, "")) for key in ("name", "uuid"))
    return wire.GpuIdentity(index, name, uuid, normal_pci(cells.get("pci.bus_id", "")))


def _text(cell: str) -> str:
    return "" if cell.startswith("[") or cell.lower() in _WORDS else cell


def _values(cells: dict[str, str]) -> dict[str, Cell]:
    values = {metric: _cell(cells.get(name)) for metric, name in COLUMNS.items()}
    values["gpu_clocks_event_reasons"] = next((_mask(cells[name]) for name in REASONS if name in cells), "unsupported")
    for metric in ("gpu_power_draw", "gpu_power_limit"):
        value = values[metric]
        values[metric] = round(float(value), 1) if isinstance(value, int | float) else value
    values.update(dict.fromkeys(NOT_GIVEN, "unsupported"))
    values["gpu_handle_error"] = 0
    if "lost" in values.values():
        return _broken(values, "lost", _LOST)
    if _word(cells.get("uuid", "")) == "error" and not any(
        isinstance(values[metric], int | float) for metric in COLUMNS
    ):
        return _broken(values, "error", _UNKNOWN)
    return values


def _broken(values: dict[str, Cell], word: str, code: int) -> dict[str, Cell]:
    return {**dict.fromkeys(values, word), "gpu_handle_error": code}


def _cell(text: str | None) -> Cell:
    if text is None:
        return "unsupported"
    if not _NUMBER.fullmatch(text):
        return _word(text) or "error"
    return float(text) if "." in text else int(text)


def _mask(text: str) -> Cell:
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text, re.ASCII):
        return int(text, 16)
    return _word(text) or "error"


def _word(text: str) -> str:
    """Return the reason that a cell gives instead of a value, or an empty string."""
    bare = text.strip("[]").strip().lower()
    if bare in _WORDS:
        return _WORDS[bare]
    return "error" if text.startswith("[") else ""
