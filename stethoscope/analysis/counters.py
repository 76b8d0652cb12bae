"""Counters to rates, for whole blocks at once: intervals, resets, wrap-around and counters that stand still for ever.

Totals are exact (uint64); the change since the first reading is the sum of all increments, whatever resets came
between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy import count_nonzero

from stethoscope.model.metric import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import Codes, Floats, Totals
    from stethoscope.model.metric import Metric

MIN_INTERVAL_S = 0.8
"""A shorter interval gives no rate of its own: the rate before stays, and the next one covers both intervals. A full
frame that was asked for just behind a delta would else turn one count more or less into several a second."""

_WRAP_SHARE = 16
_NO_PIN = 2**64 - 1
# Comparing arrays with plain numbers takes a third of the time of comparing them with members of an enumeration.
_PRESENT, _ONE_READING, _RESET, _SATURATED = (
    int(reason) for reason in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED)
)


@dataclass(frozen=True, slots=True)
class CounterRules:
    """How each counter of a table wraps and sticks; one row per counter."""

    modulus: Totals
    """2**bits of the counters that wrap, shape (counters, 1); 0 for those that do not (2**64 is 0 too)."""
    pins: Totals
    """Totals at which a counter stands still, shape (counters, pins, 1), filled up with 2**64 - 1."""

    @classmethod
    def of(cls, metrics: Sequence[Metric]) -> CounterRules:
        """Return the rules of `metrics`, which are counters."""
        width = max((len(metric.pins) for metric in metrics), default=0)
        modulus = [[1 << metric.bits if metric.bits and metric.bits < 64 else 0] for metric in metrics]
        pins = [[[pin] for pin in (*metric.pins, *[_NO_PIN] * (width - len(metric.pins)))] for metric in metrics]
        return cls(
            np.array(modulus, dtype=np.uint64).reshape(len(metrics), 1),
            np.array(pins, dtype=np.uint64).reshape(len(metrics), width, 1),
        )

    def one(self, counter: int) -> CounterRules:
        """Return the rules of one counter alone."""
        return CounterRules(self.modulus[counter : counter + 1], self.pins[counter : counter + 1])


class Step(NamedTuple):
    """What one reading says, each of shape (counters, rows)."""

    rates: Floats
    """Counts per second, NaN where `reasons` is not PRESENT."""
    reasons: Codes
    increments: Totals
    """What was counted since the reading before; 0 where there was none."""
    timed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    """Where the interval was long enough for a rate, or there was no interval: elsewhere the last rate stays."""


def step(
    rules: CounterRules, before: Totals, now: Totals, since: Floats, mono: float | Floats, carry: Totals | np.uint64
) -> Step:
    """Return rates and increments between two readings of a block of counters.

    `since` holds the node's monotonic seconds of the reading that the rate starts from: NaN when it gives no rate (the
    first one, or one of an earlier run), -inf when there was none at all and `before` means nothing. `carry` is what
    was counted between that reading and `before`. `mono` is the time of this reading, one for all rows or one for each.

    A total that went back has wrapped when the old one stood in the last sixteenth of the counter's width and the new
    one in the first; else it was reset, and what it shows was counted since then.
    """
    change = now - before
    back = now < before
    interval_s = mono - since
    timed = ~(interval_s < MIN_INTERVAL_S)
    reasons = np.zeros(now.shape, np.uint8)
    regular = count_nonzero(timed & (interval_s < np.inf)) == timed.size
    if not regular:
        reasons[~np.isfinite(interval_s)] = _ONE_READING
        change[interval_s == np.inf] = 0
    if count_nonzero(back):
        back &= interval_s != np.inf
        modulus = np.broadcast_to(rules.modulus, now.shape)
        edge = modulus // _WRAP_SHARE
        wrapped = back & (modulus > 0) & (before >= modulus - edge) & (before < modulus) & (now < edge)
        change = np.where(wrapped, change + modulus, np.where(back, now, change))
        reset = back & ~wrapped
        reasons[reset & (reasons == _PRESENT)] = _RESET
        timed |= reset
    if regular:
        rates = (change + carry) / interval_s
    else:
        with np.errstate(all="ignore"):
            rates = (change + carry) / interval_s
    still = now[:, None, :] == rules.pins
    if count_nonzero(still):
        reasons[still.any(axis=1) & (change == 0) & (carry == 0) & (reasons == _PRESENT)] = _SATURATED
    if count_nonzero(reasons):
        rates[reasons != _PRESENT] = np.nan
    return Step(rates, reasons, change, timed)
