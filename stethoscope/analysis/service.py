"""Nodes that somebody works on: the scheduler has them out of service, or the fleet file names a window of maintenance.
What is found there is told, and blames nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.scheduler import Standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.analysis.layout import Numbers
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.maintenance import Maintenance
    from stethoscope.specs.rule import Rule


def at_most(node: Node, rule: Rule | None = None, wall: float = 0.0) -> Severity:
    """Return how urgent a finding of `rule` on `node` can be: information on a node that somebody took out of service
    or works on, and not for today on one that drains, where a job still runs and may suffer.

    What cannot wait on a node that a job uses, such as a lost GPU, is as urgent as ever.
    """
    if node.scheduler is None and not node.maintenance:
        return Severity.P0
    if node.scheduler is not None and node.scheduler.standing is Standing.DRAINING:
        return Severity.P2
    out_of_service = node.scheduler is not None and node.scheduler.is_out_of_service
    if not out_of_service and window(node, rule, wall) is None:
        return Severity.P0
    is_fire = rule is not None and rule.severity is Severity.P0 and has_job(node)
    return Severity.P0 if is_fire else Severity.INFO


def window(node: Node, rule: Rule | None, wall: float) -> Maintenance | None:
    """Return the window of maintenance that a finding of `rule` on `node` falls into, None for none."""
    if rule is None:
        return None
    return next((one for one in node.maintenance if one.covers(rule.id, wall)), None)


def has_job(node: Node) -> bool:
    """Tell whether the scheduler, or a process on a GPU, says that a job uses the node."""
    if node.scheduler is not None and node.scheduler.jobs:
        return True
    return any(process.slurm_job for process in node.processes or ())


def lowered(rule: Rule, node: Node, wall: float) -> Severity:
    """Return the severity of a finding of `rule` on `node`."""
    limit = at_most(node, rule, wall)
    return limit if rule.severity.rank < limit.rank else rule.severity


def may_be_excused(node: Node) -> bool:
    """Tell whether there may be an excuse for what is found on `node`."""
    return bool(node.maintenance) or (node.scheduler is not None and node.scheduler.standing in _SCHEDULED)


def excuse(node: Node, rule: Rule | None = None, wall: float = 0.0) -> str:
    """Return why findings of `rule` on `node` are lowered, empty where they are not: `drained: maint BMC firmware
    (root)`, `maintenance: new optics`."""
    if at_most(node, rule, wall) is Severity.P0:
        return ""
    if node.scheduler is not None and node.scheduler.standing in _SCHEDULED:
        return node.scheduler.phrase
    here = window(node, rule, wall)
    assert here is not None
    return f"maintenance: {here.reason}" if here.reason else "maintenance"


_SCHEDULED = frozenset(Standing) - {Standing.SERVING, Standing.DOWN}


def excuses(snapshot: FleetSnapshot, rule: Rule, rows: Sequence[int], owner: Numbers) -> Mapping[str, Sequence[int]]:
    """Return rows of the scope of `rule` (`owner` is the node of each) by the excuse of their node, in the order
    given."""
    nodes = snapshot.nodes
    by_node: dict[int, str] = {}
    parts: dict[str, list[int]] = {}
    for row, node in zip(rows, owner[list(rows)].tolist(), strict=True):
        if node not in by_node:
            by_node[node] = excuse(nodes[node], rule, snapshot.wall)
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
