"""The last minutes of a value, as a line of small bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.ui.present.numbers import value_text
from stethoscope.ui.present.spans import width

if TYPE_CHECKING:
    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.spans import Glyphs


def bars(values: Floats, cells: int, glyphs: Glyphs) -> str:
    """Return `values` as bars in at most `cells` cells, blank where there is none."""
    if not len(values) or cells <= 0:
        return ""
    # Each cell shows the highest of its samples: what was short must not vanish.
    parts = np.array_split(values, min(cells, len(values)))
    tops = [float(np.nanmax(part)) if not np.isnan(part).all() else math.nan for part in parts]
    known = [top for top in tops if not math.isnan(top)]
    if not known:
        return ""
    low, high = min(known), max(known)
    if low == high:
        return "".join(" " if math.isnan(top) else glyphs.spark[0] for top in tops)
    # A value that trembles by a few percent is level, and one that has not moved lies at the bottom.
    scale = max(high - low, 0.05 * max(abs(high), abs(low)), 1e-12)
    floor = (low + high - scale) / 2
    steps = len(glyphs.spark) - 1
    return "".join(" " if math.isnan(top) else glyphs.spark[round(steps * (top - floor) / scale)] for top in tops)


def span_text(seconds: float) -> str:
    """Return the length of a trend: `45 s`, `15 min`, `2 h`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def trend_text(metric: Metric, series: tuple[Floats, Floats], cells: int, glyphs: Glyphs) -> str:
    """Return a trend with its span and its lowest and highest value: `15 min ▁▂▅█ 62..88 °C`; empty without values.

    `series` are the ages of the samples in seconds and their values.
    """
    ages, values = series
    known = values[~np.isnan(values)]
    if known.size < 2 or metric.words:
        return ""
    low, high = value_text(metric, float(known.min())), value_text(metric, float(known.max()))
    if low != high:
        unit = high.partition(" ")[2]
        low = low.removesuffix(f" {unit}") if unit else low
        high = f"{low}..{high}"
    lead = span_text(float(ages[0]))
    return f"{lead} {bars(values, cells - width(lead) - width(high) - 2, glyphs)} {high}"
