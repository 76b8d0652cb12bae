"""How facts are said: the name of what was looked at, and what was expected instead of what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.baseline import expectations
from stethoscope.analysis.counting import said_counts
from stethoscope.analysis.leaves import per, threshold_of
from stethoscope.analysis.leaves_words import fact_of_line, fact_of_word
from stethoscope.clock import duration, iso
from stethoscope.model.metric import Kind
from stethoscope.model.quantity import as_said
from stethoscope.specs.condition import Against, Compare, Leaf
from stethoscope.specs.condition_baseline import Deviates
from stethoscope.specs.condition_change import Changed
from stethoscope.specs.condition_counter import Counts
from stethoscope.specs.condition_kernel import KernelLog
from stethoscope.specs.condition_long import GROWTH, Long
from stethoscope.specs.condition_peers import Distant
from stethoscope.specs.condition_words import WordDiffers, WordIs

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.analysis.moment import Moment
    from stethoscope.model.finding import Fact
    from stethoscope.model.metric import Metric
    from stethoscope.specs.condition_share import Share

NONE = "none"
"""What is expected of a counter that should stand still."""
_STILL = 0.001
"""Counts a second, in the catalogue, up to which a counter should stand still: any is too many."""
_AT_MOST = {">": "at most", ">=": "below", "<": "at least", "<=": "above", "!=": "", "==": "not"}


def quantity(metric: Metric, value: float, unit: str | None = None) -> str:
    """Return a value with its unit, as people write it: `1410 MHz`, `41/s`, `Down`, `HW thermal, power brake`."""
    if metric.bitmask:
        names = [word for bit, word in metric.words if int(value) & bit]
        unnamed = int(value) & ~sum(bit for bit, _ in metric.words)
        return ", ".join([*names, *([hex(unnamed)] if unnamed else [])]) or "none"
    word = dict(metric.words).get(int(value)) if metric.words and value == int(value) else None
    if word is not None:
        return word
    unit = metric.shown_unit if unit is None else unit
    value, unit = as_said(value, unit)
    return f"{number(value)}{'' if unit.startswith('/') or not unit else ' '}{unit}"


def number(value: float) -> str:
    """Return a number with at most three digits that matter: 1410, 41.2, 0.033."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 10 else f"{value:.2g}"


def unit_of(leaf: Compare | Long, metric: Metric) -> str | None:
    """Return the unit of the values of a comparison, None for that of the metric."""
    if isinstance(leaf, Compare) and leaf.aggregate == "slope":
        return as_said(2, metric.shown_unit)[1] + per(leaf)[1]
    return metric.unit if leaf.aggregate in ("delta", "total") else None


def said_compare(leaf: Compare, moment: Moment, row: int) -> tuple[str, str]:
    """Return the metric with its aggregate, and the bound that was crossed."""
    metric = moment.catalogue[leaf.metric]
    unit = unit_of(leaf, metric)
    limits = threshold_of(leaf, moment)
    limit = limits if isinstance(limits, float) else float(limits[row])
    if leaf.aggregate == "slope":
        limit *= per(leaf)[0]
    if np.isnan(limit) or (leaf.operator == ">=" and limit <= (-np.inf if metric.low is None else metric.low)):
        # What every value fulfils is asked for to know that there is one.
        expected = ""
    elif leaf.operator == ">" and limit == 0 and metric.kind is Kind.COUNTER:
        expected = NONE
    elif leaf.operator == "has":
        expected = f"no {quantity(metric, limit).replace(', ', ' or ')}"
    else:
        expected = f"{_AT_MOST[leaf.operator]} {quantity(metric, limit, unit)}".strip()
    if leaf.aggregate == "total":
        return f"{leaf.metric} total", expected
    over = f"{leaf.window_s:g} s" if leaf.window_s else "since the first reading"
    return (leaf.metric if leaf.aggregate == "last" else f"{leaf.metric} {leaf.aggregate} {over}"), expected


def said_limit(metric: Metric) -> str:
    """Return what the catalogue expects of a metric that has a limit: `below 88 °C`, or `none`."""
    assert metric.warn is not None
    if metric.kind is Kind.COUNTER and metric.worse == "high" and metric.warn <= _STILL:
        return NONE
    return f"{'below' if metric.worse == 'high' else 'above'} {quantity(metric, metric.warn)}"


def said_share(leaf: Share) -> str:
    """Return the bound of a share that was crossed."""
    return f"{_AT_MOST[leaf.operator]} {leaf.threshold:g} %".strip()


def said_against(leaf: Against | Distant, moment: Moment, row: int) -> tuple[str, str]:
    """Return the metric, and what its peers have."""
    median = float(moment.medians(leaf.metric, leaf.of)[row])
    return leaf.metric, "" if np.isnan(median) else f"peers {quantity(moment.catalogue[leaf.metric], median)}"


def said_long(leaf: Long, moment: Moment, row: int) -> tuple[str, str]:
    """Return the metric with what was asked of how long, and the bound that was crossed."""
    metric = moment.catalogue[leaf.metric]
    growth = leaf.aggregate == GROWTH
    limit = f"{number(leaf.threshold)} %" if growth else quantity(metric, leaf.threshold, metric.unit)
    said = f"{leaf.metric} {leaf.aggregate} in {duration(leaf.window_s)}"
    return said, f"{_AT_MOST[leaf.operator]} {limit}".strip()


def said_changed(leaf: Changed, moment: Moment, row: int) -> tuple[str, str]:
    """Return the metric with its change, and the level of before."""
    change = moment.change(leaf, row)
    if change is None:
        return f"{leaf.metric} change", ""
    before = quantity(moment.catalogue[leaf.metric], change.before)
    return f"{leaf.metric} change", f"{before} until {iso(change.at)}"


def said_baseline(leaf: Deviates, moment: Moment, row: int) -> tuple[str, str]:
    """Return the metric, and what is expected of it."""
    expected = float(expectations(leaf, moment)[row])
    return leaf.metric, "" if np.isnan(expected) else f"about {quantity(moment.catalogue[leaf.metric], expected)}"


SAID: dict[type[Leaf], Callable[[Any, Moment, int], tuple[str, str]]] = {
    Compare: said_compare, Against: said_against, Distant: said_against, Long: said_long, Changed: said_changed,
    Deviates: said_baseline, Counts: said_counts,
}  # fmt: skip
"""For each kind of leaf that has values: the name of its fact (a metric's id, then words) and what was expected, at a
row of the leaf's own scope."""
FACTS: dict[type[Leaf], Callable[[Any, Moment, int], Fact | None]] = {
    KernelLog: fact_of_line, WordIs: fact_of_word, WordDiffers: fact_of_word,
}  # fmt: skip
"""For each kind of leaf that no number stands behind: the fact that makes it true at a row of its own scope."""
