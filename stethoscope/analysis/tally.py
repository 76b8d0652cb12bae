"""The counters of a batch of lines: totals, rates, and what was counted since the first reading.

Most counters of a fleet that is well stand still, or are the same in every row: what is looked at row by row is what
moves, what moved, and what has no rate yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.arrays import AS_READ
from stethoscope.analysis.cells import UNCHANGED
from stethoscope.analysis.counters import MIN_INTERVAL_S, step
from stethoscope.model.grid import is_uniform
from stethoscope.model.metric import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.analysis.arrays import Arrays
    from stethoscope.analysis.batch import Batch
    from stethoscope.analysis.groups import Group
    from stethoscope.model.fleet import Codes, Floats, Totals

    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.intp]

_COUNTING = [int(reason) for reason in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED)]
_PRESENT, _SATURATED, _ONE_READING = int(Reason.PRESENT), int(Reason.SATURATED), int(Reason.ONE_READING)
_NARROW = 2**32 - 1


@dataclass(slots=True)
class Read:
    """What the lines of a batch give for one counter."""

    lines: Sequence[int]
    """Lines that name it, and ..."""
    places: Ints
    """... the position of each of their cells."""
    totals: Totals
    given: Codes


@dataclass(slots=True)
class _Counter:
    """One counter at all positions of a batch."""

    column: int
    before: Totals
    now: Totals
    read: Flags
    moves: Flags
    """Read, and its rate is not that of a counter that stands still, or it moved."""


def count(table: Arrays, of: Group, batch: Batch, said: Mapping[int, Read], *, full: bool) -> npt.NDArray[np.bool_]:
    """Take the counters of a batch; those that a line does not name have not changed when it is complete and not
    `full`. Tell for each line whether it changed anything.

    In frames an interval that is too short for a rate is carried into the next one. A part that comes just behind
    another one is passed over: the next one covers both intervals.
    """
    lines, rows = len(batch.lines), batch.rows
    read_at = table.read_at[of.name]
    last_read = read_at[rows]
    with np.errstate(invalid="ignore"):
        is_regular = np.isfinite(last_read) & (batch.monos - last_read >= MIN_INTERVAL_S)
    all_regular = bool(is_regular.all())
    all_complete = not full and bool(batch.complete.all())
    named, worded, moving = np.zeros((3, lines), np.bool_)
    counters = []
    for column in range(of.counters.start, of.counters.stop):
        one = said.get(column)
        if one is None and _is_left(table, column, full=full, all_read=all_complete, all_regular=all_regular):
            continue
        counter = _read(table, batch, column, one, full=full)
        if one is not None:
            named[one.lines] = True
            worded |= _word(table, batch, column, one)
        if counter.moves.any():
            moving[batch.line_at[counter.moves]] = True
        counters.append(counter)
    rests = ~(moving | worded)
    if not of.name:
        rests &= ~named
        for column in range(of.counters.start, of.counters.stop):
            carry = table.carry.columns[column]
            if not is_uniform(carry) or carry[0]:
                rests &= ~batch.any_of(carry[rows] != 0)
    is_active = ~rests[batch.line_at]
    for counter in counters:
        _take(table, of, batch, counter, last_read, is_regular, is_active)
    read_at[rows] = batch.monos
    return ~rests


def _is_left(table: Arrays, column: int, *, full: bool, all_read: bool, all_regular: bool) -> bool:
    """Tell of a counter that no line names whether it is alike in every row, so that nothing is to be done."""
    reasons, own = table.total_reasons.columns[column], table.since.columns[column]
    if not (is_uniform(reasons) and is_uniform(own)):
        return False
    if full or reasons[0] != _PRESENT:
        # It is not read: its time is its own.
        return bool(own[0] != AS_READ)
    values, shown = table.values.columns[column], table.reasons.columns[column]
    stands = (is_uniform(shown) and shown[0] == _SATURATED) or (is_uniform(values) and values[0] == 0)
    return bool(all_read and all_regular and stands and own[0] == AS_READ)


def _read(table: Arrays, batch: Batch, column: int, one: Read | None, *, full: bool) -> _Counter:
    rows = batch.rows
    before = table.totals.columns[column][rows].astype(np.uint64, copy=False)
    now = before
    if full:
        read = np.zeros(rows.size, np.bool_)
    else:
        read = (table.total_reasons.columns[column][rows] == _PRESENT) & batch.complete
    if one is not None:
        now = before.copy()
        if one.given.any():
            is_total, is_said = one.given == _PRESENT, one.given != UNCHANGED
            now[one.places[is_total]] = one.totals[is_total]
            read[one.places[is_said]] = is_total[is_said]
        else:
            now[one.places] = one.totals
            read[one.places] = True
    stands = table.values.columns[column][rows] == 0
    stands |= table.reasons.columns[column][rows] == _SATURATED
    if one is not None:
        stands &= now == before
    return _Counter(column, before, now, read, read & ~stands)


def _word(table: Arrays, batch: Batch, column: int, one: Read) -> Flags:
    """Put words in the place of rates; tell for each line whether it has another word than before, or a number where a
    word was."""
    worded = np.zeros(len(batch.lines), np.bool_)
    rows, given = batch.rows[one.places], one.given
    other = table.total_reasons.columns[column][rows] != given
    is_total = given == _PRESENT
    if given.any():
        other |= ~is_total & (table.reasons.columns[column][rows] != given)
        other &= given != UNCHANGED
    if other.any():
        table.total_reasons.put(column, rows[other], given[other])
        worded[batch.line_at[one.places[other]]] = True
        other &= ~is_total
        table.values.put(column, rows[other], np.nan)
        table.reasons.put(column, rows[other], given[other])
    return worded


def _take(
    table: Arrays, of: Group, batch: Batch, counter: _Counter, last_read: Floats, is_regular: Flags, is_active: Flags
) -> None:
    """Let a counter have its rate, its total, and the time that its next rate starts from."""
    column, rows = counter.column, batch.rows
    own = table.since.columns[column]
    since = last_read
    is_own = not is_uniform(own) or own[0] != AS_READ
    if is_own:
        since = np.where(own[rows] == AS_READ, last_read, own[rows])
        with np.errstate(invalid="ignore"):
            is_regular = np.isfinite(since) & (batch.monos - since >= MIN_INTERVAL_S)
    touched = counter.moves | ~is_regular
    carry = None if of.name else table.carry.columns[column]
    if carry is not None and (not is_uniform(carry) or carry[0]):
        touched |= carry[rows] != 0
    stepped = np.flatnonzero(counter.read & is_active & touched)
    keeps = ~counter.read
    if stepped.size:
        keeps[stepped] = ~_step(table, of, batch, counter, stepped, since, carry)
    if is_own or keeps.any():
        table.since.put(column, rows, np.where(keeps, since, AS_READ))


def _step(
    table: Arrays, of: Group, batch: Batch, counter: _Counter, at: Ints, since: Floats, carry: Totals | None
) -> Flags:
    """Take a reading of a counter at some positions; tell where it gave a rate, or may give one from now on."""
    column, rows = counter.column, batch.rows[at]
    before, now = counter.before[at], counter.now[at]
    carried = np.uint64(0) if carry is None else carry[rows][None]
    rules = of.rules.one(column - of.counters.start)
    result = step(rules, before[None], now[None], since[at][None], batch.monos[at], carried)
    rates, reasons, change = result.rates[0], result.reasons[0], result.increments[0]
    timed: Flags = result.timed[0]
    all_timed = bool(timed.all())
    if not all_timed:
        # No new rate, and where a word stood there is no old one that could stay.
        silent = rows[~timed & ~np.isin(table.reasons.columns[column][rows], _COUNTING)]
        table.reasons.put(column, silent, _ONE_READING)
        table.values.put(column, rows[timed], rates[timed])
        table.reasons.put(column, rows[timed], reasons[timed])
    else:
        table.values.put(column, rows, rates)
        table.reasons.put(column, rows, reasons)
    if of.name and not all_timed:
        rows, before, now, change = rows[timed], before[timed], now[timed], change[timed]
    _add(table, column, rows, before, now, change)
    if carry is not None and (not all_timed or not is_uniform(carry) or carry[0]):
        table.carry.put(column, rows, np.where(timed, 0, carry[rows] + change).astype(np.uint64))
    return timed


def _add(table: Arrays, column: int, rows: Ints, before: Totals, now: Totals, change: Totals) -> None:
    """Set totals, and their bases where a counter did not simply go on: `change` was counted since."""
    totals, bases = table.totals.columns[column], table.bases.columns[column]
    if totals.itemsize < now.itemsize and rows.size:
        counted = (totals[rows] - bases[rows]).astype(np.uint64) + change
        if max(now.max(), counted.max()) > _NARROW:
            # In their own width a base may be beyond its total.
            counted, wide = (totals - bases).astype(np.uint64), totals.astype(np.uint64)
            table.totals.change(column, wide)
            table.bases.change(column, wide - counted)
    table.totals.put(column, rows, now.astype(table.totals.columns[column].dtype, copy=False))
    aside = now - before - change
    moved = np.flatnonzero(aside)
    if moved.size:
        base = table.bases.columns[column][rows[moved]]
        table.bases.put(column, rows[moved], base + aside[moved].astype(base.dtype))
