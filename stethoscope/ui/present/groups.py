"""Which group each node is in: a rack, a pod, the leaves of its ports, its jobs, its partitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node

_WITHOUT = {
    "rack": "no rack known",
    "pod": "no pod known",
    "leaf": "no leaf known",
    "job": "no job",
    "partition": "no partition",
}


class Group(NamedTuple):
    """One group of nodes; an empty name is that of the nodes of which no group is known."""

    name: str
    nodes: tuple[int, ...]
    """Positions in `FleetSnapshot.nodes`, in that order."""


def groups_of(snapshot: FleetSnapshot, by: str) -> list[Group]:
    """Return the groups of all nodes in the order of their names, those of which none is known last. A node is in one
    group, by leaf in the group of every leaf that one of its ports is plugged into."""
    found: dict[str, list[int]] = {}
    for node in snapshot.nodes:
        for name in _names(snapshot, node, by):
            found.setdefault(name, []).append(node.index)
    return [Group(name, tuple(found[name])) for name in sorted(found, key=lambda name: (not name, natural(name)))]


def marks_of(snapshot: FleetSnapshot, by: str) -> list[object]:
    """Return by node what its group follows from: as long as these are equal, so are the groups."""
    if by == "leaf":
        return [(node.name, node.leaves) for node in snapshot.nodes]
    return [(node.name, _names(snapshot, node, by)) for node in snapshot.nodes]


def _names(snapshot: FleetSnapshot, node: Node, by: str) -> tuple[str, ...]:
    if by == "rack":
        return (node.rack,)
    if by == "pod":
        return (node.pod,)
    if by == "leaf":
        return tuple(dict.fromkeys(node.leaves.values())) or ("",)
    if node.scheduler is None:
        return ("",)
    # A node that several jobs share is a group with those that the same jobs share: it stands on one line all the same.
    return (" ".join(node.scheduler.jobs if by == "job" else node.scheduler.partitions),)


def title(by: str, name: str) -> str:
    """Return what a group is called on its line: `rack-07`, `job 4242`, `no job`."""
    if not name:
        return _WITHOUT[by]
    return name if by in name.lower() else f"{by} {name}"


def about(snapshot: FleetSnapshot, by: str, name: str) -> str:
    """Return what else is known of a group: name, user and state of a job."""
    if by != "job":
        return ""
    parts = []
    for job in snapshot.jobs:
        if job.id in name.split():
            state = f" {job.state}" if job.state not in ("", "running") else ""
            parts.append(f"{job.name or job.id}{f' ({job.user})' if job.user else ''}{state}")
    return ", ".join(parts)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts `rack-9` before `rack-10`."""
    parts = re.split(r"(\d+)", text)
    return tuple((1, int(part), "") if place % 2 else (0, 0, part) for place, part in enumerate(parts))
