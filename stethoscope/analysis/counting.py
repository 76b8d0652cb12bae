"""What counters do: an error counter at 65535 that stands still is history, one at 3 that moves is a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import filled, settled
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, fitted
from stethoscope.model.grid import is_uniform
from stethoscope.model.metric import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats, Totals
    from stethoscope.model.metric import Metric, Scope
    from stethoscope.specs.condition_counter import Counts

_WRAP_SHARE = 16
"""A total that fell has wrapped when it stood in the last sixteenth of its width and stands in the first now."""


class Movement:
    """When one counter moved last, was set back, and wrapped, by row."""

    def __init__(self, metric: Metric) -> None:
        """Remember nothing yet."""
        self._metric = metric
        self._before: Totals = np.zeros(0, dtype=np.uint64)
        self._is_known = np.zeros(0, dtype=bool)
        self.watched_since: Floats = np.empty(0)
        self.moved_at: Floats = np.empty(0)
        self.reset_at: Floats = np.empty(0)
        self.wrapped_at: Floats = np.empty(0)

    @property
    def nbytes(self) -> int:
        """Return the memory of what is remembered."""
        times = (self.watched_since, self.moved_at, self.reset_at, self.wrapped_at)
        kept = (self._before, self._is_known, *times)
        return sum(array.itemsize if is_uniform(array) else array.nbytes for array in kept)

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        flags = changed[self._metric.scope]
        self._before = fitted(self._before, flags, 0).astype(np.uint64)
        self._is_known = fitted(self._is_known, flags, False).astype(bool)
        for name in ("watched_since", "moved_at", "reset_at", "wrapped_at"):
            setattr(self, name, settled(fitted(getattr(self, name), flags, np.nan).astype(np.float64)))

    def forget(self, *, samples: bool) -> None:
        """Start to watch anew, since nobody knows what a gap hid; a total that is less than before it was set back."""
        self.watched_since = filled(self.watched_since.size, np.nan, np.float64)
        if samples:
            self._is_known = filled(self._is_known.size, False, np.bool_)

    def take(self, moment: Moment) -> None:
        """Compare the totals with those of before."""
        totals, known = standing(self._metric.id, moment)
        if totals is None:
            return
        both = known & self._is_known
        fell = both & (totals < self._before)
        grew = both & (totals > self._before)
        wrapped = np.zeros_like(fell)
        bits = self._metric.bits
        if fell.any() and bits is not None and 0 < bits < 64:
            width = 1 << bits
            edge = width // _WRAP_SHARE
            wrapped = fell & (self._before >= width - edge) & (self._before < width) & (totals < edge)
        self.wrapped_at = _at(self.wrapped_at, wrapped, moment.mono)
        self.reset_at = _at(self.reset_at, fell & ~wrapped, moment.mono)
        self.moved_at = _at(self.moved_at, grew | wrapped | (fell & (totals > 0)), moment.mono)
        self.watched_since = _at(self.watched_since, known & np.isnan(self.watched_since), moment.mono)
        # What is known of all rows is in the picture already.
        self._before = totals.astype(np.uint64, copy=False) if known.all() else np.where(known, totals, self._before)
        self._is_known = settled(self._is_known | known)


def _at(times: Floats, rows: Flags, mono: float) -> Floats:
    """Return `times` with those of `rows` set, as one cell where they are all the same: most counters never move."""
    if not rows.any():
        return times
    return settled(np.where(rows, mono, times))


def standing(metric: str, moment: Moment) -> tuple[Totals | None, Flags]:
    """Return what a counter stands at in each row, None in a fleet that does not have it, and where that is known."""
    table, column = moment.table(metric)
    counter = table.counter_index.get(metric)
    if column is None or counter is None:
        return None, np.zeros(moment.rows(table.scope), dtype=bool)
    known = (table.total_reasons[counter] == Reason.PRESENT) & moment.seen(metric)
    return table.totals[counter], known


def counts_memory(leaf: Counts, evaluator: Evaluator) -> Movement | None:
    """Return what a condition must remember; all about one counter share it."""
    if leaf.state == "saturated":
        return None
    memory = evaluator.shared(("counter", leaf.metric), lambda: Movement(evaluator.catalogue[leaf.metric]))
    assert isinstance(memory, Movement)
    return memory


def counts(leaf: Counts, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell where a counter is in the state of the leaf, and what it stands at."""
    totals, known = standing(leaf.metric, moment)
    if totals is None:
        return np.full(len(known), np.int8(UNKNOWN)), None
    pins = np.array(moment.catalogue[leaf.metric].pins, dtype=np.uint64)
    pinned = np.isin(totals, pins) & known
    if leaf.state == "saturated":
        true, unknown = pinned, ~known
    else:
        memory = evaluator.memory(leaf)
        assert isinstance(memory, Movement)
        at = {"reset": memory.reset_at, "wrapped": memory.wrapped_at}.get(leaf.state, memory.moved_at)
        lately = moment.mono - at <= leaf.window_s
        watched = moment.mono - memory.watched_since >= leaf.window_s - 1e-6
        if leaf.state == "historic":
            true, unknown = (totals > 0) & ~lately & ~pinned, ~known | ~(watched | lately | pinned | (totals == 0))
        elif leaf.state == "moving":
            # A counter at its end cannot move: whether what it counts goes on is not known.
            true, unknown = lately & known, ~known | pinned | ~(watched | lately)
        else:
            true, unknown = lately, ~known & ~lately
    verdicts = np.where(true, np.int8(TRUE), np.int8(FALSE))
    verdicts[unknown] = UNKNOWN
    return verdicts, np.where(known, totals.astype(np.float64), np.nan)


_EXPECTED = {
    "moving": "standing still", "historic": "0", "saturated": "below its end", "reset": "growing only",
    "wrapped": "growing only",
}  # fmt: skip


def said_counts(leaf: Counts, moment: Moment, row: int) -> tuple[str, str]:
    """Return the name of the fact, and what was expected."""
    return f"{leaf.metric} total", _EXPECTED[leaf.state]
