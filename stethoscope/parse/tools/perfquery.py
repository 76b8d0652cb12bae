"""`perfquery` in its forms (`-x` and the detail queries): the counters of one or more ports.

Counters of 4, 8 and 16 bits stand still at their highest value: such a total says "at least".
"""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "perfquery"

_HEAD = re.compile(r"# Port (.{0,40}?)counters: Lid (\d{1,6}) port (\d{1,3}|ALL|255)\b.*", re.ASCII)
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9]{1,60}):\.*(0x[0-9A-Fa-f]{1,16}|\d{1,20})\s*", re.ASCII)
_DETAIL = re.compile(r"# (\w{1,60}) counters: Lid (\d{1,6}) port (\d{1,3}).*", re.ASCII)

COUNTERS: dict[str, str] = {
    "SymbolErrorCounter": "ib_symbol_error",
    "LinkErrorRecoveryCounter": "ib_link_error_recovery",
    "LinkDownedCounter": "ib_link_downed",
    "PortRcvErrors": "ib_port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "ib_port_rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "ib_port_rcv_switch_relay_errors",
    "PortXmitDiscards": "ib_port_xmit_discards",
    "PortXmitConstraintErrors": "ib_port_xmit_constraint_errors",
    "PortRcvConstraintErrors": "ib_port_rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "ib_local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "ib_excessive_buffer_overrun_errors",
    "QP1Dropped": "ib_qp1_dropped",
    "VL15Dropped": "ib_vl15_dropped",
    "PortXmitData": "ib_port_xmit_data",
    "PortRcvData": "ib_port_rcv_data",
    "PortXmitPkts": "ib_port_xmit_packets",
    "PortRcvPkts": "ib_port_rcv_packets",
    "PortXmitWait": "ib_port_xmit_wait",
}
"""The metric of each counter that is one; the others keep their own names."""
ERRORS = tuple(name for name in COUNTERS.values() if not name.endswith(("_data", "_packets", "_wait")))
_NARROW = {"ib_link_error_recovery": 255, "ib_link_downed": 255, "ib_local_link_integrity_errors": 15,
           "ib_excessive_buffer_overrun_errors": 15}  # fmt: skip
_SILENT = ("PortSelect", "CounterSelect", "CounterSelect2")


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return every counter by `lid/port`; raises ToolError for an output without one."""
    items: list[Item] = []
    remarks: list[str] = []
    unknown: dict[str, None] = {}
    where, wide = "", False
    for line in values.lines(text):
        head = _HEAD.fullmatch(line) or _DETAIL.fullmatch(line)
        if head is not None:
            where, wide = f"lid {head[2]}/port {head[3]}", "extended" in head[1]
            continue
        pair = _PAIR.fullmatch(line)
        if pair is None or not where:
            if line.strip() and not line.startswith("ibwarn"):
                unknown[line.strip()[:60]] = None
            continue
        if pair[1] in _SILENT:
            continue
        name = COUNTERS.get(pair[1], pair[1])
        total = int(pair[2], 16) if pair[2].startswith("0x") else int(pair[2])
        unit = "4 B" if name.endswith("_data") else ""
        items.append(Item(where, name, total, unit, _level(name, total)))
        if not wide and total == _NARROW.get(name, 65535 if name == "ib_symbol_error" else -1):
            remarks.append(f"{where}: {pair[1]} stands at its highest value, {total}: it counts no more")
    if not items:
        raise without_values(text, exit=exit, err=err, tool="perfquery")
    return Report(TOOL, tuple(items), tuple(remarks), tuple(unknown))


def _level(name: str, total: int) -> str:
    # A total says nothing about today; it is worth a look, and its rate decides.
    return "warning" if name in ERRORS and total > 0 else ""
