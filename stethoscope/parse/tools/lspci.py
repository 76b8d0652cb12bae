"""`lspci -vvv` and shorter forms: the link of each device, what it could be, and the errors that its registers hold.

Error bits stay set until somebody clears them: they say that something happened since then, not when. ACS matters
where GPUs talk to adapters below one switch. The lines behind `Capabilities: <access denied>` need root.
"""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, Value
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "lspci"

_DEVICE = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.{1,80}?)(?: \[([0-9a-f]{4})\])?: (.{1,200}?)"
    r"(?: \(rev ([0-9a-f]{2})\))?(?: \(prog-if .{1,60}\))?\s*",
    re.ASCII,
)
_LINK = re.compile(
    r"\s+(LnkCap|LnkSta):\s.*?Speed (unknown|[0-9.]{1,5}GT/s)(?: \((ok|downgraded|strange|overdriven)\))?,"
    r" Width x(\d{1,2})(?: \((ok|downgraded|strange|overdriven)\))?.*",
    re.ASCII,
)
_BITS = re.compile(r"\s+(DevSta|UESta|CESta|ACSCtl|RootSta|Status):\s(.*)", re.ASCII)
_SET = re.compile(r"([A-Za-z0-9<>_-]{2,20}?)\+(?=\s|,|$)", re.ASCII)
_DRIVER = re.compile(r"\s+Kernel driver in use: (\S{1,40})\s*", re.ASCII)
_NODE = re.compile(r"\s+NUMA node: (\d{1,4})\s*", re.ASCII)
_SLOT = re.compile(r"\s+Physical Slot: (\S{1,40})\s*", re.ASCII)
_IDS = re.compile(r" \[([0-9a-f]{4}:[0-9a-f]{4})\]\s*$", re.ASCII)
_DENIED = re.compile(r"\s+Capabilities: <access denied>\s*", re.ASCII)
_GONE = re.compile(r"\s*!!! Unknown header type|\(rev ff\)", re.ASCII)
_ERRORS = {
    "UESta": ("pcie_uncorrectable", "critical"),
    "CESta": ("pcie_correctable", "warning"),
}
_DEVICE_ERRORS = {"CorrErr", "NonFatalErr", "FatalErr", "UnsupReq", "UncorrErr", "UnsuppReq"}
_ACS = {"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd", "TransBlk", "EgressCtrl", "DirectTrans"}


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return the link and the errors of each device by its address; raises ToolError for an output without one."""
    items: list[Item] = []
    remarks: list[str] = []
    where = ""
    denied = 0
    for line in values.lines(text):
        head = _DEVICE.fullmatch(line)
        if head is not None:
            where = normal_pci(head[1])
            items += _device(where, head)
            if head[5] == "ff":
                remarks.append(f"{where} does not answer on its bus (rev ff)")
                items.append(Item(where, "gone", 1, "", "critical"))
        elif not where:
            continue
        elif (link := _LINK.fullmatch(line)) is not None:
            items += _link(where, link, remarks)
        elif (bits := _BITS.match(line)) is not None:
            items += _bits(where, bits[1], bits[2])
        elif (match := _DRIVER.fullmatch(line)) is not None:
            items.append(Item(where, "driver", match[1]))
        elif (match := _NODE.fullmatch(line)) is not None:
            items.append(Item(where, "numa_node", int(match[1])))
        elif (match := _SLOT.fullmatch(line)) is not None:
            items.append(Item(where, "slot", match[1]))
        elif _DENIED.fullmatch(line):
            denied += 1
        elif _GONE.match(line):
            remarks.append(f"{where} does not answer on its bus")
            items.append(Item(where, "gone", 1, "", "critical"))
    if not items:
        raise without_values(text, exit=exit, err=err, tool="lspci")
    if denied:
        remarks.append(f"capabilities of {denied} devices cannot be read: that needs root")
    return Report(TOOL, tuple(items), tuple(remarks))


def _device(where: str, head: re.Match[str]) -> list[Item]:
    name = head[4]
    ids = _IDS.search(name)
    found = [Item(where, "class", head[2]), Item(where, "name", _IDS.sub("", name))]
    if ids is not None:
        found.append(Item(where, "ids", ids[1]))
    return found


def _link(where: str, match: re.Match[str], remarks: list[str]) -> list[Item]:
    able = match[1] == "LnkCap"
    speed: Value = Missing(Reason.ERROR) if match[2] == "unknown" else values.only_number(match[2])
    names = ("pcie_max_link_speed", "pcie_max_link_width") if able else ("pcie_link_speed", "pcie_link_width")
    found = []
    for name, value, unit, verdict in zip(
        names, (speed, int(match[4])), ("GT/s", "lanes"), (match[3], match[5]), strict=True
    ):
        # lspci compares with what the device itself can do; an idle GPU lowers its speed on purpose.
        level = "warning" if verdict == "downgraded" else ""
        found.append(Item(where, name, value, unit, level))
        if level:
            remarks.append(f"{where} {name.replace('_', ' ')} {value} is below its maximum")
    if not able and int(match[4]) == 0:
        found[1] = Item(where, names[1], Missing(Reason.ABSENT), "lanes")
    return found


def _bits(where: str, register: str, said: str) -> list[Item]:
    bits = _SET.findall(said)
    if register in _ERRORS:
        name, level = _ERRORS[register]
        return [Item(where, name, ", ".join(bits) if bits else "none", "", level if bits else "")]
    if register == "DevSta":
        errors = [bit for bit in bits if bit in _DEVICE_ERRORS]
        return [Item(where, "pcie_device_errors", ", ".join(errors) if errors else "none")]
    if register == "ACSCtl":
        active = [bit for bit in bits if bit in _ACS]
        return [Item(where, "pcie_acs_enabled", int(bool(active)))]
    return []
