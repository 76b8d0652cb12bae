"""Evaluation of conditions on every row at once, in three values: true, false, and unknown, which is neither."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.peers import group_medians
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Hold, Ring, Verdicts
from stethoscope.model.metric import Kind, Metric, Reason, Scope
from stethoscope.specs.condition import (
    EXPECTED,
    OVERDUE,
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

    from stethoscope.analysis.layout import Layout
    from stethoscope.model.event import LogEvent
    from stethoscope.model.fleet import FleetSnapshot, Floats, Table

SINGLE_LOOK_S = 3.0
"""With two frames 5 s apart, looked at once a second, nothing can be relied on to be seen for longer than this."""
KERNEL_LOG_NOTE = "kernel_log"
"""Key of a node's notes that says why its kernel log cannot be read."""

_OPERATORS: dict[str, Callable[[Any, Any], Flags]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_NO_ANSWER = (Reason.WAITING, Reason.UNREACHABLE)


class Moment:
    """One snapshot, with what every condition asks of it worked out once."""

    def __init__(self, snapshot: FleetSnapshot, layout: Layout, catalogue: Mapping[str, Metric]) -> None:
        """Take `now` from the snapshot."""
        self.snapshot = snapshot
        self.layout = layout
        self.catalogue = catalogue
        self.wall, self.mono = snapshot.wall, snapshot.mono
        nodes = snapshot.nodes
        frame = np.array([np.nan if node.frame_mono is None else node.frame_mono for node in nodes], dtype=np.float64)
        tick = np.array([node.tick_s for node in nodes], dtype=np.float64)
        self.fresh = np.nan_to_num(self.mono - frame, nan=np.inf) <= 3 * tick + 1
        """Whether what a node said last still stands for now."""
        self._xids: dict[int, list[LogEvent]] | None = None
        self._medians: dict[tuple[str, str], Floats] = {}

    def table(self, metric: str) -> tuple[Table, int | None]:
        """Return the table of a metric and its column, None when this fleet's tables do not have it."""
        table = self.snapshot.tables[self.catalogue[metric].scope]
        return table, table.index.get(metric)

    def rows(self, scope: Scope) -> int:
        """Return the number of rows of a scope."""
        return len(self.layout.owner[scope])

    def spread(self, array: Any, scope: Scope) -> Any:
        """Return an array by node as one by the rows of `scope`; rows of no node take the last node's value and are
        never asked for."""
        return array if scope is Scope.NODE else array[self.layout.owner[scope]]

    def seen(self, metric: str) -> Flags:
        """Return which rows of the metric's scope have answers that stand for now."""
        scope = self.catalogue[metric].scope
        owned = self.layout.owner[scope] >= 0
        if self.catalogue[metric].tier == "console":
            return owned
        fresh: Flags = self.spread(self.fresh, scope)
        return owned & fresh

    def values(self, metric: str) -> Floats:
        """Return the values of a metric in its shown unit (a counter's rate), NaN where there is none that stands."""
        table, column = self.table(metric)
        if column is None:
            return np.full(self.rows(table.scope), np.nan)
        known = (table.reasons[column] == Reason.PRESENT) & self.seen(metric)
        scale = self.catalogue[metric].rate_scale if self.catalogue[metric].kind is Kind.COUNTER else 1.0
        return np.where(known, table.values[column] * scale, np.nan)

    def medians(self, metric: str, of: str) -> Floats:
        """Return for each row the median of its peers."""
        key = (metric, of)
        if key not in self._medians:
            groups = self.layout.groups(self.catalogue[metric].scope, of)
            self._medians[key] = group_medians(self.values(metric), groups)
        return self._medians[key]

    def xids(self) -> dict[int, list[LogEvent]]:
        """Return the Xid lines of the kernel logs by row of the GPU that they name."""
        if self._xids is None:
            self._xids = {}
            for event in self.snapshot.events:
                row = self._gpu_row(event) if event.xid is not None else None
                if row is not None:
                    self._xids.setdefault(row, []).append(event)
        return self._xids

    def _gpu_row(self, event: LogEvent) -> int | None:
        index = self.snapshot.by_name.get(event.node)
        if index is None or not event.pci:
            return None
        node = self.snapshot.nodes[index]
        for position, gpu in enumerate(node.gpus):
            if gpu.pci.startswith(event.pci):
                return node.gpu_first + position
        return None


class Evaluator:
    """Evaluates conditions and keeps what they must remember between two moments."""

    def __init__(self, catalogue: Mapping[str, Metric], *, single_look: bool) -> None:
        """With `single_look`, what must last longer than SINGLE_LOOK_S needs to last that long only."""
        self._catalogue = catalogue
        self._single_look = single_look
        self._holds: dict[tuple[Held, Scope], Hold] = {}
        self._rings: dict[tuple[str, str], Ring] = {}
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
        elif isinstance(condition, Compare) and condition.aggregate != "last":
            ring = self._rings.setdefault(_ring_key(condition), Ring(_ring_key(condition)[1].removeprefix("total ")))
            ring.need(condition.window_s)

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
            ring.put(_totals(moment, metric) if keep == "total first" else moment.values(metric), moment.mono)

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
        ring = self._rings[_ring_key(leaf)]
        if leaf.aggregate in ("min", "max", "avg"):
            values, ages = ring.over(leaf.window_s, moment.mono)
            least_s = SINGLE_LOOK_S if self._single_look else leaf.window_s
            return _covered(leaf, values, ages, min(least_s, leaf.window_s)), values
        return self._change(leaf, ring, moment)

    def _change(self, leaf: Compare, ring: Ring, moment: Moment) -> tuple[Verdicts, Floats]:
        metric = self._catalogue[leaf.metric]
        then, ages = ring.oldest(leaf.window_s, moment.mono)
        counter = metric.kind is Kind.COUNTER
        change = (_totals(moment, leaf.metric) if counter else moment.values(leaf.metric)) - then
        change[~(ages > 0)] = np.nan
        scale = metric.rate_scale if counter else 1.0
        if leaf.aggregate == "delta":
            values = judged = change
        else:
            values = np.divide(change, ages, out=np.full(len(change), np.nan), where=ages > 0) * scale
            # A burst at the edge of the window must not count for more than it would at its middle.
            judged = change / leaf.window_s * scale if counter else values
        verdicts = _covered(leaf, judged, ages, leaf.window_s)
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


def _totals(moment: Moment, metric: str) -> Floats:
    """Return what a counter has counted since its first reading, NaN where it is not known; of a gauge its value."""
    if moment.catalogue[metric].kind is not Kind.COUNTER:
        return moment.values(metric)
    table, column = moment.table(metric)
    counter = table.counter_index.get(metric)
    if column is None or counter is None:
        return np.full(moment.rows(table.scope), np.nan)
    known = (
        (table.total_reasons[counter] == Reason.PRESENT)
        & (table.reasons[column] != Reason.SATURATED)
        & moment.seen(metric)
    )
    return np.where(known, table.since_first[counter].astype(np.float64), np.nan)


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


def _covered(leaf: Compare, values: Floats, ages: Floats, window_s: float) -> Verdicts:
    """Return the verdicts where samples reach back over the window, give or take a slot, else unknown."""
    assert isinstance(leaf.threshold, float)
    verdicts = _verdicts(leaf.operator, values, leaf.threshold)
    verdicts[~(ages >= window_s - 5.0)] = UNKNOWN
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
