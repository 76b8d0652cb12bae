"""Findings of several rules with one cause: ports down, retransmissions and silent nodes behind the same leaf."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.causal import may_follow, may_suffer, rank
from stethoscope.analysis.causes import LEAST, MANY, MOST
from stethoscope.analysis.sharing import ORDER
from stethoscope.model.ids import fold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.analysis.causes import Affected, Cause
    from stethoscope.analysis.sharing import Sharing
    from stethoscope.analysis.windows import Flags
    from stethoscope.specs.rule import Rule

_PLACES = {"leaf": "leaf", "leaf of nodes": "leaf", "rack": "rack", "pod": "pod"}
ALIKE = 0.8
"""Two groups whose nodes are the same to this share may be one, named twice: a rack, and what its leaf serves."""
HALF = 0.5
EARLY_S, LATE_S = 15.0, 1800.0
"""A consequence is noticed at most so much before its cause, and begins at most so long after it."""


@dataclass(slots=True)
class Joined:
    """One cause and all that is found because of it."""

    cause: Cause
    first: int
    """Number of the rule that stands nearest to the cause."""
    parts: dict[int, list[int]] = field(default_factory=dict)
    """Rule -> affected rows of its scope."""
    id: str = ""
    """What is said behind the @ of the finding's id."""


def join(
    rules: Sequence[Rule], found: Mapping[int, Affected], causes: Mapping[int, Sequence[Cause]], sharing: Sharing
) -> list[Joined]:
    """Return one entry for each cause, and for each row the one that it belongs to, if any; numbers are those of
    `rules`."""
    one_by_one = [(number, cause) for number, of_rule in causes.items() for cause in of_rule]
    one_by_one.sort(key=lambda one: (rank(rules[one[0]]), one[1].since, ORDER[one[1].kind.name], rules[one[0]].id))
    joined: list[Joined] = []
    for number, cause in one_by_one:
        into = next((entry for entry in joined if _is_same(entry, cause, rules, number, found)), None)
        if into is None:
            into = Joined(cause, number, id=cause.name)
            joined.append(into)
        into.parts.setdefault(number, []).extend(cause.rows)
    if joined:
        for number, affected in found.items():
            _take_loose(joined, number, affected, rules, sharing)
    return _merged(joined)


def _merged(joined: Sequence[Joined]) -> list[Joined]:
    """Return as one what many groups of a kind have in the same way: four racks that lost their power."""
    alike: dict[tuple[int, str], list[Joined]] = {}
    for entry in joined:
        alike.setdefault((entry.first, entry.cause.kind.name), []).append(entry)
    merged = []
    for (first, kind), entries in alike.items():
        if len(entries) < MANY or kind not in _PLACES:
            merged += entries
            continue
        causes = [entry.cause for entry in entries]
        together = replace(
            causes[0],
            name=f"{_PLACES[kind]}/{fold(cause.name.partition('/')[2] for cause in causes)}",
            rows=tuple(row for cause in causes for row in cause.rows),
            affected=sum(cause.affected for cause in causes),
            members=sum(cause.members for cause in causes),
            nodes=np.logical_or.reduce([cause.nodes for cause in causes]),
            since=min(cause.since for cause in causes),
            weight=min(cause.weight for cause in causes),
        )
        parts: dict[int, list[int]] = {}
        for entry in entries:
            for number, rows in entry.parts.items():
                parts.setdefault(number, []).extend(rows)
        merged.append(Joined(together, first, parts, id=kind))
    return merged


def _is_same(entry: Joined, cause: Cause, rules: Sequence[Rule], number: int, found: Mapping[int, Affected]) -> bool:
    if entry.cause.name == cause.name:
        return True
    # What one rule found belongs to groups that have nothing in common.
    if number in entry.parts or not may_follow(entry.cause.kind.name, rules[entry.first], rules[number]):
        return False
    both = np.count_nonzero(entry.cause.nodes & cause.nodes)
    either = np.count_nonzero(entry.cause.nodes | cause.nodes)
    return bool(both >= ALIKE * either) and _is_in_order(entry, cause.since, found[number].started)


def _is_in_order(entry: Joined, since: float, started: float) -> bool:
    """Tell whether what began at `since` can be a consequence; of what was there at the start nobody knows."""
    if min(since, entry.cause.since) <= started:
        return True
    return -EARLY_S <= since - entry.cause.since <= LATE_S


def _take_loose(
    joined: Sequence[Joined],
    number: int,
    affected: Affected,
    rules: Sequence[Rule],
    sharing: Sharing,
) -> None:
    """Give what a rule found, and no cause has yet, to the cause that it follows from."""
    loose = affected.seen.copy()
    for entry in joined:
        loose[entry.parts.get(number, [])] = False
    for entry in joined:
        if entry.first == number or not loose.any():
            continue
        kind, first, rule = entry.cause.kind.name, rules[entry.first], rules[number]
        nodes = None
        if may_follow(kind, first, rule):
            nodes = _inside(affected, loose, entry.cause.nodes, least=HALF * np.count_nonzero(entry.cause.nodes))
        if nodes is None and may_suffer(kind, first, rule):
            nodes = _inside(affected, loose, _of_same_jobs(entry.cause.nodes, sharing), least=1)
        if nodes is None:
            continue
        rows = loose & nodes[affected.owner]
        if _is_in_order(entry, float(affected.since[rows].min()), affected.started):
            entry.parts.setdefault(number, []).extend(np.flatnonzero(rows).tolist())
            loose &= ~rows


def _inside(affected: Affected, loose: Flags, group: Flags, *, least: float) -> Flags | None:
    """Return the nodes of a group that a rule affects, None when these are too few of the group or of the affected."""
    nodes = affected.of_nodes(loose)
    inside: Flags = nodes & group
    count = np.count_nonzero(inside)
    is_one = np.count_nonzero(group) == 1
    if count < (1 if is_one else LEAST) or count < least or count < MOST * np.count_nonzero(nodes):
        return None
    return inside


def _of_same_jobs(nodes: Flags, sharing: Sharing) -> Flags:
    jobs = sharing.jobs()
    of_group = {jobs[index] for index in np.flatnonzero(nodes).tolist() if jobs[index]}
    return np.array([job in of_group for job in jobs], dtype=bool)
