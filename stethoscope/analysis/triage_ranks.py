"""What is remembered of the ranks of one job, and who of them is late or stands out. Pure.

A rank that is late works while the others spin in a collective: it draws the most power for what it used to draw, or,
when no kernel of it runs, is the one that is not busy. What all ranks do alike is nobody's lateness.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.compact import Compact
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stethoscope.model.fleet import FleetSnapshot, Node

Floats = npt.NDArray[np.float64]

_BASE_LOOKS, LEAST_BASE = 36, 6
"""Looks from which the usual is taken, and how few are enough."""
_RECENT_S, LONG_S = 60.0, 180.0
"""Means are taken over so long, and over that long where the loss is small."""
_IDLE, _BUSY, _LESS = 12.0, 85.0, 8.0
"""Percent of utilisation: does nothing, is busy, and less busy than the others."""
_MORE = 0.05
"""Share of its usual power by which a rank that the others wait for stands out."""
_HELD = 0.82
"""Share of the others' clock below which a GPU is held back: those that wait run at their highest."""
_LONGEST_PAUSE_S = 300.0
"""A pause of a job that is longer is none that comes again."""
_STARVED = 0.75
"""Share of its usual power below which a job that is less busy than before does less work."""
_SPREAD = 6.0
"""Robust deviations at which one stands out."""
MOST_LATE = 0.5
"""More than this share of the ranks is no odd one out."""


@dataclass(slots=True)
class Sample:
    """The ranks of a job at one moment, in their order; NaN is not known."""

    mono: float
    util: Floats
    power: Floats
    memory: Floats
    clock: Floats


@dataclass(slots=True)
class Kept:
    """What stays of a sample for some minutes, in the least memory that holds it exactly."""

    mono: float
    util: Compact
    power: Compact
    clock: Compact

    @classmethod
    def of(cls, sample: Sample) -> Kept:
        """Return what is kept of a sample."""
        return cls(sample.mono, Compact.of(sample.util), Compact.of(sample.power), Compact.of(sample.clock))


@dataclass(slots=True)
class JobWatch:
    """What is remembered of one job."""

    ranks: tuple[str, ...]
    """Places of its GPUs."""
    samples: deque[Kept] = field(default_factory=deque)
    base_power: Floats | None = None
    base_util: Floats | None = None
    base_memory: Floats | None = None
    base_count: Floats | None = None
    base_bytes: float = 0.0
    looks: int = 0
    is_troubled: bool = False
    first_gone: list[int] | None = None
    """Ranks that gave their memory back at the first moment at which any had; empty when that were most."""
    stands_since: float | None = None
    longest_pause_s: float = 0.0
    """Of those that ended by themselves."""
    last_seen: float = 0.0


def sample_of(snapshot: FleetSnapshot, nodes: Iterable[Node]) -> Sample:
    """Return what the GPUs of nodes do at this moment."""
    table = snapshot.tables[Scope.GPU]
    rows = np.concatenate(
        [np.arange(rows.start, rows.stop) for rows in (snapshot.rows(node, Scope.GPU) for node in nodes)]
    )

    def column(metric: str) -> Floats:
        if metric not in table.index:
            return np.full(len(rows), np.nan)
        number = table.index[metric]
        values = np.asarray(table.values[number, rows], dtype=np.float64)
        return np.where(np.asarray(table.reasons[number, rows]) == 0, values, np.nan)

    return Sample(
        snapshot.mono,
        column("gpu_util"),
        column("gpu_power_draw"),
        column("gpu_fb_used"),
        column("gpu_sm_clock"),
    )


def learn(watched: JobWatch, sample: Sample, moved: float | None) -> None:
    """Take a sample of a job that goes well, and the bytes a second that it `moved`, for what is usual of it."""
    if watched.looks >= _BASE_LOOKS:
        return
    if watched.base_power is None:
        shape = sample.power.shape
        watched.base_power, watched.base_util, watched.base_memory = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        watched.base_count = np.zeros(shape)
    assert watched.base_util is not None
    assert watched.base_memory is not None
    assert watched.base_count is not None
    known = ~np.isnan(sample.power) & ~np.isnan(sample.util) & ~np.isnan(sample.memory)
    count = watched.base_count + known
    share = np.where(known, 1 / np.maximum(count, 1), 0.0)
    watched.base_power = watched.base_power + share * (np.nan_to_num(sample.power) - watched.base_power)
    watched.base_util = watched.base_util + share * (np.nan_to_num(sample.util) - watched.base_util)
    watched.base_memory = watched.base_memory + share * (np.nan_to_num(sample.memory) - watched.base_memory)
    watched.base_count = count
    watched.looks += 1
    if moved is not None:
        watched.base_bytes += (moved - watched.base_bytes) / watched.looks


def stood_for(watched: JobWatch, now: float, *, stands: bool) -> float:
    """Return for how long a job moves nothing; a pause that ended by itself may come again."""
    if stands:
        watched.stands_since = now if watched.stands_since is None else watched.stands_since
        return now - watched.stands_since
    if watched.stands_since is not None:
        watched.longest_pause_s = max(watched.longest_pause_s, min(_LONGEST_PAUSE_S, now - watched.stands_since))
        watched.stands_since = None
    return 0.0


def who_stands_out(
    sample: Sample, places: tuple[str, ...], place: str, now: float
) -> Iterator[tuple[str, str, float | str | None, str, float]]:
    """Yield the ranks that did not enter the collective in which the others stand."""
    util = sample.util
    busy, idle = util >= _BUSY, util <= _IDLE
    if idle.any() and busy.sum() > idle.sum():
        for number in np.flatnonzero(idle).tolist():
            yield "rank_idle", places[number], round(float(util[number]), 1), "busy, as the others", now
    elif busy.any() and idle.sum() > busy.sum():
        # These wait on the host: who is busy is the one that they wait for.
        for number in np.flatnonzero(busy).tolist():
            yield "rank_busy", places[number], round(float(util[number]), 1), "waiting, as the others", now
    else:
        yield "stand_alike", place, None, "", now


def who_is_late(
    watched: JobWatch, places: tuple[str, ...], place: str, now: float, lost: float
) -> Iterator[tuple[str, str, float | str | None, str, float]]:
    """Yield the ranks that the others wait for, or that nobody is."""
    if watched.base_power is None or watched.looks < LEAST_BASE:
        return
    newest = watched.samples[-1].mono
    span_s = _RECENT_S if lost >= 10.0 else LONG_S
    recent = [one for one in watched.samples if one.mono > newest - span_s]
    with np.errstate(invalid="ignore", divide="ignore"):
        power = np.nanmean([one.power.whole() for one in recent], axis=0)
        util = np.nanmean([one.util.whole() for one in recent], axis=0)
        ratio = power / watched.base_power
    assert watched.base_util is not None
    middle_util, middle_ratio = float(np.nanmedian(util)), float(np.nanmedian(ratio))
    with np.errstate(invalid="ignore"):
        clock = np.nanmean([one.clock.whole() for one in recent], axis=0)
        held = clock < _HELD * np.nanmedian(clock)
    if held.any() and held.mean() <= MOST_LATE:
        for number in np.flatnonzero(held).tolist():
            expected = f"{float(np.nanmedian(clock)):.0f} MHz"
            yield "held_back", places[number], round(float(clock[number])), expected, now
    low = util < middle_util - max(_LESS, _SPREAD * _deviation(util))
    high = (ratio > middle_ratio + max(_MORE * min(1.0, lost / 10.0), _SPREAD * _deviation(ratio))) & ~low
    if low.any() and low.mean() <= MOST_LATE:
        for number in np.flatnonzero(low).tolist():
            yield "late_host", places[number], round(float(util[number]), 1), f"{middle_util:.0f} %", now
        return
    if high.any() and high.mean() <= MOST_LATE:
        for number in np.flatnonzero(high).tolist():
            yield "late_busy", places[number], round(100 * float(ratio[number]), 1), f"{100 * middle_ratio:.0f} %", now
        return
    yield "late_nobody", place, round(100 * middle_ratio, 1), "", now
    usual = float(np.nanmedian(watched.base_util))
    if middle_util < usual - _LESS and middle_ratio < _STARVED:
        yield "all_starve", place, round(middle_util, 1), f"{usual:.0f} %", now


def _deviation(values: Floats) -> float:
    return 1.4826 * float(np.nanmedian(np.abs(values - np.nanmedian(values))))
