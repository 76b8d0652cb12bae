"""Fabric topology from `ibnetdiscover` (full or `-p`) and `iblinkinfo` (grouped or `--line`): which switch is at the
other end of each adapter's port.

Hosts are found by the node description that the adapter's driver or `rdma-ndd` sets: `gpu-007 mlx5_3`, or
`gpu-007 HCA-4`, whose number counts from 1 in the kernel's order of adapters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stethoscope.text import clean

_FULL = re.compile(r'^\[(\d+)\](?:\(\w+\))?\s+"([SHR])-([0-9a-fA-F]{1,16})"\[(\d+)\](.*)$')
_HEAD = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([SHR])-([0-9a-fA-F]{1,16})"\s+#\s+"([^"]*)"')
_PORTS = re.compile(
    r"^(CA|SW|RT)\s+\d+\s+(\d+)\s+0x([0-9a-fA-F]{1,16})\s+\S+\s+\S+\s+-\s+(CA|SW|RT)\s+\d+\s+(\d+)\s+0x([0-9a-fA-F]{1,16})"
    r"\s+\(\s*'(.*)'\s+-\s+'(.*)'\s*\)\s*$"
)
_GROUP = re.compile(r"^(?:(CA): (.*)|(Switch): 0x[0-9a-fA-F]{1,16} (.*)):\s*$")
_LINK = re.compile(
    r'^\s*(?:0x([0-9a-fA-F]{16})\s+(?:"\s*([^"]*)"\s+)?)?\d+\s+(\d+)\[[^\]]*\]\s*==\(.*\)==>\s*(?:0x[0-9a-fA-F]{16}\s+)?'
    r'\d+\s+(\d+)\[[^\]]*\]\s+"([^"]*)"'
)
_HOST = re.compile(
    r"(?:([A-Za-z0-9_][A-Za-z0-9._-]*?)[ /]+)?((?:mlx[45]|ibp|roce|bnxt_re|hfi1|irdma|ib)[\w-]*|HCA-\d+)"
)
_GUID = re.compile(
    r"^([A-Za-z0-9_][A-Za-z0-9._-]*):\s*(?:/sys/class/infiniband/)?([A-Za-z][\w-]*)/(?:node|port|sys_image)_guid:"
    r"\s*((?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4})\s*$"
)
_AGGREGATION = "aggregation node"


@dataclass(frozen=True, slots=True, order=True)
class Cable:
    """One adapter port and the switch port it is plugged into."""

    host: str
    device: str
    """As the description has it: mlx5_3, HCA-4, or empty when it says only the host."""
    port: int
    switch: str
    switch_port: int


@dataclass(frozen=True, slots=True, order=True)
class Unnamed:
    """A cable of an adapter whose description names no host, as when no driver has set it."""

    guid: str
    """16 digits, of the adapter or of its port; empty where the output has none."""
    port: int
    switch: str
    switch_port: int


@dataclass(frozen=True, slots=True)
class Fabric:
    """What an output says of the cables between hosts and switches."""

    cables: tuple[Cable, ...]
    switches: tuple[str, ...]
    unnamed: tuple[Unnamed, ...] = ()
    lost: int = 0
    """Lines about links that could not be read."""


def read_fabric(text: str) -> Fabric:
    """Return the cables of the output of `ibnetdiscover` or `iblinkinfo`, in whichever of their forms."""
    found = _Found()
    here: tuple[str, str] | None = None
    own = ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        group = _GROUP.match(line)
        if head is not None:
            own = head[3].lower().zfill(16)
            found.names[own] = (head[1], clean(head[4], 128).strip())
        elif group is not None:
            here = ("Ca" if group[1] else "Switch", clean(group[2] or group[4], 128).strip())
            found.note(here)
        else:
            _link(line, here, own, found)
    return found.fabric()


class _Found:
    """What was read so far."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, str]] = {}
        self.by_guid: list[tuple[str, int, str, int]] = []
        """GUID and port at both ends."""
        self.links: list[tuple[str, int, str, int, str]] = []
        """Adapter's description and port, switch and port there, adapter's GUID."""
        self.switches: dict[str, None] = {}
        self.adapters: set[str] = set()
        self.lost = 0

    def note(self, node: tuple[str, str]) -> None:
        if node[0] == "Switch":
            self.switches.setdefault(node[1])
        else:
            self.adapters.add(node[1])

    def fabric(self) -> Fabric:
        for here in self.names.values():
            self.note(here)
        for own, port, guid, other_port in self.by_guid:
            (kind, name), (other_kind, other) = self.names[own], self.names.get(guid, ("", ""))
            if kind == "Ca" and other_kind == "Switch":
                self.links.append((name, port, other, other_port, own))
            elif kind == "Switch" and other_kind == "Ca":
                self.links.append((other, other_port, name, port, guid))
        cables: dict[tuple[str, str, int], Cable] = {}
        unnamed: dict[tuple[str, int], Unnamed] = {}
        for name, port, switch, switch_port, guid in self.links:
            if _AGGREGATION in name.lower():
                continue
            host, device = host_of(name)
            if not host:
                found = Unnamed(guid, port, switch_name(switch), switch_port)
                unnamed.setdefault((found.switch, switch_port), found)
                continue
            cables.setdefault((host, device, port), Cable(host, device, port, switch_name(switch), switch_port))
        switches = tuple(sorted({switch_name(name) for name in self.switches}))
        return Fabric(tuple(sorted(cables.values())), switches, tuple(sorted(unnamed.values())), self.lost)


def _link(line: str, here: tuple[str, str] | None, own: str, found: _Found) -> None:
    full = _FULL.match(line)
    if full is not None and own:
        found.by_guid.append((own, int(full[1]), full[3].lower().zfill(16), int(full[4])))
        return
    pairs = _PORTS.match(line)
    if pairs is not None:
        one = (pairs[1], clean(pairs[7], 128).strip(), int(pairs[2]), pairs[3].lower().zfill(16))
        two = (pairs[4], clean(pairs[8], 128).strip(), int(pairs[5]), pairs[6].lower().zfill(16))
        for kind, name, _, _ in (one, two):
            found.note(("Switch" if kind == "SW" else "Ca", name))
        if {one[0], two[0]} == {"CA", "SW"}:
            adapter, switch = (one, two) if one[0] == "CA" else (two, one)
            found.links.append((adapter[1], adapter[2], switch[1], switch[2], adapter[3]))
        return
    link = _LINK.match(line)
    if link is not None:
        _linkinfo(link, here, found)
    elif "==>" in line and '""' not in line:
        found.lost += 1


def _linkinfo(link: re.Match[str], here: tuple[str, str] | None, found: _Found) -> None:
    """Take a line of iblinkinfo: of `here`, or with `--line` one that names itself."""
    name = clean(link[2], 128).strip() if link[2] is not None else here[1] if here is not None else ""
    other = clean(link[5], 128).strip()
    if not name or not other:
        return
    ours, theirs = bool(host_of(name)[1]), bool(host_of(other)[1])
    guid = (link[1] or "").lower()
    if link[2] is None and here is not None:
        ours = here[0] == "Ca"
        theirs = theirs and not ours
    for adapter, is_adapter in ((name, ours), (other, theirs)):
        found.note(("Ca" if is_adapter else "Switch", adapter))
    if ours and not theirs:
        found.links.append((name, int(link[3]), other, int(link[4]), guid))
    elif theirs and not ours:
        found.links.append((other, int(link[4]), name, int(link[3]), ""))


def read_guids(text: str) -> dict[str, tuple[str, str]]:
    """Return GUID -> (host, device) of what `clush -w @all 'grep . /sys/class/infiniband/*/*_guid'` printed: lines such
    as `gpu-007: /sys/class/infiniband/mlx5_3/node_guid:946d:ae00:00fb:a608`."""
    known: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        match = _GUID.match(line)
        if match is not None:
            known[match[3].replace(":", "").lower()] = (clean(match[1], 253), clean(match[2], 64))
    return known


def named(fabric: Fabric, guids: dict[str, tuple[str, str]]) -> Fabric:
    """Return the fabric with the adapters that `guids` knows under the names it gives them."""
    known = [(unnamed, guids[unnamed.guid]) for unnamed in fabric.unnamed if unnamed.guid in guids]
    cables = [Cable(host, device, found.port, found.switch, found.switch_port) for found, (host, device) in known]
    return Fabric(
        tuple(sorted({*fabric.cables, *cables})),
        fabric.switches,
        tuple(unnamed for unnamed in fabric.unnamed if unnamed.guid not in guids),
        fabric.lost,
    )


def host_of(description: str) -> tuple[str, str]:
    """Return host and device of a node description: `gpu-007 mlx5_3` -> (gpu-007, mlx5_3); empty where it says none."""
    text = description.strip().strip("'\"")
    match = _HOST.fullmatch(text)
    if match is not None and match[1]:
        return match[1], match[2]
    if re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?", text) and not _HOST.fullmatch(text):
        return text, ""
    return "", ""


def switch_name(description: str) -> str:
    """Return a switch's name without the decoration of managed ones: `MF0;spine-01ib0:MQM8700/U1` -> spine-01ib0, with
    the board of a modular switch kept (`spine-01/L02`)."""
    text = description.strip()
    match = re.fullmatch(r"[A-Z0-9]+;([^:;]+):([^/]+)(?:/(.*))?", text)
    if match is None:
        return text
    board = (match[3] or "").split("/")[0]
    return f"{match[1]}/{board}" if re.fullmatch(r"[LS]\d+", board) else match[1]


def device_name(device: str) -> str:
    """Return the kernel's name of an adapter: `HCA-4` is the fourth, mlx5_3."""
    match = re.fullmatch(r"HCA-(\d+)", device)
    return f"mlx5_{int(match[1]) - 1}" if match is not None and int(match[1]) > 0 else device
