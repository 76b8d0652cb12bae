"""The columns of one scope while they are being filled: what model.fleet.Table is a picture of."""

from __future__ import annotations

from collections import deque
from itertools import chain
from sys import getrefcount
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.counters import CounterRules, step
from stethoscope.model.fleet import Table
from stethoscope.model.metric import WIRE_REASONS, Kind, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, Floats, Totals
    from stethoscope.model.metric import Metric, Scope
    from stethoscope.model.wire import Cell

_NUMBERS = {int, float}
_UNCHANGED = 255
"""Beside the codes of Reason: the cell says nothing new."""
_NEVER = -np.inf
_PICTURES = 3
"""Pictures whose memory is kept for the next ones."""
_UNSEEN = 3
"""References to an array that only its list, a loop and the counting itself know of; a view of it is one more."""
_COUNTING = [int(reason) for reason in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED)]
_PRESENT, _SATURATED = int(Reason.PRESENT), int(Reason.SATURATED)


class Columns:
    """Values, reasons and counters of all rows of one scope.

    The counters are the first metrics, so that their rates are one slice of the values.
    """

    def __init__(self, scope: Scope, catalogue: Mapping[str, Metric], rows: int = 0) -> None:
        """Make room for `rows` rows, all of them waiting."""
        metrics = [metric for metric in catalogue.values() if metric.scope is scope]
        counters = [metric for metric in metrics if metric.kind is Kind.COUNTER]
        self.scope = scope
        self.metrics = tuple(m.id for m in (*counters, *(m for m in metrics if m.kind is not Kind.COUNTER)))
        self.counters = tuple(metric.id for metric in counters)
        self.index = {metric: column for column, metric in enumerate(self.metrics)}
        self.counter_index = {metric: column for column, metric in enumerate(self.counters)}
        self.rules = CounterRules.of(counters)
        self.rows = 0
        self.dirty = True
        self._from_probe = {m.id: self.index[m.id] for m in metrics if m.tier != "console"}
        self._table: Table | None = None
        self._pictures: dict[str, deque[npt.NDArray[Any]]] = {}
        self._allocate(0)
        self.add(rows)

    def _allocate(self, capacity: int) -> None:
        wide, narrow = len(self.metrics), len(self.counters)
        former = self._arrays() if self.rows else ()
        self.values: Floats = np.full((wide, capacity), np.nan)
        self.reasons: Codes = np.full((wide, capacity), Reason.WAITING, np.uint8)
        self.totals: Totals = np.zeros((narrow, capacity), np.uint64)
        self.total_reasons: Codes = np.full((narrow, capacity), Reason.WAITING, np.uint8)
        self.since_first: Totals = np.zeros((narrow, capacity), np.uint64)
        self.since: Floats = np.full((narrow, capacity), _NEVER)
        """Node's monotonic seconds of the reading that the next rate starts from, as counters.step wants them."""
        self.carry: Totals = np.zeros((narrow, capacity), np.uint64)
        """What was counted since that reading, in intervals too short for a rate of their own."""
        self.first_at: Floats = np.full(capacity, np.nan)
        for array, before in zip(self._arrays(), former, strict=False):
            array[..., : self.rows] = before[..., : self.rows]

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        counters = (self.totals, self.total_reasons, self.since_first, self.since, self.carry)
        return (self.values, self.reasons, *counters, self.first_at)

    def add(self, rows: int) -> int:
        """Return the first of `rows` new rows."""
        first, capacity = self.rows, self.first_at.size
        if first + rows > capacity:
            self._allocate(max(first + rows, 2 * capacity))
        self.rows += rows
        self.dirty = True
        return first

    def move(self, first: int, count: int, room: int) -> int:
        """Copy a block of `count` rows to a new one of `room` rows; return where it is. The old rows become absent."""
        target = self.add(room)
        for array in self._arrays():
            array[..., target : target + count] = array[..., first : first + count]
        self.clear(range(first, first + count), Reason.ABSENT)
        self.clear(range(target + count, target + room), Reason.ABSENT)
        return target

    def clear(self, rows: Iterable[int], reason: Reason) -> None:
        """Forget all about the devices of `rows`."""
        at = list(rows)
        self.values[:, at] = np.nan
        self.reasons[:, at] = reason
        self.total_reasons[:, at] = reason
        self.totals[:, at] = 0
        self.since_first[:, at] = 0
        self.since[:, at] = _NEVER
        self.carry[:, at] = 0
        self.first_at[at] = np.nan
        self.dirty = True

    def mark(self, rows: Sequence[int] | slice, reason: Reason) -> None:
        """Say why the probe gives no value for `rows`; what was counted so far is kept for when it does again."""
        columns = [*self._from_probe.values()]
        at = np.arange(self.rows)[rows] if isinstance(rows, slice) else np.array(rows, np.intp)
        self.values[_grid(columns, at)] = np.nan
        self.reasons[_grid(columns, at)] = reason
        self.total_reasons[:, at] = reason
        self.dirty = True

    def restart(self, first: int, count: int, *, keep_totals: bool) -> None:
        """Let the next reading give no rate; without `keep_totals` it does not even tell what was counted since."""
        block = self.since[:, first : first + count]
        block[block > _NEVER] = np.nan
        if not keep_totals:
            block[...] = _NEVER

    def put(
        self,
        first: int,
        count: int,
        order: Sequence[int] | None,
        part: Mapping[str, Sequence[Cell]],
        mono: float,
        *,
        full: bool,
        complete: bool,
    ) -> tuple[bool, int]:
        """Take the lists of one line into the block `first` .. `first + count`.

        `order` says which row of the block each position of a list is for, None when they are alike. `complete` tells
        that what is not given has not changed since the line before. Returns whether anything changed, and how many
        lists were dropped because of their length.
        """
        length = count if order is None else len(order)
        columns: list[int] = []
        lists: list[Sequence[Cell]] = []
        counter_columns: list[int] = []
        counter_lists: list[Sequence[Cell]] = []
        dropped, narrow = 0, len(self.counters)
        for metric, cells in part.items():
            column = self._from_probe.get(metric)
            if column is None:
                continue
            if len(cells) != length:
                dropped += 1
            elif column < narrow:
                counter_columns.append(column)
                counter_lists.append(cells)
            else:
                columns.append(column)
                lists.append(cells)
        if columns and length:
            self._put_gauges(first, count, order, columns, lists, full=full)
        if full and length:
            self._unsupported(first, count, order, {*columns, *counter_columns})
        moved = False
        if narrow and count and (counter_columns or complete):
            moved = self._put_counters(
                first, count, order, counter_columns, counter_lists, mono, full=full, complete=complete
            )
        changed = bool(columns or counter_columns or full or moved)
        self.dirty |= changed
        return changed, dropped

    def _put_gauges(
        self,
        first: int,
        count: int,
        order: Sequence[int] | None,
        columns: list[int],
        lists: list[Sequence[Cell]],
        *,
        full: bool,
    ) -> None:
        flat = list(chain.from_iterable(lists))
        rows = slice(first, first + count)
        kinds = set(map(type, flat))
        if order is None and str not in kinds and (kinds <= _NUMBERS or not full):
            # Indexing a view of the block with an array costs a third of indexing the table with a list and a slice.
            at = np.array(columns, np.intp)
            values, reasons = self.values[:, rows], self.reasons[:, rows]
            cells = np.array(flat, np.float64).reshape(len(columns), count)
            if kinds <= _NUMBERS:
                values[at], reasons[at] = cells, _PRESENT
            else:
                said = cells == cells  # null has become NaN, which no number can be
                values[at], reasons[at] = np.where(said, cells, values[at]), np.where(said, _PRESENT, reasons[at])
            return
        numbers, codes = _numbers(flat), _codes(flat, full=full)
        shape = (len(columns), len(flat) // len(columns))
        grid = _grid(columns, _rows(first, count, order))
        given = codes.reshape(shape)
        said = given != _UNCHANGED
        self.values[grid] = np.where(said, np.array(numbers, np.float64).reshape(shape), self.values[grid])
        self.reasons[grid] = np.where(said, given, self.reasons[grid])

    def _unsupported(self, first: int, count: int, order: Sequence[int] | None, given: set[int]) -> None:
        """A full line names every value that the node can give: the others it does not have."""
        silent = [column for column in self._from_probe.values() if column not in given]
        if not silent:
            return
        rows = _rows(first, count, order)
        self.values[_grid(silent, rows)] = np.nan
        self.reasons[_grid(silent, rows)] = Reason.UNSUPPORTED
        counters = [column for column in silent if column < len(self.counters)]
        if counters:
            self.total_reasons[_grid(counters, rows)] = Reason.UNSUPPORTED

    def _put_counters(
        self,
        first: int,
        count: int,
        order: Sequence[int] | None,
        columns: list[int],
        lists: list[Sequence[Cell]],
        mono: float,
        *,
        full: bool,
        complete: bool,
    ) -> bool:
        rows = slice(first, first + count)
        total_reasons = self.total_reasons[:, rows]
        values, since = self.values[: len(self.counters), rows], self.since[:, rows]
        before = self.totals[:, rows]
        read = total_reasons == _PRESENT if complete and not full else np.zeros(before.shape, np.bool_)
        reasons, carry = self.reasons[: len(self.counters), rows], self.carry[:, rows]
        if not columns and not carry.any() and (~read | (values == 0) | (reasons == _SATURATED)).all():
            # Nothing moves and nothing moved: the interval has passed, the rates stay as they are.
            np.copyto(since, mono, where=read)
            return False
        now = before.copy()
        if columns:
            flat = list(chain.from_iterable(lists))
            if order is None and set(map(type, flat)) == {int} and min(flat) >= 0:  # type: ignore[type-var, operator]
                at = np.array(columns, np.intp)
                now[at] = np.array(flat, np.uint64).reshape(len(columns), count)
                total_reasons[at] = _PRESENT
                read[at] = True
            else:
                self._put_totals(first, count, order, columns, flat, now, read, full=full)
        result = step(self.rules, before, now, since, mono, carry)
        timed = result.timed
        timed &= read
        if np.count_nonzero(timed) < np.count_nonzero(read):
            # No new rate, and where a word stood there is no old one that could stay.
            reasons[read & ~timed & ~np.isin(reasons, _COUNTING)] = Reason.ONE_READING
        np.copyto(values, result.rates, where=timed)
        np.copyto(reasons, result.reasons, where=timed)
        np.add(self.since_first[:, rows], result.increments, out=self.since_first[:, rows], where=read)
        np.copyto(before, now, where=read)
        np.copyto(since, mono, where=timed)
        np.add(carry, result.increments, out=carry, where=read)
        np.copyto(carry, np.uint64(0), where=timed)
        return True

    def _put_totals(
        self,
        first: int,
        count: int,
        order: Sequence[int] | None,
        columns: list[int],
        flat: list[Cell],
        now: Totals,
        read: npt.NDArray[np.bool_],
        *,
        full: bool,
    ) -> None:
        """Set `now` and `read` for a list that holds words or nulls; a total is a whole number that is not negative."""
        whole = [cell if isinstance(cell, int) and cell >= 0 else 0 for cell in flat]
        codes = _codes(flat, full=full)
        for number, cell in enumerate(flat):
            if (isinstance(cell, int) and cell < 0) or isinstance(cell, float):
                codes[number] = Reason.ERROR
        shape = (len(columns), len(flat) // len(columns))
        given = codes.reshape(shape)
        at = _grid(columns, _rows(0, count, order))
        is_total, is_word = given == Reason.PRESENT, (given != Reason.PRESENT) & (given != _UNCHANGED)
        now[at] = np.where(is_total, np.array(whole, np.uint64).reshape(shape), now[at])
        read[at] = np.where(given == _UNCHANGED, read[at], is_total)
        absolute = _grid(columns, _rows(first, count, order))
        self.values[absolute] = np.where(is_word, np.nan, self.values[absolute])
        for reasons in (self.reasons, self.total_reasons):
            reasons[absolute] = np.where(is_word, given, reasons[absolute])
        self.total_reasons[absolute] = np.where(is_total, Reason.PRESENT, self.total_reasons[absolute])

    def table(self) -> Table:
        """Return a picture of all rows that does not change any more; the last one when nothing changed."""
        if self._table is None or self.dirty:
            self._table = None
            self._table = Table(
                self.scope,
                self.metrics,
                self._picture("values", self.values),
                self._picture("reasons", self.reasons),
                self.counters,
                self._picture("totals", self.totals),
                self._picture("total_reasons", self.total_reasons),
                self._picture("since_first", self.since_first),
                self._picture("first_at", self.first_at),
                self.index,
                self.counter_index,
            )
            self.dirty = False
        return self._table

    def _picture(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a read-only copy, in the memory of an earlier one that nobody looks at any more if there is one.

        Fresh memory for some megabytes costs several times what the copying does.
        """
        pictures = self._pictures.setdefault(name, deque(maxlen=_PICTURES))
        shape = (*array.shape[:-1], self.rows)
        for picture in pictures:
            if picture.shape == shape and getrefcount(picture) <= _UNSEEN:
                picture.setflags(write=True)
                break
        else:
            picture = np.empty(shape, array.dtype)
            pictures.append(picture)
        np.copyto(picture, array[..., : self.rows])
        picture.setflags(write=False)
        return picture


def _rows(first: int, count: int, order: Sequence[int] | None) -> npt.NDArray[np.intp]:
    return np.arange(first, first + count) if order is None else np.array(order, np.intp) + first


def _grid(columns: list[int], rows: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.array(columns, np.intp)[:, None], rows[None, :]


def _numbers(flat: list[Cell]) -> list[float]:
    return [float(cell) if isinstance(cell, int | float) else np.nan for cell in flat]


def _codes(flat: list[Cell], *, full: bool) -> Codes:
    """Return the reason of each cell; null is an error in a full line and "unchanged" in a delta."""
    null = int(Reason.ERROR) if full else _UNCHANGED
    codes = [
        null if cell is None else int(WIRE_REASONS.get(cell, Reason.ERROR)) if isinstance(cell, str) else 0
        for cell in flat
    ]
    return np.array(codes, np.uint8)
