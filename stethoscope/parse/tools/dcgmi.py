"""`dcgmi diag` as table or JSON of DCGM 2 to 4, `dcgmi nvlink -e` and `-s`, `discovery -l` and `dmon`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from stethoscope.model.report import Item, Report, ToolError, Value
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "dcgmi"

_ROW = re.compile(r"\|\s(.{0,60}?)\s*\|\s?(.{0,200}?)\s*\|\s*", re.ASCII)
_VERDICT = re.compile(
    r"(?:(GPU|CPU)\s?(\d{1,3}): )?(Pass|Fail|Skip|Warn|Warning|Not Run)\b(?: - (.{1,200}))?", re.I | re.ASCII
)
_ONES = re.compile(r"GPUs?:? ?(\d{1,3}(?:, ?\d{1,3}){0,63})", re.ASCII)
_SLICE = re.compile(r"-> (I|CI) (\d{1,3}/\d{1,4}(?:/\d{1,4})?)", re.ASCII)
_SECTION = re.compile(r"[|+]-{3,}\s+(.{1,40}?)\s+-{2,}\+.*", re.ASCII)
_LEVELS = {"fail": "critical", "warn": "warning", "warning": "warning"}
_COUNTERS = {"crc_flit_error": "nvlink_crc_errors", "crc_data_error": "nvlink_crc_data_errors",
             "replay_error": "nvlink_replay_errors", "recovery_error": "nvlink_recovery_errors"}  # fmt: skip
_MONITOR = {"GPUTL": ("gpu_util", "%"), "MCUTL": ("gpu_mem_copy_util", "%"), "POWER": ("gpu_power_draw", "W"),
            "TMPTR": ("gpu_temp", "C"), "SMACT": ("gpu_sm_active", ""), "TENSO": ("gpu_tensor_active", ""),
            "DRAMA": ("gpu_dram_active", ""), "FBUSD": ("gpu_fb_used", "MiB"), "SMCLK": ("gpu_sm_clock", "MHz"),
            "MMCLK": ("gpu_mem_clock", "MHz")}  # fmt: skip
_ENTITIES = {"GPU": "gpu", "GPU-I": "gpu_instance", "GPU-CI": "compute_instance", "Switch": "nvswitch",
             "CPU": "cpu", "Core": "core", "Link": "link", "CX": "adapter"}  # fmt: skip
"""What a row of the monitor is of; an instance has a number of its own, which is not its GPU's."""
_METADATA = {"dcgm_version": "dcgm_version", "driver_version_detected": "driver_version", "version": "dcgm_version"}
_LINKS = {"U": (1, ""), "D": (0, "critical"), "X": (0, "warning")}


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return what the tool says; of the tests what each GPU's result is. Raises ToolError for an output without
    values."""
    unknown: dict[str, None] = {}
    text = "\n".join(values.lines(text))
    start = text.find("{")
    if start >= 0 and not text.lstrip().startswith(("+", "#", "|", "Successfully")):
        items, remarks = _json(text[start:])
    elif "NvLink Link Status" in text:
        items, remarks = _link_status(text)
    elif re.search(r"^#\s?Entity", text, re.MULTILINE):
        items, remarks = _monitor(text), []
    else:
        items, remarks = _tables(text, unknown)
    if not items:
        raise without_values(text, exit=exit, err=err, tool="dcgmi")
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


# ---------------------------------------------------------------- JSON


def _json(text: str) -> tuple[list[Item], list[str]]:
    try:
        document = json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        cut = "truncated" if text.count("{") > text.count("}") else "not_this_tool"
        raise ToolError(cut, "this is not the JSON that dcgmi prints") from None
    if not isinstance(document, dict) or "$schema" in document:
        raise ToolError("not_this_tool", "this is not what dcgmi prints")
    root = next(
        (document[key] for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic", "DCGM Multinode Diagnostic")
         if isinstance(document.get(key), dict)), None)  # fmt: skip
    items: list[Item] = []
    remarks: list[str] = []
    if root is not None:
        for label, value in {**_dict(document.get("metadata")), **root}.items():
            name = _METADATA.get(values.name_of(label))
            if name is not None and isinstance(value, str):
                items.append(Item("", name, value))
        if isinstance(root.get("runtime_error"), str):
            remarks.append(root["runtime_error"])
            items.append(Item("", "runtime_error", root["runtime_error"], "", "critical"))
        for category in _list(root.get("test_categories")):
            for test in _list(category.get("tests")):
                items += _test(test, remarks)
    elif isinstance(document.get("body"), dict):
        header = [str(part) for part in document.get("header", []) if isinstance(part, str)]
        items += _body(header, document["body"])
    return items, remarks


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _test(test: dict[str, Any], remarks: list[str]) -> Iterator[Item]:
    name = values.name_of(str(test.get("name", "test")))
    summary = _dict(test.get("test_summary")).get("status")
    if isinstance(summary, str):
        yield _result("", name, summary)
    for result in _list(test.get("results")):
        status = str(result.get("status", ""))
        group = str(result.get("entity_group", "GPU")).lower()
        ids = result.get("entity_id", result.get("gpu_ids", result.get("gpu_id", "")))
        for place in [f"{group}/{part.strip()}" for part in str(ids).split(",") if part.strip()] or [""]:
            yield _result(place, name, status)
            remarks += [f"{place} {name}: {warning}".strip() for warning in _warnings(result)]


def _warnings(result: dict[str, Any]) -> list[str]:
    found = result.get("warnings", result.get("warning", []))
    if isinstance(found, str):
        return [found]
    texts = [entry.get("warning", "") if isinstance(entry, dict) else entry for entry in found or []]
    return [str(text) for text in texts if text]


def _result(place: str, test: str, status: str) -> Item:
    word = status.strip().lower()
    return Item(place, f"test/{test}", word, "", _LEVELS.get(word, ""))


def _body(header: list[str], body: dict[str, Any]) -> Iterator[Item]:
    gpu = next((f"gpu/{part[4:]}" for part in header if re.fullmatch(r"GPU \d{1,3}", part, re.ASCII)), "")
    for label, entry in body.items():
        link = re.fullmatch(r"Link (\d{1,3})", label, re.ASCII)
        children = _dict(_dict(entry).get("children"))
        for name, child in children.items():
            where = f"{gpu}/nvlink/{link[1]}" if link is not None else f"{gpu}/{values.name_of(label)}"
            yield _counter(where, name, str(_dict(child).get("value", "")))
        if not children and "value" in _dict(entry):
            value, unit = values.quantity(str(entry["value"]))
            yield Item(gpu, values.name_of(label), value, unit)


def _counter(where: str, label: str, text: str) -> Item:
    name = values.name_of(label)
    count = values.only_number(text)
    bad = isinstance(count, int) and count > 0
    return Item(where, _COUNTERS.get(name, name), count, "errors", "warning" if bad else "")


# ---------------------------------------------------------------- tables


def _tables(text: str, unknown: dict[str, None]) -> tuple[list[Item], list[str]]:
    items: list[Item] = []
    remarks: list[str] = []
    test = section = gpu = link = ""
    told: list[str] = []
    padding = 1 if re.search(r"\S \|$", text, re.MULTILINE) else 2
    for line in values.lines(text):
        if (head := _SECTION.match(line)) is not None:
            section = head[1]
            continue
        row = _ROW.fullmatch(line)
        if row is None:
            single = re.fullmatch(r"\|\s(GPU (\d{1,3}))\s*\|", line.strip(), re.ASCII)
            gpu = f"gpu/{single[2]}" if single is not None else gpu
            continue
        left, right = row[1].strip(), row[2].rstrip("\n")
        verdict = _VERDICT.match(right.strip())
        if (part := _SLICE.match(left)) is not None:
            name = "mig_instance" if part[1] == "I" else "compute_instance"
            items.append(Item(f"gpu/{part[2]}", name, right.strip()))
        elif left.startswith("-> ") and (link or gpu):
            items.append(_counter(f"{gpu}/nvlink/{link}" if link else gpu, left[3:], right.strip()))
        elif re.fullmatch(r"Link \d{1,3}", left, re.ASCII):
            link = left[5:]
        elif left.isdigit() or (not left and ": " in right and not section and not verdict):
            gpu = f"gpu/{left}" if left.isdigit() else gpu
            items += _about(gpu, right.strip())
        elif values.name_of(left) in _METADATA:
            items.append(Item("", _METADATA[values.name_of(left)], right.strip()))
        elif re.fullmatch(r"(Warning|Error|Info)(: .*)?", left):
            about = re.search(r"GPU\s?(\d{1,3})", left, re.ASCII)
            told.append(f"{'gpu/' + about[1] if about else ''} {test}: ".lstrip() + _piece(line, padding))
        elif not left and told and verdict is None:
            told[-1] += _piece(line, padding)
        elif verdict is not None and section != "Metadata":
            test = values.name_of(left) if left else test
            listed = _ONES.match(verdict[4] or "")
            if verdict[1]:
                places = [f"{verdict[1].lower()}/{verdict[2]}"]
            elif listed is not None:
                # Before DCGM 4 a result stands in one line for all the GPUs that have it.
                places = [f"gpu/{part.strip()}" for part in listed[1].split(",")]
            else:
                places = [""]
            items += [_result(place, test, verdict[3]) for place in places]
        elif left and left not in ("Diagnostic", "GPU ID", "Switch ID") and "GPU Device IDs" not in left:
            unknown[left] = None
    remarks += [" ".join(words.split()) for words in told]
    return items, remarks


def _piece(line: str, padding: int) -> str:
    """Return a part of a text that is broken, in the middle of words, to the width of the table less its padding."""
    return line.rstrip().removesuffix("|").rpartition("|")[2][1:-padding]


def _about(gpu: str, text: str) -> Iterator[Item]:
    label, mark, value = text.partition(": ")
    name = {"name": "name", "pci_bus_id": "pci", "device_uuid": "uuid"}.get(values.name_of(label))
    if mark and name is not None:
        yield Item(gpu, name, normal_pci(value) if name == "pci" else value)


def _link_status(text: str) -> tuple[list[Item], list[str]]:
    items: list[Item] = []
    remarks: list[str] = []
    where = ""
    for line in values.lines(text):
        head = re.fullmatch(r"\s+(gpuId|physicalId) (\d{1,4}):\s*", line, re.ASCII)
        words = line.split()
        if head is not None:
            where = f"gpu/{head[2]}" if head[1] == "gpuId" else f"nvswitch/{head[2]}"
        elif where and words and set(words) <= {"U", "D", "X", "_"}:
            for number, word in enumerate(words):
                if word == "_":
                    continue  # there is no such link
                state, level = _LINKS[word]
                items.append(Item(f"{where}/nvlink/{number}", "nvlink_state", state, "", level))
                if level:
                    remarks.append(f"{where}/nvlink/{number} is {'down' if word == 'D' else 'disabled'}")
            items.append(Item(where, "nvlink_active_count", words.count("U"), "links"))
    return items, remarks


def _monitor(text: str) -> list[Item]:
    columns: list[str] = []
    latest: dict[tuple[str, str], Item] = {}
    for line in values.lines(text):
        words = line.lstrip("#").split()
        if words[:1] == ["Entity"]:
            columns = words[1:]
        elif words[:1] and words[0] in _ENTITIES and len(words) == len(columns) + 2:
            where = f"{_ENTITIES[words[0]]}/{words[1]}"
            for label, cell in zip(columns, words[2:], strict=True):
                name, unit = _MONITOR.get(label, (values.name_of(label), ""))
                value: Value = values.only_number(cell)
                latest[where, name] = Item(where, name, value, unit)
    return list(latest.values())
