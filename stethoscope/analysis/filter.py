"""The filter language: `temp>85 & host~gpu-0 | state=lost`, read once and asked of every snapshot.

What is missing is neither above nor below anything, and not different from it either: a condition about it is unknown,
and so is its opposite. A node fits when the whole filter is true, and not when it is unknown.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.filter_complete import Completion, complete, completion, meaning_of
from stethoscope.analysis.filter_parse import parse
from stethoscope.analysis.filter_said import named, said
from stethoscope.analysis.filter_sight import Sight, certain
from stethoscope.analysis.filter_tree import Absent, Codes, Inside, Joined, Measured, Named, Not, Number, Said, Tree
from stethoscope.analysis.filter_values import TOTAL, fits_field
from stethoscope.analysis.filter_words import LONGEST, FilterError
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Verdicts
from stethoscope.model.metric import Kind, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric

__all__ = ["LONGEST", "Completion", "Filter", "FilterError", "compile_filter", "complete", "completion", "meaning_of"]

_COMPARE: dict[str, Callable[[Any, Any], Flags]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_SAME = 1e-6
"""Share by which two numbers may differ and be the same: kept short, they have seven digits."""


def compile_filter(text: str, catalogue: Mapping[str, Metric]) -> Filter:
    """Return the filter that `text` means; every node fits an empty one. FilterError, and nothing else, for a text that
    cannot be read."""
    return Filter(parse(text, catalogue))


class Filter:
    """A filter, read; it keeps what it worked out of the last snapshot."""

    def __init__(self, tree: Tree | None) -> None:
        """Ask `tree`; None lets every node pass."""
        self.tree = tree
        self._sight: Sight | None = None
        self._fits: Flags | None = None

    def __str__(self) -> str:
        """Return the filter as text, each thing written in one way."""
        return "" if self.tree is None else str(self.tree)

    def __eq__(self, other: object) -> bool:
        """Tell whether another filter asks the same in the same order."""
        return isinstance(other, Filter) and other.tree == self.tree

    def __hash__(self) -> int:
        """Return the hash of what is asked."""
        return hash(self.tree)

    def nodes(self, snapshot: FleetSnapshot) -> Flags:
        """Return which nodes of `snapshot`, by their index, fit."""
        if self.tree is None:
            return np.ones(len(snapshot.nodes), dtype=np.bool_)
        sight = self._look(snapshot)
        if self._fits is None:
            self._fits = _judge(self.tree, Scope.NODE, sight) == TRUE
            self._fits.setflags(write=False)
        return self._fits

    def rows(self, snapshot: FleetSnapshot, scope: Scope) -> Flags | None:
        """Return which rows of the table of `scope` the conditions name, on nodes that fit: those that make it so. None
        when no condition is about `scope`, or all of them are about nodes."""
        if self.tree is None or scope is Scope.NODE:
            return None
        sight = self._look(snapshot)
        meant = _meant(self.tree, scope, sight, TRUE)
        if meant is None:
            return None
        fits: Flags = sight.spread(certain(self.nodes(snapshot)), scope) == TRUE
        return meant & fits

    def _look(self, snapshot: FleetSnapshot) -> Sight:
        if self._sight is None or self._sight.snapshot is not snapshot:
            self._sight, self._fits = Sight(snapshot), None
        return self._sight


def _judge(tree: Tree, frame: Scope, sight: Sight) -> Verdicts:
    """Return the verdict of each node, or of each row of `frame` inside of what is about devices."""
    if isinstance(tree, Joined):
        join = np.minimum if tree.sign == "&" else np.maximum
        result = _judge(tree.parts[0], frame, sight)
        for part in tree.parts[1:]:
            result = join(result, _judge(part, frame, sight))
        return result
    if isinstance(tree, Not):
        return TRUE - _judge(tree.part, frame, sight)
    if isinstance(tree, Inside):
        verdicts = _judge(tree.part, tree.scope, sight)
        gather = sight.all if tree.how == "all" else sight.any
        return gather(verdicts, tree.scope, UNKNOWN)
    own = _scope_of(tree, frame)
    if own is frame:
        return _leaf(tree, frame, sight)
    if own is Scope.NODE:
        return sight.spread(_leaf(tree, own, sight), frame)
    return sight.any(_leaf(tree, own, sight), own, _unheard(tree))


def _scope_of(leaf: Measured | Said | Named, frame: Scope) -> Scope:
    """Return what one verdict about `leaf` belongs to."""
    if isinstance(leaf, Measured):
        return leaf.metric.scope
    if isinstance(leaf, Said) and leaf.name == "model" and frame is Scope.NODE:
        return Scope.GPU
    return frame if isinstance(leaf, Said) and fits_field(leaf.name, frame) else Scope.NODE


def _leaf(leaf: Measured | Said | Named, frame: Scope, sight: Sight) -> Verdicts:
    if isinstance(leaf, Named):
        return named(leaf, sight)
    if isinstance(leaf, Said):
        return said(leaf, frame, sight, _idle)
    return _measured(leaf, sight)


def _measured(leaf: Measured, sight: Sight) -> Verdicts:
    """Return the verdict of every row of the metric's table."""
    metric, test = leaf.metric, leaf.test
    table = sight.snapshot.tables[metric.scope]
    if metric.id not in table.index:
        return np.full(sight.size(metric.scope), UNKNOWN, dtype=np.int8)
    column = table.index[metric.id]
    values, reasons = table.values[column], table.reasons[column]
    if leaf.which != "value":
        counter = table.counter_index[metric.id]
        totals = table.totals if leaf.which == TOTAL else table.since_first
        values, reasons = totals[counter].astype(np.float64), table.total_reasons[counter]
    if metric.scope is Scope.NODE:
        values, reasons = values[: sight.nodes], reasons[: sight.nodes]
    if isinstance(test, Absent):
        if len(test.reasons) == 1:
            return certain((reasons == test.reasons[0]) != test.negative)
        return certain((reasons != Reason.PRESENT) != test.negative)
    # A missing value is NaN: it compares as false and is put aside below.
    with np.errstate(invalid="ignore"):
        hits = _hits(metric, values, test, leaf.which)
    verdicts = certain(hits)
    verdicts[reasons != Reason.PRESENT] = UNKNOWN
    return verdicts


def _hits(metric: Metric, values: Any, test: Number | Codes, which: str) -> Flags:
    if isinstance(test, Codes):
        if test.bits:
            mask = sum(test.codes)
            known: Flags = (np.nan_to_num(values).astype(np.int64) & mask) != 0
        else:
            known = np.isin(values, test.codes)
        return np.asarray(known != test.negative)
    if metric.kind is Kind.COUNTER and which == "value":
        values = values * metric.rate_scale
    if test.operator in _COMPARE:
        return np.asarray(_COMPARE[test.operator](values, test.number))
    same: Flags = np.abs(values - test.number) <= _SAME * abs(test.number)
    return same if test.operator == "=" else ~same


def _unheard(leaf: Measured | Said | Named) -> int:
    """Return the verdict of a node of whose devices nothing was heard: their values are missing, and waited for."""
    if isinstance(leaf, Measured) and isinstance(leaf.test, Absent) and Reason.WAITING in leaf.test.reasons:
        return FALSE if leaf.test.negative else TRUE
    if isinstance(leaf, Said) and leaf.value.lower() == "missing" and leaf.operator in ("=", "!="):
        return FALSE if leaf.operator == "!=" else TRUE
    return UNKNOWN


def _idle(sight: Sight) -> Verdicts:
    """Return the nodes none of whose GPUs is in use."""
    table = sight.snapshot.tables[Scope.GPU]
    column = table.index["gpu_util"]
    idle = certain(table.values[column] == 0)
    idle[table.reasons[column] != Reason.PRESENT] = UNKNOWN
    return sight.all(idle, Scope.GPU, UNKNOWN)


def _meant(tree: Tree, scope: Scope, sight: Sight, wanted: int) -> Flags | None:
    """Return the rows of `scope` for which a condition about that scope has the verdict `wanted`."""
    if isinstance(tree, Joined):
        some = [meant for part in tree.parts if (meant := _meant(part, scope, sight, wanted)) is not None]
        return np.logical_or.reduce(some) if some else None
    if isinstance(tree, Not):
        return _meant(tree.part, scope, sight, TRUE - wanted)
    if isinstance(tree, Inside):
        return np.asarray(_judge(tree.part, scope, sight) == wanted) if tree.scope is scope else None
    if _scope_of(tree, Scope.NODE) is not scope:
        return None
    return np.asarray(_leaf(tree, scope, sight) == wanted)
