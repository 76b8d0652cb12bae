"""One cause, one finding: what a finding explains is hidden, and what many places share is folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import is_any
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.analysis.windows import Flags
    from stethoscope.specs.rule import Rule

FOLD_ABOVE = 8
"""More places than this with the same headline are one finding."""
GPUS = "gpus"
"""In `explains: same_node`: all findings about GPUs of the node."""
UNFOLD_BELOW = 5
"""A folded finding falls apart again at fewer places than this."""


def in_order(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules so that what explains stands before what is explained; where two explain each other, as when a
    lost GPU hides the hung driver and that all GPUs, the one that names the other comes first."""
    named = {rule.id: {*_names(rule.explains.same_place), *_names(rule.explains.same_node)} for rule in rules}
    before: dict[str, set[str]] = {rule.id: set() for rule in rules}
    for explaining, explained in named.items():
        for id_ in explained & before.keys():
            before[id_].add(explaining)
    for rule in sorted(rules, key=lambda rule: (_reach(rule), rule.id), reverse=True):
        earlier = _ancestors(rule.id, before)
        for other in rules if _reach(rule) else ():
            if other.id not in earlier and _is_reached(rule, other):
                before[other.id].add(rule.id)
    by_id = {rule.id: rule for rule in rules}
    left, ordered = set(by_id), []
    while left:
        free = [id_ for id_ in left if not before[id_] & left]
        # Rules that explain each other in a circle: the first of them begins.
        for id_ in sorted(free) or [min(left)]:
            ordered.append(by_id[id_])
            left.remove(id_)
    return tuple(ordered)


def _names(named: str | list[str]) -> list[str]:
    return named if isinstance(named, list) else []


def _reach(rule: Rule) -> int:
    """Return how much a rule explains without naming it: all of the node, all GPUs of it, all of its place, or none."""
    if rule.explains.same_node == "all":
        return 3
    if explains_gpus(rule):
        return 2
    return int(rule.explains.same_place == "all")


def explains_gpus(rule: Rule) -> bool:
    """Tell whether all findings about GPUs of the node are explained."""
    return rule.explains.same_node == "gpus" or GPUS in _names(rule.explains.same_node)


def _is_reached(rule: Rule, other: Rule) -> bool:
    if other.id == rule.id:
        return False
    reach = _reach(rule)
    return reach == 3 or other.scope is (Scope.GPU if reach == 2 else rule.scope)


def _ancestors(id_: str, before: Mapping[str, set[str]]) -> set[str]:
    found, asked = {id_}, [id_]
    while asked:
        for other in before[asked.pop()] - found:
            found.add(other)
            asked.append(other)
    return found


def visible(rules: Sequence[Rule], active: Mapping[str, Flags], layout: Layout) -> dict[str, Flags]:
    """Return for each rule which of its active rows are not explained by another finding.

    `rules` are `in_order`; `active` and the result are by rule id, over the rows of the rule's scope.
    """
    shown: dict[str, Flags] = {}
    hidden = _Hidden(layout)
    for rule in rules:
        flags = active[rule.id]
        if is_any(flags):
            flags = flags & ~hidden.of(rule)
            if is_any(flags):
                hidden.add(rule, flags)
        shown[rule.id] = flags
    return shown


class _Hidden:
    """Which rows of which rules are explained so far."""

    def __init__(self, layout: Layout) -> None:
        self._owner = layout.owner
        nodes = len(layout.owner[Scope.NODE])
        self._nodes = np.zeros(nodes, dtype=bool)
        self._gpus = np.zeros(nodes, dtype=bool)
        self._nodes_of_rule: dict[str, Flags] = {}
        self._rows = {scope: np.zeros(len(owner), dtype=bool) for scope, owner in layout.owner.items()}
        self._rows_of_rule: dict[str, Flags] = {}

    def of(self, rule: Rule) -> Flags:
        """Return the rows of `rule` that are explained; what one of its nodes has explains nothing of a job."""
        owner = self._owner[rule.scope]
        if rule.scope is Scope.JOB:
            own = self._rows_of_rule.get(rule.id)
            return self._rows[rule.scope] if own is None else self._rows[rule.scope] | own
        flags = self._nodes[owner] | self._rows[rule.scope]
        if rule.scope is Scope.GPU:
            flags |= self._gpus[owner]
        if rule.id in self._nodes_of_rule:
            flags |= self._nodes_of_rule[rule.id][owner]
        if rule.id in self._rows_of_rule and len(self._rows_of_rule[rule.id]) == len(flags):
            flags |= self._rows_of_rule[rule.id]
        return flags

    def add(self, rule: Rule, flags: Flags) -> None:
        """Take what the rows `flags` of `rule` explain."""
        nodes = np.zeros(len(self._nodes), dtype=bool)
        if rule.scope is not Scope.JOB:
            nodes[self._owner[rule.scope][flags]] = True
        if rule.explains.same_node == "all":
            self._nodes |= nodes
        if explains_gpus(rule):
            self._gpus |= nodes
        for other in _names(rule.explains.same_node):
            if other != GPUS:
                self._nodes_of_rule[other] = self._nodes_of_rule.get(other, np.zeros_like(nodes)) | nodes
        if rule.explains.same_place == "all":
            self._rows[rule.scope] |= flags
        else:
            for other in rule.explains.same_place:
                self._rows_of_rule[other] = self._rows_of_rule.get(other, np.zeros_like(flags)) | flags


def count_units(rule: Rule, rows: Sequence[int], owner: Numbers) -> int:
    """Return how many findings are about `rows`, were each about what `units` puts together."""
    return len(np.unique(owner[np.array(rows)])) if rule.per_node else len(rows)


def units(rule: Rule, rows: Sequence[int], owner: Numbers) -> list[list[int]]:
    """Return the rows that one finding each is about: every row alone, or all rows of a node together.

    `owner` is the node of each row of the rule's scope.
    """
    if not rule.per_node:
        return [[row] for row in rows]
    by_node: dict[int, list[int]] = {}
    for row, node in zip(rows, owner[np.array(rows)].tolist(), strict=True):
        by_node.setdefault(node, []).append(row)
    return list(by_node.values())
