"""Evaluation of conditions on every row at once, in three values: true, false, and unknown, which is neither."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.windows import FALSE, SLOT_S, TRUE, UNKNOWN, Flags, Hold, Ring, Verdicts
from stethoscope.model.metric import Kind, Metric, Reason, Scope
from stethoscope.specs.condition import (
    EXPECTED,
    OVERDUE,
    TIER_S,
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
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.analysis.moment import Moment
    from stethoscope.model.event import LogEvent
    from stethoscope.model.fleet import Floats

SINGLE_LOOK_S = 3.0
"""With two frames 5 s apart, looked at once a second, nothing can be relied on to be seen for longer than this."""
KERNEL_LOG_NOTE = "kernel_log"
"""Key of a node's notes that says why its kernel log cannot be read."""

SHORT_SLOTS = 6
"""Within so many slots a rate over the window is told by the last two frames alone."""
_OPERATORS: dict[str, Callable[[Any, Any], Flags]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_NO_ANSWER = (Reason.WAITING, Reason.UNREACHABLE)


class Evaluator:
    """Evaluates conditions and keeps what they must remember between two moments."""

    def __init__(self, catalogue: Mapping[str, Metric], *, single_look: bool) -> None:
        """With `single_look`, what must last longer than SINGLE_LOOK_S needs to last that long only."""
        self._catalogue = catalogue
        self._single_look = single_look
        self._holds: dict[tuple[Held, Scope], Hold] = {}
        self._rings: dict[tuple[str, str], Ring] = {}
        self._taken: dict[tuple[str, str], int] = {}
        """Version of the table that each ring took last, of metrics that come in parts."""
        self._leaves: dict[Leaf, tuple[Verdicts, Floats | None]] = {}
        self._results: dict[tuple[Condition, Scope], Verdicts] = {}

    @property
    def nbytes(self) -> int:
        """Return the memory of all kept samples."""
        return sum(ring.nbytes for ring in self._rings.values())

    def prepare(self, condition: Condition, scope: Scope) -> None:
        """Make room for what `condition`, evaluated on the rows of `scope`, must remember."""
        if isinstance(condition, Held):
            window_s = shortened_s(condition) if self._single_look else condition.window_s
            self._holds.setdefault((condition, scope), Hold(window_s))
            self.prepare(condition.part, scope)
        elif isinstance(condition, Combined):
            for part in condition.parts:
                self.prepare(part, scope)
        elif isinstance(condition, Compare) and condition.window_s and condition.aggregate != "last":
            metric, keep = key = _ring_key(condition)
            slot_s = max(SLOT_S, TIER_S[self._catalogue[metric].tier])
            if key not in self._rings:
                # There are hundreds of thousands of links.
                is_short = self._catalogue[metric].scope is Scope.NVLINK
                self._rings[key] = Ring(keep.removeprefix("total "), slot_s, is_short=is_short)
            self._rings[key].need(condition.window_s)

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        for (_, scope), hold in self._holds.items():
            hold.fit(changed[scope])
        for (metric, _), ring in self._rings.items():
            ring.fit(changed[self._catalogue[metric].scope])

    def forget(self, *, samples: bool) -> None:
        """Start counting again because moments were missed; with `samples`, drop the kept samples too."""
        for hold in self._holds.values():
            hold.forget()
        for ring in self._rings.values() if samples else ():
            ring.forget()

    def take(self, moment: Moment) -> None:
        """Start a new moment: put its samples where windows need them."""
        self._leaves.clear()
        self._results.clear()
        for (metric, keep), ring in self._rings.items():
            version = moment.table(metric)[0].version if self._catalogue[metric].group else 0
            if version and version == self._taken.get((metric, keep)) and ring.has(moment.mono):
                continue
            self._taken[metric, keep] = version
            ring.put(moment.totals(metric) if keep == "total first" else moment.values(metric), moment.mono)

    def verdicts(self, condition: Condition, scope: Scope, moment: Moment) -> Verdicts:
        """Return the verdict of each row of `scope`."""
        key = (condition, scope)
        if key not in self._results:
            self._results[key] = self._evaluate(condition, scope, moment)
        return self._results[key]

    def _evaluate(self, condition: Condition, scope: Scope, moment: Moment) -> Verdicts:
        if isinstance(condition, Held):
            part = self.verdicts(condition.part, scope, moment)
            return self._holds[condition, scope].update(part, moment.mono)
        if isinstance(condition, Combined):
            parts = [self.verdicts(part, scope, moment) for part in condition.parts]
            if condition.how == "not":
                return (TRUE - parts[0]).astype(np.int8)
            reduce = np.minimum if condition.how == "all" else np.maximum
            return parts[0] if len(parts) == 1 else reduce.reduce(parts)
        verdicts, _ = self.leaf(condition, moment)
        own = _scope(condition, moment)
        return verdicts if own is scope else np.asarray(moment.spread(verdicts, scope), dtype=np.int8)

    def leaf(self, leaf: Leaf, moment: Moment) -> tuple[Verdicts, Floats | None]:
        """Return the verdicts of a leaf on the rows of its own scope, and the values they rest on, if there are any."""
        if leaf not in self._leaves:
            if isinstance(leaf, Compare):
                self._leaves[leaf] = self._compare(leaf, moment)
            elif isinstance(leaf, Against):
                self._leaves[leaf] = _against(leaf, moment)
            elif isinstance(leaf, Absent):
                self._leaves[leaf] = _absent(leaf, moment), None
            elif isinstance(leaf, LinkIs):
                self._leaves[leaf] = _link(leaf, moment), None
            else:
                self._leaves[leaf] = _xid(leaf, moment), None
        return self._leaves[leaf]

    def _compare(self, leaf: Compare, moment: Moment) -> tuple[Verdicts, Floats]:
        if leaf.aggregate == "last":
            values = moment.values(leaf.metric)
            return _verdicts(leaf.operator, values, threshold_of(leaf, moment)), values
        if not leaf.window_s:
            totals = moment.totals(leaf.metric)
            return _verdicts(leaf.operator, totals, threshold_of(leaf, moment)), totals
        ring = self._rings[_ring_key(leaf)]
        if leaf.aggregate in ("min", "max", "avg"):
            values, ages = ring.over(leaf.window_s, moment.mono)
            least_s = SINGLE_LOOK_S if self._single_look else leaf.window_s
            return _covered(leaf, values, ages, min(least_s, leaf.window_s) - ring.slot_s), values
        return self._change(leaf, ring, moment)

    def _change(self, leaf: Compare, ring: Ring, moment: Moment) -> tuple[Verdicts, Floats]:
        metric = self._catalogue[leaf.metric]
        then, ages = ring.oldest(leaf.window_s, moment.mono)
        counter = metric.kind is Kind.COUNTER
        change = ring.as_kept(moment.totals(leaf.metric) if counter else moment.values(leaf.metric)) - then
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
        verdicts = _covered(leaf, judged, ages, leaf.window_s - ring.slot_s)
        if counter and leaf.operator in (">", ">="):
            # A counter only grows: what was counted in a part of the window is a lower bound for the whole.
            verdicts[_OPERATORS[leaf.operator](judged, leaf.threshold)] = TRUE
        return verdicts, values


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


def _ring_key(leaf: Compare) -> tuple[str, str]:
    keep = {"min": "min", "max": "max", "avg": "last"}.get(leaf.aggregate, "total first")
    return leaf.metric, keep


def threshold_of(leaf: Compare, moment: Moment) -> float | Floats:
    """Return what `leaf` compares with: a number, or one for each row of its scope."""
    if isinstance(leaf.threshold, float):
        return leaf.threshold
    nodes = moment.snapshot.nodes
    if leaf.threshold == EXPECTED:
        return np.array([np.nan if node.expected_gpus is None else node.expected_gpus for node in nodes])
    if leaf.threshold == OVERDUE:
        return np.array([5 * node.tick_s + 5 for node in nodes], dtype=np.float64)
    return moment.values(leaf.threshold)


def _verdicts(operator_: str, values: Floats, threshold: float | Floats) -> Verdicts:
    unknown = np.isnan(values) | np.isnan(threshold)
    if operator_ == "has":
        bits = np.where(unknown, 0.0, values).astype(np.int64)
        true = (bits & np.where(np.isnan(threshold), 0.0, threshold).astype(np.int64)) != 0
    else:
        true = _OPERATORS[operator_](values, threshold)
    verdicts = np.where(true, np.int8(TRUE), np.int8(FALSE))
    verdicts[unknown] = UNKNOWN
    return verdicts


def _covered(leaf: Compare, values: Floats, ages: Floats, least_s: float) -> Verdicts:
    """Return the verdicts where samples reach back for `least_s`, the window give or take a slot, else unknown."""
    assert isinstance(leaf.threshold, float)
    verdicts = _verdicts(leaf.operator, values, leaf.threshold)
    verdicts[~(ages >= least_s)] = UNKNOWN
    return verdicts


def _against(leaf: Against, moment: Moment) -> tuple[Verdicts, Floats]:
    values = moment.values(leaf.metric)
    medians = moment.medians(leaf.metric, leaf.of)
    if leaf.by == "ratio":
        distance = np.divide(values, medians, out=np.full(len(values), np.nan), where=medians > 0)
    else:
        distance = values - medians
    if leaf.below is not None:
        return _verdicts("<", distance, leaf.below), values
    assert leaf.above is not None
    return _verdicts(">", distance, leaf.above), values


def _absent(leaf: Absent, moment: Moment) -> Verdicts:
    table, column = moment.table(leaf.metric)
    if column is None:
        return np.full(moment.rows(table.scope), np.int8(UNKNOWN))
    reasons = table.reasons[column]
    verdicts = np.where(np.isin(reasons, leaf.reasons), np.int8(TRUE), np.int8(FALSE))
    unanswered = np.isin(reasons, [reason for reason in _NO_ANSWER if reason not in leaf.reasons])
    verdicts[unanswered | ~moment.seen(leaf.metric)] = UNKNOWN
    return verdicts


def _link(leaf: LinkIs, moment: Moment) -> Verdicts:
    def verdict(state: Any) -> int:
        if state in leaf.states:
            return TRUE
        return UNKNOWN if state.is_pending else FALSE

    return np.array([verdict(node.link.state) for node in moment.snapshot.nodes], dtype=np.int8)


def _xid(leaf: XidSeen, moment: Moment) -> Verdicts:
    readable = np.array([KERNEL_LOG_NOTE not in node.notes for node in moment.snapshot.nodes], dtype=bool)
    known = readable & moment.fresh
    verdicts = np.where(moment.spread(known, Scope.GPU), np.int8(FALSE), np.int8(UNKNOWN))
    for row, events in moment.xids().items():
        if any(matches(leaf, event, moment.wall) for event in events):
            verdicts[row] = TRUE
    return verdicts


def matches(leaf: XidSeen, event: LogEvent, wall: float) -> bool:
    """Tell whether the Xid of `event` is one that `leaf` asks for."""
    return (not leaf.codes or event.xid in leaf.codes) and event.at >= wall - leaf.window_s


def _scope(leaf: Leaf, moment: Moment) -> Scope:
    if isinstance(leaf, LinkIs):
        return Scope.NODE
    return Scope.GPU if isinstance(leaf, XidSeen) else moment.catalogue[leaf.metric].scope
