"""`nvidia-smi nvlink -s` (state and raw rate of each link), `-e` (error counters) and `-c` (capabilities).

The rate is the raw one of the lanes; about 94 % of it carries data on the fourth and fifth generation.
"""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "nvidia_smi_nvlink"

_GPU = re.compile(r"GPU (\d{1,3}): (.{1,100}?)(?: \(UUID: ([A-Za-z0-9-]{1,64})\))?\s*", re.ASCII)
_LINK = re.compile(r"\s*Link (\d{1,3})(?:, ?[^:]{1,60})?: (.{1,100}?)\s*", re.ASCII)
_NOTED = re.compile(r"\s*Link (\d{1,3}), (.{1,80}?): (\S{1,20})\s*", re.ASCII)
_COUNTERS = {
    "replay_errors": "nvlink_replay_errors",
    "recovery_errors": "nvlink_recovery_errors",
    "crc_errors": "nvlink_crc_errors",
    "ecc_errors": "nvlink_ecc_errors",
    "effective_errors": "nvlink_effective_errors",
    "symbol_errors": "nvlink_symbol_errors",
}
_NONE = re.compile(
    r"all links are inactive|not supported for Devices in MIG mode|does not (?:have or )?support NVLink", re.IGNORECASE
)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the links of every GPU; raises ToolError for an output without a GPU."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    gpu = ""
    for line in values.lines(text):
        head = _GPU.fullmatch(line)
        if head is not None:
            gpu = f"gpu/{head[1]}"
            items.append(Item(gpu, "name", head[2]))
            if head[3]:
                items.append(Item(gpu, "uuid", head[3]))
            continue
        if not gpu or not line.strip() or line.strip() == "[...]":
            continue
        found = _link(gpu, line)
        if found is not None:
            items.append(found)
        elif _NONE.search(line):
            # Either no bridge is plugged in, which is how such a board is sold, or every link is down.
            count = _no_links(line)
            if count == 0:
                remarks.append(f"{gpu}: {line.strip()}")
            items.append(Item(gpu, "nvlink_active_count", count, "links"))
        else:
            unknown[line.strip()[:60]] = None
    if not items:
        raise without_values(text, exit=exit, err=err, tool="nvidia-smi nvlink")
    items = values.latest(items)
    items += _counts(items)
    remarks += [f"{item.where}: link is inactive" for item in items if item.name == "nvlink_state" and item.value == 0]
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _no_links(line: str) -> int | Missing:
    return Missing(Reason.UNSUPPORTED) if "support" in line.lower() else 0


def _link(gpu: str, line: str) -> Item | None:
    noted = _NOTED.fullmatch(line)
    if noted is not None:
        return Item(f"{gpu}/nvlink/{noted[1]}", values.name_of(noted[2]), _flag(noted[3]))
    link = _LINK.fullmatch(line)
    if link is None:
        return None
    where, said = f"{gpu}/nvlink/{link[1]}", link[2]
    label, mark, rest = said.partition(": ")
    if mark:
        name = _COUNTERS.get(values.name_of(label), values.name_of(label))
        count = values.only_number(rest)
        bad = name in _COUNTERS.values() and isinstance(count, int) and count > 0
        return Item(where, name, count, "errors", "warning" if bad else "")
    bare = said.strip("<>").lower()
    if bare == "inactive":
        return Item(where, "nvlink_state", 0, "", "warning")
    value, unit = values.quantity(said)
    # A rate has its unit behind it, unless the line is cut off.
    torn = isinstance(value, str) or not (unit or isinstance(value, Missing))
    return Item(where, "nvlink_speed", Missing(Reason.ERROR) if torn else value, unit)


def _flag(text: str) -> int | str | Missing:
    state = values.switch(text)
    return text if isinstance(state, Missing) else state


def _counts(items: list[Item]) -> list[Item]:
    """Return how many links of each GPU run, for those whose links have a state or a speed."""
    found: dict[str, int] = {}
    for item in items:
        gpu, mark, _ = item.where.partition("/nvlink/")
        if mark and item.name in ("nvlink_speed", "nvlink_state"):
            up = item.name == "nvlink_speed" and not isinstance(item.value, Missing) and item.value != 0
            found[gpu] = found.get(gpu, 0) + up
    return [Item(gpu, "nvlink_active_count", count, "links") for gpu, count in found.items()]
