"""The condition language of rules: the tree that `specs.condition_read` reads and `analysis.conditions` evaluates.

A leaf compares a metric (`operator`, `threshold`, over a `window` with an `aggregate`), compares it with its `peers`,
asks why it is `missing`, or asks about the `link` of the node or an `xid` of the kernel log. `all`, `any` and `not`
combine; a plain list means all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.model.metric import Metric, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.model.frame import LinkState

OPERATORS = (">", ">=", "<", "<=", "==", "!=", "has")
"""`has` is for bit masks: true when any bit of the threshold is set."""
AGGREGATES = ("every", "last", "total", "delta", "rate", "min", "max", "avg", "slope", "stddev")
TRENDS = ("slope", "stddev")
"""Aggregates of the straight line through the samples of a window."""
EXPECTED, OVERDUE = "expected", "overdue"
"""Thresholds that differ from node to node: the GPUs that the fleet file names, and five ticks and five seconds."""
TIER_S = {"fast": 5.0, "medium": 30.0, "slow": 60.0, "console": 5.0}
"""Nominal sampling interval of each tier, in seconds."""
MAX_WINDOW_S = 3600.0
"""Longest window that keeps samples: what a window costs in memory grows with it."""


class Leaf:
    """One condition that is not made of others: a frozen dataclass. Its reader is named in
    `condition_read.READERS`, what evaluates it in `analysis.conditions.EVALUATORS`."""

    __slots__ = ()

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return whose rows the leaf is evaluated on."""
        raise NotImplementedError

    def reads(self) -> tuple[str, ...]:
        """Return the ids of the metrics that it needs."""
        return ()


@dataclass(frozen=True, slots=True)
class OfMetric(Leaf):
    """A leaf about one metric, evaluated on the rows of that."""

    metric: str

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the scope of the metric."""
        return catalogue[self.metric].scope

    def reads(self) -> tuple[str, ...]:
        """Return the metric."""
        return (self.metric,)


@dataclass(frozen=True, slots=True)
class Compare(OfMetric):
    """A metric against a number, or against another metric of the same scope."""

    operator: str
    threshold: float | str
    """A number in the metric's unit (a counter's: of its rate, or the count for `delta`), the id of another metric,
    EXPECTED or OVERDUE."""
    aggregate: str = "last"
    """last, total (what a counter stands at), delta, rate, min, max, avg, slope (change per second of the
    straight line through the samples) or stddev; `every` is a Held around a `last`."""
    window_s: float = 0.0
    """0 for the `delta` of a counter is the change since its first reading."""
    times: float = 1.0
    """Factor on the other metric."""

    def reads(self) -> tuple[str, ...]:
        """Return the metric, and the one that it is compared with."""
        other = self.threshold if isinstance(self.threshold, str) else EXPECTED
        return (self.metric,) if other in (EXPECTED, OVERDUE) else (self.metric, other)


@dataclass(frozen=True, slots=True)
class Against(OfMetric):
    """A metric against the median of comparable rows."""

    of: str
    """model, name (same port or GPU position on all nodes), node, or fleet."""
    below: float | None
    above: float | None
    by: str
    """ratio: value / median; difference: value - median."""


@dataclass(frozen=True, slots=True)
class Absent(OfMetric):
    """A metric has no value, for one of these reasons."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class LinkIs(Leaf):
    """The link of the node is in one of these states."""

    states: tuple[LinkState, ...]

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the node's."""
        return Scope.NODE


@dataclass(frozen=True, slots=True)
class XidSeen(Leaf):
    """The kernel log has an Xid about this GPU."""

    codes: tuple[int, ...]
    """Empty for any."""
    window_s: float

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the GPU's."""
        return Scope.GPU


@dataclass(frozen=True, slots=True)
class Combined:
    """`all`, `any` or `not` (of one part)."""

    how: str
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A condition that was true at every sample of the last `window_s` seconds."""

    part: Condition
    window_s: float


Condition = Leaf | Combined | Held


def leaves(condition: Condition, *, positive: bool = True) -> Iterator[tuple[Leaf, bool]]:
    """Yield the leaves in the order of the text, each with whether it stands outside of a `not`."""
    if isinstance(condition, Held):
        yield from leaves(condition.part, positive=positive)
    elif isinstance(condition, Combined):
        for part in condition.parts:
            yield from leaves(part, positive=positive != (condition.how == "not"))
    else:
        yield condition, positive


def scopes_of(condition: Condition, catalogue: Mapping[str, Metric]) -> tuple[Scope, ...]:
    """Return the scopes that the leaves speak of, the node apart, in the order of the text."""
    scopes = dict.fromkeys(leaf.scope(catalogue) for leaf, _ in leaves(condition))
    return tuple(scope for scope in scopes if scope is not Scope.NODE)


def scope_alone(condition: Condition, catalogue: Mapping[str, Metric]) -> Scope | None:
    """Return the scope of a condition that is about single devices of one kind: a leaf, what must last of it, or `all`
    of such ones; None for others. It is judged device by device also where the rule is about something else."""
    if isinstance(condition, Held):
        return scope_alone(condition.part, catalogue)
    if not isinstance(condition, Combined):
        return condition.scope(catalogue)
    if condition.how != "all":
        return None
    scopes = {scope_alone(part, catalogue) for part in condition.parts}
    if len(scopes) > 1:
        scopes.discard(Scope.NODE)
    return scopes.pop() if len(scopes) == 1 else None


def whole(condition: Condition, leaf: Leaf, catalogue: Mapping[str, Metric]) -> Condition | None:
    """Return the widest part of a condition that `scope_alone` knows a scope for and that has `leaf` in it."""
    if scope_alone(condition, catalogue) is leaf.scope(catalogue):
        return condition if any(one == leaf for one, _ in leaves(condition)) else None
    if isinstance(condition, Held):
        return whole(condition.part, leaf, catalogue)
    parts = condition.parts if isinstance(condition, Combined) else ()
    return next((found for part in parts if (found := whole(part, leaf, catalogue)) is not None), None)
