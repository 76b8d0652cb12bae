"""What every value of the fleet was over the last minutes, for trends: samples that share what did not change.

A sample is one column for each metric, as long as its table has rows: of 32-bit floats, in less where that holds
exactly the same (analysis.packed), and of one cell that stands for all rows where all are alike. A column that says
what that of the sample before says is the same object. Counters are kept as the rates they are in tables, in counts
per second.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.compact import Compact
from stethoscope.analysis.packed import LEAST_ROWS, Packed
from stethoscope.model.metric import Kind, Scope
from stethoscope.model.rows import first_row, has_same_rows, identities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.fleet import FleetSnapshot, Floats, Node, PartAge
    from stethoscope.model.metric import Metric

Column = npt.NDArray[np.floating[Any]] | Packed
"""What is read by `column[rows]`, and has a `size`."""

MANY_NODES = 256
"""Above so many nodes, less is done for each than in a small fleet."""
_EVERY_S = ((MANY_NODES, 5.0), (1024, 10.0))
_EVERY_MOST_S = 15.0
"""Seconds between two samples of fleets of up to so many nodes, and of larger ones."""
MOST_S = 900.0
"""Nothing older is kept, however much room there is; ..."""
_LARGE_S = 300.0
"""... of fleets that are sampled most rarely nothing older than this."""
BYTES = 48 * 2**20
"""Room for five minutes of 2,000 nodes with eight GPUs and eight ports each, all of whose values tremble; they take 18
MiB of it as a rule."""
_DUE_SHARE = 0.98
"""A sample may come so much before it is due: timers are never exact."""
_NONE: Mapping[str, PartAge] = {}


def every_s(nodes: int) -> float:
    """Return the seconds between two samples of a fleet of so many nodes."""
    return next((seconds for most, seconds in _EVERY_S if nodes <= most), _EVERY_MOST_S)


@dataclass(frozen=True, slots=True)
class _Sample:
    mono: float
    columns: Mapping[Scope, list[Column]]
    """In the order of `History._kept`."""


class History:
    """The ring of one session. Its clock is that of the snapshots; when they go back, it starts anew."""

    def __init__(self, catalogue: Mapping[str, Metric], bytes_limit: int = BYTES) -> None:
        """Keep no more than about `bytes_limit` bytes of the metrics of `catalogue`; what is built in has no trend."""
        self._catalogue = catalogue
        self._limit = bytes_limit
        self._kept: dict[Scope, dict[str, int]] = {}
        self._samples: deque[_Sample] = deque()
        self._nodes: tuple[Node, ...] = ()
        """As they were when rows came to stand for what they stand for."""
        self._inventory: object = None
        self._sources: dict[Scope, dict[int, ref[Floats]]] = {}
        """The columns of tables of which the last sample was taken."""
        self._born: dict[Scope, Compact] = {}
        """Monotonic time since which each row stands for the device that it stands for now."""
        self.bytes = 0
        """What the samples take."""

    def __len__(self) -> int:
        """Return how many samples there are."""
        return len(self._samples)

    @property
    def seconds(self) -> float:
        """Return how far back the samples go."""
        return self._samples[-1].mono - self._samples[0].mono if self._samples else 0.0

    @property
    def last_mono(self) -> float | None:
        """Return the monotonic time of the last sample, None before the first."""
        return self._samples[-1].mono if self._samples else None

    def take(self, snapshot: FleetSnapshot) -> bool:
        """Take a sample of `snapshot` if one is due; return whether it was."""
        if self._samples:
            passed_s = snapshot.mono - self._samples[-1].mono
            if passed_s < 0 or not self._is_same_fleet(snapshot):
                self.clear()
            elif passed_s < _DUE_SHARE * every_s(len(snapshot.nodes)):
                return False
        self._follow_rows(snapshot)
        last = self._samples[-1].columns if self._samples else {}
        columns: dict[Scope, list[Column]] = {}
        for scope, table in snapshot.tables.items():
            if scope is Scope.JOB:
                # A job's log says what was before, also of the time before anybody looked.
                continue
            kept = self._kept.get(scope)
            if kept is None:
                names = [name for name in table.metrics if self._catalogue[name].kind is not Kind.INFO]
                kept = self._kept[scope] = {name: position for position, name in enumerate(names)}
            before = last.get(scope)
            columns[scope] = taken = []
            sources = self._sources.get(scope, {})
            self._sources[scope] = now = {}
            for name, position in kept.items():
                source = table.values[table.index[name]]
                now[position] = ref(source)
                if before is not None and position in sources and sources[position]() is source:
                    # Nobody changes a column that is shown.
                    taken.append(before[position])
                    continue
                column = source.astype(np.float32)
                if before is not None and _is_same(before[position], column):
                    taken.append(before[position])
                else:
                    taken.append(_shortest(column))
                    self.bytes += _room(taken[-1])
        self._samples.append(_Sample(snapshot.mono, columns))
        most_s = MOST_S if every_s(len(snapshot.nodes)) < _EVERY_MOST_S else _LARGE_S + _EVERY_MOST_S / 2
        while len(self._samples) > 1 and (self.bytes > self._limit or self.seconds > most_s):
            self._drop_oldest()
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._samples.clear()
        self._sources.clear()
        self._born.clear()
        self._nodes, self._inventory = (), None
        self.bytes = 0

    def series(self, scope: Scope, metric: str, row: int) -> tuple[Floats, Floats]:
        """Return the seconds before the last sample, the oldest first, and the values then, NaN where there was none.

        Both are empty for what is not kept. A row's series begins when it came to stand for its device.
        """
        position = self._kept.get(scope, {}).get(metric)
        born = self._born.get(scope)
        if position is None or born is None or not 0 <= row < len(born):
            return np.empty(0), np.empty(0)
        since = float(born.at(np.array([row]))[0])
        samples = [sample for sample in self._samples if sample.mono >= since]
        if not samples:
            return np.empty(0), np.empty(0)
        ages = samples[-1].mono - np.array([sample.mono for sample in samples])
        values = np.full(len(samples), np.nan)
        at = slice(row, row + 1)
        for number, sample in enumerate(samples):
            columns = sample.columns.get(scope)
            if columns is not None and row < columns[position].size:
                values[number : number + 1] = columns[position][at]
        return ages, values

    def columns(self, scope: Scope, metric: str) -> list[tuple[float, Column]]:
        """Return the samples of all rows, the oldest first: monotonic time and values, NaN where there was none; what
        did not change between two samples is the same object. Empty for what is not kept."""
        position = self._kept.get(scope, {}).get(metric)
        if position is None:
            return []
        return [(sample.mono, sample.columns[scope][position]) for sample in self._samples if scope in sample.columns]

    def born(self, scope: Scope) -> Floats:
        """Return by row the monotonic time since which it stands for the device that it stands for now."""
        born = self._born.get(scope)
        return np.empty(0) if born is None else born.whole()

    def share(self, scope: Scope, metric: str, row: int, bit: int, seconds: float) -> float | None:
        """Return in which share of the samples of the last `seconds` a bit of a state was set, of those that have a
        value; None when none has."""
        ages, values = self.series(scope, metric, row)
        known = values[(ages <= seconds) & ~np.isnan(values)].astype(np.int64)
        return float(np.count_nonzero(known & bit)) / known.size if known.size else None

    def _is_same_fleet(self, snapshot: FleetSnapshot) -> bool:
        if self._has_same_rows(snapshot):
            return True
        return len(snapshot.nodes) == len(self._nodes) and all(
            old is new or old.name == new.name for old, new in zip(self._nodes, snapshot.nodes, strict=True)
        )

    def _follow_rows(self, snapshot: FleetSnapshot) -> None:
        """Let the series of rows begin now whose device is another one than at the sample before."""
        is_same = self._has_same_rows(snapshot)
        pairs = zip(self._nodes, snapshot.nodes, strict=bool(self._nodes))
        others = [] if is_same else [(old, new) for old, new in pairs if not has_same_rows(old, new)]
        for scope, table in snapshot.tables.items():
            known = self._born.setdefault(scope, Compact())
            more = max(0, table.values.shape[1] - len(known))
            if more or others:
                born = np.concatenate((known.whole(), np.full(more, snapshot.mono)))
                for old, new in others:
                    _begin_others(born, old, new, scope, snapshot.mono)
                known.keep(born)
        if not is_same:
            # Not with what each node says of itself now, which another snapshot will have in its place.
            self._nodes = tuple([replace(node, parts=_NONE) for node in snapshot.nodes])
            self._inventory = snapshot.inventory

    def _has_same_rows(self, snapshot: FleetSnapshot) -> bool:
        return self._inventory is not None and snapshot.inventory is self._inventory

    def _drop_oldest(self) -> None:
        oldest = self._samples.popleft()
        following = self._samples[0].columns
        for scope, columns in oldest.columns.items():
            later = following.get(scope)
            for position, column in enumerate(columns):
                if later is None or later[position] is not column:
                    self.bytes -= _room(column)


def _is_same(before: Column, now: npt.NDArray[np.float32]) -> bool:
    # As bits, so that a value that is missing is the same as one that is still missing.
    if isinstance(before, Packed):
        return before.says(now)
    if before.size != now.size:
        return False
    return bool((before.astype(np.float32, copy=False).view(np.uint32) == now.view(np.uint32)).all())


def _shortest(column: npt.NDArray[np.float32]) -> Column:
    """Return the values of a column of 32-bit floats in the least memory that holds them exactly."""
    bits = column.view(np.uint32)
    if column.size > 1 and (bits == bits[0]).all():
        return np.broadcast_to(column[:1].copy(), column.shape)
    if column.size >= LEAST_ROWS:
        return Packed(column)
    with np.errstate(over="ignore"):
        short: npt.NDArray[Any] = column.astype(np.float16)
    return short if _is_same(short, column) else column


def _room(column: Column) -> int:
    """Return the bytes that a column takes."""
    if isinstance(column, Packed):
        return column.nbytes
    return column.itemsize if column.size > 1 and column.strides == (0,) else column.nbytes


def _begin_others(born: Floats, old: Node, new: Node, scope: Scope, mono: float) -> None:
    first, before = first_row(new, scope), first_row(old, scope)
    known = dict(enumerate(identities(old, scope), before)) if before >= 0 else {}
    for row, name in enumerate(identities(new, scope), first):
        if row >= 0 and known.get(row) != name:
            born[row] = mono
