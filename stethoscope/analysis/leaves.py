"""What each kind of leaf makes of a moment: verdicts on the rows of its scope, and the values they rest on."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.alike import filled, of_one, settled
from stethoscope.analysis.samples import Samples
from stethoscope.analysis.trend import Trend
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Ring, Verdicts
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Kind, Reason, Scope
from stethoscope.specs.condition import EXPECTED, OVERDUE, TRENDS, Absent, Against, Compare, LinkIs, XidSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.samples import Memory
    from stethoscope.model.event import LogEvent
    from stethoscope.model.fleet import Floats
    from stethoscope.specs.condition_names import Unmeasured

    Answer = tuple[Verdicts, Floats | None]
    """Verdicts by row of the leaf's scope, and the values that they rest on, if there are any."""

SINGLE_LOOK_S = 3.0
"""With two frames 5 s apart, looked at once a second, nothing can be relied on to be seen for longer than this."""
SHORT_SLOPE_S = 900.0
"""Over a window of so long a slope is told by the minute, over a longer one by the hour."""
SHORT_SLOTS = 6
"""Within so many slots a rate over the window is told by the last two frames alone."""
_OPERATORS: dict[str, Callable[[Any, Any], Flags]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_KEPT = {"min": "min", "max": "max", "avg": "last", "slope": "last", "stddev": "last"}
"""What a slot keeps for an aggregate: of its values; all others need the first total."""
_NO_ANSWER = (Reason.WAITING, Reason.UNREACHABLE)


def compare_memory(leaf: Compare, evaluator: Evaluator) -> Memory | None:
    """Return the samples that a comparison over a window needs; all comparisons of a metric share them."""
    if not leaf.window_s or leaf.aggregate == "last":
        return None
    keep = _KEPT.get(leaf.aggregate, "total first")
    metric = evaluator.catalogue[leaf.metric]
    samples = evaluator.shared((leaf.metric, keep), lambda: Samples(metric, keep))
    assert isinstance(samples, Samples)
    samples.ring.need(leaf.window_s)
    if leaf.aggregate not in TRENDS:
        return samples
    return evaluator.shared(("trend", leaf.metric, leaf.window_s), lambda: Trend(samples, leaf.window_s, metric.scope))


def compare(leaf: Compare, moment: Moment, evaluator: Evaluator) -> Answer:
    """Compare a metric with its threshold."""
    if leaf.aggregate == "last":
        return _of_now(leaf, moment, moment.values(leaf.metric))
    if leaf.aggregate == "total":
        return _of_now(leaf, moment, moment.standing(leaf.metric))
    if not leaf.window_s:
        return _of_now(leaf, moment, moment.totals(leaf.metric))
    samples = evaluator.memory(leaf)
    if isinstance(samples, Trend):
        trend = samples.slope(moment.mono) if leaf.aggregate == "slope" else samples.stddev(moment.mono)
        # Where there is no value now, a window that slides away from older ones would say something new of nothing.
        trend[np.isnan(moment.values(leaf.metric))] = np.nan
        read = trend * per(leaf)[0] if leaf.aggregate == "slope" else trend
        return compared(leaf.operator, trend, threshold_of(leaf, moment)), read
    assert isinstance(samples, Samples)
    ring = samples.ring
    if leaf.aggregate in ("min", "max", "avg"):
        values, ages = ring.over(leaf.window_s, moment.mono)
        least_s = SINGLE_LOOK_S if evaluator.single_look else leaf.window_s
        verdicts = _covered(leaf, values, ages, min(least_s, leaf.window_s) - ring.slot_s)
        if (leaf.aggregate, leaf.operator[0]) in (("max", ">"), ("min", "<")):
            # One sample beyond the threshold is enough, however many are still to come.
            verdicts[_OPERATORS[leaf.operator](values, leaf.threshold)] = TRUE
        verdicts[np.isnan(moment.values(leaf.metric))] = UNKNOWN
        return verdicts, values
    return _change(leaf, ring, moment)


def _of_now(leaf: Compare, moment: Moment, values: Floats) -> Answer:
    threshold = threshold_of(leaf, moment)
    of: tuple[object, ...] = (values, threshold)
    if isinstance(threshold, float):
        of = (values,)

    def made() -> Verdicts:
        return moment.recall.joined(settled(compared(leaf.operator, values, threshold)))

    return moment.recall.made((leaf, "compared"), of, made), values


def _change(leaf: Compare, ring: Ring, moment: Moment) -> Answer:
    metric = moment.catalogue[leaf.metric]
    counter = metric.kind is Kind.COUNTER
    now = moment.totals(leaf.metric) if counter else moment.values(leaf.metric)
    still = ring.still(now, leaf.window_s, moment.mono)
    if still is not None:
        return _unchanged(leaf, ring, moment, *still)
    then, ages = ring.oldest(leaf.window_s, moment.mono)
    change = ring.as_kept(now) - then
    change[~(ages > 0)] = np.nan
    scale = metric.rate_scale if counter else 1.0
    if leaf.aggregate == "delta":
        values = judged = change
    else:
        values = np.divide(change, ages, out=np.full(len(change), np.nan), where=ages > 0) * scale
        # A burst at the edge of the window must not count for more than it would at its middle.
        judged = change / leaf.window_s * scale if counter else values
        if counter:
            # A total is as old as the frame that brought it, which over a short time is much of that time: then the
            # rate between two frames, by the node's own clock, is what people should read.
            rates = moment.values(leaf.metric)
            values = np.where((ages < SHORT_SLOTS * ring.slot_s) & (rates > 0), rates, values)
    return _judged(leaf, judged, ages, leaf.window_s - ring.slot_s, counter=counter), values


def _unchanged(leaf: Compare, ring: Ring, moment: Moment, then: Floats, age_s: float) -> Answer:
    """Return what `_change` does where no row moved within the window, of which `then` are the samples and `age_s` the
    age: the same for every row that has any."""
    counter = moment.catalogue[leaf.metric].kind is Kind.COUNTER
    zero, age = np.zeros(1), np.array([age_s])
    verdict = _judged(leaf, zero, age, leaf.window_s - ring.slot_s, counter=counter)[0]

    def spread() -> Answer:
        unknown = np.isnan(then)
        verdicts = settled(np.where(unknown, np.int8(UNKNOWN), verdict))
        return verdicts, settled(np.where(unknown, np.nan, 0.0))

    verdicts, values = moment.recall.made((leaf, int(verdict)), (then,), spread)
    if values is None or leaf.aggregate == "delta" or not counter or age_s >= SHORT_SLOTS * ring.slot_s:
        return verdicts, values
    rates = moment.values(leaf.metric)
    told = moment.recall.made((leaf, "told"), (values, rates), lambda: settled(np.where(rates > 0, rates, values)))
    return verdicts, told


def _judged(leaf: Compare, judged: Floats, ages: Floats, least_s: float, *, counter: bool) -> Verdicts:
    verdicts = _covered(leaf, judged, ages, least_s)
    if counter and leaf.operator in (">", ">="):
        # A counter only grows: what was counted in a part of the window is a lower bound for the whole.
        verdicts[_OPERATORS[leaf.operator](judged, leaf.threshold)] = TRUE
    return verdicts


def per(leaf: Compare) -> tuple[float, str]:
    """Return in how many seconds the change of a slope is told to people, and how that is written."""
    return (60.0, "/m") if leaf.window_s <= SHORT_SLOPE_S else (3600.0, "/h")


def threshold_of(leaf: Compare, moment: Moment) -> float | Floats:
    """Return what `leaf` compares with: a number, or one for each row of its scope."""
    if isinstance(leaf.threshold, float):
        return leaf.threshold
    nodes = moment.snapshot.nodes
    if leaf.threshold == EXPECTED:
        expected = moment.recall.equal(EXPECTED, [node.expected_gpus for node in nodes])
        # None becomes NaN.
        return moment.recall.made(EXPECTED, (expected,), lambda: settled(np.array(expected, np.float64)))
    if leaf.threshold == OVERDUE:
        return moment.recall.same(OVERDUE, 5 * moment.tick_s + 5)
    values = moment.values(leaf.threshold)
    return moment.recall.made((leaf, "threshold"), (values,), lambda: settled(values * leaf.times))


def compared(operator_: str, values: Floats, threshold: float | Floats) -> Verdicts:
    """Return the verdict of each row, unknown where the value or what it is compared with is NaN."""
    if isinstance(threshold, float):
        return of_one(values, lambda some: _compared(operator_, some, threshold))
    return _compared(operator_, values, threshold)


def _compared(operator_: str, values: Floats, threshold: float | Floats) -> Verdicts:
    unknown = np.isnan(values)
    if not isinstance(threshold, float):
        unknown |= np.isnan(threshold)
    if operator_ == "has":
        bits = np.where(unknown, 0.0, values).astype(np.int64)
        true = (bits & np.where(np.isnan(threshold), 0.0, threshold).astype(np.int64)) != 0
    else:
        true = _OPERATORS[operator_](values, threshold)
    verdicts: Verdicts = true.astype(np.int8)
    verdicts += verdicts
    np.copyto(verdicts, np.int8(UNKNOWN), where=unknown)
    return verdicts


def _covered(leaf: Compare, values: Floats, ages: Floats, least_s: float) -> Verdicts:
    """Return the verdicts where samples reach back for `least_s`, the window give or take a slot, else unknown."""
    assert isinstance(leaf.threshold, float)
    verdicts = _compared(leaf.operator, values, leaf.threshold)
    verdicts[~(ages >= least_s)] = UNKNOWN
    return verdicts


def against(leaf: Against, moment: Moment, evaluator: Evaluator) -> Answer:
    """Compare a metric with the median of its peers."""
    values = moment.values(leaf.metric)
    medians = moment.medians(leaf.metric, leaf.of)

    def judge() -> Verdicts:
        if leaf.by == "ratio":
            distance = np.divide(values, medians, out=np.full(len(values), np.nan), where=medians > 0)
        else:
            distance = values - medians
        if leaf.below is not None:
            return settled(compared("<", distance, leaf.below))
        assert leaf.above is not None
        return settled(compared(">", distance, leaf.above))

    return moment.recall.made((leaf, "against"), (values, medians), judge), values


def absent(leaf: Absent, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell where a metric has no value for the reasons of the leaf."""
    table, column = moment.table(leaf.metric)
    if column is None:
        return filled(moment.rows(table.scope), UNKNOWN, np.int8), None
    reasons = table.reasons[column]
    seen = moment.seen(leaf.metric)

    def judge() -> Verdicts:
        verdicts = _absence(leaf.reasons)[reasons]
        verdicts[~seen] = UNKNOWN
        return settled(verdicts)

    return moment.recall.made((leaf, "absent"), (reasons, seen), judge), None


@lru_cache(maxsize=64)
def _absence(wanted: tuple[Reason, ...]) -> Verdicts:
    """Return the verdict of each reason, by its code."""
    verdicts = np.full(256, FALSE, np.int8)
    verdicts[[reason for reason in _NO_ANSWER if reason not in wanted]] = UNKNOWN
    verdicts[list(wanted)] = TRUE
    return verdicts


def link(leaf: LinkIs, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which nodes' links are in the states of the leaf; one that is being made is not known."""

    def verdict(state: LinkState) -> int:
        if state in leaf.states:
            return TRUE
        return UNKNOWN if state.is_pending else FALSE

    def judge() -> Verdicts:
        by_state = {state: verdict(state) for state in LinkState}
        return settled(np.array([by_state[state] for state in states], dtype=np.int8))

    states = moment.link_states
    return moment.recall.made(leaf, (states,), judge), None


def xid(leaf: XidSeen, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which GPUs the kernel log names with an Xid of the leaf."""
    true = [row for row, events in moment.xids().items() if any(matches(leaf, event, moment.wall) for event in events)]
    return without_lines(moment, Scope.GPU, true), None


def without_lines(moment: Moment, scope: Scope, true: list[int]) -> Verdicts:
    """Return verdicts about the kernel log: TRUE at some rows of `scope`, FALSE at all others whose log is read."""
    of = moment.log_readable(), moment.layout.owner[scope]

    def judge() -> Verdicts:
        return settled(np.where(moment.spread(of[0], scope), np.int8(FALSE), np.int8(UNKNOWN)))

    verdicts = moment.recall.made(("no lines", scope), of, judge)
    if true:
        verdicts = verdicts.copy()
        verdicts[true] = TRUE
    return verdicts


def unmeasured(leaf: Unmeasured, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell nothing of what nothing here measures."""
    return filled(moment.rows(leaf.own), UNKNOWN, np.int8), None


def matches(leaf: XidSeen, event: LogEvent, wall: float) -> bool:
    """Tell whether the Xid of `event` is one that `leaf` asks for."""
    return (not leaf.codes or event.xid in leaf.codes) and event.at >= wall - leaf.window_s
