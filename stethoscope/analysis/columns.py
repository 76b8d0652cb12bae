"""The columns of one scope while they are being filled: what model.fleet.Table is a picture of.

Metrics come in frames (group ""), or in the parts of one group: only what brings a metric reads it, finds it
unsupported, or takes it for unchanged.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.arrays import NEVER, Arrays
from stethoscope.analysis.cells import NUMBERS, UNCHANGED, codes_of, grid_of, numbers_of, rows_of
from stethoscope.analysis.groups import Group, Plan
from stethoscope.analysis.tally import count_frame, count_part
from stethoscope.model.metric import Kind, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.metric import Metric, Scope
    from stethoscope.model.wire import Cell

_PRESENT, _UNSUPPORTED = int(Reason.PRESENT), int(Reason.UNSUPPORTED)


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
        self._frames = self._groups[""]
        super().__init__(scope, names, tuple(metric.id for metric in counters), self._frames.counters.stop, blocks)
        self._from_probe = [index[m.id] for m in metrics if m.tier != "console"]
        self._in_parts = [index[m.id] for m in metrics if m.group]
        self.add(rows)

    @property
    def groups(self) -> Iterable[str]:
        """Return the groups whose parts bring metrics of this table."""
        return (group for group, known in self._groups.items() if group and known.columns)

    def move(self, first: int, count: int, room: int) -> int:
        """Copy a block of `count` rows to a new one of `room` rows; return where it is. The old rows become absent."""
        target = self.add(room)
        for array in self.arrays():
            array[..., target : target + count] = array[..., first : first + count]
        self.clear(range(first, first + count), Reason.ABSENT)
        self.clear(range(target + count, target + room), Reason.ABSENT)
        return target

    def clear(self, rows: Iterable[int], reason: Reason) -> None:
        """Forget all about the devices of `rows`."""
        self.forget([*rows], reason)

    def mark(self, rows: Sequence[int] | slice, reason: Reason) -> None:
        """Say why the probe gives no value for `rows`; what was counted so far is kept for when it does again."""
        at = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.array(rows, np.intp)
        if not at.size:
            return
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
        """Say that what comes in parts is on its way again where it could not be reached."""
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
        self.marks += 1
        block = self.since[:, first : first + count]
        block[block > NEVER] = np.nan
        if not keep_totals:
            block[...] = NEVER

    def has_taken(self, first: int, count: int, group: str, mono: float) -> bool:
        """Tell whether all counters of a group were read at `mono`: a part just behind another one is passed over."""
        span, block = self._groups[group].counters, slice(first, first + count)
        late = self.since[span, block] != mono
        return not (late & (self.total_reasons[span, block] == _PRESENT)).any()

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
        length, block = count if order is None else len(order), slice(first, first + count)
        plan = of.plan(part)
        gauges = [part[metric] for metric in plan.gauges]
        counters = [part[metric] for metric in plan.counters]
        if any(len(cells) != length for cells in chain(gauges, counters)):
            right = {metric: cells for metric, cells in part.items() if len(cells) == length}
            changed, dropped = self.put(first, count, order, right, mono, full=full, complete=complete, group=group)
            return changed, dropped + sum(metric in of.columns and metric not in right for metric in part)
        changed = counted = False
        if gauges and length:
            changed = self._put_gauges(block, order, plan, gauges, full=full)
        if full and length and plan.silent.size:
            counted = self._lack(rows_of(first, count, order), plan)
        if of.counters.stop and count and (counters or complete):
            counters = counters if length else []
            counted |= (
                count_part(self, of, plan, block, order, counters, mono, full=full)
                if group
                else count_frame(self, of, plan, block, order, counters, mono, full=full, complete=complete)
            )
        if not group:
            counted |= bool(counters or full)
            changed |= bool(gauges)
        self.dirty |= changed or counted
        return changed or counted, 0

    def _put_gauges(
        self, block: slice, order: Sequence[int] | None, plan: Plan, lists: list[Sequence[Cell]], *, full: bool
    ) -> bool:
        flat, at = list(chain.from_iterable(lists)), plan.gauge_columns
        kinds = set(map(type, flat))
        if order is None and str not in kinds and (kinds <= NUMBERS or not full):
            # Indexing a view of the block with an array costs a third of indexing the table with a list and a slice.
            cells = np.array(flat, self.values.dtype).reshape(len(lists), -1)
            if kinds <= NUMBERS:
                if self.is_lean and (self.values[:, block][at] == cells).all() and not self.reasons[:, block][at].any():
                    return False
                self.own("values", "reasons")
                self.values[:, block][at], self.reasons[:, block][at] = cells, _PRESENT
            else:
                self.own("values", "reasons")
                values, reasons = self.values[:, block], self.reasons[:, block]
                said = cells == cells  # null has become NaN, which no number can be
                values[at], reasons[at] = np.where(said, cells, values[at]), np.where(said, _PRESENT, reasons[at])
            return True
        shape = (len(lists), len(flat) // len(lists))
        numbers = np.array(numbers_of(flat), self.values.dtype).reshape(shape)
        given = codes_of(flat, full=full).reshape(shape)
        grid = grid_of(at, rows_of(block.start, block.stop - block.start, order))
        said = given != UNCHANGED
        if self.is_lean and (~said | ((self.reasons[grid] == given) & (given | (self.values[grid] == numbers)))).all():
            return False
        self.own("values", "reasons")
        self.values[grid] = np.where(said, numbers, self.values[grid])
        self.reasons[grid] = np.where(said, given, self.reasons[grid])
        return True

    def lack(self, rows: npt.NDArray[np.intp], group: str) -> bool:
        """Take that a line names every value of its group which the node can give, and none at all of `rows`. Tell
        whether that is new."""
        self.marks += 1
        return self._lack(rows, self._groups[group].plan(()))

    def _lack(self, rows: npt.NDArray[np.intp], plan: Plan) -> bool:
        cells = grid_of(plan.silent, rows)
        if (self.reasons[cells] == _UNSUPPORTED).all():
            return False
        self.own("values", "reasons", "total_reasons")
        self.values[cells] = np.nan
        self.reasons[cells] = _UNSUPPORTED
        if plan.silent_counters.size:
            self.total_reasons[grid_of(plan.silent_counters, rows)] = _UNSUPPORTED
        return True
