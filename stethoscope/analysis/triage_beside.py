"""What one look at a job shows beside its ranks: ports that carry nothing, nodes that cannot be reached while it steps,
a loss that jumps."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.job_list import known_nodes
from stethoscope.analysis.triage_leaves import waiting_leaves
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.job import Standing
    from stethoscope.model.scheduler import Job

_FLAT, _MOST_IDLE = 0.03, 0.5
"""Share of what its sisters send below which a port is idle; more idle ones than so many are none."""
_LEAST_PORTS, _LEAST_BYTES = 4, 1e6
"""Fewer ports, and ports whose sisters send less, are not compared."""
_SPREAD = 6.0
_MANY_SPIKES, _LEAST_STEPS, _JUMP, _MOST_HIGH = 4, 40, 0.06, 0.4
"""So many jumps of the loss, in a curve of so many steps at least, each so high as a share, are odd."""
_LEAST_DISKS, _LATE_MS, _TIMES = 3, 0.5, 4.0
_STEPS_S = 20.0
_AWAY = (LinkState.UNREACHABLE, LinkState.CLOSED, LinkState.REFUSED)


def idle_ports(snapshot: FleetSnapshot, nodes: Iterable[Node]) -> list[str]:
    """Return the ports of a job that are up and send nothing while most others do."""
    table = snapshot.tables.get(Scope.PORT)
    if table is None or "ib_port_xmit_data" not in table.index:
        return []
    live = [(node, snapshot.rows(node, Scope.PORT)) for node in nodes if not node.is_stale(snapshot.mono)]
    if sum(len(rows) for _, rows in live) < _LEAST_PORTS:
        return []
    rows = np.concatenate([np.arange(rows.start, rows.stop) for _, rows in live])
    number = table.index["ib_port_xmit_data"]
    known = np.asarray(table.reasons[number, rows]) == 0
    values = np.where(known, np.asarray(table.values[number, rows], dtype=np.float64), np.nan)
    if not known.any():
        return []
    middle = float(np.nanmedian(values))
    with np.errstate(invalid="ignore"):
        idle = values < _FLAT * middle
    if middle < _LEAST_BYTES or not idle.any() or idle.mean() > _MOST_IDLE:
        return []
    quiet = set(rows[idle].tolist())
    return [snapshot.place(node, Scope.PORT, row - own.start) for node, own in live for row in own if row in quiet]


def slow_disks(snapshot: FleetSnapshot, nodes: Iterable[Node]) -> Iterator[tuple[str, float, float]]:
    """Yield the disks of a job's nodes that answer far later than the same disks of the others: place, milliseconds,
    and those of the others."""
    table = snapshot.tables.get(Scope.DISK)
    if table is None or "disk_await" not in table.index:
        return
    number = table.index["disk_await"]
    found: dict[str, list[tuple[str, float]]] = {}
    for node in nodes:
        for position, row in enumerate(snapshot.rows(node, Scope.DISK)):
            if int(table.reasons[number, row]) == 0:
                place = snapshot.place(node, Scope.DISK, position)
                name = place.rpartition("/")[2]
                found.setdefault(name, []).append((place, float(table.values[number, row])))
    for name in sorted(found):
        usual = float(np.median([value for _, value in found[name]]))
        if len(found[name]) < _LEAST_DISKS or name.startswith("md"):
            continue
        for place, value in found[name]:
            if value > max(_LATE_MS, _TIMES * usual):
                yield place, round(value, 2), round(usual, 2)


def filled_leaves(snapshot: FleetSnapshot, nodes: Sequence[Node], job: Job) -> Iterator[tuple[str, str, float]]:
    """Yield what waits and who fills it; where no node behind a leaf is free of the job, another job of Slurm that runs
    on some of these very nodes, and on none elsewhere, is who else sends through it."""
    found = list(waiting_leaves(snapshot, nodes))
    yield from found
    own = {node.name for node in nodes}
    told = {leaf for what, leaf, _ in found if what == "leaf_foreign"}
    for what, leaf, value in found:
        if what != "leaf_waits" or leaf in told:
            continue
        name = leaf.partition("/")[2]
        behind = {one.name for one in snapshot.nodes if any(one.leaf(at) == name for at in range(len(one.ports)))}
        for other in snapshot.jobs:
            there = {node.name for node in known_nodes(other, snapshot)}
            if other.id != job.id and other.state == "running" and there & own and there <= behind:
                yield "leaf_foreign", leaf, value
                break


def unreachable(
    snapshot: FleetSnapshot, nodes: Iterable[Node], job: str, now: float
) -> Iterator[tuple[str, str, float | str | None, str, float]]:
    """Yield the nodes that cannot be reached for longer than a step takes, while the job steps on."""
    standing = snapshot.standings.get(job)
    age_s = None if standing is None else standing.values.get("job_step_age")
    if age_s is None or age_s > _STEPS_S:
        return
    for node in nodes:
        if node.link.state in _AWAY and now - node.link.since > _STEPS_S + age_s:
            last = node.frame_wall if node.frame_wall is not None else node.link.since
            yield "unreachable_alive", node.name, None, "an answer", min(last, node.link.since)


def spikes(standing: Standing) -> int:
    """Return how often the loss of a job jumped for a step or two and came back, 0 where that is not odd."""
    values = [value for value in standing.loss.values if value is not None and np.isfinite(value)]
    if len(values) < _LEAST_STEPS:
        return 0
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(np.asarray(values) - middle)))
    high = [value > middle + max(_SPREAD * spread, _JUMP * abs(middle)) for value in values]
    jumps = sum(now and not before for before, now in pairwise(high))
    return jumps if jumps >= _MANY_SPIKES and sum(high) <= _MOST_HIGH * len(high) else 0
