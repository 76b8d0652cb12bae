"""The columns of one scope while they are being filled: what model.fleet.Table is a picture of.

Metrics come in frames (group ""), or in the parts of one group: only what brings a metric reads it, finds it
unsupported, or takes it for unchanged. Lines wait until somebody looks at the table or changes it in another way, and
are then folded at once: no block has two of one group among them, and so they do not know of each other.
"""

from __future__ import annotations

from itertools import chain, compress
from typing import TYPE_CHECKING, cast

import numpy as np

from stethoscope.analysis.arrays import NEVER, Arrays
from stethoscope.analysis.batch import Batch, Line
from stethoscope.analysis.cells import UNCHANGED, grid_of, numbers_of
from stethoscope.analysis.derive import derive
from stethoscope.analysis.groups import Group
from stethoscope.analysis.tally import count
from stethoscope.model.metric import Kind, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.fleet import Table
    from stethoscope.model.metric import Metric, Scope
    from stethoscope.model.wire import Cell

_MOST_WAITING, _MOST_OF_PARTS = 256, 1024
"""Rows of nodes, GPUs and ports, and of other devices, that lines may wait about until they are folded: keys must not
wait for that longer than some milliseconds."""
_UNSUPPORTED = int(Reason.UNSUPPORTED)


class Columns(Arrays):
    """Values, reasons and counters of all rows of one scope.

    The counters are the first metrics, those of frames before those of each group, so that the rates of a group are one
    slice of the values.
    """

    def __init__(self, scope: Scope, catalogue: Mapping[str, Metric], rows: int = 0, *, blocks: int = 0) -> None:
        """Make room for `rows` rows, all of them waiting; of devices come `blocks` blocks."""
        metrics = [metric for metric in catalogue.values() if metric.scope is scope]
        counters = sorted((m for m in metrics if m.kind is Kind.COUNTER), key=lambda metric: metric.group)
        in_order = (*counters, *(metric for metric in metrics if metric.kind is not Kind.COUNTER))
        names = tuple(metric.id for metric in in_order)
        index = {metric: column for column, metric in enumerate(names)}
        self._groups = {group: Group.of(group, metrics, counters, index) for group in {"", *(m.group for m in metrics)}}
        self._waiting: dict[str, dict[int, Line]] = {}
        """Lines that were not folded yet, by group and block, and ..."""
        self._rows_waiting = 0
        """... how many rows they are about."""
        self.defects: list[Exception] = []
        """What kept lines from being folded."""
        carried = self._groups[""].counters.stop
        super().__init__(scope, names, tuple(metric.id for metric in counters), carried, blocks)
        self._from_probe = [index[m.id] for m in metrics if m.tier != "console"]
        self._in_parts = [index[m.id] for m in metrics if m.group]
        self.add(rows)

    @property
    def groups(self) -> Iterable[str]:
        """Return the groups whose parts bring metrics of this table."""
        return (group for group, known in self._groups.items() if group and known.columns)

    def table(self, mono: float = np.inf, *, latest: bool = True) -> Table:
        """Return a picture as `Arrays.table` does, of everything that was put."""
        self.settle()
        return super().table(mono, latest=latest)

    def move(self, first: int, count: int, room: int) -> int:
        """Copy a block of `count` rows to a new one of `room` rows; return where it is. The old rows become absent."""
        self.settle()
        target = self.add(room)
        for array in self.arrays():
            array[..., target : target + count] = array[..., first : first + count]
        self.clear(range(first, first + count), Reason.ABSENT)
        self.clear(range(target + count, target + room), Reason.ABSENT)
        return target

    def clear(self, rows: Iterable[int], reason: Reason) -> None:
        """Forget all about the devices of `rows`, which no line that waits is about."""
        self.forget([*rows], reason)

    def mark(self, rows: Sequence[int] | slice, reason: Reason) -> None:
        """Say why the probe gives no value for `rows`, a whole block when they are a slice; what was counted so far is
        kept for when it does again."""
        at = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.array(rows, np.intp)
        if not at.size:
            return
        if isinstance(rows, slice):
            self._settle_of(rows.start)
        else:
            self.settle()
        cells = grid_of(self._from_probe, at)
        if self.is_lean and (self.reasons[cells] == reason).all() and (self.total_reasons[:, at] == reason).all():
            return
        self.own("values", "reasons", "total_reasons")
        self.values[cells] = np.nan
        self.reasons[cells] = reason
        self.total_reasons[:, at] = reason
        self.dirty = True
        self.marks += 1

    def await_parts(self, rows: slice) -> None:
        """Say that what comes in parts is on its way again where the rows of a block could not be reached."""
        self._settle_of(rows.start)
        self.own("reasons", "total_reasons")
        for columns, reasons in (
            (self._in_parts, self.reasons),
            ([*range(self.carry.shape[0], len(self.counters))], self.total_reasons),
        ):
            if columns:
                cells = grid_of(columns, np.arange(rows.start, rows.stop))
                reasons[cells] = np.where(reasons[cells] == Reason.UNREACHABLE, Reason.WAITING, reasons[cells])
        self.dirty = True
        self.marks += 1

    def began(self, first: int, count: int, wall: float) -> None:
        """Note when the first reading of rows came, where none came before."""
        rows = slice(first, first + count)
        new = np.isnan(self.first_at[rows])
        if new.any():
            self.own("first_at")
            self.first_at[rows][new] = wall
            self.dirty = True

    def restart(self, first: int, count: int, *, keep_totals: bool) -> None:
        """Let the next reading give no rate; without `keep_totals` it does not even tell what was counted since."""
        if not count:
            return
        self._settle_of(first)
        self.marks += 1
        block = self.since[:, first : first + count]
        block[block > NEVER] = np.nan
        if not keep_totals:
            block[...] = NEVER

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
        changed: Callable[[], None] | None = None,
    ) -> int:
        """Take the lists of one line, a frame or a part of `group`, into the block `first` .. `first + count`.

        `order` says which row of the block each position of a list is for, None when they are alike. `full` tells that
        what is not given the node does not have; `complete` that what is not given has not changed since the line
        before. `changed` is called if the line changes anything, as soon as that is known (`settle`). Returns how many
        lists were dropped because of their length.
        """
        of = self._groups.get(group)
        if of is None:
            return 0
        length, dropped = count if order is None else len(order), 0
        found, lists = [*map(of.columns.get, part)], [*part.values()]
        if None in found or not {*map(len, lists)} <= {length}:
            known = [(column, cells) for column, cells in zip(found, lists, strict=True) if column is not None]
            right = [one for one in known if len(one[1]) == length]
            found, lists = [column for column, _ in right], [cells for _, cells in right]
            dropped = len(known) - len(right)
        columns = cast("list[int]", found)
        if not length:
            columns, lists = [], []
        if count and (lists or full or (complete and of.counters.stop)):
            waiting = self._waiting.setdefault(group, {})
            if first in waiting or self._rows_waiting + count > (_MOST_OF_PARTS if self.is_lean else _MOST_WAITING):
                self.settle()
            waiting[first] = Line(first, count, order, columns, lists, mono, full, complete, changed)
            self._rows_waiting += count
        return dropped

    def settle(self) -> None:
        """Let every line that was put have its effect; of a line that cannot, the error is kept in `defects`."""
        if not self._rows_waiting:
            return
        self._rows_waiting = 0
        for group, waiting in self._waiting.items():
            lines = [*waiting.values()]
            waiting.clear()
            for full in (True, False):
                alike = [line for line in lines if line.full is full]
                if alike:
                    self._try(self._groups[group], alike, full=full)

    def _settle_of(self, first: int) -> None:
        """Let the lines about one block have their effect: where many nodes come or go, those of others may wait."""
        if any(first in waiting for waiting in self._waiting.values()):
            self.settle()

    def _try(self, of: Group, lines: Sequence[Line], *, full: bool) -> None:
        try:
            self._fold(of, Batch(lines), full=full)
        except Exception as error:  # noqa: BLE001  a line must not cost those beside it
            self.dirty = True
            if len(lines) == 1:
                self.defects.append(error)
                return
            for line in lines:
                self._try(of, [line], full=full)

    def _fold(self, of: Group, batch: Batch, *, full: bool) -> None:
        # What may fail for what a line says comes before anything that counts: a batch that failed begins anew.
        named = np.array([bool(line.lists) for line in batch.lines])
        is_new = self._put_gauges(of, batch, full=full) if named.any() else False
        if full:
            is_new |= self._lack(of, batch)
        changed = count(self, of, batch, full=full) if of.counters.stop else np.zeros(len(batch.lines), np.bool_)
        if not of.name:
            changed |= named | full
        self.dirty |= is_new or bool(changed.any())
        if of.name:
            derive(self, batch.rows if full else batch.rows[changed.repeat(batch.counts)])
        batch.tell(changed)

    def _put_gauges(self, of: Group, batch: Batch, *, full: bool) -> bool:
        is_gauge = batch.columns >= of.counters.stop
        flat = [*chain.from_iterable(compress(batch.lists, is_gauge.tolist()))]
        if not flat:
            return False
        numbers, given = numbers_of(flat, self.values.dtype, full=full)
        columns, positions = batch.spread(batch.line_of[is_gauge], batch.columns[is_gauge])
        cells = self.cells(columns, batch.rows[positions])
        if not full and given.any():
            is_said = given != UNCHANGED
            numbers, given, cells = numbers[is_said], given[is_said], cells[is_said]
        if self.is_lean:
            is_same = (given > 0) | (self.values.reshape(-1)[cells] == numbers)
            if (is_same & (self.reasons.reshape(-1)[cells] == given)).all():
                return False
        self.own("values", "reasons")
        self.values.reshape(-1)[cells] = numbers
        self.reasons.reshape(-1)[cells] = given
        return True

    def _lack(self, of: Group, batch: Batch) -> bool:
        """Take that full lines name every value of their group which the node can give. Tell whether that is new."""
        silent = np.ones((len(batch.lines), len(self.metrics)), np.bool_)
        silent[batch.line_of, batch.columns] = False
        line_of, at = silent[:, of.all_columns].nonzero()
        columns, positions = batch.spread(line_of, of.all_columns[at])
        return self._have_not(columns, batch.rows[positions])

    def lack(self, rows: npt.NDArray[np.intp], group: str) -> None:
        """Take that the last line names no value of its group for any of `rows`."""
        self.marks += 1
        columns = self._groups[group].all_columns
        self.dirty |= self._have_not(columns.repeat(rows.size), np.tile(rows, columns.size))

    def _have_not(self, columns: npt.NDArray[np.intp], rows: npt.NDArray[np.intp]) -> bool:
        cells = self.cells(columns, rows)
        is_new = self.reasons.reshape(-1)[cells] != _UNSUPPORTED
        if not is_new.any():
            return False
        self.own("values", "reasons", "total_reasons")
        self.values.reshape(-1)[cells[is_new]] = np.nan
        self.reasons.reshape(-1)[cells[is_new]] = _UNSUPPORTED
        self.total_reasons.reshape(-1)[cells[is_new & (columns < len(self.counters))]] = _UNSUPPORTED
        return True
