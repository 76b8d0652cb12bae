"""The counters of a batch of lines: totals, rates, and what was counted since the first reading."""

from __future__ import annotations

from itertools import chain, compress
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.cells import UNCHANGED, totals_of
from stethoscope.analysis.counters import step
from stethoscope.model.metric import Reason

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.analysis.arrays import Arrays
    from stethoscope.analysis.batch import Batch
    from stethoscope.analysis.counters import Step
    from stethoscope.analysis.groups import Group
    from stethoscope.model.fleet import Totals

    Flags = npt.NDArray[np.bool_]

_COUNTING = [int(reason) for reason in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED)]
_PRESENT, _SATURATED = int(Reason.PRESENT), int(Reason.SATURATED)
_NARROW = 2**32 - 1


def count(table: Arrays, of: Group, batch: Batch, *, full: bool) -> Flags:
    """Take the counters of a batch; those that a line does not name have not changed when it is complete and not
    `full`. Tell for each line whether it changed anything.

    In frames an interval that is too short for a rate is carried into the next one. A part that comes just behind
    another one is passed over: the next one covers both intervals.
    """
    span, at = of.counters, batch.at
    before = table.totals[span, at].astype(np.uint64, order="C")
    now = before.copy()
    read = np.zeros(now.shape, np.bool_)
    if not full:
        np.logical_and(table.total_reasons[span, at] == _PRESENT, batch.complete, out=read)
    named, worded = _put(table, of, batch, now, read, full=full)
    carry = None if of.name else table.carry[:, at]
    since = table.since[span, at]
    if carry is not None and named.all():
        rest = ~named
    else:
        moves = read & ~(_rests(table, of, batch) & (now == before))
        rest = ~(batch.any_of(moves) | worded)
        if carry is not None:
            rest &= ~(batch.any_of(carry != 0) | named)
    if rest.any():
        # Nothing moves and nothing moved: the interval has passed, the rates stay as they are.
        stands = read & rest.repeat(batch.counts)
        np.copyto(since, batch.monos, where=stands)
        read &= ~stands
    if not rest.all():
        result = step(of.rules, before, now, since, batch.monos, np.uint64(0) if carry is None else carry)
        timed = result.timed
        timed &= read
        counted = timed if carry is None else read
        _rate(table, of, batch, result, timed, read)
        _add(table, of, batch, np.where(counted, result.increments, 0), np.where(counted, now, before))
        np.copyto(since, batch.monos, where=timed)
        if carry is not None:
            np.add(carry, result.increments, out=carry, where=read)
            np.copyto(carry, 0, where=timed)
            table.carry[:, at] = carry
    table.since[span, at] = since
    return ~rest


def _put(table: Arrays, of: Group, batch: Batch, now: Totals, read: Flags, *, full: bool) -> tuple[Flags, Flags]:
    """Set `now` and `read`, whose rows must follow each other, to what the lines name, and words in the place of rates.
    Tell for each line whether it names a counter, and whether one that it names had another word or was no number
    before."""
    named, worded = np.zeros((2, len(batch.lines)), np.bool_)
    is_counter = batch.columns < of.counters.stop
    if not is_counter.any():
        return named, worded
    named[batch.line_of[is_counter]] = True
    flat = [*chain.from_iterable(compress(batch.lists, is_counter.tolist()))]
    totals, given = totals_of(flat, full=full)
    columns, positions = batch.spread(batch.line_of[is_counter], batch.columns[is_counter])
    is_total, is_said = given == _PRESENT, given != UNCHANGED
    at = (columns - of.counters.start) * batch.rows.size + positions
    now.reshape(-1)[at[is_total]] = totals[is_total]
    read.reshape(-1)[at[is_said]] = is_total[is_said]
    cells = table.cells(columns, batch.rows[positions])
    other = table.total_reasons.reshape(-1)[cells] != given
    if given.any():
        other |= ~is_total & (table.reasons.reshape(-1)[cells] != given)
        other &= is_said
    if other.any():
        table.own("values", "reasons", "total_reasons")
        table.total_reasons.reshape(-1)[cells[other]] = given[other]
        worded[batch.line_at[positions[other]]] = True
        other &= ~is_total
        table.values.reshape(-1)[cells[other]] = np.nan
        table.reasons.reshape(-1)[cells[other]] = given[other]
    return named, worded


def _rests(table: Arrays, of: Group, batch: Batch) -> Flags:
    """Tell which rates an interval without a change leaves as they are."""
    rests: Flags = table.values[of.counters, batch.at] == 0
    rests |= table.reasons[of.counters, batch.at] == _SATURATED
    return rests


def _rate(table: Arrays, of: Group, batch: Batch, result: Step, timed: Flags, read: Flags) -> None:
    span, at = of.counters, batch.at
    table.own("values", "reasons")
    values, reasons = table.values[span, at], table.reasons[span, at]
    if np.count_nonzero(timed) < np.count_nonzero(read):
        # No new rate, and where a word stood there is no old one that could stay.
        reasons[read & ~timed & ~np.isin(reasons, _COUNTING)] = Reason.ONE_READING
    np.copyto(values, result.rates, where=timed, casting="same_kind")
    np.copyto(reasons, result.reasons, where=timed)
    table.values[span, at], table.reasons[span, at] = values, reasons


def _add(table: Arrays, of: Group, batch: Batch, change: Totals, now: Totals) -> None:
    span, at = of.counters, batch.at
    if not change.any() and not (table.totals[span, at] != now).any():
        return
    table.own("totals", "since_first")
    counted = table.since_first[span, at]
    if counted.itemsize < change.itemsize:
        change = np.minimum(change, np.uint64(_NARROW) - counted)
        if table.totals.itemsize < now.itemsize and now.max(initial=0) > _NARROW:
            table.widen()
    np.add(counted, change, out=counted, casting="unsafe")
    table.since_first[span, at], table.totals[span, at] = counted, now
