"""What slow counters counted over hours and weeks: a log of changes, for most devices never change.

Memory follows the changes, not the time: a device that stands still costs the number it stands at. Changes are kept by
slots of ten minutes for three days, and by days beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import ref as weakref

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.compact import Compact
from stethoscope.analysis.past_places import Devices
from stethoscope.model.metric import Kind, Reason, Scope
from stethoscope.model.past import DAY_S, FINE_S, KEEP_S, SLOT_S, Change, Standing
from stethoscope.model.rows import identities

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stethoscope.analysis.layout import Layout
    from stethoscope.analysis.past_places import Places
    from stethoscope.model.fleet import FleetSnapshot, Floats, Node, Table
    from stethoscope.model.metric import Metric

TAKE_S = 60.0
"""How often totals are looked at."""


@dataclass(slots=True)
class _Log:
    """The changes of one metric, the oldest first; places of devices in the arrays of the scope."""

    last: Compact = field(default_factory=Compact)
    version: int = 0
    """Another one whenever anything of this changed."""
    of: tuple[weakref[Any], ...] = ()
    """The columns that were looked at last, as long as anybody else has them."""
    slots: list[tuple[float, Places, Floats]] = field(default_factory=list)


class Past:
    """Remembers the changes of the metrics that are `kept`; the time is that of the snapshots."""

    def __init__(self, catalogue: Mapping[str, Metric]) -> None:
        """Remember nothing yet."""
        self._catalogue = {metric.id: metric for metric in catalogue.values() if metric.kept}
        self._scopes = {metric.scope: Devices() for metric in self._catalogue.values()}
        self._logs = {id_: _Log() for id_ in self._catalogue}
        self._layout: Layout | None = None
        self._wall: float | None = None
        self._seen: dict[str, float] = {}
        """Wall seconds of the last look at each node."""
        self._unsaved: list[tuple[str, float, Places, Floats]] = []
        self._left: dict[tuple[Scope, int], dict[int, str]] = {}
        """Names of devices that are gone, by place: what they counted may not be kept yet."""
        self._numbers: dict[str, int] = {}
        """Of each node that was ever seen: what is known of its devices is found by that."""
        self.version = 0
        """Another one whenever something was taken."""

    def keeps(self, metric: str) -> bool:
        """Tell whether changes of `metric` are remembered."""
        return metric in self._catalogue

    def put(self, standings: Iterable[Standing], changes: Iterable[Change], seen: Mapping[str, float]) -> None:
        """Take what was kept of an earlier run, before the first snapshot; `seen` is when each node was looked at."""
        self._seen.update(seen)
        known = [standing for standing in standings if standing.scope in self._scopes]
        places = [self._placed(standing.scope, self._number(standing.node), standing.devices) for standing in known]
        for kind, scope in self._scopes.items():
            self._grow(kind)
            first = scope.first.whole()
            for standing, at in zip(known, places, strict=True):
                if standing.scope is kind:
                    first[at] = standing.first
            scope.keep_first(first)
        for id_, log in self._logs.items():
            kind, last = self._catalogue[id_].scope, log.last.whole()
            for standing, at in zip(known, places, strict=True):
                if standing.scope is kind and id_ in standing.last:
                    last[at] = standing.last[id_]
            log.last.keep(last)
            log.of, log.version = (), log.version + 1
        by_slot: dict[tuple[str, float], list[tuple[int, float]]] = {}
        for change in changes:
            metric = self._catalogue.get(change.metric)
            if metric is None:
                continue
            place = self._places(metric.scope, change.node, (change.device,))[0]
            by_slot.setdefault((change.metric, change.slot), []).append((int(place), change.amount))
        for (id_, slot), booked in sorted(by_slot.items()):
            devices = np.array([place for place, _ in booked], np.int32)
            self._logs[id_].slots.append((slot, devices, np.array([amount for _, amount in booked])))
        self.version += 1

    def take(self, snapshot: FleetSnapshot, layout: Layout, *, at_once: bool = False) -> None:
        """Look at the totals of `snapshot`, a minute after the last look, or `at_once`."""
        wall = snapshot.wall
        # A clock that was set back for good must not end the remembering.
        if self._wall is not None and not at_once and 0 <= wall - self._wall < TAKE_S:
            return
        self._wall = wall
        if layout is not self._layout:
            self._fit(snapshot, layout)
        nodes = snapshot.nodes
        # What was counted while nobody looked may all be as old as the last look.
        looked = np.array([self._seen.get(node.name, wall) for node in nodes])
        booked = np.where(wall - looked > 2 * SLOT_S, looked, wall)
        for id_, metric in self._catalogue.items():
            self._take(metric, self._logs[id_], snapshot, booked)
        fresh = [node.frames > 0 and not node.is_stale(snapshot.mono) for node in nodes]
        self._seen.update((node.name, wall) for node, is_fresh in zip(nodes, fresh, strict=True) if is_fresh)
        for scope in self._scopes.values():
            first = scope.first.whole()
            rows = scope.rows()
            places = rows[rows >= 0]
            new = places[np.isnan(first[places])]
            if new.size:
                first[new] = wall
                scope.keep_first(first)
        self.version += 1

    def standing(self, metric: str, window_s: float, wall: float) -> tuple[object, ...]:
        """Return what is equal as long as `change` says the same, but for ages, and these are on the same side of
        the window, give or take a slot."""
        log, scope = self._logs[metric], self._scopes[self._catalogue[metric].scope]
        within = sum(slot > wall - window_s - SLOT_S for slot, _, _ in log.slots)
        watched = int(np.searchsorted(scope.firsts, wall - (window_s - SLOT_S), "right"))
        return self._layout, log.version, within, watched, len(scope.firsts)

    def change(self, metric: str, window_s: float, wall: float) -> tuple[Floats, Floats, Floats]:
        """Return for each row of the metric's scope what it changed by within the last `window_s` seconds (at least so
        much: what came while nobody looked is booked at the start of that time), where it stands, and for how many
        seconds the device has been watched; NaN where nothing is known."""
        log, scope = self._logs[metric], self._scopes[self._catalogue[metric].scope]
        total = np.zeros(len(log.last))
        for slot, devices, amounts in reversed(log.slots):
            if slot <= wall - window_s - SLOT_S:
                break
            np.add.at(total, devices, amounts)
        rows = scope.rows()
        known = rows >= 0
        changed, last, ages = (np.full(len(rows), np.nan) for _ in range(3))
        places = rows[known]
        last[known] = log.last.at(places)
        ages[known] = wall - scope.first.at(places)
        changed[known] = np.where(np.isnan(last[known]), np.nan, total[places])
        return changed, last, ages

    def take_unsaved(self, most: int | None = None) -> tuple[list[Standing], list[Change], dict[str, float]]:
        """Return what was not kept yet of at most so many nodes, of all by default, once, in the form that `put` takes.

        Nothing more stands when no standings come. What a node counted and where it stands come together: one without
        the other would count twice, or not at all.
        """
        names = [*self._numbers]
        chosen = set(islice(sorted(set().union(*(scope.unsaved for scope in self._scopes.values()))), most))
        mine = [(kind, node) for kind, scope in self._scopes.items() for node in sorted(scope.unsaved & chosen)]
        told: dict[Scope, dict[int, tuple[str, str]]] = {}
        for kind, node in mine:
            devices, places = self._scopes[kind].of(node)
            of_kind = told.setdefault(kind, {})
            of_kind.update((place, (names[node], name)) for place, name in zip(places.tolist(), devices, strict=True))
            of_kind.update((place, (names[node], name)) for place, name in self._left.pop((kind, node), {}).items())
        changes, later = [], []
        known = {kind: np.fromiter(of_kind, np.int32, len(of_kind)) for kind, of_kind in told.items()}
        for id_, slot, where, amounts in self._unsaved:
            kind = self._catalogue[id_].scope
            here = np.isin(where, known[kind]) if kind in known else np.zeros(len(where), np.bool_)
            changes += [
                Change(id_, *told[kind][place], slot, amount)
                for place, amount in zip(where[here].tolist(), amounts[here].tolist(), strict=True)
            ]
            if not here.all():
                later.append((id_, slot, where[~here], amounts[~here]))
        standings = []
        for kind, node in mine:
            scope = self._scopes[kind]
            devices, at = scope.of(node)
            last = {id_: self._logs[id_].last.at(at) for id_, metric in self._catalogue.items() if metric.scope is kind}
            standings.append(Standing(names[node], kind, devices, scope.first.at(at), last))
            scope.unsaved.discard(node)
        self._unsaved = later
        of_chosen = {names[node] for node in chosen}
        seen = {node: wall for node, wall in self._seen.items() if not chosen or node in of_chosen}
        return standings, changes, seen

    def put_back(self, standings: Iterable[Standing], changes: Iterable[Change], seen: Mapping[str, float]) -> None:
        """Take again what `take_unsaved` gave, because it could not be kept."""
        for standing in standings:
            self._scopes[standing.scope].unsaved.add(self._number(standing.node))
        again = []
        for change in changes:
            places = self._places(self._catalogue[change.metric].scope, change.node, (change.device,))
            again.append((change.metric, change.slot, places, np.array([change.amount])))
        self._unsaved = again + self._unsaved

    @property
    def nbytes(self) -> int:
        """Return the memory of all that is remembered."""
        logs = sum(
            log.last.nbytes + sum(devices.nbytes + amounts.nbytes for _, devices, amounts in log.slots)
            for log in self._logs.values()
        )
        return logs + sum(scope.nbytes for scope in self._scopes.values())

    def _number(self, node: str) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def _places(self, kind: Scope, node: str, devices: tuple[str, ...]) -> Places:
        """Return the places of some devices of a node, new ones for those that are not known."""
        places = self._placed(kind, self._number(node), devices, alone=False)
        self._grow(kind)
        return places

    def _placed(self, kind: Scope, node: int, devices: tuple[str, ...], *, alone: bool = True) -> Places:
        """Return the same without making room for new ones yet; when `alone`, the node has no others any more."""
        scope = self._scopes[kind]
        known_devices, known = scope.of(node)
        if known_devices == devices:
            return known
        by_name = dict(zip(known_devices, known.tolist(), strict=True))
        for device in devices:
            if device not in by_name:
                by_name[device] = scope.size
                scope.size += 1
        places = [by_name[device] for device in devices]
        if alone and known_devices:
            left = set(known_devices).difference(devices)
            self._left.setdefault((kind, node), {}).update((by_name[device], device) for device in left)
        scope.put(node, devices if alone else tuple(by_name), places if alone else [*by_name.values()])
        return np.array(places, np.int32)

    def _grow(self, kind: Scope) -> None:
        scope = self._scopes[kind]
        more = scope.size - len(scope.first)
        if more <= 0:
            return
        logs = [self._logs[id_].last for id_, metric in self._catalogue.items() if metric.scope is kind]
        for column in (scope.first, *logs):
            column.keep(np.concatenate((column.whole(), np.full(more, np.nan))))

    def _fit(self, snapshot: FleetSnapshot, layout: Layout) -> None:
        alike: dict[tuple[str, ...], tuple[str, ...]] = {}
        for kind, scope in self._scopes.items():
            rows = np.full(len(layout.owner[kind]), -1, np.int32)
            for node in snapshot.nodes:
                if not _has_rows(snapshot, node, kind):
                    continue
                at, number, devices = snapshot.rows(node, kind), self._number(node.name), identities(node, kind)
                # Ports and disks have the same names on most nodes.
                rows[at.start : at.stop] = self._placed(kind, number, alike.setdefault(devices, devices))
                scope.unsaved.add(number)
            scope.stand_for(rows)
            self._grow(kind)
        for log in self._logs.values():
            log.of = ()
        self._layout = layout

    def _take(self, metric: Metric, log: _Log, snapshot: FleetSnapshot, booked: Floats) -> None:
        scope = self._scopes[metric.scope]
        of = _columns(metric, snapshot.tables[metric.scope])
        if of and len(of) == len(log.of) and all(now is before() for now, before in zip(of, log.of, strict=True)):
            # Nothing of them has moved since.
            _age(log, snapshot.wall)
            return
        log.of = tuple(map(weakref, of))
        values = _standing(metric, snapshot.tables[metric.scope])
        place_of = scope.rows()
        rows = np.flatnonzero((place_of >= 0) & ~np.isnan(values))
        places, now = place_of[rows], values[rows]
        last = log.last.whole()
        before = last[places]
        moved = np.flatnonzero(~np.isnan(before) & (before != now))
        if len(moved):
            assert self._layout is not None
            owners = self._layout.owner[metric.scope][rows[moved]]
            amounts = _moved(metric, before[moved], now[moved])
            slots = np.floor(booked[owners] / SLOT_S) * SLOT_S
            for slot in np.unique(slots):
                here = slots == slot
                self._book(metric.id, log, float(slot), places[moved][here], amounts[here])
            for node in np.unique(owners).tolist():
                scope.unsaved.add(self._number(snapshot.nodes[node].name))
        if len(moved) or np.isnan(before).any():
            last[places] = now
            log.last.keep(last)
            log.version += 1
        _age(log, snapshot.wall)

    def _book(self, id_: str, log: _Log, slot: float, devices: Places, amounts: Floats) -> None:
        self._unsaved.append((id_, slot, devices, amounts))
        at = next((at for at in range(len(log.slots) - 1, -1, -1) if log.slots[at][0] <= slot), -1)
        if at >= 0 and log.slots[at][0] == slot:
            log.slots[at] = slot, *_summed([log.slots[at][1], devices], [log.slots[at][2], amounts])
        else:
            log.slots.insert(at + 1, (slot, devices, amounts))


def _age(log: _Log, wall: float) -> None:
    """Merge what is old by days, and forget what is very old."""
    old = [entry for entry in log.slots if entry[0] < wall - FINE_S]
    if not old or (old[0][0] >= wall - KEEP_S and all(entry[0] % DAY_S == 0 for entry in old)):
        return
    by_day: dict[float, list[tuple[Places, Floats]]] = {}
    for slot, devices, amounts in old:
        if slot >= wall - KEEP_S:
            by_day.setdefault(slot // DAY_S * DAY_S, []).append((devices, amounts))
    merged = [
        (day, *_summed([devices for devices, _ in parts], [amounts for _, amounts in parts]))
        for day, parts in by_day.items()
    ]
    log.slots = merged + log.slots[len(old) :]
    log.version += 1


def _columns(metric: Metric, table: Table) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays that say where `metric` stands."""
    if metric.kind is not Kind.COUNTER:
        column = table.index.get(metric.id)
        return () if column is None else (table.values[column], table.reasons[column])
    counter = table.counter_index.get(metric.id)
    return () if counter is None else (table.totals[counter], table.total_reasons[counter])


def _standing(metric: Metric, table: Table) -> Floats:
    """Return where each row of `metric` stands, NaN where that is not known or says nothing: a pinned total."""
    if metric.kind is not Kind.COUNTER:
        column = table.index.get(metric.id)
        if column is None:
            return np.full(table.values.shape[1], np.nan)
        return np.where(table.reasons[column] == Reason.PRESENT, table.values[column], np.nan)
    counter = table.counter_index.get(metric.id)
    if counter is None:
        return np.full(table.values.shape[1], np.nan)
    totals = table.totals[counter].astype(np.float64)
    return np.where(table.total_reasons[counter] == Reason.PRESENT, totals, np.nan)


def _moved(metric: Metric, before: Floats, now: Floats) -> Floats:
    """Return what was counted between two totals, or how far a gauge moved."""
    if metric.kind is not Kind.COUNTER:
        return now - before
    fell = now < before
    counted = np.where(fell, now, now - before)
    if metric.bits is not None:
        full = 2.0**metric.bits
        wrapped = fell & (before > full * 15 / 16) & (now < full / 16)
        counted = np.where(wrapped, now + full - before, counted)
    return counted


def _summed(devices: Sequence[Places], amounts: Sequence[Floats]) -> tuple[Places, Floats]:
    """Return each device once, with the sum of its amounts."""
    unique, place = np.unique(np.concatenate(devices), return_inverse=True)
    sums: Floats = np.bincount(place, np.concatenate(amounts), len(unique)).astype(np.float64)
    return unique, sums


def _has_rows(snapshot: FleetSnapshot, node: Node, kind: Scope) -> bool:
    return node.frames > 0 and len(snapshot.rows(node, kind)) > 0
