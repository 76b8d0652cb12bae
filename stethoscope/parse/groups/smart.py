"""Health of disks from `smartctl -j -a`, for the rows that the group `disks` has found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Missing, Scope
from stethoscope.model.report import ToolError
from stethoscope.parse.groups import smart_json
from stethoscope.parse.groups.values import ERROR, PERMISSION, UNSUPPORTED, answer
from stethoscope.parse.tools import smartctl

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

METRICS = (
    "smart_passed",
    "nvme_critical_warning",
    "nvme_media_errors",
    "nvme_percentage_used",
    "nvme_available_spare",
    "nvme_unsafe_shutdowns",
    "smart_reallocated_sectors",
    "smart_pending_sectors",
    "smart_uncorrectable",
    "smart_power_on_hours",
)
_CONTROLLER = re.compile(r"nvme\d+", re.ASCII)
_WORDS = {"not_installed": UNSUPPORTED, "no_device": UNSUPPORTED, "refused": UNSUPPORTED, "permission": PERMISSION}
_NOT_INSTALLED = "smartctl is not installed"
_NO_PERMISSION = "smartctl needs root"


def read(part: wire.Part) -> Facts:
    """Return what each disk says of itself, or why it says nothing."""
    rows: dict[str, dict[str, Cell]] = {}
    said: list[str] = []
    for title in part.ran:
        name = title.removeprefix("smart ").strip()
        if name != title and name:
            # Health is the controller's; a disk is its first namespace.
            row, note = _row(part, title)
            rows[f"{name}n1" if _CONTROLLER.fullmatch(name) else name] = row
            said.append(note)
    values: dict[str, list[Cell]] = {
        metric: [row.get(metric, UNSUPPORTED) for row in rows.values()] for metric in METRICS
    }
    note = next((note for note in (_NOT_INSTALLED, _NO_PERMISSION) if note in said), "")
    notes = {"smart": note} if note else {}
    return Facts(part.name, devices={Scope.DISK: Devices(tuple(rows), values, whole=False)}, notes=notes)


def _row(part: wire.Part, title: str) -> tuple[dict[str, Cell], str]:
    """Return the values of one disk, and what is to be said of all of them."""
    ran, word = answer(part, title)
    if ran is None or word:
        note = _NOT_INSTALLED if ran is not None and ran.status == "absent" else ""
        return dict.fromkeys(METRICS, word), note
    found = smart_json.values_of(ran.out)
    if found is not None:
        return found, ""
    try:
        report = smartctl.read(ran.out, exit=ran.exit, err=ran.err)
    except ToolError as error:
        note = {"not_installed": _NOT_INSTALLED, "permission": _NO_PERMISSION}.get(error.reason, "")
        return dict.fromkeys(METRICS, _WORDS.get(error.reason, ERROR)), note
    # Of several items with one name the first one counts.
    values = {item.name: item.value for item in reversed(report.items)}
    return {metric: _cell(values.get(metric)) for metric in METRICS}, ""


def _cell(value: float | str | Missing | None) -> Cell:
    if value is None:
        return UNSUPPORTED
    if isinstance(value, Missing):
        return str(value)
    return ERROR if isinstance(value, str) else value
