"""What the loss of a job shows: how much it varies about its course, and whether it runs away."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.job_entries import Entry

WINDOW = 50
"""Steps that a variance is of."""
LEAST = 20
STEADY, DIVERGING, NOT_A_NUMBER = 0, 1, 2
_RECENT = 10
_RISE = 1.5
_DEVIATIONS = 6.0
_NAN_STEPS = 2


def loss_variance(entries: Sequence[Entry]) -> float | None:
    """Return the variance of the last WINDOW losses about their straight line, over the square of their mean; None for
    fewer than LEAST of them."""
    losses = [entry.loss for entry in entries[-WINDOW:] if entry.loss is not None and math.isfinite(entry.loss)]
    count = len(losses)
    mean = sum(losses) / count if count else 0.0
    if count < LEAST or mean == 0:
        return None
    # A loss that falls as it should does not vary.
    middle = (count - 1) / 2
    spread = sum((at - middle) ** 2 for at in range(count))
    slope = sum((at - middle) * (loss - mean) for at, loss in enumerate(losses)) / spread
    rest = sum((loss - mean - slope * (at - middle)) ** 2 for at, loss in enumerate(losses))
    return rest / count / mean**2


def loss_state(entries: Sequence[Entry]) -> tuple[int, float | None] | None:
    """Return how the loss stands, and the wall seconds since when it does not stand well; None when no loss is known.

    A step that the optimizer skipped may have any loss. One that runs away lies half above what it was before, and
    far outside of how it varied.
    """
    known = [entry for entry in entries if entry.loss is not None and not entry.skipped]
    if not known:
        return None
    broken = 0
    while broken < len(known) and not math.isfinite(known[-1 - broken].loss or 0.0):
        broken += 1
    if broken >= _NAN_STEPS or (broken and broken == len(known)):
        return NOT_A_NUMBER, known[-broken].at
    run = _this_run(known)
    losses = [entry.loss for entry in run if entry.loss is not None and math.isfinite(entry.loss)]
    before, recent = losses[: -2 * _RECENT], losses[-_RECENT:]
    if len(before) < LEAST:
        return STEADY, None
    before = before[-4 * WINDOW :]
    usual = median(before[-WINDOW:])
    deviation = median(abs(loss - usual) for loss in before[-WINDOW:])
    now = median(recent)
    if usual > 0 and now > _RISE * usual and now > usual + _DEVIATIONS * deviation and min(recent) > usual:
        return DIVERGING, run[-_RECENT].at
    return STEADY, None


def _this_run(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries since the last restart: from an older checkpoint the loss begins higher."""
    for back, entry in enumerate(reversed(entries)):
        if entry.is_restart:
            return entries[len(entries) - 1 - back :]
    return entries
