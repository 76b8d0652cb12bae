"""Reads a comparison: `{metric: gpu_temp, operator: ">", threshold: 90, window: 30s}`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import Kind, Metric
from stethoscope.model.units import quantity
from stethoscope.specs.condition import AGGREGATES, EXPECTED, OPERATORS, OVERDUE, Compare, Condition, Held
from stethoscope.specs.condition_long import is_long, read_long
from stethoscope.specs.duration import duration_s

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path

_PER = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)")
_OVER = re.compile(r"(.*?)\s*/\s*(s|sec|m|min|h|hour|d|day)", re.IGNORECASE)
_KEYS = ("metric", "operator", "threshold", "window", "aggregate", "for", "missing", "peers", "link", "xid")


def read_compare(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the comparison that `data`, at `path`, describes."""
    if is_long(data):
        return read_long(reader, data, path)
    reader.only(data, _KEYS, path)
    metric = reader.metric(data, path)
    operator = reader.word(data.get("operator"), OPERATORS, "operator", (*path, "operator"))
    if operator == "has" and not metric.bitmask:
        raise reader.error(f'"has" is for bit masks, and {metric.id} is a number', (*path, "operator"))
    aggregate = reader.word(data.get("aggregate") or "every", AGGREGATES, "aggregate", (*path, "aggregate"))
    if operator == "has" and aggregate not in ("every", "last"):
        raise reader.error(f"{aggregate} of a bit mask means nothing", (*path, "aggregate"))
    window_s = _window(reader, data, metric, aggregate, path)
    if aggregate == "total" and metric.kind is not Kind.COUNTER:
        raise reader.error(f"{metric.id} is no counter, so that it has no total", (*path, "aggregate"))
    if "threshold" not in data:
        raise reader.error('the key "threshold" is missing', path)
    threshold, times = _threshold(reader, data["threshold"], metric, aggregate, (*path, "threshold"))
    if aggregate in ("every", "last"):
        compare = Compare(metric.id, operator, threshold, times=times)
        return Held(compare, window_s) if aggregate == "every" and window_s else compare
    if isinstance(threshold, str):
        raise reader.error(f"{aggregate} is compared with a number", (*path, "threshold"))
    return Compare(metric.id, operator, threshold, aggregate, window_s)


def _window(reader: ConditionReader, data: dict[Any, Any], metric: Metric, aggregate: str, path: Path) -> float:
    since_first = aggregate == "delta" and metric.kind is Kind.COUNTER
    if aggregate == "total":
        if "window" in data:
            raise reader.error("total is what the counter stands at now: it takes no window", (*path, "window"))
        return 0.0
    if "window" not in data and aggregate not in ("every", "last") and not since_first:
        raise reader.error(f'{aggregate} needs a "window"', path)
    return reader.window(data, metric, path, least_samples=0 if aggregate == "last" else 3)


def _threshold(
    reader: ConditionReader, value: Any, metric: Metric, aggregate: str, path: Path
) -> tuple[float | str, float]:
    """Return the number or the name of what is compared with, and the factor on it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), 1.0
    if isinstance(value, dict):
        reader.only(value, ("metric", "times"), path)
        other = reader.metric(value, path)
        if other.scope is not metric.scope:
            raise reader.error(f"{other.id} is a metric of a {other.scope}, not of a {metric.scope}", path)
        return other.id, reader.number(value.get("times", 1), "times", (*path, "times"))
    if isinstance(value, str):
        said = _said(value.strip(), metric, aggregate)
        if said is not None:
            return said, 1.0
        if value in ("warn", "critical"):
            level: float | None = getattr(metric, value)
            if level is None:
                raise reader.error(f"{metric.id} has no {value} level", path)
            return level, 1.0
        if (metric.id, value) in (("gpu_count", EXPECTED), ("node_data_age", OVERDUE)):
            return value, 1.0
    unit = _unit(metric, aggregate)
    what = f'a number{f" in {unit}" if unit else ""}, a rate such as "120/h", warn, critical, or {{metric: ...}}'
    raise reader.error(f"threshold is {what}", path)


def _unit(metric: Metric, aggregate: str) -> str:
    """Return the unit of what is compared, for a slope that of what changes."""
    return metric.unit if aggregate in ("delta", "total") else metric.shown_unit


def _said(text: str, metric: Metric, aggregate: str) -> float | None:
    """Return the number that `70 °C`, `120/h`, `2 C/m` (of a slope) or `"90"` say, None when they say none."""
    unit = _unit(metric, aggregate)
    if aggregate == "slope":
        over = _OVER.fullmatch(text)
        number = quantity(over[1], unit) if over else quantity(text, unit)
        return number if over is None or number is None else number / duration_s(f"1{over[2][0].lower()}")
    per = _PER.fullmatch(text)
    if per and (aggregate == "rate" or (metric.kind is Kind.COUNTER and aggregate not in ("delta", "total"))):
        return float(per[1]) / duration_s(f"1{per[2]}")
    if unit == "ratio" and text.endswith("%"):
        share = quantity(text, "%")
        return None if share is None else share / 100
    return quantity(text, unit)
