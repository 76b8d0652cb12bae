"""`show_gids`, and what probes/ondemand/show_gids.sh prints: the addresses that an adapter port has.

On an Ethernet fabric queue pairs need the entry of RoCE v2 with the IPv4 address of the interface: a port without it
has a perfect link and cannot connect.
"""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "show_gids"

_GID = re.compile(
    r"(\S{1,40})\s+(\d{1,3})\s+(\d{1,3})\s+([0-9a-fA-F:]{39})\s+(?:(\d{1,3}(?:\.\d{1,3}){3})\s+)?(v1|v2|IB)\b\s*(\S{0,20})",
    re.ASCII,
)
_PORT = re.compile(
    r"(\S{1,40})\s+(\d{1,3})\s+(Ethernet|InfiniBand)\s+([A-Z]{1,20})\s+(\S{1,20})\s+(\d{1,6}|-)", re.ASCII
)
_HEAD = re.compile(r"DEV\s+PORT\s+INDEX\s+GID\b.*", re.ASCII)
_MOST = 4096


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return by `mlx5_3:1` the link layer, interface and MTU of each port, or how many addresses it has and its IPv4
    address for RoCE v2; raises ToolError for an output without a port."""
    items: list[Item] = []
    counts: dict[str, int] = {}
    addresses: dict[str, str] = {}
    has_head = False
    for line in values.lines(text):
        has_head = has_head or _HEAD.fullmatch(line.strip()) is not None
        gid, port = _GID.match(line.strip()), _PORT.fullmatch(line.strip())
        if gid is not None and len(counts) < _MOST:
            where = f"{gid[1]}:{gid[2]}"
            counts[where] = counts.get(where, 0) + 1
            if gid[5] and gid[6] == "v2":
                addresses[where] = gid[5]
        elif port is not None and len(items) < _MOST:
            where = f"{port[1]}:{port[2]}"
            items += [Item(where, "link_layer", port[3]), Item(where, "netdev", port[5])]
            if port[6].isdigit():
                items.append(Item(where, "net_mtu", int(port[6]), "bytes"))
    remarks = []
    for where, count in counts.items():
        items.append(Item(where, "gids", count))
        if where in addresses:
            items.append(Item(where, "roce_v2_ipv4", addresses[where]))
        elif addresses:
            # The other ports have one: this is a fabric that needs it.
            items.append(Item(where, "roce_v2_ipv4", "none", "", "critical"))
            remarks.append(f"{where}: no IPv4 entry of RoCE v2, which other ports have")
    if not items and not has_head:
        raise without_values(text, exit=exit, err=err, tool="show_gids")
    return Report(TOOL, tuple(items), tuple(remarks))
