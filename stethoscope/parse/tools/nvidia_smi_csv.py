"""What `nvidia-smi --query-gpu`, `--query-compute-apps` and `--query-retired-pages` print with `--format=csv`.

The header names the columns and their units; with `nounits` the cells have none, else they repeat it. The GPU is named
by its address, else by its UUID, else by its index; a row without any of them by its number in the output.
"""

from __future__ import annotations

import re
from collections import Counter

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nvidia_smi_csv"

METRICS: dict[str, str] = {
    "clocks.sm": "gpu_sm_clock", "clocks.current.sm": "gpu_sm_clock", "clocks.mem": "gpu_mem_clock",
    "clocks.current.memory": "gpu_mem_clock", "clocks.max.sm": "gpu_sm_clock_max",
    "utilization.gpu": "gpu_util", "utilization.memory": "gpu_mem_copy_util",
    "power.draw": "gpu_power_draw", "power.draw.instant": "gpu_power_draw_instant",
    "enforced.power.limit": "gpu_power_limit", "power.default_limit": "gpu_power_limit_default",
    "temperature.gpu": "gpu_temp", "temperature.gpu.tlimit": "gpu_temp_margin", "temperature.memory": "gpu_mem_temp",
    "memory.used": "gpu_fb_used", "memory.total": "gpu_fb_total", "memory.free": "gpu_fb_free",
    "pstate": "gpu_pstate", "persistence_mode": "gpu_persistence_mode", "mig.mode.current": "gpu_mig_mode",
    "ecc.mode.current": "gpu_ecc_mode", "gpu_recovery_action": "gpu_recovery_action",
    "vbios_version": "gpu_vbios_version", "driver_version": "driver_version", "kmd_version": "driver_version",
    "pcie.link.gen.current": "gpu_pcie_link_gen", "pcie.link.gen.max": "gpu_pcie_link_gen_max",
    "pcie.link.width.current": "gpu_pcie_link_width", "pcie.link.width.max": "gpu_pcie_link_width_max",
    "clocks_event_reasons.active": "gpu_clocks_event_reasons",
    "clocks_throttle_reasons.active": "gpu_clocks_event_reasons",
    "clocks_event_reasons_counters.sw_power_cap": "gpu_throttle_time_sw_power_cap",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "gpu_throttle_time_sw_thermal",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "gpu_throttle_time_hw_thermal",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "gpu_throttle_time_hw_power_brake",
    **{f"ecc.errors.{printed}.{span}.{part}": f"gpu_ecc_{name}_{span}_{part}"
       for printed, name in (("corrected", "corr"), ("uncorrected", "uncorr"))
       for span in ("volatile", "aggregate") for part in ("dram", "sram")},
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "gpu_sram_threshold_exceeded",
    "retired_pages.single_bit_ecc.count": "gpu_retired_pages_sbe",
    "retired_pages.double_bit.count": "gpu_retired_pages_dbe", "retired_pages.pending": "gpu_retired_pages_pending",
    "remapped_rows.correctable": "gpu_remapped_rows_corr", "remapped_rows.uncorrectable": "gpu_remapped_rows_uncorr",
    "remapped_rows.pending": "gpu_row_remap_pending", "remapped_rows.failure": "gpu_row_remap_failure",
    "remapped_rows.histogram.none": "gpu_row_remap_banks_none",
    "fabric.state": "fabric_state", "fabric.status": "fabric_status",
    "pid": "pid", "process_name": "process_name", "used_gpu_memory": "process_memory", "used_memory": "process_memory",
}  # fmt: skip
"""The metric that each queried field gives; other fields keep their own names."""

_COLUMN = re.compile(r"([A-Za-z][A-Za-z0-9_.]*)(?: \[([^\]]{1,10})\])?", re.ASCII)
_ADDRESSES = ("pci.bus_id", "gpu_bus_id", "gpu_bus_id_ex")
SWITCHES = {
    "gpu_persistence_mode", "gpu_mig_mode", "gpu_ecc_mode", "gpu_sram_threshold_exceeded", "gpu_retired_pages_pending",
    "gpu_row_remap_pending", "gpu_row_remap_failure",
}  # fmt: skip
_UNITS = {"gpu_temp": "C", "gpu_temp_margin": "C", "gpu_mem_temp": "C"}
"""Of values whose column names none."""
_EACH = {"pid", "used_gpu_memory", "gpu_bus_id", "gpu_uuid", "retired_pages.address", "retired_pages.cause"}
"""Columns of a list with several rows a GPU; any other query repeats a GPU only because it was asked again."""
_ROWS = 20_000
_TEXTS = {
    "uuid", "gpu_uuid", "name", "gpu_name", "serial", "gpu_serial", "timestamp", "driver_version", "vbios_version",
    "pci.bus_id", "gpu_bus_id", "gpu_bus_id_ex", "process_name", "hostname", "inforom.image", "gsp.version",
    "fabric.cliqueId", "fabric.clusterUuid", "platform.chassis_serial_number", "platform.gpu_fabric_guid",
    "platform.slot_number", "platform.tray_index", "platform.host_id", "platform.module_id", "pci.baseClass",
    "pci.subClass", "retired_pages.address", "retired_pages.timestamp", "retired_pages.cause", "board_part_number",
    "pstate", "kmd_version", "inforom.img", "inforom.oem", "inforom.ecc",
    "inforom.pwr", "pci.bus", "pci.device", "pci.domain", "pci.device_id", "pci.sub_device_id", "compute_cap",
}  # fmt: skip


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return every cell; raises ToolError for an output without a header row."""
    lines = [line for line in text.split("\n") if line.strip()]
    header = next((number for number, line in enumerate(lines) if _columns(line)), None)
    if header is None:
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi --query")
    columns: list[tuple[str, str]] = []
    rows: dict[str, tuple[list[tuple[str, str]], dict[str, str]]] = {}
    remarks: list[str] = []
    seen: Counter[str] = Counter()
    for position, line in enumerate(lines[header:]):
        if again := _columns(line):
            columns, seen, first = again, Counter[str](), position + 1
            listed = any(name in _EACH for name, _ in columns)
            continue
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) != len(columns):
            cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(columns):
            # A name with a comma in it, a torn line, or words of the driver between two rows.
            remarks.append(line.strip())
            continue
        row = dict(zip([name for name, _ in columns], cells, strict=True))
        where = _where(row, position - first)
        if "pid" in row and row["pid"].isdigit():
            where = f"{where}/process/{row['pid']}"
        seen[where] += 1
        if seen[where] > 1 and listed:
            where = f"{where}/{seen[where]}"
        # Asked again and again, a GPU is as its last row says.
        rows[where] = columns, row
        if len(rows) > _ROWS:
            raise ToolError("not_this_tool", f"nvidia-smi --query prints no more than {_ROWS:,} rows")
    items = [Item(where, *_cell(name, unit, row[name])) for where, (of, row) in rows.items() for name, unit in of]
    return Report(TOOL, tuple(items), tuple(remarks))


def _columns(line: str) -> list[tuple[str, str]]:
    """Return names and units of a header row, nothing for another line."""
    if not line.lstrip("\ufeff ")[:1].isalpha():
        return []
    matches = [_COLUMN.fullmatch(part.strip()) for part in line.split(",")]
    found = [(match[1], match[2] or "") for match in matches if match is not None]
    if len(found) != len(matches) or len({name for name, _ in found}) < len(found):
        return []
    known = sum(name in METRICS or name in _TEXTS or name in ("index", "count") for name, _ in found)
    return found if known and (len(found) > 1 or known == len(found)) else []


def _where(row: dict[str, str], position: int) -> str:
    for name in _ADDRESSES:
        if name in row and (address := normal_pci(row[name])):
            return address
    uuid = row.get("uuid") or row.get("gpu_uuid") or ""
    if uuid.startswith(("GPU-", "MIG-")):
        return uuid
    index = row.get("index", "")
    return f"gpu/{index}" if index.isdigit() else f"row/{position}"


def _cell(name: str, unit: str, text: str) -> tuple[str, Value, str]:
    """Return the name, the value and the unit of one cell."""
    metric = METRICS.get(name, name)
    if metric in SWITCHES:
        return metric, values.switch(text), ""
    if name in _TEXTS:
        return metric, values.missing(text) or text, ""
    if metric == "gpu_clocks_event_reasons" or text.startswith("0x"):
        return metric, values.hexadecimal(text), "bits" if metric == "gpu_clocks_event_reasons" else ""
    value, own = values.quantity(text)
    if isinstance(value, str) and (unit or metric != name):
        # Where a number belongs, words are not one: `[GPU requires reset]` has a reason, anything else is an error.
        value = value if metric in ("gpu_recovery_action", "fabric_state", "fabric_status") else Missing(Reason.ERROR)
    return metric, value, own or unit or _UNITS.get(metric, "")
