"""What the conditions of a rule saw at one row of its scope: values, peers, Xids, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.across import across
from stethoscope.analysis.leaves import matches
from stethoscope.analysis.leaves_words import newest_line
from stethoscope.analysis.windows import TRUE
from stethoscope.model.metric import Scope
from stethoscope.specs.condition import Compare, Leaf, LinkIs, XidSeen, leaves, whole
from stethoscope.specs.condition_change import Changed
from stethoscope.specs.condition_kernel import KernelLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.moment import Moment
    from stethoscope.model.event import LogEvent
    from stethoscope.specs.condition import Condition
    from stethoscope.specs.rule import Rule

XID_SHOWN_S = 3600.0
"""An Xid that is older than this is not quoted beside a finding that does not ask for one."""
OLD_XID_SHOWN_S = 86_400.0
"""An Xid that a rule names is quoted up to this age, also where something else made the rule true."""


class Reader:
    """Reads what one rule's conditions saw at one moment."""

    def __init__(self, rule: Rule, moment: Moment, evaluator: Evaluator) -> None:
        """Read values through `evaluator`, which has just evaluated the rule."""
        self._rule = rule
        self._moment = moment
        self._evaluator = evaluator
        self._known_leaves: list[tuple[Leaf, bool]] = []
        self.knows_better = rule.scope is Scope.JOB or any(
            isinstance(leaf, LinkIs | XidSeen | KernelLog | Changed) and positive
            for leaf, positive in leaves(rule.trigger)
        )
        """The link, the kernel log or a job's log says since when, so that `began` is worth asking."""

    def place(self, row: int) -> str:
        """Return the id of the place at `row` of the rule's scope."""
        node = self._moment.snapshot.nodes[self.node(row)]
        return self._moment.snapshot.place(node, self._rule.scope, self._position(row))

    def nodes(self, rows: Iterable[int]) -> list[str]:
        """Return the names of the nodes that places are on; of a job all of its nodes."""
        snapshot = self._moment.snapshot
        if self._rule.scope is Scope.JOB:
            return list(dict.fromkeys(name for row in rows for name in snapshot.jobs[row].nodes))
        return list(dict.fromkeys(snapshot.nodes[self.node(row)].name for row in rows))

    def node(self, row: int) -> int:
        """Return the index of the node of `row`."""
        return int(self._moment.layout.owner[self._rule.scope][row])

    def _position(self, row: int) -> int:
        return int(self._moment.layout.position[self._rule.scope][row])

    def _leaves(self) -> list[tuple[Leaf, bool]]:
        if not self._known_leaves:
            more = leaves(self._rule.more_sure) if self._rule.more_sure is not None else ()
            self._known_leaves = [*leaves(self._rule.trigger), *more]
        return self._known_leaves

    def _own_row(self, scope: Scope, row: int, asked: Leaf | None = None) -> int | None:
        """Return the row of `scope` that stands for `row` of the rule's scope: of other devices the one where the
        condition `asked`, or the first about such devices, is true; None where none is and there are several."""
        if scope is self._rule.scope:
            return row
        of_job = self._rule.scope is Scope.JOB
        if scope is Scope.NODE and not of_job:
            return self.node(row)
        rows = across(self._moment, scope, self._rule.scope).rows(row)
        leaf = asked or next((one for one, _ in self._leaves() if one.scope(self._moment.catalogue) is scope), None)
        if leaf is not None:
            verdicts = self._evaluator.verdicts(self._whole(leaf), scope, self._moment)
            true = next((own for own in rows if verdicts[own] == TRUE), None)
            if true is not None:
                return true
        if scope is Scope.NODE:
            return self.node(row)
        return rows[0] if len(rows) == 1 else None

    def _whole(self, leaf: Leaf) -> Condition:
        """Return the part of the rule that is judged device by device and has `leaf` in it."""
        for part in (self._rule.trigger, self._rule.more_sure):
            found = None if part is None else whole(part, leaf, self._moment.catalogue)
            if found is not None:
                return found
        return leaf

    def _place_of(self, scope: Scope, own: int) -> str:
        layout, snapshot = self._moment.layout, self._moment.snapshot
        node = snapshot.nodes[int(layout.owner[scope][own])]
        return snapshot.place(node, scope, int(layout.position[scope][own]))

    def _number(self, leaf: Leaf, row: int) -> float | None:
        _, values = self._evaluator.leaf(leaf, self._moment)
        own = self._own_row(leaf.scope(self._moment.catalogue), row, leaf)
        if values is None or own is None:
            return None
        value = float(values[own])
        return None if np.isnan(value) else value

    def _about(self, metric: str) -> Leaf | None:
        """Return the first condition about a metric, if there is one."""
        return next((leaf for leaf, _ in self._leaves() if metric in leaf.reads()), None)

    def _is_true(self, leaf: Leaf, row: int) -> bool:
        verdicts, _ = self._evaluator.leaf(leaf, self._moment)
        own = self._own_row(leaf.scope(self._moment.catalogue), row, leaf)
        return own is not None and bool(verdicts[own] == TRUE)

    def _median(self, metric: str, of: str, row: int) -> float | None:
        medians = self._moment.medians(metric, of)
        own = self._own_row(self._moment.catalogue[metric].scope, row, self._about(metric))
        return None if own is None or np.isnan(medians[own]) else float(medians[own])

    def _xids(self, row: int) -> list[LogEvent]:
        asked = [leaf for leaf, positive in leaves(self._rule.trigger) if isinstance(leaf, XidSeen) and positive]
        if self._rule.scope is not Scope.GPU and not asked:
            return []
        asked = asked or [XidSeen((), XID_SHOWN_S)]
        # A GPU that is lost now was lost by the Xid of this morning, even where that alone no longer proves it.
        older = [XidSeen(leaf.codes, OLD_XID_SHOWN_S) for leaf in asked if leaf.codes]
        own = self._own_row(Scope.GPU, row, asked[0])
        events = [] if own is None else self._moment.xids().get(own, [])
        for wanted in (asked, older):
            found = [event for event in events if any(matches(leaf, event, self._moment.wall) for leaf in wanted)]
            if found:
                return found
        return []

    def began(self, row: int, since: float) -> float:
        """Return when the condition at `row` became true: what the link, the kernel log or a job's log says is more
        exact than the moment at which it was noticed."""
        if self._rule.scope is Scope.JOB:
            standing = self._moment.snapshot.standings.get(self._moment.snapshot.jobs[row].id)
            known = standing.since if standing is not None else {}
            named = [leaf.metric for leaf, _ in leaves(self._rule.trigger) if isinstance(leaf, Compare)]
            return min([since, *(known[metric] for metric in named if metric in known)])
        for leaf, positive in leaves(self._rule.trigger):
            if isinstance(leaf, KernelLog) and positive:
                line = newest_line(leaf, self._moment, self.node(row))
                return since if line is None else min(since, line.at)
            if isinstance(leaf, Changed) and positive and self._is_true(leaf, row):
                own = self._own_row(leaf.scope(self._moment.catalogue), row, leaf)
                change = None if own is None else self._moment.change(leaf, own)
                return since if change is None else min(since, change.at)
            if isinstance(leaf, LinkIs) and positive:
                link = self._moment.snapshot.nodes[self.node(row)].link
                return min(since, link.since) if link.state in leaf.states else since
            if isinstance(leaf, XidSeen) and positive:
                times = [event.at for event in self._xids(row)]
                return min([since, *times])
        return since
