"""What a value should be, from comparable nodes: never from a constant. A model that has fewer links, or a machine
without some device, is not at fault as long as its like are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.model.metric import Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot, Floats, Node

LEAST = 3
"""Fewer values than this say nothing about what is usual."""
MOST_NODES = 256
"""More nodes than these, taken from all over the fleet, say nothing more about it."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a value should be, and who says so."""

    value: float
    agree: int = 0
    """How many of the compared have this value; 0 when it was said, not counted."""
    among: int = 0
    """How many were compared."""
    whose: str = ""
    """What was compared, or who said it: `nodes like this`, `fleet file`, `maximum of the device`."""

    @property
    def source(self) -> str:
        """Return who says so: `31 of 32 nodes like this`, `fleet file`."""
        return f"{self.agree:,} of {self.among:,} {self.whose}" if self.agree else self.whose


def majorities(values: Floats, whose: str) -> list[Expected | None]:
    """Return for each column of `values` (NaN for none) the value that more than half of at least LEAST have, None
    where there is none."""
    if len(values) < LEAST:
        return [None] * values.shape[1]
    among = (~np.isnan(values)).sum(axis=0)
    # What more than half have stands in the middle of the ordered values, which have NaN at their end.
    middle = np.take_along_axis(np.sort(values, axis=0), np.maximum(0, (among - 1) // 2)[None, :], axis=0)[0]
    agree = (values == middle).sum(axis=0)
    return [
        Expected(float(value), int(same), int(all_), whose) if all_ >= LEAST and 2 * same > all_ else None
        for value, same, all_ in zip(middle, agree, among, strict=True)
    ]


def majority(values: Sequence[float] | Floats, whose: str) -> Expected | None:
    """Return the value that more than half of at least LEAST have, None when there is none."""
    return majorities(np.array(values, dtype=np.float64).reshape(-1, 1), whose)[0]


def kind_of(node: Node) -> str:
    """Return what nodes are compared by: the model of their GPUs, whatever number of them answers."""
    return node.gpus[0].name if node.gpus else ""


def like(snapshot: FleetSnapshot, node: Node) -> list[Node]:
    """Return the other nodes of the same kind that have been seen, no more than MOST_NODES."""
    kind = kind_of(node)
    nodes = [other for other in snapshot.nodes if other.frames and other.name != node.name and kind_of(other) == kind]
    return nodes[:: -(-len(nodes) // MOST_NODES) or 1]


def same_places(snapshot: FleetSnapshot, node: Node, scope: Scope) -> Rows:
    """Return, for each other node with the same devices of `scope` as `node`, the rows of them: one line a node, in the
    order of `node`'s devices. Same are GPUs of one model and number, ports and other devices of the same names."""
    count = len(snapshot.rows(node, scope))
    mine = _names(node, scope)
    starts = [
        part.start
        for other in like(snapshot, node)
        if len(part := snapshot.rows(other, scope)) == count and _names(other, scope) == mine
    ]
    return np.array(starts, dtype=np.int64)[:, None] + np.arange(count)


def _names(node: Node, scope: Scope) -> object:
    if scope is Scope.GPU:
        return tuple(gpu.name for gpu in node.gpus)
    if scope is Scope.PORT:
        return tuple((port.device, port.port) for port in node.ports)
    return node.devices.get(scope, ())


def expected_values(snapshot: FleetSnapshot, node: Node, scope: Scope, metric: str) -> list[Expected | None]:
    """Return for each device of `node` what `metric` should be: what most devices at the same place of comparable nodes
    have, else what most of its like on this node have."""
    table, part = snapshot.tables[scope], snapshot.rows(node, scope)
    if metric not in table.index or not len(part):
        return [None] * len(part)
    column = table.index[metric]
    values = np.where(table.reasons[column] == Reason.PRESENT, table.values[column], np.nan)
    found = majorities(values[same_places(snapshot, node, scope)], "nodes like this")
    if None not in found:
        return found
    here, sorts = values[part.start : part.stop], _sorts(node, scope, len(part))
    alike: dict[object, Expected | None] = {}
    for sort in dict.fromkeys(sorts):
        alike[sort] = majority(here[[at for at, other in enumerate(sorts) if other == sort]], "devices here")
    return [one or alike[sort] for one, sort in zip(found, sorts, strict=True)]


def _sorts(node: Node, scope: Scope, count: int) -> Sequence[object]:
    """Return what makes devices of one node comparable with each other."""
    if scope is Scope.GPU:
        return [gpu.name for gpu in node.gpus]
    if scope is Scope.PORT:
        return [port.layer for port in node.ports]
    if scope is Scope.NVLINK:
        return [""] * count
    abouts = [node.about.get((scope, name), {}) for name in node.devices.get(scope, ())]
    # A device of which nothing is known is like no other.
    return [(about.get("driver"), about.get("model")) if about else at for at, about in enumerate(abouts)]


def expected_count(snapshot: FleetSnapshot, node: Node, scope: Scope) -> Expected | None:
    """Return how many devices of `scope` the node should have: as the fleet file says, else as most nodes of its kind
    have; None when nobody knows."""
    if scope is Scope.GPU and node.expected_gpus is not None:
        return Expected(float(node.expected_gpus), whose="fleet file")
    return majority([float(len(snapshot.rows(other, scope))) for other in like(snapshot, node)], "nodes like this")


def peer_rows(snapshot: FleetSnapshot, node: Node, scope: Scope, position: int) -> Rows:
    """Return the rows that the device at `position` is compared with: those of its place on comparable nodes, and its
    like on this node."""
    part = snapshot.rows(node, scope)
    elsewhere = same_places(snapshot, node, scope)[:, position]
    sorts = _sorts(node, scope, len(part))
    here = [part[at] for at, sort in enumerate(sorts) if at != position and sort == sorts[position]]
    return np.concatenate([elsewhere, np.array(here, dtype=np.int64)])
