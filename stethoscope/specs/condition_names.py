"""Conditions in the words of others: a name that DCGM or node_exporter uses becomes ours, its threshold with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import Kind, Metric, Scope
from stethoscope.specs.condition import Leaf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.specs.metric_names import OtherName

_COUNTS = ("delta", "total", "growth")
_SMALLER = ("<", "<=", "==")


@dataclass(frozen=True, slots=True)
class Unmeasured(Leaf):
    """A condition about what nothing here measures: never true, never false."""

    name: str
    own: Scope

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return whose value it would be."""
        return self.own


def stand_in(other: OtherName) -> Metric:
    """Return a metric in whose place a name that nothing here measures can be read."""
    return Metric(other.name, other.name, other.scope, other.unit, Kind.GAUGE)


def in_our_words(data: dict[Any, Any], other: OtherName, catalogue: Mapping[str, Metric]) -> list[dict[Any, Any]]:
    """Return the condition once for each metric that a name stands for, the threshold in its unit."""
    found = []
    for metric in other.metrics:
        factor, ours = other.factor, {**data, "metric": metric}
        if catalogue[metric].kind is Kind.COUNTER and "peers" not in data and "missing" not in data:
            if "aggregate" not in data and other.is_raw:
                # Where that name comes from, a counter's value is its total.
                ours["aggregate"] = "total"
                ours["for"] = ours.pop("window", ours.get("for", 0))
            if ours.get("aggregate") in _COUNTS:
                factor = other.count_factor
        found.append({**ours, **_scaled(data, factor)})
    return found


def joins(data: dict[Any, Any]) -> str:
    """Return how the conditions on the parts of a sum are joined: each below the limit, or any above it."""
    return "all" if data.get("operator") in _SMALLER else "any"


def _scaled(data: dict[Any, Any], factor: float) -> dict[str, Any]:
    threshold = data.get("threshold")
    if factor == 1.0 or not isinstance(threshold, int | float) or isinstance(threshold, bool):
        return {}
    return {"threshold": threshold * factor}
