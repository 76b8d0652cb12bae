"""Nodes that the scheduler has out of service: what is found there is told, and blames nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.scheduler import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.layout import Numbers
    from stethoscope.model.fleet import FleetSnapshot, Node


def at_most(node: Node) -> Severity:
    """Return how urgent a finding on `node` can be: information on a node that somebody took out of service, and not
    for today on one that drains, where a job still runs and may suffer."""
    if node.scheduler is None:
        return Severity.P0
    if node.scheduler.is_out_of_service:
        return Severity.INFO
    return Severity.P2 if node.scheduler.standing is Standing.DRAINING else Severity.P0


def lowered(severity: Severity, node: Node) -> Severity:
    """Return the severity of a finding on `node`."""
    limit = at_most(node)
    return limit if severity.rank < limit.rank else severity


def excuse(node: Node) -> str:
    """Return why findings on `node` are lowered, empty where they are not: `drained: maint BMC firmware (root)`."""
    return node.scheduler.phrase if node.scheduler is not None and at_most(node) is not Severity.P0 else ""


def excuses(snapshot: FleetSnapshot, rows: Sequence[int], owner: Numbers) -> dict[str, list[int]]:
    """Return rows (of any scope; `owner` is the node of each) by the excuse of their node, in the order given."""
    nodes = snapshot.nodes
    if not any(node.scheduler is not None for node in nodes):
        return {"": list(rows)}
    by_node: dict[int, str] = {}
    parts: dict[str, list[int]] = {}
    for row, node in zip(rows, owner[list(rows)].tolist(), strict=True):
        if node not in by_node:
            by_node[node] = excuse(nodes[node])
        parts.setdefault(by_node[node], []).append(row)
    return parts


def fact(node: Node, wall: float) -> Fact | None:
    """Return what the scheduler says of a node that it does not plainly use, None for one in service."""
    state = node.scheduler
    if state is None or state.standing is Standing.SERVING:
        return None
    value = state.words_text
    if state.reason:
        value += f": {state.reason}" + (f" ({state.owner})" if state.owner else "")
    at = wall if state.since is None else state.since
    return Fact("slurm_node_state", value, "in service", node.name, iso(at), "slurm")
