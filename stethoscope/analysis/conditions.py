"""Evaluation of conditions on every row at once, in three values: true, false, and unknown, which is neither."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.across import across
from stethoscope.analysis.alike import of_one, settled
from stethoscope.analysis.baseline import deviates
from stethoscope.analysis.changed import changed, changed_memory
from stethoscope.analysis.counting import counts, counts_memory
from stethoscope.analysis.distant import distant, distant_memory
from stethoscope.analysis.leaves import SINGLE_LOOK_S, absent, against, compare, compare_memory, link, unmeasured, xid
from stethoscope.analysis.leaves_words import about, kernel_log, word_differs, word_is
from stethoscope.analysis.long import long, long_memory
from stethoscope.analysis.past import Past
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
        self._memories: dict[Leaf, Memory] = {}
        self._scopes: dict[Condition, Scope | None] = {}
        self._leaves: dict[Leaf, Answer] = {}
        self._results: dict[tuple[Condition, Scope], Verdicts] = {}

    @property
    def nbytes(self) -> int:
        """Return the memory of all that is kept."""
        shared = sum(memory.nbytes for memory in self._shared.values())
        return shared + sum(hold.nbytes for hold in self._holds.values())

    def prepare(self, condition: Condition, scope: Scope) -> None:
        """Make room for what `condition`, evaluated on the rows of `scope`, must remember."""
        scope = self._alone(condition) or scope
        if isinstance(condition, Held):
            window_s = shortened_s(condition) if self.single_look else condition.window_s
            self._holds.setdefault((condition, scope), Hold(window_s))
            self.prepare(condition.part, scope)
        elif isinstance(condition, Combined):
            for part in condition.parts:
                self.prepare(part, scope)
        elif type(condition) in MEMORIES:
            memory = MEMORIES[type(condition)](condition, self)
            if memory is not None:
                self._memories[condition] = memory

    def adopt(self, conditions: Iterable[tuple[Condition, Scope]], rows: Mapping[Scope, Flags]) -> None:
        """Prepare for these conditions alone, each with its scope; what they remember of before stays. `rows` has a
        flag for each row of each scope, empty before the first layout."""
        holds, self._holds = self._holds, {}
        former, self._shared, self._memories = self._shared, {}, {}
        self._former = former
        self._leaves.clear()
        self._results.clear()
        for condition, scope in conditions:
            self.prepare(condition, scope)
        for key, hold in list(self._holds.items()):
            if key in holds:
                self._holds[key] = holds[key]
            elif rows:
                hold.fit(rows[key[1]])
        self._former = {}
        for name, memory in self._shared.items():
            if name not in former and rows:
                memory.fit(rows)

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
        self._leaves.clear()
        self._results.clear()
        for memory in self._shared.values():
            memory.take(moment)

    def verdicts(self, condition: Condition, scope: Scope, moment: Moment) -> Verdicts:
        """Return the verdict of each row of `scope`."""
        key = (condition, scope)
        if key not in self._results:
            self._results[key] = self._evaluate(condition, scope, moment)
        return self._results[key]

    def _combined(self, condition: Combined, scope: Scope, moment: Moment) -> Verdicts:
        if condition.how == "not":
            denied = self.verdicts(condition.parts[0], scope, moment)
            negate = partial(np.subtract, np.int8(TRUE), dtype=np.int8)
            return moment.recall.made((condition, scope), (denied,), lambda: settled(of_one(denied, negate)))
        decides, joined = (FALSE, np.minimum) if condition.how == "all" else (TRUE, np.maximum)
        result: Verdicts | None = None
        for number, part in enumerate(condition.parts):
            if result is not None and is_uniform(result) and result[0] == decides and not _watches(part):
                # Whatever the others say; those that watch how long something lasts must look all the same.
                continue
            verdicts = self.verdicts(part, scope, moment)
            if result is None or (is_uniform(verdicts) and verdicts[0] == decides):
                result = verdicts
            elif not (is_uniform(result) and result[0] == decides):
                make = partial(_both, joined, TRUE - decides, result, verdicts)
                result = moment.recall.made((condition, scope, number), (result, verdicts), make)
        assert result is not None
        if decides == TRUE and len(condition.parts) > 1 and UNKNOWN in result:
            return self._settled(condition, result, scope, moment)
        return result

    def _alone(self, condition: Condition) -> Scope | None:
        """Return the scope on whose rows a condition is judged, whatever the rule is about; None where that decides."""
        if condition not in self._scopes:
            self._scopes[condition] = scope_alone(condition, self.catalogue)
        return self._scopes[condition]

    def _evaluate(self, condition: Condition, scope: Scope, moment: Moment) -> Verdicts:
        own = self._alone(condition)
        if own is not None and own is not scope:
            return self._from(own, condition, scope, moment)
        if isinstance(condition, Held):
            part = self.verdicts(condition.part, scope, moment)
            return self._holds[condition, scope].update(part, moment.mono)
        if isinstance(condition, Combined):
            return self._combined(condition, scope, moment)
        return self.leaf(condition, moment)[0]

    def _from(self, own: Scope, condition: Condition, scope: Scope, moment: Moment) -> Verdicts:
        """Return for the rows of `scope` what a condition says that is about rows of `own`."""
        verdicts = self.verdicts(condition, own, moment)
        if own is Scope.NODE and scope is not Scope.JOB:
            of = (verdicts, moment.layout.owner[scope])
            return moment.recall.made((condition, scope, "spread"), of, lambda: settled(moment.spread(verdicts, scope)))
        has = self._has(condition, own, moment) if UNKNOWN in verdicts else None
        return across(moment, own, scope).any(verdicts, has)

    def _settled(self, condition: Combined, result: Verdicts, scope: Scope, moment: Moment) -> Verdicts:
        """Return the verdicts of an `any`: what a row does not have at all, such as a counter of other boards, leaves
        nothing open where another part is false."""
        parts = [self.verdicts(part, scope, moment) for part in condition.parts]
        having = [self._has(part, scope, moment) for part in condition.parts]

        def closed() -> Verdicts:
            left, false = np.ones(len(result), dtype=bool), np.zeros(len(result), dtype=bool)
            for has, verdicts in zip(having, parts, strict=True):
                left &= (verdicts != UNKNOWN) | ~has
                false |= verdicts == FALSE
            return settled(np.where((result == UNKNOWN) & left & false, np.int8(FALSE), result))

        return moment.recall.made((condition, scope, "settled"), (result, *parts, *having), closed)

    def _has(self, condition: Condition, scope: Scope, moment: Moment) -> Flags:
        """Return which rows have what `condition` asks for, whether a value came or not."""
        if isinstance(condition, Held):
            return self._has(condition.part, scope, moment)
        if isinstance(condition, Combined):
            parts = tuple(self._has(part, scope, moment) for part in condition.parts)
            reduce = np.logical_or if condition.how == "any" else np.logical_and
            return moment.recall.made((condition, scope, "has"), parts, lambda: settled(reduce.reduce(parts)))
        own = condition.scope(self.catalogue)
        has = moment.has(condition, own)
        if own is scope:
            return has
        if own is Scope.NODE and scope is not Scope.JOB:
            of = (has, moment.layout.owner[scope])
            return moment.recall.made((condition, scope, "has"), of, lambda: settled(moment.spread(has, scope)))
        given = np.where(has, np.int8(TRUE), np.int8(FALSE))
        return np.asarray(across(moment, own, scope).any(given, None) == TRUE, dtype=bool)

    def leaf(self, leaf: Leaf, moment: Moment) -> Answer:
        """Return the verdicts of a leaf on the rows of its own scope, and the values they rest on, if there are any."""
        if leaf not in self._leaves:
            self._leaves[leaf] = EVALUATORS[type(leaf)](leaf, moment, self)
        return self._leaves[leaf]


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


@lru_cache(maxsize=4096)
def _watches(condition: Condition) -> bool:
    """Tell whether a condition has a part that must see every moment."""
    if isinstance(condition, Held):
        return True
    return isinstance(condition, Combined) and any(_watches(part) for part in condition.parts)


def _both(joined: np.ufunc, neutral: int, one: Verdicts, other: Verdicts) -> Verdicts:
    if is_uniform(one) and one[0] == neutral:
        return other
    if is_uniform(other) and other[0] == neutral:
        return one
    verdicts: Verdicts = joined(one, other)
    return settled(verdicts)
