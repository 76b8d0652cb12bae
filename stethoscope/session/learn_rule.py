"""The draft of a rule: values that an incident's evidence names and that were not as they should be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from stethoscope.model.incident import Incident
    from stethoscope.model.metric import Metric
    from stethoscope.specs.rule import Rule

MOST = 3
"""Conditions of one rule."""
_LINE = re.compile(
    r"- (?P<what>[\w ./()-]{2,60}): (?P<value>-?\d+(?:\.\d+)?)(?P<unit> [^\s,]{1,12})?, "
    r"expected (?P<how>peers|below|above|at least|at most|was|about)? ?(?P<expected>-?\d+(?:\.\d+)?)\b(?P<rest>[^\n]*)"
)
_WINDOWS = {"fast": "30s", "medium": "2m", "slow": "5m"}
_PEERS = "peers"
_SAMPLES = 30


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the evidence, in the unit of its metric."""

    metric: Metric
    value: float
    expected: float
    is_of_peers: bool


def rule_draft(
    incident: Incident,
    catalogue: Mapping[str, Metric],
    rules: Sequence[Rule],
    causes: Collection[str],
    *,
    is_forced: bool,
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the draft as it stands in a file, and why there is none."""
    found_it = [rule.id for rule in rules if rule.id in incident.symptoms and rule.root_cause == incident.root_cause]
    if found_it and not is_forced:
        return None, [f"no rule: {found_it[0]} found it already"]
    values = list(values_of(incident.body, catalogue))
    values = [one for one in values if one.metric.scope is values[0].metric.scope][:MOST]
    if not values:
        return None, ["no rule: the evidence names no value, counters apart, with what it should have been"]
    rule: dict[str, Any] = {
        "rule_id": f"learned_{re.sub(r'[^a-z0-9]+', '_', incident.id.lower().removeprefix('inc-')).strip('_')}",
        "description": f"As in {incident.id}: {incident.title.rstrip('.')}.",
        "severity": incident.severity.value,
        "confidence": 0.6,
    }
    if incident.root_cause in causes:
        rule["root_cause"] = incident.root_cause
    first = values[0].metric.id
    rule |= {
        "trigger": [_condition(one) for one in values],
        "summary": f"{incident.title.split(':')[-1].split(' · ')[0].strip()} · {{{{{first}}}}}",
        "tests": [
            _test("as it was then", values, incident.severity.value, is_bad=True),
            _test("as it should be", values, "none", is_bad=False),
        ],
    }
    return rule, []


def values_of(body: str, catalogue: Mapping[str, Metric]) -> Iterator[Value]:
    """Yield the values that the text of an incident names beside what they should have been, each metric once; of
    counters none: what is counted says nothing without its time."""
    titles = {metric.title.lower(): metric for metric in catalogue.values()}
    seen: set[str] = set()
    for line in body.splitlines():
        match = _LINE.match(line.strip())
        metric = None if match is None else catalogue.get(match["what"]) or titles.get(match["what"].lower())
        if match is None or metric is None or metric.kind is not Kind.GAUGE or metric.id in seen:
            continue
        value, expected = float(match["value"]), float(match["expected"])
        if value != expected and _is_in_unit(match["unit"], metric):
            seen.add(metric.id)
            yield Value(metric, value, expected, match["how"] == _PEERS and expected > 0.0)


def _is_in_unit(unit: str | None, metric: Metric) -> bool:
    """Tell whether a number with this unit is one of the metric: `18.2 TB` is no number of bytes."""
    shown = (unit or "").strip().replace("°", "")
    return not shown or shown == metric.unit or (shown == "%" and metric.unit in ("%", "percent"))


def _condition(one: Value) -> dict[str, Any]:
    window = _WINDOWS.get(str(one.metric.tier), "5m")
    if one.is_of_peers:
        low = one.value < one.expected
        limit = round((1.0 + one.value / one.expected) / 2.0, 2)
        return {
            "metric": one.metric.id,
            "peers": {"of": "model", "below" if low else "above": limit, "by": "ratio"},
            "window": window,
        }
    return {
        "metric": one.metric.id,
        "operator": ">" if one.value > one.expected else "<",
        "threshold": float(f"{(one.value + one.expected) / 2.0:.4g}"),
        "window": window,
    }


def _test(name: str, values: Sequence[Value], expect: str, *, is_bad: bool) -> dict[str, Any]:
    series = {one.metric.id: f"{one.value if is_bad else one.expected:g} x{_SAMPLES}" for one in values}
    test: dict[str, Any] = {"name": name, "series": series}
    if any(one.is_of_peers for one in values):
        test |= {"peers": {one.metric.id: one.expected for one in values}, "peer_count": 7}
    return {**test, "expect": expect}
