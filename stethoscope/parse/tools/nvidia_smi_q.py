"""`nvidia-smi -q`, as text or (`-x`) as XML, of every driver since 418: one item a value and GPU.

GPUs are named by their PCI address: the text has no index, and with `-i` the first GPU of the output is not GPU 0.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values
from stethoscope.parse.tools.nvidia_smi_fields import FIELDS, REASON_BITS, SILENT, Field

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "nvidia_smi_q"
MAX_TEXT = 8 * 1024 * 1024
_Leaves = dict[str, str]

_GPU = re.compile(r"\s{0,16}GPU\s{1,8}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s{0,200}", re.ASCII)
_GPUS, _DEPTH = 1024, 16
"""More GPUs than any machine has, and elements in each other than any output."""
_HEAD = {"driver_version": "driver_version", "cuda_version": "cuda_version", "attached_gpus": "gpu_count",
         "kmd_version": "driver_version", "cuda_umd_version": "cuda_version"}  # fmt: skip
_REASONS = re.compile(r"clocks_(?:event|throttle)_reasons/(?:.*/)?(?:clocks_(?:event|throttle)_reason_)?(\w+)")
_KNOWN = {path for field in FIELDS for path in field.paths}
_KNOWN |= {path.rsplit("/", depth)[0] for path in _KNOWN for depth in range(1, path.count("/") + 1)}
"""A whole section that the board lacks is one line: `Remapped Rows : N/A`."""
_DEPRECATED = re.compile(r"\s*\[Deprecated\b.*", re.ASCII)
_BAD_STATES = {
    "gpu_row_remap_failure": "critical", "gpu_row_remap_pending": "warning", "gpu_retired_pages_pending": "warning",
    "gpu_sram_threshold_exceeded": "critical", "gpu_unrepairable_memory": "critical", "reset_required": "critical",
    "gpu_channel_repair_pending": "warning", "gpu_tpc_repair_pending": "warning",
    "drain_and_reset_recommended": "warning",
}  # fmt: skip
"""What the driver itself calls a state that needs an action, when it is 1."""
_GOOD_WORDS = {
    "gpu_recovery_action": ("critical", {"none"}),
    "fabric_state": ("critical", {"completed", "not started", "not supported"}),
    "fabric_status": ("critical", {"success"}),
    "fabric_health_summary": ("critical", {"healthy"}),
    "fabric_health_bandwidth": ("warning", {"full"}),
    **{f"fabric_health_{name}": ("warning", {"false", "none"}) for name in
       ("route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery", "incorrect_configuration")},
}  # fmt: skip
"""Words of a state that needs nothing; every other word of it has the level."""
_SLICES = {
    "gpu_instance_id": ("gpu_instance", ""), "compute_instance_id": ("compute_instance", ""),
    "device_attributes/shared/multiprocessor_count": ("multiprocessors", ""),
    "fb_memory_usage/total": ("gpu_fb_total", "MiB"), "fb_memory_usage/used": ("gpu_fb_used", "MiB"),
    "shared_fb_memory_usage/total": ("gpu_fb_total", "MiB"), "shared_fb_memory_usage/used": ("gpu_fb_used", "MiB"),
    "ecc_error_count/volatile_count/sram_uncorrectable": ("gpu_ecc_uncorr_volatile_sram", "errors"),
    "ecc_errors/volatile/sram_uncorrectable": ("gpu_ecc_uncorr_volatile_sram", "errors"),
}  # fmt: skip
"""What is read of a MIG device; its memory is that of its GPU instance, which several of them may share."""
_PRINTED = frozenset({"C", "W", "MHz", "MiB", "%", "KB/s", "us", "mV"})
"""Units that every driver prints behind the number: where it is not there, the line is cut off."""


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return every value in the output; raises ToolError for one without any."""
    if len(text) > MAX_TEXT:
        raise ToolError("not_this_tool", f"nvidia-smi -q printed {len(text):,} characters")
    document = _document(text)
    head, gpus = _from_xml(document) if document else _from_text(text)
    if not gpus:
        if head.get("attached_gpus", "").strip() == "0":
            raise ToolError("no_device", "nvidia-smi lists no GPU")
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi -q")
    found = {name: _head_value(name, head[path]) for path, name in _HEAD.items() if path in head}
    items = [Item("", name, value) for name, value in found.items()]
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    for address, leaves, processes in gpus:
        items += _gpu(address, leaves, remarks)
        items += processes
        unknown.update(dict.fromkeys(path for path in leaves if _is_unknown(path)))
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _document(text: str) -> str:
    """Return the XML in a text that may hold a prompt before it and several outputs: the last one that is whole."""
    for opening, closing in (("<nvidia_smi_log", "</nvidia_smi_log>"), ("<gpu ", "</gpu>")):
        start = text.find(opening)
        if start >= 0 and (opening != "<gpu " or text.lstrip().startswith("<")):
            end = text.rfind(closing)
            last = text.rfind(opening, 0, end) if end >= 0 else -1
            if opening != "<gpu " and last >= 0:
                return text[last : end + len(closing)]
            return text[start:]
    return ""


def _head_value(name: str, text: str) -> Value:
    text = _DEPRECATED.sub("", text)
    return values.only_number(text) if name == "gpu_count" else values.missing(text) or text


def _is_unknown(path: str) -> bool:
    return not (path in _KNOWN or _REASONS.fullmatch(path) or path.startswith(SILENT) or "/processes" in path)


# ---------------------------------------------------------------- the two forms


_Gpu = tuple[str, _Leaves, list[Item]]


def _from_xml(text: str) -> tuple[_Leaves, list[_Gpu]]:
    try:
        root = ET.fromstring(text)  # noqa: S314  no entities can be defined
    except ET.ParseError as error:
        whole = text.rstrip().endswith(("</nvidia_smi_log>", "</gpu>"))
        reason, words = ("not_this_tool", "is no XML") if whole else ("truncated", "is cut off")
        raise ToolError(reason, f"the output of nvidia-smi -q -x {words}: {error}") from None
    head = {values.name_of(child.tag): (child.text or "").strip() for child in root if not len(child)}
    gpus = [root] if root.tag == "gpu" else root.findall("gpu")
    if len(gpus) > _GPUS:
        raise ToolError("not_this_tool", "this lists more GPUs than a machine has")
    return head, [_xml_gpu(gpu) for gpu in gpus]


def _xml_gpu(gpu: ET.Element) -> _Gpu:
    leaves: _Leaves = {}

    def walk(element: ET.Element, path: str) -> None:
        if path.count("/") > _DEPTH:
            return
        for child in element:
            if child.tag in ("processes", "supported_clocks", "accounted_processes"):
                continue
            name = values.name_of(child.tag)
            where = f"{path}/{name}" if path else name
            if child.tag == "mig_device":
                where += f"/{(child.findtext('index') or '').strip()}"
            if len(child):
                walk(child, where)
            else:
                leaves[where] = (child.text or "").strip()

    walk(gpu, "")
    address = normal_pci(leaves.get("pci/pci_bus_id", "") or gpu.get("id", ""))
    processes = [
        item
        for process in gpu.iterfind("processes/process_info")
        for item in _process(
            address,
            (process.findtext("pid") or "").strip(),
            (process.findtext("type") or "").strip(),
            (process.findtext("process_name") or "").strip(),
            (process.findtext("used_memory") or "").strip(),
        )
    ]
    return address, leaves, processes


def _from_text(text: str) -> tuple[_Leaves, list[_Gpu]]:
    head: _Leaves = {}
    gpus: dict[str, _Gpu] = {}
    gpu: _Gpu = ("", {}, [])
    block: list[str] | None = None
    for line in values.lines(text):
        start = _GPU.fullmatch(line)
        if start is not None:
            block = []
            found: _Gpu = (normal_pci(start[1]), {}, [])
            gpus[found[0]] = gpu = found  # With -l the output repeats: the last one says how it is now.
            if len(gpus) > _GPUS:
                raise ToolError("not_this_tool", "this lists more GPUs than a machine has")
            continue
        if block is None:
            pair = values.pair(line)
            if pair is not None:
                head.setdefault(values.name_of(pair[0]), pair[1])
            continue
        _text_line(line, block, gpu)
    return head, list(gpus.values())


def _text_line(line: str, stack: list[str], gpu: _Gpu) -> None:
    """Take one line of a GPU: `stack` holds the indented labels around it."""
    address, leaves, processes = gpu
    if not line.strip() or line.strip() == "[...]":
        return
    indent = len(line) - len(line.lstrip())
    while stack and len(stack[-1]) - len(stack[-1].lstrip()) >= indent:
        stack.pop()
    pair = values.pair(line)
    label = pair[0] if pair is not None else line.strip()
    stack.append(" " * indent + label)
    if pair is None:
        return
    names = [values.name_of(entry) for entry in stack]
    if names[0] == "processes":
        _text_process(names, pair[1], address, processes)
        return
    path = "/".join(names)
    if names[0] == "mig_device":
        if names[-1] == "index":
            leaves["mig_devices/index"] = pair[1]
        path = f"mig_devices/mig_device/{leaves.get('mig_devices/index', '')}/" + "/".join(names[1:])
    leaves.setdefault(path, pair[1])


def _text_process(names: list[str], value: str, address: str, processes: list[Item]) -> None:
    if names[-1] in ("process_id", "process_id_pid"):
        processes += _process(address, value, "", "", "")
        return
    if not processes:
        return
    where = processes[-1].where
    if names[-1] == "type":
        processes.append(Item(where, "process_kind", value))
    elif names[-1] in ("name", "process_name"):
        processes.append(Item(where, "process_name", value))
    elif names[-1] == "used_gpu_memory":
        processes.append(Item(where, "process_memory", values.only_number(value), "MiB"))


def _process(address: str, pid: str, kind: str, name: str, memory: str) -> Iterator[Item]:
    if not (pid.isascii() and pid.isdigit() and len(pid) < 12):
        return
    where = f"{address}/process/{pid}"
    yield Item(where, "pid", int(pid))
    for key, text in (("process_kind", kind), ("process_name", name)):
        if text:
            yield Item(where, key, text)
    if memory:
        yield Item(where, "process_memory", values.only_number(memory), "MiB")


# ---------------------------------------------------------------- values


def _gpu(address: str, leaves: _Leaves, remarks: list[str]) -> Iterator[Item]:
    for field in FIELDS:
        value = _value(field, leaves)
        if value is None:
            continue
        level = ""
        if value == 1 and field.name in _BAD_STATES:
            level = _BAD_STATES[field.name]
            remarks.append(f"{address}: {field.name.removeprefix('gpu_').replace('_', ' ')}")
        elif field.name in _GOOD_WORDS and isinstance(value, str):
            bad, good = _GOOD_WORDS[field.name]
            if value.lower() not in good:
                level = bad
                remarks.append(f"{address}: {field.name.removeprefix('gpu_').replace('_', ' ')} {value}")
        elif field.name == "gpu_row_remap_banks_none" and isinstance(value, int) and value > 0:
            level = "warning"
        yield Item(address, field.name, value, field.unit, level)
    mask = _reasons(leaves)
    if mask is not None:
        yield Item(address, "gpu_clocks_event_reasons", mask, "bits")
    lost = [path for path, text in leaves.items() if text.strip("[]").lower() == "gpu is lost"]
    if lost:
        remarks.append(f"{address}: GPU is lost")
    for path, text in leaves.items():
        if path.startswith("mig_devices/mig_device/"):
            index, _, rest = path.removeprefix("mig_devices/mig_device/").partition("/")
            if rest in _SLICES:
                name, unit = _SLICES[rest]
                yield Item(f"{address}/mig/{index}", name, values.only_number(text), unit)


def _value(field: Field, leaves: _Leaves) -> Value | None:
    """Return the field's value, None when the output has none of its paths."""
    texts = [leaves[path] for path in field.paths if path in leaves]
    if not texts:
        sections = {path.rsplit("/", depth)[0] for path in field.paths for depth in (1, 2) if path.count("/") >= depth}
        gaps = [gap for section in sections if section in leaves and (gap := values.missing(leaves[section]))]
        return gaps[0] if gaps else None
    if field.kind == "word":
        return _word(field, texts)
    if field.kind == "switch":
        found = [values.switch(text) for text in texts]
        return next((value for value in found if not isinstance(value, Missing)), found[0])
    numbers = [_number(text, field.unit) for text in texts]
    if field.parts:
        return values.total(numbers)
    return next((value for value in numbers if not isinstance(value, Missing)), numbers[0])


def _word(field: Field, texts: list[str]) -> Value:
    for text in texts:
        gap = values.missing(text)
        if gap is None:
            return text
    return values.missing(texts[0]) or texts[0]


def _number(text: str, unit: str) -> float | int | Missing:
    width = re.fullmatch(r"(\d{1,3})x", text, re.ASCII)
    if width is not None:
        return int(width[1])
    value, printed = values.quantity(text)
    if isinstance(value, str) or (unit in _PRINTED and printed != unit and not isinstance(value, Missing)):
        return Missing(Reason.ERROR)
    return value


def _reasons(leaves: _Leaves) -> int | Missing | None:
    """Return the mask of active throttle reasons, None when the output has none."""
    mask, known, gap = 0, False, None
    for path, text in leaves.items():
        match = _REASONS.fullmatch(path)
        if match is None or path.startswith("clocks_event_reasons_counters"):
            continue
        bit = REASON_BITS.get(match[1])
        state = values.switch(text)
        if bit is None:
            continue
        if isinstance(state, Missing):
            gap = gap or state
        else:
            known = True
            mask |= bit * state
    return mask if known else gap
