"""Reads a comparison over hours and days: `{metric: ib_link_downed, operator: ">=", threshold: 3, window: 12h,
aggregate: delta}`. It asks what is remembered of slow counters, not samples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.specs.condition import MAX_WINDOW_S, OPERATORS, OfMetric
from stethoscope.specs.duration import spoken_s

if TYPE_CHECKING:
    from stethoscope.specs.condition import Condition
    from stethoscope.specs.condition_read import ConditionReader, Path

AGGREGATES = ("delta", "growth")
GROWTH = "growth"
"""The change over what it was before: 0.5 or "50%" is half as much again."""
MAX_LONG_S = 366 * 86_400.0
_KEYS = ("metric", "operator", "threshold", "window", "aggregate", "for")
_PERCENT = re.compile(r"(-?\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class Long(OfMetric):
    """What a metric changed by within hours or days, against a number."""

    operator: str
    threshold: float
    """What was counted, or how far a gauge moved; for growth in percent of what it was before."""
    aggregate: str
    """delta or growth."""
    window_s: float


def is_long(data: dict[Any, Any]) -> bool:
    """Tell whether a comparison asks for more than samples are kept for."""
    if data.get("aggregate") == GROWTH:
        return True
    try:
        return "window" in data and spoken_s(data["window"]) > MAX_WINDOW_S
    except ValueError:
        return False


def read_long(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the comparison that `data`, at `path`, describes."""
    reader.only(data, _KEYS, path)
    metric = reader.metric(data, path)
    if "window" not in data:
        raise reader.error(f'{GROWTH} needs a "window"', path)
    window_s = reader.duration(data["window"], (*path, "window"))
    if not MAX_WINDOW_S < window_s <= MAX_LONG_S:
        raise reader.error(f"a window of {GROWTH} is longer than an hour, and a year at most", (*path, "window"))
    if not metric.kept:
        raise reader.error(
            f"a window is at most 60 minutes: {metric.id} is not remembered for longer (metrics with kept: true are)",
            (*path, "window"),
        )
    operator = reader.word(data.get("operator"), [known for known in OPERATORS if known != "has"], "operator", path)
    if "aggregate" not in data:
        raise reader.error(f"over more than an hour the aggregate is {' or '.join(AGGREGATES)}", path)
    aggregate = reader.word(data["aggregate"], AGGREGATES, "aggregate", (*path, "aggregate"))
    if "threshold" not in data:
        raise reader.error('the key "threshold" is missing', path)
    threshold = data["threshold"]
    share = _PERCENT.fullmatch(threshold.strip()) if isinstance(threshold, str) and aggregate == GROWTH else None
    value = float(share[1]) if share else reader.number(threshold, "threshold", (*path, "threshold"))
    if aggregate == GROWTH and not share:
        value *= 100
    return Long(metric.id, operator, value, aggregate, window_s)
