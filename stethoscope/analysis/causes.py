"""Which group of places is the cause of many findings of one rule: one where most of the members are affected, while
few of the others are.

How likely it is comes from a comparison of three stories about which members are affected (`weight`): the group has a
fault in common; each has a fault of its own; all of the fleet has one. That holds for two of two as well as for
three hundred.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, lgamma, log
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import is_equal
from stethoscope.analysis.sharing import ORDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.layout import Numbers
    from stethoscope.analysis.sharing import Groups, Kind, Sharing
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Scope

LEAST = 2
"""Fewer places than this have nothing in common."""
MOST = 2 / 3
"""The share of a group's members that must be affected."""
MANY = 3
"""So many groups of a kind with the same fault have something in common themselves."""
FEW = 0.15
"""The share of all others that may be affected, one of them in any case."""
KEPT = 1 / 4
"""A group that was the cause stays it while it has this share of its members: what is left began with the others."""
KEPT_S = 45.0
"""It stays for so long below that too: the others come back one after another."""
ENOUGH = log(10)
"""So much likelier (logarithm) than the other stories must a cause be."""
TOGETHER_S, APART_S = 60.0, 3600.0
"""What began within a minute began together; what took over an hour did not."""
TIME_WEIGHT = 1.5
_MOST_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Cause:
    """A group, or several of a kind, that have a fault in common."""

    name: str
    """The id of a place, or words: `leaf/leaf-01-3`, `driver 550.90.07`."""
    kind: Kind
    rows: tuple[int, ...]
    """Affected rows of the rule's scope."""
    affected: int
    members: int
    """How many rows (nodes, for a kind of nodes) are affected, of how many of the group in service."""
    outside_affected: int
    outside: int
    """The same of those that no cause is found for."""
    nodes: Flags
    """Nodes of all members."""
    since: float
    """When the first of them began, by the wall clock."""
    weight: float


@dataclass(slots=True)
class Held:
    """The causes of one rule at the last moment."""

    below_since: dict[str, float] = field(default_factory=dict)
    """By name: the monotonic second since when too few are affected, infinite while there are enough."""


@dataclass(frozen=True, slots=True)
class Affected:
    """What one rule found, over the rows of its scope."""

    scope: Scope
    per_node: bool
    owner: Numbers
    """Node of each row."""
    in_service: Flags
    population: Flags
    """Those in service of which the rule knows whether they are affected, or that are."""
    active: Flags
    """Affected rows among them."""
    seen: Flags
    """Those of them that nothing else explains."""
    since: Floats
    """Wall seconds at which each began."""
    started: float
    """When the console began to look: what began then may be older."""
    nodes: int
    """How many nodes there are."""

    def of_nodes(self, rows: Flags) -> Flags:
        """Return the nodes that have any of `rows`."""
        flags = np.zeros(self.nodes, dtype=bool)
        flags[self.owner[rows]] = True
        return flags


@dataclass(frozen=True, slots=True)
class Known:
    """What was found of one rule, and of what: of the same it is not found again."""

    affected: Affected
    sharing: Sharing
    below_since: Mapping[str, float]
    """What was remembered before."""
    causes: list[Cause]

    def stands(self, affected: Affected, sharing: Sharing, held: Held) -> bool:
        """Tell whether nothing has changed; what has too few members changes by itself."""
        one, other = self.affected, affected
        return (
            sharing is self.sharing
            and held.below_since == self.below_since
            and all(since == inf for since in self.below_since.values())
            and one.owner is other.owner
            and (one.started, one.nodes) == (other.started, other.nodes)
            and is_equal(one.since, other.since)
            and all(
                np.array_equal(before, now)
                for before, now in (
                    (one.active, other.active),
                    (one.seen, other.seen),
                    (one.population, other.population),
                    (one.in_service, other.in_service),
                )
            )
        )


@dataclass(slots=True)
class _Candidate:
    groups: Groups
    number: int
    rows: int
    """Affected rows of the scope of the rule."""
    affected: int
    known: int
    """Members of which the rule knows whether they are affected."""
    members: int
    is_held: bool

    @property
    def name(self) -> str:
        return self.groups.causes[self.number]

    @property
    def units(self) -> Flags:
        """Return the members: rows, or nodes for a kind of nodes."""
        flags: Flags = self.groups.numbers == self.number
        return flags

    @property
    def gain(self) -> tuple[float, int]:
        """Return what sorts candidates: what leaves least to explain stands first, then what is more physical."""
        missed = 0 if self.is_held else self.known - self.affected
        return -self.rows * (1 - missed / self.affected) - self.is_held, ORDER[self.groups.kind.name]


def find(found: Affected, sharing: Sharing, held: Held, mono: float) -> list[Cause]:
    """Return the causes of what one rule found, disjoint in their rows; `held` remembers them for the next moment."""
    if np.count_nonzero(found.seen) < LEAST and not held.below_since:
        return []
    causes = [cause for cause in _likely(_candidates(found, sharing, held), found) if _stays(cause, held, mono)]
    names = {cause.name for cause in causes}
    held.below_since = {name: since for name, since in held.below_since.items() if name in names}
    return causes


def _candidates(found: Affected, sharing: Sharing, held: Held) -> list[_Candidate]:
    candidates: list[_Candidate] = []
    of_rows: tuple[Flags, ...] = (found.in_service, found.population, found.active)
    of_nodes: tuple[Flags, ...] = ()
    for name in sharing.kinds(found.scope, per_node=found.per_node):
        groups = sharing.groups(found.scope, name)
        if not groups.causes:
            continue
        flags = of_rows
        if groups.kind.of_nodes:
            of_nodes = of_nodes or tuple(found.of_nodes(rows) for rows in of_rows)
            flags = of_nodes
        has = groups.numbers >= 0
        members, known, hits = (
            np.bincount(groups.numbers[units & has], minlength=len(groups.causes)) for units in flags
        )
        rows = hits
        if groups.kind.of_nodes:
            of_row = groups.numbers[found.owner[found.active]]
            rows = np.bincount(of_row[of_row >= 0], minlength=len(groups.causes))
        likely = (hits >= LEAST) & (hits >= MOST * known) & (2 * hits >= members)
        is_held = np.zeros(len(likely), dtype=bool)
        if held.below_since:
            is_held = (hits > 0) & np.array([cause in held.below_since for cause in groups.causes], dtype=bool)
        for number in np.flatnonzero(likely | is_held).tolist():
            counts = int(rows[number]), int(hits[number]), int(known[number]), int(members[number])
            candidates.append(_Candidate(groups, number, *counts, bool(is_held[number])))
    return sorted(candidates, key=lambda candidate: candidate.gain)[:_MOST_CANDIDATES]


def _rows(candidate: _Candidate, found: Affected) -> Flags:
    units = candidate.units
    if not candidate.groups.kind.of_nodes:
        return units
    rows: Flags = units[found.owner]
    return rows


def _disjoint(candidates: list[_Candidate], found: Affected) -> list[tuple[_Candidate, Flags]]:
    """Return the candidates that have enough of their own beside those before them, and the affected rows of each."""
    left = found.active.copy()
    chosen = []
    for candidate in candidates:
        rows = _rows(candidate, found) & left
        own = np.count_nonzero(found.of_nodes(rows)) if candidate.groups.kind.of_nodes else np.count_nonzero(rows)
        if own == candidate.affected or (own >= LEAST and own >= MOST * candidate.known) or (own and candidate.is_held):
            chosen.append((candidate, rows))
            left &= ~rows
    return chosen


def _likely(candidates: list[_Candidate], found: Affected) -> list[Cause]:
    """Return as causes those that are much likelier than chance; what the others leave is among the outside then, and
    may belong to smaller ones."""
    while True:
        chosen = _disjoint(candidates, found)
        outside = found.population.copy()
        for candidate, _ in chosen:
            outside &= ~_rows(candidate, found)
        affected = outside & found.active
        of_rows = int(np.count_nonzero(affected)), int(np.count_nonzero(outside))
        of_nodes = tuple(int(np.count_nonzero(found.of_nodes(rows))) for rows in (affected, outside))
        causes, failed = [], set()
        for candidate, rows in chosen:
            counts = of_nodes if candidate.groups.kind.of_nodes else of_rows
            heavy = weight(candidate.groups, candidate.affected, candidate.known, *counts) + _time_weight(found, rows)
            if heavy >= ENOUGH or candidate.is_held:
                causes.append(_cause(candidate, rows, (counts[0], counts[1]), heavy, found))
            else:
                failed.add(id(candidate))
        alone = [candidate for candidate, _ in chosen if candidate.groups.kind.name in ("node", "gpu")]
        if len(alone) >= MANY:
            # What so many nodes have is not the fault of each of them.
            failed |= {id(candidate) for candidate in candidates if candidate.groups.kind.name in ("node", "gpu")}
        if not failed:
            return [cause for cause in causes if cause.rows]
        candidates = [candidate for candidate in candidates if id(candidate) not in failed]


def weight(groups: Groups, affected: int, known: int, outside_affected: int, outside: int) -> float:
    """Return how much likelier (logarithm) it is that the group has a fault in common than that its members have one
    each, or all of the fleet has.

    -inf where nothing outside can be compared, but for what a device is a part of.
    """
    is_part = groups.kind.name in ("node", "gpu")
    if (not outside and not is_part) or outside_affected > max(1, FEW * outside):
        return -inf
    common = _evidence(9.5, 0.5, affected, known) + _evidence(0.5, 2.0, outside_affected, outside)
    own = _evidence(0.5, 50.0, affected + outside_affected, known + outside)
    everywhere = _evidence(1.0, 1.0, affected + outside_affected, known + outside) if outside else -inf
    return common - max(own, everywhere) - log(len(groups.causes))


def _evidence(a: float, b: float, affected: int, of: int) -> float:
    """Return the logarithm of the likelihood of so many affected ones where their share is Beta(a, b) distributed."""
    return _log_beta(a + affected, b + of - affected) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _time_weight(found: Affected, rows: Flags) -> float:
    since = found.since[rows]
    first, last = float(since.min()), float(since.max())
    if last <= found.started:
        return 0.0
    return TIME_WEIGHT if last - first <= TOGETHER_S else -TIME_WEIGHT if last - first > APART_S else 0.0


def _cause(candidate: _Candidate, rows: Flags, outside: tuple[int, int], heavy: float, found: Affected) -> Cause:
    units = candidate.units
    nodes = units if candidate.groups.kind.of_nodes else found.of_nodes(units)
    seen = rows & found.seen
    return Cause(
        candidate.name,
        candidate.groups.kind,
        tuple(np.flatnonzero(seen).tolist()),
        candidate.affected,
        candidate.members,
        *outside,
        nodes,
        float(found.since[rows].min()),
        heavy,
    )


def _stays(cause: Cause, held: Held, mono: float) -> bool:
    """Tell whether a cause is one still, and note since when it has too few."""
    if cause.affected >= LEAST and cause.affected >= KEPT * cause.members:
        held.below_since[cause.name] = inf
        return True
    since = min(held.below_since.get(cause.name, inf), mono)
    held.below_since[cause.name] = since
    return mono - since <= KEPT_S
