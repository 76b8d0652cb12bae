"""The columns of one scope while they are being filled: what model.fleet.Table is a picture of.

Metrics come in frames (group ""), or in the parts of one group: only what brings a metric reads it, finds it
unsupported, or takes it for unchanged.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.cells import NUMBERS, UNCHANGED, codes_of, grid_of, numbers_of, rows_of, totals_of
from stethoscope.analysis.counters import step
from stethoscope.analysis.groups import Group
from stethoscope.analysis.pictures import Pictures
from stethoscope.model.fleet import Table
from stethoscope.model.metric import DEVICE_SCOPES, Kind, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, Floats, Totals
    from stethoscope.model.metric import Metric
    from stethoscope.model.wire import Cell

PICTURE_S = 2.0
"""Rows of devices that come in parts are pictured again after this time, unless all that came is asked for."""
_NEVER = -np.inf
_COUNTING = [int(reason) for reason in (Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED)]
_PRESENT, _SATURATED, _UNSUPPORTED = (int(reason) for reason in (Reason.PRESENT, Reason.SATURATED, Reason.UNSUPPORTED))


class Columns:
    """Values, reasons and counters of all rows of one scope.

    The counters are the first metrics, those of frames before those of each group, so that the rates of a group are one
    slice of the values.
    """

    def __init__(self, scope: Scope, catalogue: Mapping[str, Metric], rows: int = 0) -> None:
        """Make room for `rows` rows, all of them waiting."""
        metrics = [metric for metric in catalogue.values() if metric.scope is scope]
        counters = sorted((m for m in metrics if m.kind is Kind.COUNTER), key=lambda metric: metric.group)
        self.scope = scope
        self.metrics = tuple(m.id for m in (*counters, *(m for m in metrics if m.kind is not Kind.COUNTER)))
        self.counters = tuple(metric.id for metric in counters)
        self.index = {metric: column for column, metric in enumerate(self.metrics)}
        self.counter_index = {metric: column for column, metric in enumerate(self.counters)}
        self.rows = 0
        self.dirty = True
        """Values or reasons changed since the last picture, and ..."""
        self._counted = True
        """... so did totals."""
        self._rows_changed = False
        """A row of the last picture stands for another device now."""
        self._from_probe = {m.id: self.index[m.id] for m in metrics if m.tier != "console"}
        self._in_parts = [self.index[m.id] for m in metrics if m.group]
        self._groups = {
            group: Group.of(group, metrics, counters, self.index) for group in {"", *(m.group for m in metrics)}
        }
        self._frames = self._groups[""]
        self.is_lean = scope in DEVICE_SCOPES
        """Its rows come in parts: pictures are rare, and cover rows that are not in use yet."""
        self._table: Table | None = None
        self._pictures = Pictures(1 if self.is_lean else 3)
        self._version = 0
        self._pictured_mono, self._pictured_rows = -np.inf, 0
        self._allocate(0)
        self.add(rows)

    @property
    def groups(self) -> Iterable[str]:
        """Return the groups whose parts bring metrics of this table."""
        return (group for group, known in self._groups.items() if group and known.columns)

    def _allocate(self, capacity: int) -> None:
        wide, narrow = len(self.metrics), len(self.counters)
        former = self._arrays() if self.rows else ()
        # Of the many links seven digits are enough: a state, a speed, errors a second.
        self.values = np.full((wide, capacity), np.nan, np.float32 if self.scope is Scope.NVLINK else np.float64)
        self.reasons: Codes = np.full((wide, capacity), Reason.WAITING, np.uint8)
        self.totals: Totals = np.zeros((narrow, capacity), np.uint64)
        self.total_reasons: Codes = np.full((narrow, capacity), Reason.WAITING, np.uint8)
        # The errors of a link are not counted beyond 2**32 - 1; its total is exact.
        self.since_first = np.zeros((narrow, capacity), np.uint32 if self.scope is Scope.NVLINK else np.uint64)
        self.since: Floats = np.full((narrow, capacity), _NEVER)
        """Node's monotonic seconds of the reading that the next rate starts from, as counters.step wants them."""
        self.carry: Totals = np.zeros((self._frames.counters.stop, capacity), np.uint64)
        """What was counted since that reading, in intervals between frames too short for a rate of their own."""
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
            self._allocate(max(first + rows, capacity + capacity // 4 if self.is_lean else 2 * capacity))
        self.rows += rows
        self.dirty = self._counted = True
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
        self.dirty = self._counted = True
        self._rows_changed |= bool(at) and min(at) < self._pictured_rows

    def mark(self, rows: Sequence[int] | slice, reason: Reason) -> None:
        """Say why the probe gives no value for `rows`; what was counted so far is kept for when it does again."""
        at = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.array(rows, np.intp)
        if not at.size:
            return
        cells = grid_of([*self._from_probe.values()], at)
        self.values[cells] = np.nan
        self.reasons[cells] = reason
        self.total_reasons[:, at] = reason
        self.dirty = self._counted = True

    def await_parts(self, rows: slice) -> None:
        """Say that what comes in parts is on its way again where it could not be reached."""
        for columns, reasons in (
            (self._in_parts, self.reasons),
            ([*range(self.carry.shape[0], len(self.counters))], self.total_reasons),
        ):
            if columns:
                cells = grid_of(columns, np.arange(rows.start, rows.stop))
                reasons[cells] = np.where(reasons[cells] == Reason.UNREACHABLE, Reason.WAITING, reasons[cells])
        self.dirty = self._counted = True

    def began(self, first: int, count: int, wall: float) -> None:
        """Note when the first reading of rows came, where none came before."""
        first_at = self.first_at[first : first + count]
        new = np.isnan(first_at)
        if new.any():
            first_at[new] = wall
            self._counted = True

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
        group: str = "",
    ) -> tuple[bool, int]:
        """Take the lists of one line, a frame or a part of `group`, into the block `first` .. `first + count`.

        `order` says which row of the block each position of a list is for, None when they are alike. `full` tells that
        what is not given the node does not have; `complete` that what is not given has not changed since the line
        before. Returns whether anything changed, and how many lists were dropped because of their length.
        """
        of = self._groups.get(group)
        if of is None:
            return False, 0
        length = count if order is None else len(order)
        columns: list[int] = []
        lists: list[Sequence[Cell]] = []
        counter_columns: list[int] = []
        counter_lists: list[Sequence[Cell]] = []
        dropped, narrow = 0, len(self.counters)
        for metric, cells in part.items():
            column = of.columns.get(metric)
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
        changed = counted = False
        if columns and length:
            changed = self._put_gauges(first, count, order, columns, lists, full=full)
        if full and length:
            counted = self.lack(rows_of(first, count, order), {*columns, *counter_columns}, group)
        if of.counters.stop and count and (counter_columns or complete):
            counted |= self._put_counters(
                of, first, count, order, counter_columns, counter_lists, mono, full=full, complete=complete
            )
        if not group:
            counted |= bool(counter_columns or full)
            changed |= bool(columns)
        self._counted |= counted
        self.dirty |= changed or counted
        return changed or counted, dropped

    def _put_gauges(
        self,
        first: int,
        count: int,
        order: Sequence[int] | None,
        columns: list[int],
        lists: list[Sequence[Cell]],
        *,
        full: bool,
    ) -> bool:
        flat = list(chain.from_iterable(lists))
        rows = slice(first, first + count)
        kinds = set(map(type, flat))
        if order is None and str not in kinds and (kinds <= NUMBERS or not full):
            # Indexing a view of the block with an array costs a third of indexing the table with a list and a slice.
            at = np.array(columns, np.intp)
            values, reasons = self.values[:, rows], self.reasons[:, rows]
            cells = np.array(flat, self.values.dtype).reshape(len(columns), count)
            if kinds <= NUMBERS:
                if self.is_lean and (values[at] == cells).all() and not reasons[at].any():
                    return False
                values[at], reasons[at] = cells, _PRESENT
            else:
                said = cells == cells  # null has become NaN, which no number can be
                values[at], reasons[at] = np.where(said, cells, values[at]), np.where(said, _PRESENT, reasons[at])
            return True
        shape = (len(columns), len(flat) // len(columns))
        numbers = np.array(numbers_of(flat), self.values.dtype).reshape(shape)
        given = codes_of(flat, full=full).reshape(shape)
        grid = grid_of(columns, rows_of(first, count, order))
        said = given != UNCHANGED
        if self.is_lean and (~said | ((self.reasons[grid] == given) & (given | (self.values[grid] == numbers)))).all():
            return False
        self.values[grid] = np.where(said, numbers, self.values[grid])
        self.reasons[grid] = np.where(said, given, self.reasons[grid])
        return True

    def lack(self, rows: npt.NDArray[np.intp], given: set[int], group: str) -> bool:
        """Take that a line names every value of its group which the node can give: the others, columns that are not
        `given`, it does not have. Tell whether that is new."""
        of = self._groups[group]
        silent = [column for column in of.columns.values() if column not in given]
        cells = grid_of(silent, rows)
        if not silent or (self.reasons[cells] == _UNSUPPORTED).all():
            return False
        self.values[cells] = np.nan
        self.reasons[cells] = _UNSUPPORTED
        counters = [column for column in silent if column < len(self.counters)]
        if counters:
            self.total_reasons[grid_of(counters, rows)] = _UNSUPPORTED
        return True

    def _put_counters(
        self,
        of: Group,
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
        rows, span = slice(first, first + count), of.counters
        total_reasons = self.total_reasons[span, rows]
        values, since = self.values[span, rows], self.since[span, rows]
        before = self.totals[span, rows]
        read = total_reasons == _PRESENT if complete and not full else np.zeros(before.shape, np.bool_)
        reasons = self.reasons[span, rows]
        carry = self.carry[:, rows] if of is self._frames else None
        if not columns and (carry is None or not carry.any()) and (~read | _rests(values, reasons)).all():
            # Nothing moves and nothing moved: the interval has passed, the rates stay as they are.
            np.copyto(since, mono, where=read)
            return False
        now = before.copy()
        if columns:
            flat = list(chain.from_iterable(lists))
            at = np.array(columns, np.intp) - span.start
            if order is None and set(map(type, flat)) == {int} and min(flat) >= 0:  # type: ignore[type-var, operator]
                now[at] = np.array(flat, np.uint64).reshape(len(columns), count)
                if carry is None and (now[at] == before[at]).all() and _rests(values, reasons)[at].all():
                    since[at] = np.where(mono - since[at] > 0, mono, since[at])
                    return False
                total_reasons[at] = _PRESENT
                read[at] = True
            else:
                self._put_totals(first, count, order, columns, at, flat, now, read, full=full)
        result = step(of.rules, before, now, since, mono, np.uint64(0) if carry is None else carry)
        timed = result.timed
        timed &= read
        if np.count_nonzero(timed) < np.count_nonzero(read):
            # No new rate, and where a word stood there is no old one that could stay.
            reasons[read & ~timed & ~np.isin(reasons, _COUNTING)] = Reason.ONE_READING
        np.copyto(values, result.rates, where=timed)
        np.copyto(reasons, result.reasons, where=timed)
        # A part that comes just behind another one is passed over: the next one covers both intervals.
        kept = timed if carry is None else read
        counted, more = self.since_first[span, rows], result.increments
        if counted.itemsize < more.itemsize:
            more = np.minimum(more, np.uint64(2**32 - 1) - counted)
        np.add(counted, more, out=counted, where=kept, casting="unsafe")
        np.copyto(before, now, where=kept)
        np.copyto(since, mono, where=timed)
        if carry is not None:
            np.add(carry, result.increments, out=carry, where=read)
            np.copyto(carry, np.uint64(0), where=timed)
        return True

    def _put_totals(
        self,
        first: int,
        count: int,
        order: Sequence[int] | None,
        columns: list[int],
        within: npt.NDArray[np.intp],
        flat: list[Cell],
        now: Totals,
        read: npt.NDArray[np.bool_],
        *,
        full: bool,
    ) -> None:
        """Set `now` and `read`, in which `columns` are the rows `within`, for lists with words or nulls; totals are
        whole numbers that are not negative."""
        shape = (len(columns), len(flat) // len(columns))
        totals, given = (array.reshape(shape) for array in totals_of(flat, full=full))
        at = within[:, None], rows_of(0, count, order)[None, :]
        is_total, is_word = given == _PRESENT, (given != _PRESENT) & (given != UNCHANGED)
        now[at] = np.where(is_total, totals, now[at])
        read[at] = np.where(given == UNCHANGED, read[at], is_total)
        absolute = grid_of(columns, rows_of(first, count, order))
        self.values[absolute] = np.where(is_word, np.nan, self.values[absolute])
        for reasons in (self.reasons, self.total_reasons):
            reasons[absolute] = np.where(is_word, given, reasons[absolute])
        self.total_reasons[absolute] = np.where(is_total, _PRESENT, self.total_reasons[absolute])

    def table(self, mono: float = np.inf, *, latest: bool = True) -> Table:
        """Return a picture of all rows that does not change any more; the last one when nothing changed, or when it is
        of rare rows, not old at `mono`, and need not be the `latest`."""
        former, rows = self._table, self.first_at.size if self.is_lean else self.rows
        fits = former is not None and former.first_at.size == rows and not self._rows_changed
        if former is not None and fits:
            is_young = self.is_lean and not latest and 0 <= mono - self._pictured_mono < PICTURE_S
            if is_young or not (self.dirty or self._counted):
                return former
        counters = (
            (former.totals, former.total_reasons, former.since_first, former.first_at)
            if former is not None and fits and not self._counted
            else None
        )
        self._table = former = None
        self._version += 1
        values, reasons = (self._pictures.take(name, getattr(self, name), rows) for name in ("values", "reasons"))
        totals, total_reasons, since_first, first_at = counters or (
            self._pictures.take(name, getattr(self, name), rows)
            for name in ("totals", "total_reasons", "since_first", "first_at")
        )
        self._table = Table(
            self.scope, self.metrics, values, reasons, self.counters, totals, total_reasons, since_first, first_at,
            self.index, self.counter_index, self._version,
        )  # fmt: skip
        self.dirty = self._counted = self._rows_changed = False
        self._pictured_mono, self._pictured_rows = mono, self.rows
        return self._table


def _rests(values: npt.NDArray[Any], reasons: Codes) -> npt.NDArray[np.bool_]:
    """Tell which counters have a rate that an interval without a change leaves as it is."""
    rests: npt.NDArray[np.bool_] = (values == 0) | (reasons == _SATURATED)
    return rests
