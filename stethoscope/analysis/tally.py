"""The counters of one line into the rows of a block: totals, rates, and what was counted since the first reading."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.cells import UNCHANGED, grid_of, rows_of, totals_of
from stethoscope.analysis.counters import MIN_INTERVAL_S, Step, step
from stethoscope.model.metric import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    from stethoscope.analysis.arrays import Arrays
    from stethoscope.analysis.groups import Group, Plan
    from stethoscope.model.fleet import Codes, Totals
    from stethoscope.model.wire import Cell

    Flags = npt.NDArray[np.bool_]

_COUNTING = [int(reason) for reason in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED)]
_PRESENT, _SATURATED = int(Reason.PRESENT), int(Reason.SATURATED)
_NARROW = 2**32 - 1


def count_frame(
    table: Arrays, of: Group, plan: Plan, block: slice, order: Sequence[int] | None, lists: Sequence[Sequence[Cell]],
    mono: float, *, full: bool, complete: bool,
) -> bool:  # fmt: skip
    """Take the counters that a frame names, in the order of `plan`, into the rows `block`; those that it does not name
    have not changed when the picture is `complete`. Tell whether anything changed."""
    span = of.counters
    total_reasons, before = table.total_reasons[span, block], table.totals[span, block]
    read = total_reasons == _PRESENT if complete and not full else np.zeros(before.shape, np.bool_)
    carry = table.carry[:, block]
    if not lists and not carry.any() and _rest(table, span, block, read):
        np.copyto(table.since[span, block], mono, where=read)
        return False
    now = before.copy()
    table.own("values", "reasons", "totals", "total_reasons", "since_first")
    total_reasons, before = table.total_reasons[span, block], table.totals[span, block]
    if lists:
        flat = list(chain.from_iterable(lists))
        if order is None and set(map(type, flat)) == {int} and min(flat) >= 0:  # type: ignore[type-var, operator]
            now[plan.counter_rows] = np.array(flat, np.uint64).reshape(len(lists), -1)
            total_reasons[plan.counter_rows] = _PRESENT
            read[plan.counter_rows] = True
        else:
            _put_words(table, plan, block, order, flat, now, read, full=full)
    since = table.since[span, block]
    result = step(of.rules, before, now, since, mono, carry)
    timed = result.timed
    timed &= read
    _rate(table, span, block, result, read)
    counted = table.since_first[span, block]
    np.add(counted, result.increments, out=counted, where=read)
    np.copyto(before, now, where=read)
    np.copyto(since, mono, where=timed)
    np.add(carry, result.increments, out=carry, where=read)
    np.copyto(carry, np.uint64(0), where=timed)
    return True


def count_part(
    table: Arrays, of: Group, plan: Plan, block: slice, order: Sequence[int] | None, lists: Sequence[Sequence[Cell]],
    mono: float, *, full: bool,
) -> bool:  # fmt: skip
    """Take the counters of a part as `count_frame` does; what is not `full` says that none of them has changed.

    A part that comes just behind another one is passed over: the next one covers both intervals.
    """
    span = of.counters
    if not lists:
        read = table.total_reasons[span, block] == _PRESENT if not full else None
        if read is None or _rest(table, span, block, read):
            # Nothing moves and nothing moved: the interval has passed, the rates stay as they are.
            if read is not None:
                np.copyto(table.since[span, block], mono, where=read)
            return False
        now = table.totals[span, block].astype(np.uint64)
        _count(table, of, block, table.totals[span, block].astype(np.uint64), read, mono)
        return True
    flat = list(chain.from_iterable(lists))
    if order is None and set(map(type, flat)) == {int} and min(flat) >= 0:  # type: ignore[type-var, operator]
        given = np.array(flat, np.uint64).reshape(len(lists), -1)
        if _stands(table, span, block, slice(None) if plan.is_all else plan.counter_rows, given, mono):
            return False
        if table.total_reasons[span, block].any():
            table.own("total_reasons")
            table.total_reasons[plan.counter_columns, block] = _PRESENT
        if plan.is_all:
            _count(table, of, block, given, None, mono)
            return True
        now = table.totals[span, block].astype(np.uint64)
        now[plan.counter_rows] = given
        read = np.zeros(now.shape, np.bool_)
        read[plan.counter_rows] = True
    else:
        now = table.totals[span, block].astype(np.uint64)
        read = np.zeros(now.shape, np.bool_)
        if _put_words(table, plan, block, order, flat, now, read, full=full) and _stands(
            table, span, block, read, now[read], mono
        ):
            return False
    _count(table, of, block, now, read, mono)
    return True


def _count(table: Arrays, of: Group, block: slice, now: Totals, read: Flags | None, mono: float) -> None:
    """Take new totals of those counters that were `read`, or of all."""
    span = of.counters
    table.own("values", "reasons")
    before, since = table.totals[span, block], table.since[span, block]
    times = since.ravel() if read is None else since[read]
    interval_s = mono - times.item(0) if times.size else np.nan
    is_steady = (
        MIN_INTERVAL_S <= interval_s < np.inf
        and not (times != times.item(0)).any()
        and not (now < before).any()
        and not (of.rules.pins.size and (of.rules.pins == now[:, None]).any())
    )
    if is_steady:
        # One interval for all, and nothing went back or stands at its end: as a rule, and a third of the work.
        change, where = now - before.astype(np.uint64), True if read is None else read
        np.copyto(table.values[span, block], change / interval_s, where=where, casting="same_kind")
        np.copyto(table.reasons[span, block], _PRESENT, where=where)
        _add(table, span, block, change, now)
        np.copyto(since, mono, where=where)
        return
    read = np.ones(now.shape, np.bool_) if read is None else read
    before = before.astype(np.uint64)
    result = step(of.rules, before, now, since, mono, np.uint64(0))
    timed = result.timed
    timed &= read
    _rate(table, span, block, result, read)
    _add(table, span, block, np.where(timed, result.increments, np.uint64(0)), np.where(timed, now, before))
    np.copyto(since, mono, where=timed)


def _rate(table: Arrays, span: slice, block: slice, result: Step, read: Flags) -> None:
    reasons, timed = table.reasons[span, block], result.timed
    if np.count_nonzero(timed) < np.count_nonzero(read):
        # No new rate, and where a word stood there is no old one that could stay.
        reasons[read & ~timed & ~np.isin(reasons, _COUNTING)] = Reason.ONE_READING
    np.copyto(table.values[span, block], result.rates, where=timed)
    np.copyto(reasons, result.reasons, where=timed)


def _add(table: Arrays, span: slice, block: slice, change: Totals, now: Totals) -> None:
    if not change.any() and not (table.totals[span, block] != now).any():
        return
    table.own("totals", "since_first")
    counted = table.since_first[span, block]
    if counted.itemsize < change.itemsize:
        change = np.minimum(change, np.uint64(_NARROW) - counted)
        if table.totals.itemsize < now.itemsize and now.max(initial=0) > _NARROW:
            table.widen()
    np.add(counted, change, out=counted, casting="unsafe")
    table.totals[span, block] = now


def _rest(table: Arrays, span: slice, block: slice, read: Flags) -> bool:
    """Tell whether the counters that were `read` have rates that an interval without a change leaves as they are."""
    return bool((~read | _rests(table.values[span, block], table.reasons[span, block])).all())


def _stands(table: Arrays, span: slice, block: slice, at: Any, given: Totals, mono: float) -> bool:
    """Tell whether the totals `at` are what they were, and their rates are such that this leaves them as they are; then
    time has passed, and nothing else."""
    if (given != table.totals[span, block][at]).any():
        return False
    if not _rests(table.values[span, block], table.reasons[span, block])[at].all():
        return False
    table.since[span, block][at] = mono
    return True


def _rests(values: npt.NDArray[Any], reasons: Codes) -> Flags:
    rests: Flags = (values == 0) | (reasons == _SATURATED)
    return rests


def _put_words(
    table: Arrays, plan: Plan, block: slice, order: Sequence[int] | None, flat: list[Cell], now: Totals, read: Flags,
    *, full: bool,
) -> bool:  # fmt: skip
    """Set `now` and `read` for lists with words or nulls; totals are whole numbers that are not negative. Tell whether
    the words are those that were there."""
    columns = plan.counter_columns
    shape = (len(columns), len(flat) // len(columns))
    totals, given = (array.reshape(shape) for array in totals_of(flat, full=full))
    rows = rows_of(0, block.stop - block.start, order)
    at, absolute = grid_of(plan.counter_rows, rows), grid_of(columns, rows + block.start)
    is_total = given == _PRESENT
    now[at] = np.where(is_total, totals, now[at])
    as_before = table.total_reasons[absolute] == given
    if full and (as_before & (is_total | (table.reasons[absolute] == given))).all():
        # Words in the places of before: as a rule they stand for ever.
        read[at] = is_total
        return True
    is_word = ~is_total & (given != UNCHANGED)
    read[at] = np.where(given == UNCHANGED, read[at], is_total)
    table.own("values", "reasons", "total_reasons")
    table.values[absolute] = np.where(is_word, np.nan, table.values[absolute])
    for reasons in (table.reasons, table.total_reasons):
        reasons[absolute] = np.where(is_word, given, reasons[absolute])
    table.total_reasons[absolute] = np.where(is_total, _PRESENT, table.total_reasons[absolute])
    return False
