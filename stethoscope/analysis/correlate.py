"""One cause, one finding: what a finding explains is hidden, and what many places share is folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.analysis.windows import Flags
    from stethoscope.specs.rule import Rule

FOLD_ABOVE = 8
"""More places than this with the same headline are one finding."""
UNFOLD_BELOW = 5
"""A folded finding falls apart again at fewer places than this."""


def visible(rules: Sequence[Rule], active: Mapping[str, Flags], layout: Layout) -> dict[str, Flags]:
    """Return for each rule which of its active rows are not explained by another finding.

    `active` and the result are by rule id, over the rows of the rule's scope.
    """
    shown: dict[str, Flags] = {}
    hidden = _Hidden(layout)
    for rule in sorted(rules, key=_order):
        flags = active[rule.id]
        if flags.any():
            flags = flags & ~hidden.of(rule)
            if flags.any():
                hidden.add(rule, flags)
        shown[rule.id] = flags
    return shown


def _order(rule: Rule) -> tuple[int, str]:
    """Order rules so that what explains stands before what is explained: a lost node before all, and a rule that names
    another before one that means all GPUs."""
    named = rule.explains.same_node
    if named == "all":
        return 0, rule.id
    if named == "gpus":
        return 2, rule.id
    return (1, rule.id) if named or rule.explains.same_place else (3, rule.id)


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
        elif rule.explains.same_node == "gpus":
            self._gpus |= nodes
        else:
            for other in rule.explains.same_node:
                self._nodes_of_rule[other] = self._nodes_of_rule.get(other, np.zeros_like(nodes)) | nodes
        if rule.explains.same_place == "all":
            self._rows[rule.scope] |= flags
        else:
            for other in rule.explains.same_place:
                self._rows_of_rule[other] = self._rows_of_rule.get(other, np.zeros_like(flags)) | flags


def units(rule: Rule, rows: list[int], owner: Numbers) -> list[list[int]]:
    """Return the rows that one finding each is about: every row alone, or all rows of a node together.

    `owner` is the node of each row of the rule's scope.
    """
    if not rule.per_node:
        return [[row] for row in rows]
    by_node: dict[int, list[int]] = {}
    for row, node in zip(rows, owner[rows].tolist(), strict=True):
        by_node.setdefault(node, []).append(row)
    return list(by_node.values())
