"""Evaluation of conditions on every row at once, in three values: true, false, and unknown, which is neither."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.across import across
from stethoscope.analysis.alike import is_equal, of_one, settled
from stethoscope.analysis.baseline import deviates
from stethoscope.analysis.changed import changed, changed_memory
from stethoscope.analysis.counting import counts, counts_memory
from stethoscope.analysis.distant import distant, distant_memory
from stethoscope.analysis.leaves import SINGLE_LOOK_S, absent, against, compare, compare_memory, link, unmeasured, xid
from stethoscope.analysis.leaves_words import about, kernel_log, word_differs, word_is
from stethoscope.analysis.long import long, long_memory
from stethoscope.analysis.past import Past
from stethoscope.analysis.plans import NO_ANSWER, LeafPlan, Plan
from stethoscope.analysis.shares import share, share_memory
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Hold, Verdicts
from stethoscope.model.grid import is_uniform
from stethoscope.model.metric import Scope
from stethoscope.specs.condition import (
    Absent,
    Against,
    Combined,
    Compare,
    Condition,
    Held,
    Leaf,
    LinkIs,
    XidSeen,
    leaves,
    scope_alone,
)
from stethoscope.specs.condition_baseline import Deviates
from stethoscope.specs.condition_change import Changed
from stethoscope.specs.condition_counter import Counts
from stethoscope.specs.condition_kernel import KernelLog
from stethoscope.specs.condition_long import Long
from stethoscope.specs.condition_names import Unmeasured
from stethoscope.specs.condition_peers import Distant
from stethoscope.specs.condition_share import Share
from stethoscope.specs.condition_words import About, WordDiffers, WordIs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.samples import Memory
    from stethoscope.model.metric import Metric

EVALUATORS: dict[type[Leaf], Callable[[Any, Moment, Evaluator], Answer]] = {
    Compare: compare, Against: against, Absent: absent, LinkIs: link, XidSeen: xid,
    KernelLog: kernel_log, WordIs: word_is, WordDiffers: word_differs, About: about,
    Long: long, Distant: distant, Changed: changed,
    Deviates: deviates, Unmeasured: unmeasured, Share: share, Counts: counts,
}  # fmt: skip
"""What evaluates each kind of leaf on the rows of its scope."""
MEMORIES: dict[type[Leaf], Callable[[Any, Evaluator], Memory | None]] = {
    Compare: compare_memory, Long: long_memory, Distant: distant_memory, Changed: changed_memory, Share: share_memory,
    Counts: counts_memory,
}  # fmt: skip
"""What a kind of leaf remembers; None for one that needs nothing of before."""


class Evaluator:
    """Evaluates conditions and keeps what they must remember between two moments."""

    def __init__(self, catalogue: Mapping[str, Metric], *, single_look: bool, past: Past | None = None) -> None:
        """With `single_look`, what must last longer than SINGLE_LOOK_S needs to last that long only; `past` is what is
        remembered of weeks, where that outlives the evaluator."""
        self.catalogue = catalogue
        self.past = Past(catalogue) if past is None else past
        self.single_look = single_look
        self._holds: dict[tuple[Held, Scope], Hold] = {}
        self._shared: dict[Hashable, Memory] = {}
        self._former: Mapping[Hashable, Memory] = {}
        """What is remembered while other conditions are prepared for."""
        self._former_holds: Mapping[tuple[Held, Scope], Hold] = {}
        self._memories: dict[Leaf, Memory] = {}
        self._plans: dict[tuple[Condition, Scope], Plan] = {}
        self._leaves: dict[Leaf, LeafPlan] = {}
        self._look = 0
        """Number of the moment: what was worked out at another one is worked out again."""

    @property
    def nbytes(self) -> int:
        """Return the memory of all that is kept."""
        shared = sum(memory.nbytes for memory in self._shared.values())
        return shared + sum(hold.nbytes for hold in self._holds.values())

    def prepare(self, condition: Condition, scope: Scope) -> Plan:
        """Make room for what `condition`, evaluated on the rows of `scope`, must remember; return how it is judged."""
        key = (condition, scope)
        plan = self._plans.get(key)
        if plan is None:
            own = scope_alone(condition, self.catalogue)
            self._plans[key] = plan = Plan(condition, scope)
            if own is not None and own is not scope:
                plan.of = self.prepare(condition, own)
            elif isinstance(condition, Held):
                plan.hold = self._hold(condition, scope)
            elif not isinstance(condition, Combined):
                plan.leaf = self._leaf_plan(condition)
            if isinstance(condition, Held):
                plan.parts, plan.watches = (self.prepare(condition.part, scope),), True
            elif isinstance(condition, Combined):
                plan.how, plan.parts = condition.how, tuple(self.prepare(part, scope) for part in condition.parts)
                plan.watches = any(part.watches for part in plan.parts)
        return plan

    def _hold(self, condition: Held, scope: Scope) -> Hold:
        key = (condition, scope)
        if key not in self._holds:
            window_s = shortened_s(condition) if self.single_look else condition.window_s
            self._holds[key] = self._former_holds.get(key) or Hold(window_s)
        return self._holds[key]

    def _leaf_plan(self, leaf: Leaf) -> LeafPlan:
        if leaf not in self._leaves:
            self._leaves[leaf] = LeafPlan(leaf, leaf.scope(self.catalogue))
            memory = MEMORIES[type(leaf)](leaf, self) if type(leaf) in MEMORIES else None
            if memory is not None:
                self._memories[leaf] = memory
        return self._leaves[leaf]

    def adopt(self, conditions: Iterable[tuple[Condition, Scope]], rows: Mapping[Scope, Flags]) -> None:
        """Prepare for these conditions alone, each with its scope; what they remember of before stays. `rows` has a
        flag for each row of each scope, empty before the first layout."""
        self._former_holds, self._holds = self._holds, {}
        self._former, self._shared, self._memories = self._shared, {}, {}
        self._plans, self._leaves = {}, {}
        for condition, scope in conditions:
            self.prepare(condition, scope)
        for key, hold in self._holds.items():
            if key not in self._former_holds and rows:
                hold.fit(rows[key[1]])
        for name, memory in self._shared.items():
            if name not in self._former and rows:
                memory.fit(rows)
        self._former_holds, self._former = {}, {}

    def shared(self, key: Hashable, make: Callable[[], Memory]) -> Memory:
        """Return the memory that all leaves with the same `key` share."""
        if key not in self._shared:
            self._shared[key] = self._former[key] if key in self._former else make()
        return self._shared[key]

    def memory(self, leaf: Leaf) -> Memory:
        """Return what a leaf that was prepared remembers; KeyError for one that remembers nothing."""
        return self._memories[leaf]

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        for (_, scope), hold in self._holds.items():
            hold.fit(changed[scope])
        for memory in self._shared.values():
            memory.fit(changed)

    def forget(self, *, samples: bool) -> None:
        """Start counting again because moments were missed; with `samples`, drop the kept samples too."""
        for hold in self._holds.values():
            hold.forget()
        for memory in self._shared.values():
            memory.forget(samples=samples)

    def take(self, moment: Moment) -> None:
        """Start a new moment: put its samples where windows need them."""
        self._look += 1
        for memory in self._shared.values():
            memory.take(moment)

    def rest(self) -> None:
        """Let go of what was said of this moment, once nobody asks any more: it would stay until the next one."""
        for leaf in self._leaves.values():
            leaf.answer, leaf.look = NO_ANSWER, 0
        for plan in self._plans.values():
            plan.verdicts, plan.look = NO_ANSWER[0], 0

    def verdicts(self, condition: Condition, scope: Scope, moment: Moment) -> Verdicts:
        """Return the verdict of each row of `scope`."""
        return self.judge(self.prepare(condition, scope), moment)

    def judge(self, plan: Plan, moment: Moment) -> Verdicts:
        """Return the verdict of each row of the plan's scope."""
        if plan.look != self._look:
            plan.verdicts = self._judge(plan, moment)
            plan.look = self._look
        return plan.verdicts

    def _judge(self, plan: Plan, moment: Moment) -> Verdicts:
        if plan.leaf is not None:
            return self._answer(plan.leaf, moment)[0]
        if plan.of is not None:
            return self._from(plan, plan.of, moment)
        if plan.hold is not None:
            return plan.hold.update(self.judge(plan.parts[0], moment), moment.mono)
        if plan.how == "not":
            denied = self.judge(plan.parts[0], moment)
            return moment.recall.made(plan, (denied,), lambda: settled(of_one(denied, _negate)))
        return self._combined(plan, moment)

    def _combined(self, plan: Plan, moment: Moment) -> Verdicts:
        decides, joined = (FALSE, np.minimum) if plan.how == "all" else (TRUE, np.maximum)
        result: Verdicts | None = None
        is_decided = False
        for number, part in enumerate(plan.parts):
            if is_decided and not part.watches:
                # Whatever the others say; those that watch how long something lasts must look all the same.
                continue
            verdicts = self.judge(part, moment)
            if is_decided:
                continue
            if is_uniform(verdicts) and verdicts[0] == decides:
                result, is_decided = verdicts, True
            elif result is None:
                result = verdicts
            elif result is not verdicts:
                make = partial(_both, joined, TRUE - decides, result, verdicts)
                result = moment.recall.made((plan, number), (result, verdicts), make)
                is_decided = is_uniform(result) and bool(result[0] == decides)
        assert result is not None
        if decides == TRUE and not is_decided and len(plan.parts) > 1 and _some_unknown(result):
            return self._settled(plan, result, moment)
        return result

    def _from(self, plan: Plan, of: Plan, moment: Moment) -> Verdicts:
        """Return for the rows of the plan's scope what a condition says that is about rows of another one."""
        verdicts = self.judge(of, moment)
        if of.scope is Scope.NODE and plan.scope is not Scope.JOB:
            owner = moment.layout.owner[plan.scope]
            return moment.recall.made(plan, (verdicts, owner), lambda: settled(moment.spread(verdicts, plan.scope)))
        has = self._has(of, moment) if _some_unknown(verdicts) else None
        over = across(moment, of.scope, plan.scope)
        return moment.recall.made(plan, (over, verdicts, has), lambda: over.any(verdicts, has))

    def _settled(self, plan: Plan, result: Verdicts, moment: Moment) -> Verdicts:
        """Return the verdicts of an `any`: what a row does not have at all, such as a counter of other boards, leaves
        nothing open where another part is false."""
        parts = [self.judge(part, moment) for part in plan.parts]
        having = [self._has(part, moment) for part in plan.parts]

        def closed() -> Verdicts:
            left, false = np.ones(len(result), dtype=bool), np.zeros(len(result), dtype=bool)
            for has, verdicts in zip(having, parts, strict=True):
                left &= (verdicts != UNKNOWN) | ~has
                false |= verdicts == FALSE
            return settled(np.where((result == UNKNOWN) & left & false, np.int8(FALSE), result))

        return moment.recall.made((plan, "settled"), (result, *parts, *having), closed)

    def _has(self, plan: Plan, moment: Moment) -> Flags:
        """Return which rows have what a condition asks for, whether a value came or not."""
        if plan.parts:
            parts = tuple(self._has(part, moment) for part in plan.parts)
            if len(parts) == 1:
                return parts[0]
            reduce = np.logical_or if plan.how == "any" else np.logical_and
            return moment.recall.made((plan, "has"), parts, lambda: settled(reduce.reduce(parts)))
        if plan.leaf is not None:
            return moment.has(plan.leaf.leaf, plan.scope)
        of = plan.of
        assert of is not None
        has = self._has(of, moment)
        if of.scope is Scope.NODE and plan.scope is not Scope.JOB:
            owner = moment.layout.owner[plan.scope]
            return moment.recall.made((plan, "has"), (has, owner), lambda: settled(moment.spread(has, plan.scope)))
        over = across(moment, of.scope, plan.scope)

        def any_has() -> Flags:
            given = np.where(has, np.int8(TRUE), np.int8(FALSE))
            return settled(np.asarray(over.any(given, None) == TRUE, dtype=bool))

        return moment.recall.made((plan, "has"), (over, has), any_has)

    def leaf(self, leaf: Leaf, moment: Moment) -> Answer:
        """Return the verdicts of a leaf on the rows of its own scope, and the values they rest on, if there are any."""
        return self._answer(self._leaf_plan(leaf), moment)

    def _answer(self, plan: LeafPlan, moment: Moment) -> Answer:
        if plan.look != self._look:
            verdicts, values = EVALUATORS[type(plan.leaf)](plan.leaf, moment, self)
            if verdicts is not plan.verdicts and not is_equal(verdicts, plan.verdicts):
                plan.verdicts = settled(verdicts)
            # Values move, what they mean seldom does: what was made of that stands.
            plan.answer = plan.verdicts, values
            plan.look = self._look
        return plan.answer


def watched_s(condition: Condition, *, single_look: bool) -> float:
    """Return for how long the condition must have been true before it counts as true."""
    if isinstance(condition, Held):
        own_s = shortened_s(condition) if single_look else condition.window_s
        return own_s + watched_s(condition.part, single_look=single_look)
    if isinstance(condition, Combined):
        return max((watched_s(part, single_look=single_look) for part in condition.parts), default=0.0)
    return 0.0


def shortened_s(held: Held) -> float:
    """Return for how long `held` must hold where no more than a single look is had.

    What compares two moments has seen time pass already: two frames give no third one to see it last.
    """
    compares_moments = any(isinstance(leaf, Compare) and leaf.aggregate != "last" for leaf, _ in leaves(held.part))
    return 0.0 if compares_moments else min(held.window_s, SINGLE_LOOK_S)


def _negate(verdicts: Verdicts) -> Verdicts:
    return np.subtract(np.int8(TRUE), verdicts, dtype=np.int8)


def _some_unknown(verdicts: Verdicts) -> bool:
    return bool(verdicts[0] == UNKNOWN) if is_uniform(verdicts) else UNKNOWN in verdicts


def _both(joined: np.ufunc, neutral: int, one: Verdicts, other: Verdicts) -> Verdicts:
    if is_uniform(one) and one[0] == neutral:
        return other
    if is_uniform(other) and other[0] == neutral:
        return one
    verdicts: Verdicts = joined(one, other)
    return settled(verdicts)
