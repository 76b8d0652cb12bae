"""Slurm's `topology.conf`: switches of a tree, or blocks, and the nodes below each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stethoscope.errors import DataError, UsageError
from stethoscope.parse.slurm import node_list
from stethoscope.text import clean

_PAIR = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Topology:
    """Where nodes stand: the lowest switch (or block) of each, and what is above that."""

    leaf: dict[str, str]
    """Node -> its switch or block."""
    above: dict[str, str]
    """Switch -> the switch above it."""
    kind: str
    """tree or block."""


def read_topology(text: str, name: str = "topology.conf") -> Topology:
    """Return what a topology file says; DataError names the line that cannot be read."""
    leaf: dict[str, str] = {}
    above: dict[str, str] = {}
    kind = "tree"
    for number, line in _lines(text):
        pairs = {key.lower(): clean(value, 200_000) for key, value in _PAIR.findall(line)}
        title = pairs.get("switchname") or pairs.get("blockname")
        if title is None:
            if "blocksizes" in pairs:
                kind = "block"
                continue
            raise DataError("says neither SwitchName, BlockName nor BlockSizes", where=f"{name}:{number}")
        if "blockname" in pairs:
            kind = "block"
        try:
            for node in node_list(pairs.get("nodes", "")):
                leaf.setdefault(node, title)
            for switch in node_list(pairs.get("switches", "")):
                above.setdefault(switch, title)
        except (UsageError, ValueError) as error:
            raise DataError(str(error), where=f"{name}:{number}") from None
    return Topology(leaf, above, kind)


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that say something with their numbers; a backslash at the end joins the next one."""
    lines: list[tuple[int, str]] = []
    joined, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        first = first or number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        joined += line
        if joined.strip():
            lines.append((first, joined.strip()))
        joined, first = "", 0
    return lines
