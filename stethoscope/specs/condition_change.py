"""Reads a change against the own past: `{metric: gpu_power_draw, change: {within: 30m, direction: low, sure: 6}}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.specs.condition import MAX_WINDOW_S, Condition, OfMetric
from stethoscope.specs.condition_peers import DIRECTIONS, read_groups, read_least

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path

LEAST_SURE = 3.0
LASTING_S = 60.0


@dataclass(frozen=True, slots=True)
class Changed(OfMetric):
    """A metric that left its own level of before and stayed away, at a moment of the last `within_s` seconds."""

    of: str
    """Comparable rows that change as one, by their mean; empty for each row by itself."""
    within_s: float
    direction: str
    """low, high or both."""
    sure: float
    """Height of the step in standard deviations of the noise before it."""
    share: float
    """The least height, as a share of the level before ..."""
    amount: float
    """... and in the metric's unit."""
    lasting_s: float
    """How long the new level must last before it is believed."""


def read_change(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the change that `data`, at `path`, describes."""
    reader.only(data, ("metric", "change", "for"), path)
    metric = reader.metric(data, path)
    change = data["change"]
    here = (*path, "change")
    if not isinstance(change, dict):
        raise reader.error("change is a mapping such as {within: 5m, direction: both, sure: 6}", here)
    reader.only(change, ("of", "within", "direction", "sure", "at_least", "lasting"), here)
    within_s = reader.duration(change.get("within", "5m"), (*here, "within"))
    lasting_s = reader.duration(change.get("lasting", LASTING_S), (*here, "lasting"))
    sure = reader.number(change.get("sure", 6), "sure", (*here, "sure"))
    share, amount = read_least(reader, change.get("at_least", 0.1), (*here, "at_least"))
    if sure < LEAST_SURE:
        raise reader.error(f"sure is at least {LEAST_SURE:g}: smaller steps are ordinary noise", (*here, "sure"))
    if not 0 < lasting_s < within_s <= MAX_WINDOW_S:
        raise reader.error(
            f"within is longer than lasting ({lasting_s:g} s) and at most {MAX_WINDOW_S / 60:g} minutes", here
        )
    direction = reader.word(change.get("direction", "both"), DIRECTIONS, "direction", (*here, "direction"))
    of = read_groups(reader, change["of"], here) if "of" in change else ""
    return Changed(metric.id, of, within_s, direction, sure, share, amount, lasting_s)
