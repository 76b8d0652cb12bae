"""Conditions in words: what a rule asks, with thresholds in units, and which of it nothing here measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.analysis.leaves import per
from stethoscope.analysis.said import number, quantity, unit_of
from stethoscope.model.metric import REASON_WORDS, Kind, Scope
from stethoscope.specs.condition import (
    EXPECTED,
    OVERDUE,
    Absent,
    Against,
    Combined,
    Compare,
    Held,
    LinkIs,
    OfMetric,
    XidSeen,
    leaves,
    scope_alone,
)
from stethoscope.specs.condition_baseline import Deviates
from stethoscope.specs.condition_change import Changed
from stethoscope.specs.condition_kernel import KernelLog
from stethoscope.specs.condition_long import Long
from stethoscope.specs.condition_names import Unmeasured
from stethoscope.specs.condition_peers import Distant
from stethoscope.specs.condition_share import SHARES, Share
from stethoscope.specs.condition_words import About, WordDiffers, WordIs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stethoscope.model.metric import Metric
    from stethoscope.specs.condition import Condition, Leaf
    from stethoscope.specs.rule import Rule

    Catalogue = Mapping[str, Metric]

_IS = {
    ">": "above", ">=": "at least", "<": "below", "<=": "at most", "==": "is", "!=": "is not", "has": "has one of",
}  # fmt: skip
_OF = {
    "avg": "mean", "min": "lowest", "max": "highest", "delta": "change", "rate": "rate", "slope": "slope",
    "stddev": "standard deviation", "total": "total",
}  # fmt: skip
_DEVICE = {
    Scope.GPU: "GPU", Scope.PORT: "port", Scope.NVLINK: "NVLink", Scope.PCIE: "PCIe device", Scope.NET: "interface",
    Scope.DISK: "disk", Scope.FS: "file system",
}  # fmt: skip
_ALL = {"all": "all of", "any": "any of", "not": "not"}
_WAY = {"low": "below", "high": "above", "both": "away from"}


def span(seconds: float) -> str:
    """Return a span of time as people write it: 30 s, 5 min, 12 h, 30 d."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size * (2 if unit != "min" else 1) and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def in_words(
    condition: Condition, catalogue: Catalogue, depth: int = 0, scope: Scope = Scope.NODE
) -> Iterator[tuple[int, str]]:
    """Yield the lines that say a condition of a rule about `scope`, each with how deep it stands."""
    if isinstance(condition, Held):
        every = f"for {span(condition.window_s)}"
        if isinstance(condition.part, Combined):
            (at, first), *rest = in_words(condition.part, catalogue, depth, scope)
            yield at, f"{every}, {first}"
            yield from rest
        else:
            ((at, text),) = in_words(condition.part, catalogue, depth, scope)
            yield at, f"{text}, {every}"
    elif isinstance(condition, Combined):
        if len(condition.parts) == 1 and condition.how != "not":
            yield from in_words(condition.parts[0], catalogue, depth, scope)
            return
        own = scope_alone(condition, catalogue)
        where = "" if own is None else elsewhere(own, scope)
        yield depth, f"{_ALL[condition.how]}{where}:"
        for part in condition.parts:
            yield from in_words(part, catalogue, depth + 1, scope if own is None else own)
    else:
        yield depth, leaf_words(condition, catalogue) + elsewhere(condition.scope(catalogue), scope)


def elsewhere(own: Scope, scope: Scope) -> str:
    """Return where a condition about `own` must be true for a rule about `scope`, nothing for the same place."""
    if own is scope or (own is Scope.NODE and scope is not Scope.JOB):
        return ""
    if scope is Scope.JOB:
        return ", on any of the job's nodes"
    if own is Scope.JOB:
        return ", of a job on the node"
    pair = {own, scope}
    if pair == {Scope.GPU, Scope.NVLINK}:
        return ", on any link of the GPU" if scope is Scope.GPU else ", on the GPU of the link"
    other = f", on any {_DEVICE[own]} of the node"
    if pair == {Scope.GPU, Scope.PCIE}:
        return (
            ", on its own PCIe device"
            if scope is Scope.GPU
            else ", on the GPU that the device is, or any of the node where it is none"
        )
    return other


def leaf_words(leaf: Leaf, catalogue: Catalogue) -> str:
    """Return one condition as a sentence without its end."""
    words = _WORDS.get(type(leaf))
    if words is not None:
        return words(leaf, catalogue)
    named = f"{catalogue[leaf.metric].title}: " if isinstance(leaf, OfMetric) else ""
    values = (str(getattr(leaf, name)) for name in leaf.__dataclass_fields__ if name != "metric")  # type: ignore[attr-defined]
    return named + " ".join(values)


def _compare(leaf: Compare, catalogue: Catalogue) -> str:
    metric = catalogue[leaf.metric]
    what = f"{metric.title} ({metric.id})"
    if leaf.aggregate != "last":
        over = f" over {span(leaf.window_s)}" if leaf.window_s else ""
        over = over or (" since the first reading" if leaf.aggregate == "delta" else "")
        what = f"{_OF[leaf.aggregate]} of {what}{over}"
    elif metric.kind is Kind.COUNTER:
        what = f"rate of {what}"
    return f"{what} {_IS[leaf.operator]} {_limit(leaf, metric, catalogue)}"


def _limit(leaf: Compare, metric: Metric, catalogue: Catalogue) -> str:
    if leaf.threshold == EXPECTED:
        return "what the fleet file expects"
    if leaf.threshold == OVERDUE:
        return "five ticks of the node and 5 s"
    if isinstance(leaf.threshold, str):
        times = f"{leaf.times:g} times " if leaf.times != 1 else ""
        return f"{times}{catalogue[leaf.threshold].title} ({leaf.threshold})"
    limit = leaf.threshold * (per(leaf)[0] if leaf.aggregate == "slope" else 1.0)
    return quantity(metric, limit, unit_of(leaf, metric))


def _long(leaf: Long, catalogue: Catalogue) -> str:
    metric = catalogue[leaf.metric]
    limit = (
        f"{number(leaf.threshold)} %" if leaf.aggregate == "growth" else quantity(metric, leaf.threshold, metric.unit)
    )
    what = "growth" if leaf.aggregate == "growth" else "change"
    return f"{what} of {metric.title} ({metric.id}) over {span(leaf.window_s)} {_IS[leaf.operator]} {limit}"


def _against(leaf: Against, catalogue: Catalogue) -> str:
    metric = catalogue[leaf.metric]
    bound = leaf.below if leaf.below is not None else leaf.above
    way = "below" if leaf.below is not None else "above"
    assert bound is not None
    what = f"{way} {number(bound * 100)} % of" if leaf.by == "ratio" else f"{way} by {quantity(metric, abs(bound))} of"
    return f"{metric.title} ({metric.id}) {what} the median of its peers ({leaf.of})"


def _distant(leaf: Distant, catalogue: Catalogue) -> str:
    metric = catalogue[leaf.metric]
    least = f"{number(leaf.share * 100)} %" + (f" and {quantity(metric, leaf.amount)}" if leaf.amount else "")
    far = f"{number(leaf.distance)} robust deviations and {least}"
    return f"{metric.title} ({metric.id}) {far} {_WAY[leaf.direction]} its peers ({leaf.of})"


def _changed(leaf: Changed, catalogue: Catalogue) -> str:
    metric = catalogue[leaf.metric]
    least = f"{number(leaf.share * 100)} %" + (f" and {quantity(metric, leaf.amount)}" if leaf.amount else "")
    way = {"low": "fell", "high": "rose", "both": "moved"}[leaf.direction]
    return (
        f"{metric.title} ({metric.id}) {way} by {least} within {span(leaf.within_s)}, and stayed {span(leaf.lasting_s)}"
    )


def _deviates(leaf: Deviates, catalogue: Catalogue) -> str:
    metric = catalogue[leaf.metric]
    sides = (("below", leaf.below), ("above", leaf.above))
    far = " or ".join(f"{number(share * 100)} % {way}" for way, share in sides if share is not None)
    what = _SOURCES[leaf.of]
    return f"{metric.title} ({metric.id}) more than {far} {what}"


_SOURCES = {
    "expected": "what is expected of it", "spec": "its own maximum", "fleet_file": "what the fleet file says",
    "stored": "its stored baseline",
}  # fmt: skip
_WORDS: dict[type[Leaf], Callable[[Any, Catalogue], str]] = {
    Compare: _compare,
    Long: _long,
    Against: _against,
    Distant: _distant,
    Changed: _changed,
    Deviates: _deviates,
    Absent: lambda leaf, all_: (
        f"{all_[leaf.metric].title} ({leaf.metric}) has no value: {' or '.join(REASON_WORDS[r] for r in leaf.reasons)}"
    ),
    LinkIs: lambda leaf, _: f"the link of the node is {' or '.join(state.value for state in leaf.states)}",
    XidSeen: lambda leaf, _: (
        f"the kernel log has {'Xid ' + ', '.join(map(str, leaf.codes)) if leaf.codes else 'any Xid'}"
        f" about the GPU within {span(leaf.window_s)}"
    ),
    KernelLog: lambda leaf, _: f"the kernel log has {' or '.join(leaf.kinds)} within {span(leaf.window_s)}",
    WordIs: lambda leaf, _: f"{leaf.word} of the node is {' or '.join(leaf.words)}",
    WordDiffers: lambda leaf, _: f"{leaf.word} of the node is not what nearly all others have",
    About: lambda leaf, _: f"{leaf.key} of the {leaf.of} is {' or '.join(leaf.words)}",
    Share: lambda leaf, _: f"{leaf.name} ({SHARES[leaf.name][0]}) {_IS[leaf.operator]} {leaf.threshold:g} %",
    Unmeasured: lambda leaf, _: f"{leaf.name}: nothing here measures it, so that this is never known",
}


def unmeasured(rule: Rule) -> tuple[str, ...]:
    """Return the names in a rule that nothing here measures."""
    parts = [part for part in (rule.trigger, rule.more_sure) if part is not None]
    return tuple(dict.fromkeys(leaf.name for part in parts for leaf, _ in leaves(part) if isinstance(leaf, Unmeasured)))
