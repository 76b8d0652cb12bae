"""Groups of comparable rows: of the same model, job, rail, driver and so on, alone or joined with `+`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import DEVICE_SCOPES, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.model.fleet import Node

STATIC = ("model", "name", "node", "fleet", "rack", "pod", "leaf", "rail")
"""What stands as long as the layout does."""
WORDS = ("driver", "firmware")
"""What a node says of itself now and then."""
OCCUPATION = ("job", "role")
"""What a row does now."""
KINDS = (*STATIC, *OCCUPATION, *WORDS)


def joined(parts: list[Numbers]) -> Numbers:
    """Return the numbers of the groups that agree in every part, -1 for rows that have no group in one of them."""
    first, *others = parts
    together = first
    for numbers in others:
        # What two numbers of 32 bits make together needs more for a moment.
        together = together.astype(np.int64)
        low = min(int(numbers.min(initial=0)), -1)
        size = int(numbers.max(initial=0)) - low + 1
        both = np.where((together < 0) | (numbers < 0), -1, together * size + numbers)
        # Numbers stay small however many parts there are.
        _, dense = np.unique(both, return_inverse=True)
        together = np.where(both < 0, -1, dense).astype(np.int32)
    return together


def numbered(layout: Layout, nodes: tuple[Node, ...], scope: Scope, of: str) -> Numbers:
    """Return the number of the group `of` one kind of each row of `scope`, -1 where it has none."""
    owner, position = layout.owner[scope], layout.position[scope]
    if of == "node":
        return owner
    if of == "fleet" or (scope in (Scope.NODE, Scope.JOB) and of == "name"):
        return np.where(owner >= 0, np.int32(0), np.int32(-1))
    key = _KEYS[of]
    numbers: dict[Hashable, int] = {}
    groups = np.full(len(owner), -1, dtype=np.int32)
    if scope in DEVICE_SCOPES and of in ("model", "name"):
        # Nodes of one kind share what is said of their devices.
        known: dict[tuple[int, int], Numbers] = {}
        for node in nodes:
            first, devices = node.device_first.get(scope, -1), node.devices.get(scope, ())
            if first < 0:
                continue
            shared = (id(devices), id(node.about))
            if shared not in known:
                kinds = [key(node, scope, at) for at in range(len(devices))]
                known[shared] = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int32)
            groups[first : first + len(devices)] = known[shared]
        return np.where(owner >= 0, groups, -1)
    for row in np.flatnonzero(owner >= 0):
        found = key(nodes[owner[row]], scope, int(position[row]))
        if found is not None:
            groups[row] = numbers.setdefault(found, len(numbers))
    return groups


def _model(node: Node, scope: Scope, position: int) -> Hashable:
    if scope is Scope.GPU:
        return node.gpus[position].name
    if scope is Scope.PORT:
        return node.ports[position].layer
    if scope is Scope.NODE:
        return tuple(sorted({gpu.name for gpu in node.gpus})), len(node.gpus)
    if scope is Scope.JOB:
        return 0
    return node.about.get((scope, node.devices[scope][position]), {}).get("model", "")


def _name(node: Node, scope: Scope, position: int) -> Hashable:
    if scope is Scope.GPU:
        return node.gpus[position].index
    if scope is Scope.PORT:
        return node.ports[position].device, node.ports[position].port
    return node.devices[scope][position]


def _leaf(node: Node, scope: Scope, position: int) -> Hashable:
    if scope is Scope.PORT:
        return node.leaf(position) or None
    leaves = set(node.leaves.values())
    return leaves.pop() if len(leaves) == 1 else None


def _rail(node: Node, scope: Scope, position: int) -> Hashable:
    if scope in (Scope.NODE, Scope.JOB):
        return node.pod
    return node.pod, _name(node, scope, position)


def _firmware(node: Node, scope: Scope, position: int) -> Hashable:
    if scope is Scope.GPU:
        versions = node.gpu_words.get("gpu_vbios_version", ())
        return versions[position] if position < len(versions) else ""
    return node.words.get("ib_fw_version" if scope is Scope.PORT else "bios", "")


_KEYS: dict[str, Callable[[Node, Scope, int], Hashable]] = {
    "model": _model,
    "name": _name,
    "rack": lambda node, scope, position: node.rack or None,
    "pod": lambda node, scope, position: node.pod or None,
    "leaf": _leaf,
    "rail": _rail,
    "driver": lambda node, scope, position: node.words.get("driver_version", ""),
    "firmware": _firmware,
}
