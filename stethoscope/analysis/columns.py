"""The columns of one scope while they are being filled: what model.fleet.Table is a picture of.

Metrics come in frames (group ""), or in the parts of one group: only what brings a metric reads it, finds it
unsupported, or takes it for unchanged. Lines wait until somebody looks at the table or changes it in another way, and
are then folded at once: no block has two of one group among them, and so they do not know of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.arrays import AS_READ, NEVER, Arrays
from stethoscope.analysis.batch import NOTHING, Batch, Line, Waiting
from stethoscope.analysis.cells import UNCHANGED
from stethoscope.analysis.derive import derive
from stethoscope.analysis.groups import Group
from stethoscope.analysis.tally import Read, count
from stethoscope.model.metric import Kind, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.analysis.batch import Named
    from stethoscope.model.fleet import Codes, Table
    from stethoscope.model.metric import Metric, Scope
    from stethoscope.model.wire import Cell

_MOST_WAITING, _MOST_OF_PARTS = 1536, 4096
"""Rows of nodes, GPUs and ports, and of other devices, that lines may wait about until they are folded: keys must not
wait for that longer than some milliseconds."""
_MOST_MARKS = 256
"""So many blocks may wait for it to be said that they cannot be reached."""
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
        names_of_groups = dict.fromkeys(("", *(metric.group for metric in metrics)))
        self._groups = {group: Group.of(group, metrics, counters, index) for group in names_of_groups}
        self.groups = frozenset(group for group, known in self._groups.items() if group and known.columns)
        """Those whose parts bring metrics of this table."""
        self.counting = frozenset(group for group, known in self._groups.items() if known.counters.stop)
        """Those that bring counters of this table."""
        self._waiting = {group: (Waiting(), Waiting()) for group in self._groups}
        """By group: deltas, and full lines, that were not folded yet."""
        self._marking: dict[int, tuple[int, Reason]] = {}
        """By first row: blocks that get a reason behind what waits, and how many rows they have."""
        self._lacking: dict[str, list[npt.NDArray[np.intp]]] = {}
        """By group: rows that a line that waits names no value for."""
        self.defects: list[Exception] = []
        """What kept lines from being folded."""
        carried = self._groups[""].counters.stop
        super().__init__(scope, names, tuple(metric.id for metric in counters), carried, self.counting, blocks)
        self._from_probe = [index[m.id] for m in metrics if m.tier != "console"]
        self._in_parts = [index[m.id] for m in metrics if m.group]
        self.add(rows)

    def table(self, mono: float = np.inf, *, latest: bool = True) -> Table:
        """Return a picture as `Arrays.table` does, of everything that was put."""
        self.settle()
        return super().table(mono, latest=latest)

    def move(self, first: int, count: int, room: int) -> int:
        """Copy a block of `count` rows to a new one of `room` rows; return where it is. The old rows become absent."""
        self.settle()
        target = self.add(room)
        self.copy_rows(first, count, target)
        self.clear(range(first, first + count), Reason.ABSENT)
        self.clear(range(target + count, target + room), Reason.ABSENT)
        return target

    def clear(self, rows: Iterable[int], reason: Reason) -> None:
        """Forget all about the devices of `rows`, which no line that waits is about."""
        self.forget([*rows], reason)

    def mark(self, rows: Sequence[int] | slice, reason: Reason) -> None:
        """Say why the probe gives no value for `rows`, a whole block when they are a slice; what was counted so far is
        kept for when it does again."""
        if isinstance(rows, slice):
            # Hundreds of nodes may be lost at once: what is said of them is said together.
            if rows.stop > rows.start:
                if rows.start in self._marking or len(self._marking) >= _MOST_MARKS:
                    self.settle()
                self._marking[rows.start] = (rows.stop - rows.start, reason)
                self.marks += 1
        elif rows:
            self.settle()
            self.marks += self._mark(np.array(rows, np.intp), reason)

    def _mark(self, rows: npt.NDArray[np.intp], reason: Reason) -> bool:
        is_new = False
        for column in self._from_probe:
            is_new |= self.reasons.put(column, rows, int(reason))
            is_new |= self.values.put(column, rows, np.nan)
        for column in range(len(self.counters)):
            is_new |= self.total_reasons.put(column, rows, int(reason))
        self.dirty |= is_new
        return is_new

    def await_parts(self, rows: slice) -> None:
        """Say that what comes in parts is on its way again where the rows of a block could not be reached."""
        self._settle_of(rows.start)
        for sheet, columns in (
            (self.reasons, self._in_parts),
            (self.total_reasons, range(len(self.carry.columns), len(self.counters))),
        ):
            for column in columns:
                reasons = sheet.columns[column][rows]
                sheet.put(column, rows, np.where(reasons == Reason.UNREACHABLE, Reason.WAITING, reasons))
        self.dirty = True
        self.marks += 1

    def restart(self, first: int, count: int, *, keep_totals: bool) -> None:
        """Let the next reading give no rate; without `keep_totals` it does not even tell what was counted since."""
        if not count:
            return
        self._settle_of(first)
        self.marks += 1
        rows = slice(first, first + count)
        for array in self.read_at.values():
            array[rows] = np.where(array[rows] > NEVER, np.nan, array[rows]) if keep_totals else NEVER
        for column, own in enumerate(self.since.columns):
            known = own[rows]
            kept = np.where((known > NEVER) & (known != AS_READ), np.nan, known) if keep_totals else AS_READ
            self.since.put(column, rows, kept)

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
        named, lists = of.named_by(part), [*part.values()]
        if named is None or not {*map(len, lists)} <= {length}:
            known = [(metric, cells) for metric, cells in part.items() if metric in of.columns]
            right = {metric: cells for metric, cells in known if len(cells) == length}
            named, lists = of.named_by(right), [*right.values()]
            dropped = len(known) - len(right)
        if named is None or not length:
            named, lists = NOTHING, []
        if count and (lists or full or (complete and of.counters.stop)):
            self._wait(of, first, count, order, named, lists, mono, full, complete, changed)
        return dropped

    def put_one(
        self,
        row: int,
        cells: Mapping[str, Cell],
        mono: float,
        *,
        full: bool,
        complete: bool,
        group: str = "",
        changed: Callable[[], None] | None = None,
    ) -> None:
        """Take what one line says of one row, which is a block of its own, as `put` does."""
        of = self._groups.get(group)
        if of is None:
            return
        named = of.named_by(cells)
        if named is None:
            cells = {metric: cell for metric, cell in cells.items() if metric in of.columns}
            named = of.named_by(cells) or NOTHING
        if cells or full or (complete and of.counters.stop):
            lists = [*zip(cells.values(), strict=True)]
            self._wait(of, row, 1, None, named, lists, mono, full, complete, changed)

    def _wait(
        self, of: Group, first: int, count: int, order: Sequence[int] | None, named: Named,
        lists: Sequence[Sequence[Cell]], mono: float, full: bool, complete: bool, changed: Callable[[], None] | None,
    ) -> None:  # fmt: skip
        try:
            line = Line.of(first, count, order, named, lists, mono, full, complete, changed)
        except OverflowError as error:
            self.dirty = True
            self.defects.append(error)
            return
        deltas, fulls = self._waiting[of.name]
        if first in deltas.lines or first in fulls.lines or first in self._marking:
            self.settle()
        waiting = fulls if full else deltas
        if waiting.rows + line.count > (_MOST_OF_PARTS if self.is_lean else _MOST_WAITING):
            # Lines of other kinds do not know of these, and may wait on.
            self._settle_kind(of, full=full)
        waiting.lines[first] = line
        waiting.rows += line.count

    def settle(self) -> None:
        """Let every line that was put have its effect; of a line that cannot, the error is kept in `defects`."""
        for of in self._groups.values():
            self._settle_kind(of, full=True)
            self._settle_kind(of, full=False)
        if self._marking:
            marking, self._marking = self._marking, {}
            for reason in {reason for _, reason in marking.values()}:
                blocks = [(first, count) for first, (count, why) in marking.items() if why is reason]
                self._mark(np.concatenate([np.arange(first, first + count) for first, count in blocks]), reason)

    def _settle_kind(self, of: Group, *, full: bool) -> None:
        waiting = self._waiting[of.name][full]
        if waiting.lines:
            lines = [*waiting.lines.values()]
            waiting.lines.clear()
            waiting.rows = 0
            self._try(of, lines, full=full)
        if full and of.name in self._lacking:
            rows = np.concatenate(self._lacking.pop(of.name))
            for column in of.all_columns:
                self.dirty |= self._have_not(column, rows)
            derive(self, rows)

    def _settle_of(self, first: int) -> None:
        """Let the lines about one block have their effect: where many nodes come or go, those of others may wait."""
        if first in self._marking or any(first in kind.lines for kinds in self._waiting.values() for kind in kinds):
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
        counts: dict[int, Read] = {}
        is_new = False
        for column, one in batch.said.items():
            places, cells, given = batch.positions(one.lines), _joined(one.cells), _joined(one.codes)
            if column < of.counters.stop:
                counts[column] = Read(one.lines, places, cells, given)
            else:
                is_new |= self._put_gauge(column, batch.rows[places], cells, given, full=full)
        if full:
            for column in of.all_columns:
                is_new |= self._have_not(column, batch.silent(column))
        changed = (
            count(self, of, batch, counts, full=full) if of.counters.stop else np.zeros(len(batch.lines), np.bool_)
        )
        if not of.name:
            changed |= np.array([full or line.named is not NOTHING for line in batch.lines])
        self.dirty |= is_new or bool(changed.any())
        if of.name:
            derive(self, batch.rows if full else batch.rows[changed.repeat(batch.counts)])
        batch.tell(changed)

    def _put_gauge(
        self, column: int, rows: npt.NDArray[np.intp], numbers: npt.NDArray[Any], given: Codes, *, full: bool
    ) -> bool:
        if not full and given.any():
            is_said = given != UNCHANGED
            rows, numbers, given = rows[is_said], numbers[is_said], given[is_said]
        if not rows.size:
            return False
        is_new = self.values.put(column, rows, numbers)
        return self.reasons.put(column, rows, given) or is_new

    def lack(self, rows: npt.NDArray[np.intp], group: str) -> None:
        """Take that the last line that was put names no value of its group for any of `rows`, which are of its
        block."""
        lists = self._groups[group].all_columns
        if not self._marking and all((self.reasons.columns[at][rows] == _UNSUPPORTED).all() for at in lists):
            # As with the line before, which nearly always lacked them, too: lines that wait are not about these rows.
            return
        # Said together with the line: the first ones of all nodes come in one minute.
        self._lacking.setdefault(group, []).append(rows)
        self.marks += 1

    def _have_not(self, column: int, rows: npt.NDArray[np.intp]) -> bool:
        if not rows.size:
            return False
        rows = rows[self.reasons.columns[column][rows] != _UNSUPPORTED]
        if not rows.size:
            return False
        self.values.put(column, rows, np.nan)
        self.reasons.put(column, rows, _UNSUPPORTED)
        if column < len(self.counters):
            self.total_reasons.put(column, rows, _UNSUPPORTED)
        return True


def _joined(pieces: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
