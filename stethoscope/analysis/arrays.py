"""The columns of one scope and their pictures: a picture shows the columns themselves, and the first change behind it
takes a copy of the one that it changes.

Rows that come in frames change between any two pictures. Rows of devices that come in parts are many, and rest as a
rule: what does not change is there once, and what is the same in every row takes no room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from stethoscope.analysis.sheet import Sheet
from stethoscope.model.fleet import Table
from stethoscope.model.grid import Differences, Grid
from stethoscope.model.metric import DEVICE_SCOPES, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.model.fleet import Codes, Floats, Totals

PICTURE_S = 2.0
"""Rows of devices that come in parts are pictured again after this time, unless all that came is asked for."""
NEVER = -np.inf
AS_READ = -1.0
"""In `since`: the rate starts from when the row was read last, as it does nearly always. No clock says so."""


class Arrays:
    """Values, reasons and counters of all rows of one scope."""

    def __init__(
        self,
        scope: Scope,
        metrics: tuple[str, ...],
        counters: tuple[str, ...],
        carried: int,
        groups: Iterable[str],
        blocks: int,
    ) -> None:
        """Start without rows; the first `carried` of the counters may be read at any interval. The counters come in
        `groups`. There will be about `blocks` blocks of one size."""
        self.scope = scope
        self.metrics, self.counters = metrics, counters
        self.index = {metric: column for column, metric in enumerate(metrics)}
        self.counter_index = {metric: column for column, metric in enumerate(counters)}
        self.rows = self.room = 0
        self.dirty = True
        """Something changed since the last picture."""
        self.is_lean = scope in DEVICE_SCOPES
        """Its rows come in parts: pictures are rare, and cover rows that are not in use yet."""
        self.marks = 0
        """Grows when rows are changed by something else than values of theirs."""
        self._rows_changed = False
        """A row of the last picture stands for another device now."""
        self._blocks = blocks
        self._table: Table | None = None
        self._version = 0
        self._pictured_mono, self._pictured_rows = -np.inf, 0
        # Of the errors a second of the many links seven digits are enough, and their totals fit 32 bits as a rule:
        # `tally` widens the columns of one that do not.
        few = scope in (Scope.NVLINK, Scope.PCIE)
        rates, gauges = [np.float32 if few else np.float64] * len(counters), len(metrics) - len(counters)
        whole = [np.uint32 if few else np.uint64] * len(counters)
        self.values = Sheet([*rates, *[np.float64] * gauges], np.nan)
        self.reasons = Sheet([np.uint8] * len(metrics), int(Reason.WAITING))
        self.totals = Sheet(whole, 0)
        self.total_reasons = Sheet([np.uint8] * len(counters), int(Reason.WAITING))
        self.bases = Sheet(whole, 0)
        """Total less what was counted since the first reading: it changes only where a counter does not go on."""
        self.since = Sheet([np.float64] * len(counters), AS_READ)
        """Node's monotonic seconds of the reading that the next rate starts from, as counters.step wants them, or
        AS_READ, which is `read_at`."""
        self.carry = Sheet([np.uint64] * carried, 0)
        """What was counted since that reading, in intervals between frames too short for a rate of their own."""
        self.read_at: dict[str, Floats] = {group: np.empty(0) for group in groups}
        """By group: node's monotonic seconds of the last line about each row."""
        self.first_at: Floats = np.empty(0)

    @property
    def _sheets(self) -> tuple[Sheet, ...]:
        return (self.values, self.reasons, self.totals, self.total_reasons, self.bases, self.since, self.carry)

    def add(self, rows: int) -> int:
        """Return the first of `rows` new rows."""
        first, needed = self.rows, self.rows + rows
        if needed > self.room:
            # Nodes of one kind have as many devices each: most fleets end at exactly what they need.
            room, expected = self.room, rows * self._blocks
            more = room + room // 4 if room >= expected else expected if room else expected // 8
            self._allocate(max(needed, more))
        self.rows = needed
        self.dirty = True
        return first

    def _allocate(self, room: int) -> None:
        for sheet in self._sheets:
            sheet.grow(self.rows, room)
        self.read_at = {group: _grown(array, self.rows, room, NEVER) for group, array in self.read_at.items()}
        self.first_at = _grown(self.first_at, self.rows, room, np.nan)
        self.room = room

    def since_of(self, column: int, rows: Sequence[int] | slice, group: str) -> Floats:
        """Return the time that the next rate of a counter of `group` starts from, as counters.step wants it."""
        own = self.since.columns[column][rows]
        since: Floats = np.where(own == AS_READ, self.read_at[group][rows], own)
        return since

    def copy_rows(self, first: int, count: int, target: int) -> None:
        """Copy a block of rows to another place."""
        source, place = slice(first, first + count), slice(target, target + count)
        for sheet in self._sheets:
            for column in range(len(sheet.columns)):
                sheet.put(column, place, sheet.columns[column][source])
        for array in self.read_at.values():
            array[place] = array[source]
        self._own_first_at()[place] = self.first_at[source]

    def forget(self, rows: list[int], reason: Reason) -> None:
        """Forget all about these rows, and say why they have no value."""
        if not rows:
            return
        at = np.array(rows, np.intp)
        for sheet in self._sheets:
            fill = int(reason) if sheet is self.reasons or sheet is self.total_reasons else sheet.fill
            for column in range(len(sheet.columns)):
                sheet.put(column, at, fill)
        for array in self.read_at.values():
            array[at] = NEVER
        if not np.isnan(self.first_at[at]).all():
            self._own_first_at()[at] = np.nan
        self.dirty = True
        self.marks += 1
        self._rows_changed |= min(rows) < self._pictured_rows

    def _own_first_at(self) -> Floats:
        if not self.first_at.flags.writeable:
            self.first_at = self.first_at.copy()
        return self.first_at

    def began(self, first: int, count: int, wall: float) -> None:
        """Note when the first reading of rows came, where none came before."""
        rows = slice(first, first + count)
        new = np.isnan(self.first_at[rows])
        if new.any():
            self._own_first_at()[rows][new] = wall
            self.dirty = True

    def table(self, mono: float = np.inf, *, latest: bool = True) -> Table:
        """Return a picture of all rows that does not change any more; the last one when nothing changed, or when it is
        of rare rows, not old at `mono`, and need not be the `latest`."""
        former, rows = self._table, self.room if self.is_lean else self.rows
        if former is not None and former.first_at.size == rows and not self._rows_changed:
            is_young = self.is_lean and not latest and 0 <= mono - self._pictured_mono < PICTURE_S
            if is_young or not self.dirty:
                return former
        self._version += 1
        for sheet in self._sheets:
            # Of devices that rest most columns say where devices are, and no more.
            sheet.rest(alike=self.is_lean)
        self.first_at.flags.writeable = False
        values = Grid([*self.values.columns], rows, np.float64)
        totals, bases = [*self.totals.columns], [*self.bases.columns]
        # Whoever reads a table takes columns of it, and then it does not matter that they are apart.
        self._table = Table(
            self.scope, self.metrics, cast("Floats", values), _codes(self.reasons, rows), self.counters,
            cast("Totals", Grid(totals, rows, np.uint64)), _codes(self.total_reasons, rows),
            cast("Totals", Differences(totals, bases, rows)), self.first_at[:rows], self.index, self.counter_index,
            self._version,
        )  # fmt: skip
        self.dirty = self._rows_changed = False
        self._pictured_mono, self._pictured_rows = mono, self.rows
        return self._table


def _codes(sheet: Sheet, rows: int) -> Codes:
    return cast("Codes", Grid([*sheet.columns], rows, np.uint8))


def _grown(array: Floats, kept: int, room: int, fill: float) -> Floats:
    grown = np.full(room, fill)
    grown[:kept] = array[:kept]
    return grown
