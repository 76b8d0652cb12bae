"""`ss -H -l -t -n -p`, `nft list ruleset` and `iptables-save`: who listens, and what the packet filter keeps out."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values
from stethoscope.text import clean_text

TOOL = "ss"

_LISTENS = re.compile(
    r'LISTEN\s+\d{1,9}\s+\d{1,9}\s+(\S{0,60}):(\d{1,5})\s+\S+(?:\s+users:\(\("([^"]{1,40})")?.*', re.ASCII
)
_NFT = re.compile(r"\b(?:tcp|th) dport ([^a-z]{1,200}?)\s*(?:counter .{0,60}?)?\b(drop|reject)\b", re.ASCII)
_IPTABLES = re.compile(r"-A INPUT\b.{0,200}?--(?:dport|dports) ([\d:,-]{1,200}).{0,100}?-j (DROP|REJECT)\b", re.ASCII)
_POLICY = re.compile(r"type filter hook input .{0,80}?policy (drop|accept)|:INPUT (DROP|ACCEPT)\b", re.ASCII)
_RULES = ("table ", "chain ", "*filter", "COMMIT", ":INPUT")
_SPAN = re.compile(r"(\d{1,5})(?:[-:](\d{1,5}))?", re.ASCII)
_WIDE = 256
"""A rule that keeps out so many ports keeps out those that the ranks of a job choose."""
_MOST = 4096


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return every port that somebody listens on, and what a filter refuses or drops, a wide range as critical; raises
    ToolError for an output of neither."""
    items: list[Item] = []
    remarks = []
    has_rules = False
    for line in values.lines(text):
        if len(items) >= _MOST:
            break
        has_rules = has_rules or line.lstrip().startswith(_RULES)
        listens = _LISTENS.fullmatch(line.strip())
        if listens is not None:
            items.append(Item(f"tcp/{listens[2]}", "listens", clean_text(listens[3] or "somebody")))
        policy = _POLICY.search(line)
        if policy is not None:
            word = (policy[1] or policy[2]).lower()
            items.append(Item("", "input_policy", word, "", "warning" if word == "drop" else ""))
        rule = _NFT.search(line) or _IPTABLES.search(line)
        if rule is not None:
            ports = " ".join(rule[1].replace("{", "").replace("}", "").split())
            is_wide = _count(ports) >= _WIDE
            items.append(Item(f"tcp/{ports}", "filter", rule[2].lower(), "", "critical" if is_wide else ""))
            if is_wide:
                remarks.append(f"TCP ports {ports}: {rule[2].lower()}")
    if not items and not has_rules:
        raise without_values(text, exit=exit, err=err, tool="ss")
    return Report(TOOL, tuple(items), tuple(remarks))


def _count(ports: str) -> int:
    return sum(max(0, int(last or first) - int(first) + 1) for first, last in _SPAN.findall(ports))
