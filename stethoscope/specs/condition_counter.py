"""The condition `{metric: ib_symbol_error, counter: moving}`: what a counter does, whatever it stands at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import Kind
from stethoscope.specs.condition import Condition, OfMetric

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path

STATES = ("moving", "historic", "saturated", "reset", "wrapped")
MOVING_S = 60.0
"""A counter that did not grow for so long stands, where the condition does not say."""
TOLD_S = 600.0
"""A reset is told for so long, where the condition does not say."""


@dataclass(frozen=True, slots=True)
class Counts(OfMetric):
    """A counter moves, stands at what it counted long ago, stands at its end, was set back, or wrapped."""

    state: str
    window_s: float


def read_counter(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition; DataError for a metric that is no counter."""
    reader.only(data, ("metric", "counter", "window", "for"), path)
    metric = reader.metric(data, path)
    if metric.kind is not Kind.COUNTER:
        raise reader.error(f"{metric.id} is no counter", (*path, "metric"))
    state = reader.word(data["counter"], STATES, "state of a counter", (*path, "counter"))
    window_s = TOLD_S if state in ("reset", "wrapped") else MOVING_S
    if "window" in data:
        window_s = reader.duration(data["window"], (*path, "window"))
    return Counts(metric.id, state, window_s)
