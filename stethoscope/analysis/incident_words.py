"""Why an incident looks like what happens now, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.ids import node_of
from stethoscope.model.incident import NO_NODES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stethoscope.model.incident import Clues, Incident

_WIDTHS = {"leaf": 0, "rail": 1, "rack": 2, "pod": 3}
_CODES = {"xid": "Xid", "sxid": "SXid"}
_PARTS = {
    "gpu": "GPU",
    "ib": "port",
    "nvlink": "NVLink",
    "pcie": "PCIe device",
    "net": "network device",
    "disk": "disk",
    "fs": "file system",
    "cpu": "processor",
}


def reasons_of(clues: Clues, one: Incident, same: Sequence[str], nodes: Collection[str]) -> tuple[str, ...]:
    """Return the reasons, the strongest first; `same` are the signs that both have, the most telling first, and `nodes`
    those of the incident."""
    where = where_word(clues, one, nodes)
    reasons = []
    if same:
        reasons.append(f"same {sign_word(same[0])}{f' on the same {where}' if where else ''}")
    elif where:
        reasons.append(f"same {where}")
    if one.root_cause and one.root_cause in clues.root_causes:
        reasons.append("same cause" if one.root_cause == clues.root_causes[0] else "one of the likely causes")
    if len(same) > 1:
        reasons.append(_how_many(len(same), len(set(one.symptoms) | set(clues.symptoms)), is_kind=one.is_reference))
    if not where and is_of_fleet(clues, one):
        shared = sorted(
            {*clues.around, *clues.places}.intersection(one.around), key=lambda place: (_wide(place), place)
        )
        reasons += [f"same {place.partition('/')[0]}" for place in shared[:1]]
    if clues.job and clues.job == one.job:
        reasons.append("same job")
    if not reasons:
        reasons.append("alike in words")
    return tuple(reasons)


def _how_many(same: int, of: int, *, is_kind: bool) -> str:
    if same == of:
        return "both signs" if of == 2 else f"all {of} signs"
    # A well-known kind names the signs of every way to see it.
    return f"{same} signs" if is_kind else f"{same} of {of} signs"


def where_word(clues: Clues, one: Incident, nodes: Collection[str]) -> str:
    """Return what both have in common of places in a word: `GPU`, `node`; empty for nothing."""
    if not is_of_fleet(clues, one):
        return ""
    # The deepest place says most.
    for place in sorted(set(clues.places).intersection(one.places), key=lambda place: (-place.count("/"), place)):
        return part_word(place)
    return "node" if any(is_on_node(place) and node_of(place) in nodes for place in clues.places) else ""


def is_of_fleet(clues: Clues, one: Incident) -> bool:
    """Tell whether names of places can mean the same things: of no two fleets that are known to differ."""
    return can_be_one(clues.fleet, one.fleet)


def can_be_one(fleet: str, other: str) -> bool:
    """Tell whether two names can be those of one fleet: one that was never named, or called by its nodes, is part of
    any."""
    return fleet in ("", other) or not other or any(set("[,").intersection(name) for name in (fleet, other))


def is_on_node(place: str) -> bool:
    """Tell whether a place is a node or on one."""
    return node_of(place) not in NO_NODES


def part_word(place: str) -> str:
    """Return what a place is: `GPU`, `port`, `node`, `leaf`."""
    first, _, rest = place.partition("/")
    if first in NO_NODES:
        return first
    return _PARTS.get(rest.partition("/")[0], "part") if rest else "node"


def sign_word(sign: str) -> str:
    """Return a sign as people say it: `Xid 79`, `SXid 12028`, `sign nccl.timeout`."""
    family, _, code = sign.partition(".")
    return f"{_CODES[family]} {code}" if is_code(sign) else f"sign {sign}"


def is_code(sign: str) -> bool:
    """Tell whether a sign is an Xid or SXid, which people know by its number."""
    family, _, code = sign.partition(".")
    return family in _CODES and code.isdigit()


def _wide(place: str) -> int:
    return _WIDTHS.get(node_of(place), len(_WIDTHS))
