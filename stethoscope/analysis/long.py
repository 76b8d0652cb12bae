"""Comparisons over hours and days: what slow counters counted, and how far gauges moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import settled
from stethoscope.analysis.leaves import compared
from stethoscope.analysis.windows import TRUE, UNKNOWN
from stethoscope.model.metric import Kind
from stethoscope.model.past import SLOT_S
from stethoscope.specs.condition_long import GROWTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.past import Past
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.metric import Scope
    from stethoscope.specs.condition_long import Long


class PastMemory:
    """Lets the past look at each moment; it keeps devices by their names, whatever their rows are."""

    def __init__(self, past: Past, *, single_look: bool) -> None:
        """Look at every moment with `single_look`, else once a minute."""
        self.past = past
        self._single_look = single_look

    @property
    def nbytes(self) -> int:
        """Return the memory of what is remembered."""
        return self.past.nbytes

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Keep everything: rows are found by the names of devices."""

    def forget(self, *, samples: bool) -> None:
        """Keep everything: a time that nobody watched is a part of the past."""

    def take(self, moment: Moment) -> None:
        """Look at the totals of the moment."""
        self.past.take(moment.snapshot, moment.layout, at_once=self._single_look)


def long_memory(leaf: Long, evaluator: Evaluator) -> PastMemory:
    """Return the past, which all such leaves share."""
    memory = evaluator.shared(PastMemory, lambda: PastMemory(evaluator.past, single_look=evaluator.single_look))
    assert isinstance(memory, PastMemory)
    return memory


def long(leaf: Long, moment: Moment, evaluator: Evaluator) -> Answer:
    """Compare what was counted, or how far it grew, with the threshold. What was watched for a part of the window is
    enough where more of it can only add to a counter."""
    memory = evaluator.memory(leaf)
    assert isinstance(memory, PastMemory)
    # The past is looked at once a minute, and over hours that is often enough for its age too.
    of = (memory.past, memory.past.version)
    return moment.recall.made((leaf, "long"), of, lambda: _again(leaf, moment, memory))


def _again(leaf: Long, moment: Moment, memory: PastMemory) -> Answer:
    """Return the same as a minute ago where that is all that there is to say."""
    standing = moment.recall.equal((leaf, "past"), memory.past.standing(leaf.metric, leaf.window_s, moment.wall))
    return moment.recall.made((leaf, "standing"), (standing,), lambda: _long(leaf, moment, memory))


def _long(leaf: Long, moment: Moment, memory: PastMemory) -> Answer:
    changed, last, ages = memory.past.change(leaf.metric, leaf.window_s, moment.wall)
    rows = moment.rows(moment.catalogue[leaf.metric].scope)
    if len(changed) != rows:
        # A layout that the past has not looked at yet.
        unknown = np.full(rows, np.nan)
        return np.full(rows, np.int8(UNKNOWN)), unknown
    values = changed
    if leaf.aggregate == GROWTH:
        before = last - changed
        values = 100 * np.divide(changed, before, out=np.full(rows, np.nan), where=before > 0)
    verdicts = compared(leaf.operator, values, leaf.threshold).copy()
    lower_bound = moment.catalogue[leaf.metric].kind is Kind.COUNTER and leaf.operator in (">", ">=")
    short = ~(ages >= leaf.window_s - SLOT_S)
    verdicts[short & ~((verdicts == TRUE) & lower_bound)] = UNKNOWN
    return settled(verdicts), settled(values)
