"""From a value to one of eight magnitudes, with hysteresis so that noise does not repaint the screen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Kind, Reason
from stethoscope.ui.present.spans import HEAT_LEVELS

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import Table
    from stethoscope.model.metric import Metric

_HYSTERESIS = 0.3
"""A value must go this far (in steps of the scale) beyond its step before the level follows."""


class HeatScale:
    """The scale of the chosen metric and the level that each row showed last."""

    def __init__(self) -> None:
        """Start without a metric."""
        self._metric = ""
        self._shown: npt.NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self.low = 0.0
        self.high = 1.0

    def update(self, table: Table, metric: Metric) -> npt.NDArray[np.int8]:
        """Return the level 0 .. HEAT_LEVELS - 1 of every row, -1 where there is no value; sets `low` and `high`."""
        column = table.index[metric.id]
        values = table.values[column] * (metric.rate_scale if metric.kind is Kind.COUNTER else 1.0)
        present = table.reasons[column] == Reason.PRESENT
        if metric.id != self._metric or self._shown.size != values.size:
            self._metric = metric.id
            self._shown = np.full(values.size, -1, dtype=np.int8)
            self.high = -math.inf
        self._rescale(metric, values[present])
        span = self.high - self.low
        exact = np.clip((np.where(present, values, self.low) - self.low) / span, 0.0, 1.0) * HEAT_LEVELS
        level = np.minimum(exact.astype(np.int8), HEAT_LEVELS - 1)
        keep = (self._shown >= 0) & (np.abs(exact - (self._shown + 0.5)) <= 0.5 + _HYSTERESIS)
        level = np.where(present, np.where(keep, self._shown, level), -1).astype(np.int8)
        self._shown = level
        return level

    def _rescale(self, metric: Metric, values: npt.NDArray[np.float64]) -> None:
        top = float(values.max()) if values.size else 1.0
        bottom = float(values.min()) if values.size else 0.0
        self.low = metric.low if metric.low is not None else (0.0 if bottom >= 0 else bottom)
        if metric.high is not None:
            self.high = metric.high
        elif not math.isfinite(self.high) or top > self.high or top < 0.4 * self.high:
            self.high = round_up(max(top, self.low))
        if self.high <= self.low:
            self.high = self.low + 1.0


def round_up(value: float) -> float:
    """Return the next number that is round enough for the end of a scale."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * size >= value * 0.999)
