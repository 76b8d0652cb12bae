"""The arrays of one scope and their pictures: a picture shows the arrays themselves, and the first change behind it
takes a copy of those that it changes.

Rows that come in frames change between any two pictures. Rows of devices that come in parts are many, and rest as a
rule: what does not change is there once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.pictures import Spares
from stethoscope.model.fleet import Table
from stethoscope.model.metric import DEVICE_SCOPES, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, Floats, Totals

PICTURE_S = 2.0
"""Rows of devices that come in parts are pictured again after this time, unless all that came is asked for."""
NEVER = -np.inf
_SHOWN = ("values", "reasons", "totals", "total_reasons", "since_first", "first_at")
_FILL: Mapping[str, float] = {
    "values": np.nan, "reasons": int(Reason.WAITING), "totals": 0, "total_reasons": int(Reason.WAITING),
    "since_first": 0, "since": NEVER, "carry": 0, "first_at": np.nan,
}  # fmt: skip
"""What stands in rows of which nothing was heard."""


class Arrays:
    """Values, reasons and counters of all rows of one scope."""

    def __init__(
        self, scope: Scope, metrics: tuple[str, ...], counters: tuple[str, ...], carried: int, blocks: int
    ) -> None:
        """Start without rows; the first `carried` of the counters may be read at any interval. There will be about
        `blocks` blocks of one size."""
        self.scope = scope
        self.metrics, self.counters = metrics, counters
        self.index = {metric: column for column, metric in enumerate(metrics)}
        self.counter_index = {metric: column for column, metric in enumerate(counters)}
        self.rows = 0
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
        self._spares = Spares(0 if self.is_lean else 2)
        self._shown: frozenset[str] = frozenset()
        """Arrays that a picture looks at."""
        self._version = 0
        self._pictured_mono, self._pictured_rows = -np.inf, 0
        # Of the many links seven digits are enough: a state, a speed, errors a second.
        few = scope in (Scope.NVLINK, Scope.PCIE)
        wide, narrow = len(metrics), len(counters)
        self.values: Floats = np.empty((wide, 0), np.float32 if few else np.float64)
        self.reasons: Codes = np.empty((wide, 0), np.uint8)
        # Totals of links fit half the memory as a rule; `widen` when one does not.
        self.totals: Totals = np.empty((narrow, 0), np.uint32 if few else np.uint64)
        self.total_reasons: Codes = np.empty((narrow, 0), np.uint8)
        # The errors of a link are not counted beyond 2**32 - 1; its total is exact.
        self.since_first: Totals = np.empty((narrow, 0), np.uint32 if few else np.uint64)
        self.since: Floats = np.empty((narrow, 0))
        """Node's monotonic seconds of the reading that the next rate starts from, as counters.step wants them."""
        self.carry: Totals = np.empty((carried, 0), np.uint64)
        """What was counted since that reading, in intervals between frames too short for a rate of their own."""
        self.first_at: Floats = np.empty(0)

    def add(self, rows: int) -> int:
        """Return the first of `rows` new rows."""
        first, capacity = self.rows, self.first_at.size
        needed = first + rows
        if needed > capacity:
            # Nodes of one kind have as many devices each: most fleets end at exactly what they need.
            expected = rows * self._blocks
            more = capacity + capacity // 4 if capacity >= expected else expected if capacity else expected // 8
            self._allocate(max(needed, more))
        self.rows = needed
        self.dirty = True
        return first

    def _allocate(self, capacity: int) -> None:
        for name, fill in _FILL.items():
            # One after the other, so that there is never more than one of them twice.
            former = getattr(self, name)
            shape, kept = (*former.shape[:-1], capacity), former[..., : self.rows]
            # Zeros that nobody writes take no memory: as a rule a link has counted nothing.
            array = np.full(shape, fill, former.dtype) if fill else np.zeros(shape, former.dtype)
            if fill or kept.any():
                array[..., : self.rows] = kept
            setattr(self, name, array)
            del former, kept
        self._shown = frozenset()

    def cells(self, columns: npt.NDArray[np.intp], rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return where the cells are in an array whose rows follow each other: that index costs a third of two."""
        return columns * self.first_at.size + rows

    def own(self, *names: str) -> None:
        """Let these arrays be changed: a picture keeps what it shows."""
        for name in self._shown.intersection(names):
            setattr(self, name, self._spares.copy(name, getattr(self, name)))
        self._shown = self._shown.difference(names)

    def widen(self) -> None:
        """Let totals have 64 bits."""
        self.totals = self.totals.astype(np.uint64)
        self._shown -= {"totals"}

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Return all arrays, to be changed."""
        if self._shown:
            self.own(*_SHOWN)
        return tuple(getattr(self, name) for name in _FILL)

    def forget(self, rows: list[int], reason: Reason) -> None:
        """Forget all about these rows, and say why they have no value."""
        if not rows:
            return
        for array, fill in zip(self.arrays(), _FILL.values(), strict=True):
            if array is self.reasons or array is self.total_reasons:
                array[..., rows] = reason
            elif fill or array[..., rows].any():
                array[..., rows] = fill
        self.dirty = True
        self.marks += 1
        self._rows_changed |= min(rows) < self._pictured_rows

    def table(self, mono: float = np.inf, *, latest: bool = True) -> Table:
        """Return a picture of all rows that does not change any more; the last one when nothing changed, or when it is
        of rare rows, not old at `mono`, and need not be the `latest`."""
        former, rows = self._table, self.first_at.size if self.is_lean else self.rows
        if former is not None and former.first_at.size == rows and not self._rows_changed:
            is_young = self.is_lean and not latest and 0 <= mono - self._pictured_mono < PICTURE_S
            if is_young or not self.dirty:
                return former
        self._version += 1
        self._shown = frozenset(_SHOWN)
        values, reasons, totals, total_reasons, since_first, first_at = (self._look(name, rows) for name in _SHOWN)
        self._table = Table(
            self.scope, self.metrics, values, reasons, self.counters, totals, total_reasons, since_first, first_at,
            self.index, self.counter_index, self._version,
        )  # fmt: skip
        self.dirty = self._rows_changed = False
        self._pictured_mono, self._pictured_rows = mono, self.rows
        return self._table

    def _look(self, name: str, rows: int) -> npt.NDArray[Any]:
        picture: npt.NDArray[Any] = getattr(self, name)[..., :rows]
        picture.setflags(write=False)
        return picture
