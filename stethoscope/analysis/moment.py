"""One snapshot as conditions read it: values in shown units, which of them still stand, and what peers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from stethoscope.analysis.alike import Recall, filled, settled
from stethoscope.analysis.comparable import STATIC
from stethoscope.analysis.kernel_kinds import newest_by_kind
from stethoscope.analysis.occupation import Occupation
from stethoscope.analysis.part_times import PartTimes
from stethoscope.analysis.peers import group_medians
from stethoscope.model.grid import Grid
from stethoscope.model.metric import Kind, Metric, Reason, Scope
from stethoscope.specs.condition import OfMetric, XidSeen
from stethoscope.specs.condition_kernel import KernelLog

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from stethoscope.analysis.layout import Layout, Numbers
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.event import LogEvent
    from stethoscope.model.fleet import FleetSnapshot, Floats, Table
    from stethoscope.specs.condition import Leaf


T = TypeVar("T")
KERNEL_LOG_NOTE = "kernel_log"
"""Key of a node's notes that says why its kernel log cannot be read."""


class Change(NamedTuple):
    """One row left its level."""

    at: float
    """Wall seconds."""
    before: float
    after: float


class Moment:
    """One snapshot, with what every condition asks of it worked out once."""

    def __init__(
        self, snapshot: FleetSnapshot, layout: Layout, catalogue: Mapping[str, Metric], recall: Recall | None = None
    ) -> None:
        """Take `now` from the snapshot; `recall` has what was made at moments before, of the same rows."""
        self.recall = recall or Recall()
        self.snapshot = snapshot
        self.layout = layout
        self.catalogue = catalogue
        self.wall, self.mono = snapshot.wall, snapshot.mono
        self.occupation: Occupation | None = None
        """What rows do now, with what is remembered of before, if something asks for it."""
        nodes = snapshot.nodes
        # None becomes NaN.
        frame = np.array([node.frame_mono for node in nodes], dtype=np.float64)
        self.tick_s = np.array([node.tick_s for node in nodes], dtype=np.float64)
        self.frame_mono = frame
        """When each node sent its last frame, NaN for never."""
        self.fresh: Flags = self.recall.same(
            "fresh", np.nan_to_num(self.mono - frame, nan=np.inf) <= 3 * self.tick_s + 1
        )
        """Whether what a node said last still stands for now."""
        self.link_states = self.recall.equal("links", [node.link.state for node in nodes])
        self._parts: PartTimes | None = None
        self._fresh_groups: dict[str, Flags] = {}
        self._fresh: dict[tuple[str, Scope], Flags] = {}
        self._values: dict[str, Floats] = {}
        self._readable: Flags | None = None
        self._words: dict[str, list[str | None]] = {}
        self._xids: dict[int, list[LogEvent]] | None = None
        self._kernel_lines: dict[str, dict[str, LogEvent]] | None = None
        self._medians: dict[tuple[str, str], Floats] = {}
        self._changes: dict[Hashable, tuple[Floats, Floats, Floats]] = {}
        self._once: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` makes, once at this moment for all that ask for it by the same key."""
        if key not in self._once:
            self._once[key] = make()
        made: T = self._once[key]
        return made

    def table(self, metric: str) -> tuple[Table, int | None]:
        """Return the table of a metric and its column, None when this fleet's tables do not have it."""
        table = self.snapshot.tables[self.catalogue[metric].scope]
        return table, table.index.get(metric)

    def rows(self, scope: Scope) -> int:
        """Return the number of rows of a scope."""
        return len(self.layout.owner[scope])

    def spread(self, array: Any, scope: Scope) -> Any:
        """Return an array by node as one by the rows of `scope`; rows of no node take the last node's value and are
        never asked for."""
        return array if scope is Scope.NODE else array[self.layout.owner[scope]]

    def seen(self, metric: str) -> Flags:
        """Return which rows of the metric's scope have answers that stand for now."""
        about = self.catalogue[metric]
        if about.tier == "console":
            owned: Flags = self.layout.owner[about.scope] >= 0
            return owned
        key = (about.group, about.scope)
        if key not in self._fresh:
            fresh, owner = self._fresh_of(about.group), self.layout.owner[about.scope]
            self._fresh[key] = self.recall.made(
                ("seen", *key), (fresh, owner), lambda: settled((owner >= 0) & self.spread(fresh, about.scope))
            )
        return self._fresh[key]

    def _fresh_of(self, group: str) -> Flags:
        """Return by node whether the last part of `group` still stands; where none is known, whether the node does."""
        if not group:
            return self.fresh
        if group not in self._fresh_groups:
            if self._parts is None:
                self._parts = self.recall.made("parts", (), PartTimes)
                self._parts.follow(self.snapshot.nodes)
            mono, every_s = self._parts.of(group)
            age_s = self.mono - mono
            fresh = np.where(np.isnan(age_s), self.fresh, age_s <= 3 * every_s + 1)
            self._fresh_groups[group] = self.recall.same(("fresh", group), fresh)
        return self._fresh_groups[group]

    def values(self, metric: str) -> Floats:
        """Return the values of a metric in its shown unit (a counter's rate), NaN where there is none that stands; the
        same array each time, which nobody changes."""
        if metric not in self._values:
            self._values[metric] = self._read(metric)
        return self._values[metric]

    def _read(self, metric: str) -> Floats:
        table, column = self.table(metric)
        if column is None:
            return self._nothing(table.scope)
        about = self.catalogue[metric]
        scale = about.rate_scale if about.kind is Kind.COUNTER else 1.0
        values = table.values[column]
        as_shown = scale == 1.0 and values.dtype == np.float64
        return self._where_seen(metric, "values", (values,), lambda: values if as_shown else values * np.float64(scale))

    def _nothing(self, scope: Scope) -> Floats:
        """Return the values of what this fleet does not have."""
        return self.recall.made(("nothing", scope), (), lambda: filled(self.rows(scope), np.nan, np.float64))

    def _where_seen(self, metric: str, what: str, of: tuple[Any, ...], read: Callable[[], Floats]) -> Floats:
        """Return what is read of a metric, of the same arrays only once, NaN where it is not seen. Rows of no node have
        no values."""
        about = self.catalogue[metric]
        fresh = None if about.tier == "console" else self._fresh_of(about.group)

        def make() -> Floats:
            if fresh is None or fresh.all():
                return self.recall.joined(settled(read()))
            return self.recall.joined(settled(np.where(self.seen(metric), read(), np.nan)))

        return self.recall.made((metric, what), (*of, fresh), make)

    def totals(self, metric: str) -> Floats:
        """Return what a counter has counted since its first reading, NaN where unknown; of a gauge its value."""
        if self.catalogue[metric].kind is not Kind.COUNTER:
            return self.values(metric)
        table, column = self.table(metric)
        counter = table.counter_index.get(metric)
        if column is None or counter is None:
            return self._nothing(table.scope)
        total_reasons, reasons = table.total_reasons[counter], table.reasons[column]
        grid: Any = table.since_first

        def read() -> Floats:
            known = (total_reasons == Reason.PRESENT) & (reasons != Reason.SATURATED)
            return np.where(known, grid[counter].astype(np.float64), np.nan)

        # The difference is made anew each time, what it is made of is not.
        of = grid.behind(counter) if isinstance(grid, Grid) else (grid[counter],)
        return self._where_seen(metric, "totals", (*of, total_reasons, reasons), read)

    def standing(self, metric: str) -> Floats:
        """Return what a counter stands at, NaN where unknown."""
        table, column = self.table(metric)
        counter = table.counter_index.get(metric)
        if column is None or counter is None:
            return self._nothing(table.scope)
        totals, reasons = table.totals[counter], table.total_reasons[counter]
        return self._where_seen(
            metric, "standing", (totals, reasons),
            lambda: np.where(reasons == Reason.PRESENT, totals.astype(np.float64), np.nan),
        )  # fmt: skip

    def groups(self, scope: Scope, of: str) -> Numbers:
        """Return the number of the group of comparable rows of each row, -1 for none; `of` is any of `comparable.KINDS`
        or several joined by `+`."""
        if self.occupation is None:
            if all(part in STATIC for part in of.split("+")):
                # What rows do does not matter, and need not be looked up.
                return self.layout.groups(scope, of)
            self.occupation = Occupation.of(self)
        return self.occupation.groups(self, scope, of)

    def medians(self, metric: str, of: str) -> Floats:
        """Return for each row the median of its peers."""
        key = (metric, of)
        if key not in self._medians:
            values, groups = self.values(metric), self.groups(self.catalogue[metric].scope, of)
            self._medians[key] = self.recall.made(
                ("medians", *key), (values, groups), lambda: self.recall.joined(settled(group_medians(values, groups)))
            )
        return self._medians[key]

    def keep_medians(self, metric: str, of: str, medians: Floats) -> None:
        """Take what peers have of smoothed values, for the words about what is far from it."""
        self._medians[metric, of] = medians

    def keep_changes(self, leaf: Hashable, at: Floats, before: Floats, after: Floats) -> None:
        """Take when each row changed (monotonic seconds, NaN for never), and its levels before and after."""
        self._changes[leaf] = at, before, after

    def change(self, leaf: Hashable, row: int) -> Change | None:
        """Return the last change of a row as `leaf` sees it, None where there was none."""
        if leaf not in self._changes:
            return None
        at, before, after = (float(array[row]) for array in self._changes[leaf])
        return None if np.isnan(at) else Change(self.wall - self.mono + at, before, after)

    def has(self, leaf: Leaf, scope: Scope) -> Flags:
        """Return which rows of `scope` have what `leaf` reads: a metric that their device gives, a log that may be
        read."""
        if isinstance(leaf, OfMetric):
            table, column = self.table(leaf.metric)
            if column is None:
                return self._all(scope, value=False)
            reasons = table.reasons[column]
            return self.recall.made(
                ("has", leaf.metric), (reasons,),
                lambda: settled((reasons != Reason.UNSUPPORTED) & (reasons != Reason.ABSENT)),
            )  # fmt: skip
        if isinstance(leaf, XidSeen | KernelLog):
            readable, owner = self._has_log(), self.layout.owner[scope]
            return self.recall.made(
                ("has", scope), (readable, owner), lambda: settled(np.array(self.spread(readable, scope)))
            )
        return self._all(scope, value=True)

    def _all(self, scope: Scope, *, value: bool) -> Flags:
        return self.recall.made((scope, value), (), lambda: filled(self.rows(scope), value, np.bool_))

    def _has_log(self) -> Flags:
        if self._readable is None:
            readable = [KERNEL_LOG_NOTE not in node.notes for node in self.snapshot.nodes]
            self._readable = self.recall.same("readable", np.array(readable, dtype=bool))
        return self._readable

    def log_readable(self) -> Flags:
        """Return by node whether its kernel log can be read and what it said still stands; nobody changes it."""
        of = self._has_log(), self.fresh
        return self.recall.made("log readable", of, lambda: settled(of[0] & of[1]))

    def words(self, word: str) -> list[str | None]:
        """Return what each node says of a version or setting, None where it says nothing: the same list as long as
        every node says what it said."""
        if word not in self._words:
            if word == "kernel":
                self._words[word] = self.recall.equal("kernel", [node.kernel or None for node in self.snapshot.nodes])
            else:
                # What did not change is the same object, and compared at once.
                said = self.recall.equal("words", [node.words for node in self.snapshot.nodes])
                self._words[word] = self.recall.made(
                    ("words", word), (said,), lambda: [words.get(word) for words in said]
                )
        return self._words[word]

    def kernel_lines(self) -> dict[str, dict[str, LogEvent]]:
        """Return the newest line of each kind (analysis.kernel_kinds) by the name of its node."""
        if self._kernel_lines is None:
            self._kernel_lines = newest_by_kind(self.snapshot.events)
        return self._kernel_lines

    def xids(self) -> dict[int, list[LogEvent]]:
        """Return the Xid lines of the kernel logs by row of the GPU that they name."""
        if self._xids is None:
            self._xids = {}
            for event in self.snapshot.events:
                row = self._gpu_row(event) if event.xid is not None else None
                if row is not None:
                    self._xids.setdefault(row, []).append(event)
        return self._xids

    def _gpu_row(self, event: LogEvent) -> int | None:
        index = self.snapshot.by_name.get(event.node)
        if index is None or not event.pci:
            return None
        node = self.snapshot.nodes[index]
        for position, gpu in enumerate(node.gpus):
            if gpu.pci.startswith(event.pci):
                return node.gpu_first + position
        return None
