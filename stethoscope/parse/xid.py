"""Xid and SXid lines of all driver branches, taken apart by shape: the address, the code, and what the body says."""

from __future__ import annotations

import re
from typing import NamedTuple

from stethoscope.parse.pci import normal_pci, slot_of

# 352-430: no pid. 435-470: `pid=0` when unknown. 510-575: `pid='<unknown>', name=<unknown>`. From 580 again nothing.
# The body, with its comma, may be missing. A name is 15 characters of anything and ends at the next comma.
XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})(?: GPU-I:(?P<gi>\d{1,4}))?(?: GPU-CI:(?P<ci>\d{1,4}))?\): "
    r"(?P<code>\d{1,4})(?!\d)"
    r"(?:, pid=(?P<pid>\d{1,10}|'?(?:<|&lt;)unknown(?:>|&gt;)'?))?(?:, name=(?P<name>[^,]{0,64}))?"
    r"(?:,? ?(?P<body>.{0,2000}))",
    re.ASCII,
)
SXID = re.compile(
    r"(?:nvidia-nvswitch(?P<switch>\d{1,3}): )?SXid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})\): (?P<code>\d{5,6})(?!\d)"
    r"(?:, (?P<word>Fatal|Non-fatal|Correctable)(?=,|$))?(?:,? ?(?:Link (?P<link>\d{1,3}) )?(?P<text>.{0,2000}))",
    re.ASCII,
)
# In front of a line that the kernel printed stand its stamps and `kernel:` alone, or, before the kernel's own stamp,
# whatever a console or a collector writes; what relays it says so. What a prompt, a command or another program quotes
# is no event: it has a word or a quotation mark right before it.
_BEFORE = re.compile(
    r"[\s>+*`|-]{0,16}(?:(?:[^\"'`$#=|(]{0,120}\s)?kern(?:el)?\s{0,3}:\s{0,3}(?:\w{1,8}\s{0,3}:\s{0,3})?|\d{1,2},\d+,\d+,[^;]{0,60};"
    r"|<\d{1,3}>)?(?:\[[^\]]{0,60}\]:?\s{0,4}){0,3}\s{0,40}"
    r"|[^\"'`$#]{0,200}\[ {0,4}\d{1,10}\.\d{6}\]:? {0,4}(?:\[ {0,4}[TC]\d{1,9}\] )?"
    r"|[^\"'`$#]{0,200}(?:[\]}]|\b(?:[Xx][Ii][Dd]|kmsg|dmesg|syslog|[Mm]essage|msg|event|line):) {1,2}"
    r"|[^'`$#]{0,400}(?:^|[{,] {0,2})\"(?:message|msg|MESSAGE|log|line|text|event)\" {0,2}: {0,2}\""
    r"|(?:\"[^\"]{0,80}\"[,;]){1,12}\"",
    re.ASCII,
)
_FOLLOW_UP = re.compile(r"Severity (?P<level>\d) Engine instance (?P<engine>\d{1,3})|Data \{|SOE HALT data\[", re.ASCII)
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,4})\b", re.ASCII)


class XidLine(NamedTuple):
    """A line in which the NVIDIA driver reports an Xid."""

    code: int
    pci: str
    """Slot of the GPU, `0000:4f:00`."""
    pid: int | None
    """Of the process that held the channel, as the host counts: for many codes a bystander."""
    name: str
    body: str
    instance: str
    """MIG instance, `GPU-I:05 GPU-CI:00`."""
    caused_by: int | None
    """Code that the line names as its cause; it is no event of its own."""


class SxidLine(NamedTuple):
    """A line in which the NVSwitch driver reports an SXid."""

    code: int
    pci: str
    """Slot of the switch, never of a GPU."""
    switch: int | None
    word: str
    """Fatal, Non-fatal, Correctable, or empty."""
    link: int | None
    """Port of the switch."""
    text: str
    follow_up: bool
    """One of the lines that come after the first: severity, or data words."""


def find_xid_line(text: str, *, quoted: bool = False) -> XidLine | None:
    """Return the Xid of a cleaned line, or None when it is not one.

    The `XID 641` of an r8169 network card is none, nor, without `quoted`, an Xid line that a shell prompt, a command
    or another program repeats.
    """
    if "Xid" not in text:
        return None
    match = XID.search(text)
    if match is None or not (quoted or _BEFORE.fullmatch(text, 0, match.start())):
        return None
    pci = normal_pci(match["pci"])
    if not pci:
        return None
    pid, name, body = match["pid"] or "", match["name"] or "", match["body"].strip()
    caused_by = _CAUSED_BY.search(body)
    instance = " ".join(f"GPU-{word}:{match[group]}" for word, group in (("I", "gi"), ("CI", "ci")) if match[group])
    return XidLine(
        int(match["code"]), slot_of(pci), int(pid) if pid.isdecimal() and int(pid) else None,
        "" if "unknown" in name and name[:1] in "<&" else name, body, instance,
        int(caused_by[1]) if caused_by else None,
    )  # fmt: skip


def find_sxid_line(text: str, *, quoted: bool = False) -> SxidLine | None:
    """Return the SXid of a cleaned line, or None when it is not one, as `find_xid_line`."""
    if "SXid (" not in text:
        return None
    match = SXID.search(text)
    if match is None or not (quoted or _BEFORE.fullmatch(text, 0, match.start())):
        return None
    pci = normal_pci(match["pci"])
    if not pci:
        return None
    follow_up = _FOLLOW_UP.match(match["text"])
    word, link = match["word"] or "", match["link"]
    if follow_up and follow_up["level"]:
        word = "Fatal" if follow_up["level"] == "1" else "Non-fatal"
        link = follow_up["engine"]
    return SxidLine(
        int(match["code"]), slot_of(pci), int(match["switch"]) if match["switch"] else None, word,
        int(link) if link else None, match["text"].strip(), bool(follow_up),
    )  # fmt: skip


_WORDS = r"(?P<words>(?:0x[0-9a-fA-F]{1,8}[ ,]{0,3}){1,9})"
NVLINK5 = re.compile(
    r"(?P<unit>[A-Z][A-Za-z0-9_/]{1,24}(?: Degraded)?)\s{1,6}(?P<fatality>Fatal|Non-?fatal)\s{1,6}XC ?(?P<xc>\d)\s{1,6}"
    rf"i ?(?P<injected>\d)\s{{1,6}}Link\s{{1,6}}(?P<link>-?\d{{1,3}})\s{{0,6}}[(\[]{_WORDS}",
    re.ASCII,
)
"""Body of Xid 144 to 150."""
_BODIES: dict[int, tuple[str, ...]] = {
    13: (
        r"on \(GPC (?P<gpc>\d+), TPC (?P<tpc>\d+)(?:, SM (?P<sm>\d+))?\): (?P<reason>[^,]{1,80})",
        r"(?P<registers>ESR) 0x",
    ),
    31: (
        r"ENGINE (?P<engine>\w+)(?: GPC(?P<gpc>\d+))? (?P<client>\w+) faulted @ (?P<address>0x[0-9a-f_]+)"
        r"(?:\. Fault is of type (?P<fault>\w+) (?P<access>\w+))?",
    ),
    48: (r"partition (?P<partition>\d+), subpartition (?P<subpartition>\d+)",),
    63: (r"\((?P<row>0x[0-9a-fA-F]+)\)",),
    64: (r"\((?P<row>0x[0-9a-fA-F]+)\)",),
    74: (rf"link (?P<link>\d+) ?\({_WORDS}", r"rain link (?P<link>\d+)(?: to remote PCI:(?P<peer>[0-9a-fA-F:.]+))?"),
    94: (
        r"(?P<contained>Contained|Uncontained): (?P<location>[A-Za-z0-9 ]{1,24}?)(?: \([^)]*\))?\. ?"
        r"(?:physAddr: \S+ )?RST: (?P<reset>Yes|No), D-RST: (?P<drain_reset>Yes|No)",
    ),
    109: (r"Info (?P<info>0x[0-9a-f]+)",),
    119: (
        r"(?:after (?P<seconds>\d+)s of )?waiting for RPC (?:response )?from (?:GPU(?P<instance>\d+) )?GSP! "
        r"Expected function (?P<function>\d+) \((?P<function_name>\w+)\)",
    ),
    120: (r"GSP (?P<part>task|kernel|\w+) (?P<event>exception|panic|watchdog)",),
    136: (r"link (?P<link>\d+)",),
    137: (r"link (?P<link>\d+)",),
    154: (
        r"recovery action changed from \S+ \((?P<was>[^()]{1,60})\) to \S+ \((?P<label>[^()]{1,60})\)",
        r"recovery action \S+ to \S+ \((?P<label>[^()]{1,60})\)",
    ),
    156: (r"TPC (?P<tpc>\d+) from GPC (?P<gpc>\d+)",),
    171: (r"FBPA (?P<fbpa>\d+) subpartition (?P<subpartition>\d+)",),
}  # fmt: skip
_BODIES.update({95: _BODIES[94], 157: _BODIES[156], 175: _BODIES[119]})
_CHANNEL = (r"(?:Ch|channel|Channel|Channel ID|ChId) (?:0x)?(?P<channel>[0-9a-fA-F]{2,8})\b",)
_COMPILED: dict[int, tuple[re.Pattern[str], ...]] = {}
_HEX = frozenset({"address", "row", "words", "channel", "info", "peer"})


def body_fields(line: XidLine) -> dict[str, str | int]:
    """Return what the body of an Xid line says by name: link, gpc, row, label, unit ... as its code has them."""
    code = line.code
    if 144 <= code <= 150:
        match = NVLINK5.search(line.body)
        return _fields(match) if match else {}
    patterns = _COMPILED.get(code)
    if patterns is None:
        patterns = tuple(re.compile(pattern, re.ASCII) for pattern in _BODIES.get(code, _CHANNEL))
        _COMPILED[code] = patterns
    for pattern in patterns:
        match = pattern.search(line.body)
        if match:
            return _fields(match)
    return {}


def _fields(match: re.Match[str]) -> dict[str, str | int]:
    return {
        name: int(value) if name not in _HEX and re.fullmatch(r"-?\d{1,9}", value) else value.strip(" ,")
        for name, value in match.groupdict().items()
        if value
    }


def words_of(text: str) -> tuple[int, ...]:
    """Return the hexadecimal words of a body."""
    return tuple(int(word, 16) for word in re.findall(r"0x([0-9a-fA-F]{1,8})", text))
