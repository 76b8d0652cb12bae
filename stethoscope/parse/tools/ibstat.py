"""`ibstat`, `ibstatus` and `ibv_devinfo`: adapters and ports as the local stack sees them.

A port is named `mlx5_0:1`, adapter and number. `Base lid 65535` and `unknown` mean that the port has none.
"""

from __future__ import annotations

import re

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, Value
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "ibstat"

_CA = re.compile(r"CA '(\S{1,60})'\s*|hca_id:\s+(\S{1,60})\s*", re.ASCII)
_STATUS = re.compile(r"Infiniband device '(\S{1,60})' port (\d{1,3}) status:\s*", re.ASCII)
_PORT = re.compile(r"\s+Port (\d{1,3}):\s*|\s+port:\s+(\d{1,3})\s*", re.ASCII)
_PAIR = re.compile(r"\s+([A-Za-z][A-Za-z_ ]{1,40}):\s+(.{1,160}?)\s*", re.ASCII)
_STATES = {"nop": 0, "down": 1, "init": 2, "initializing": 2, "armed": 3, "active": 4, "active_defer": 5}
_PHYSICAL = {"nop": 0, "nochange": 0, "sleep": 1, "polling": 2, "disabled": 3, "portconfigurationtraining": 4,
             "linkup": 5, "linkerrorrecovery": 6, "phytest": 7}  # fmt: skip
_WORDS = {
    "ca_type": "type", "firmware_version": "ib_fw_version", "fw_ver": "ib_fw_version", "board_id": "ib_board",
    "node_guid": "node_guid", "sys_image_guid": "system_image_guid", "system_image_guid": "system_image_guid",
    "port_guid": "port_guid", "link_layer": "link_layer", "hardware_version": "hardware_version",
    "hw_ver": "hardware_version", "transport": "transport", "default_gid": "default_gid",
    "capability_mask": "capability_mask", "vendor_id": "vendor_id", "vendor_part_id": "vendor_part_id",
}  # fmt: skip
_LIDS = ("base_lid", "sm_lid", "port_lid")


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return what is said of every adapter and port; raises ToolError for an output without an adapter."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    device = where = ""
    for line in values.lines(text):
        if (match := _CA.fullmatch(line)) is not None:
            device = where = match[1] or match[2]
            items.append(Item(device, "device", device))
        elif (match := _STATUS.fullmatch(line)) is not None:
            device, where = match[1], f"{match[1]}:{match[2]}"
            items.append(Item(where, "device", device))
        elif device and (match := _PORT.fullmatch(line)) is not None:
            where = f"{device}:{match[1] or match[2]}"
        elif device and (match := _PAIR.fullmatch(line)) is not None:
            item = _item(where, values.name_of(match[1]), match[2])
            if item is None:
                unknown[match[1]] = None
            else:
                items.append(item)
        elif line.strip():
            remarks.append(line.strip())
    if not items:
        raise without_values(text, exit=exit, err=err, tool="ibstat")
    remarks += [line.strip() for line in err.split("\n") if line.strip()]
    remarks += [f"{item.where} is not active" for item in items if item.level]
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _item(where: str, name: str, text: str) -> Item | None:
    if name in ("state", "physical_state", "phys_state"):
        physical = name != "state"
        bare = re.sub(r"^PORT_|^\d+:|\(\d+\)$", "", text.strip()).strip()
        known = _PHYSICAL if physical else _STATES
        code: Value = known.get(re.sub(r"[^a-z_]", "", bare.lower()), Missing(Reason.ERROR))
        level = "critical" if not physical and code != known["active"] else ""
        return Item(where, "ib_port_phys_state" if physical else "ib_port_state", code, "", level)
    if name == "rate":
        rate = re.match(r"(\d{1,5}(?:\.\d)?)", text)
        return Item(where, "ib_port_rate", values.number(rate[1]) if rate else Missing(Reason.ERROR), "Gb/s")
    if name in _LIDS:
        number = int(text, 16) if text.startswith("0x") else values.only_number(text)
        absent = number in (0, 65535)
        return Item(where, "sm_lid" if name == "sm_lid" else "base_lid", Missing(Reason.ABSENT) if absent else number)
    if name in ("number_of_ports", "phys_port_cnt", "lmc", "port_lmc"):
        return Item(where, "ports" if "port" in name and "lmc" not in name else "lmc", _plain(text))
    if name in ("active_mtu", "max_mtu"):
        return Item(where, name, values.only_number(text.split(" ")[0]), "B")
    if name in _WORDS:
        return Item(where, _WORDS[name], values.missing(text) or text)
    return None


def _plain(text: str) -> Value:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else values.only_number(text)
