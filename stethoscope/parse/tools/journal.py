"""Lines of `journalctl -o short-iso` or `dmesg -T`: who wrote them, and what."""

from __future__ import annotations

import re

from stethoscope.model.report import Item, Report
from stethoscope.parse.tools import values
from stethoscope.parse.tools.errors import without_values

TOOL = "dmesg"

_JOURNAL = re.compile(r"(\d{4}-\d\d-\d\dT\S{8,20}) \S{1,64} ([^\s:\[]{1,48})(?:\[\d{1,10}\])?: (.{0,400})", re.ASCII)
_KERNEL = re.compile(r"\[[A-Z][a-z]{2} [^\]]{10,24}\] (.{0,400})", re.ASCII)


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return how many lines there are, and each as `line/N`, named after who wrote it; raises ToolError for none."""
    items: list[Item] = []
    for line in values.lines(text):
        if (match := _JOURNAL.match(line)) is not None:
            items.append(Item(f"line/{len(items) + 1}", match[2], match[3]))
        elif (match := _KERNEL.match(line)) is not None:
            items.append(Item(f"line/{len(items) + 1}", "kernel", match[1]))
    if not items and "-- No entries --" not in text:
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, (Item("", "lines", len(items)), *items))
