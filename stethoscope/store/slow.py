"""What slow counters counted, on disk: one small SQLite file for each fleet, readable by the user alone.

A row stands for a change, so that years of a quiet fleet are a few kilobytes. Every save is one transaction: a console
that is killed loses what came since the last one, and finds it again in the totals. Consoles that share a file book
each change once.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import zstandard

from stethoscope.errors import DataError
from stethoscope.model.metric import Scope
from stethoscope.model.past import DAY_S, FINE_S, KEEP_S, Change, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from stethoscope.model.fleet import Floats

SCHEMA = "stethoscope.slow/1"
_TABLES = """
create table if not exists about (key text primary key, value text) without rowid;
create table if not exists standing (node text, scope text, packed blob, primary key (node, scope)) without rowid;
create table if not exists seen (node text primary key, wall real) without rowid;
create table if not exists change (
  metric text, node text, device text, slot integer, amount real, primary key (metric, node, device, slot)
) without rowid;
"""
_LARGEST = 64 * 2**20
"""Bytes of what is packed of the devices of one node and scope."""
_WAIT_S = 10.0
"""How long one console waits for the save of another."""

Read = tuple[list[Standing], list[Change], dict[str, float]]
"""Standings, changes, and when each node was looked at last."""


class _Packed(msgspec.Struct):
    devices: tuple[str, ...]
    first: bytes
    """Little-endian float64, one for each device."""
    last: dict[str, bytes]


def fleet_of(path: Path) -> str:
    """Return the name of the fleet whose file `path` is; DataError when it is none of ours or cannot be read."""
    try:
        # Not by its address alone: a name may hold what an address would end at.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", timeout=_WAIT_S, uri=True)) as file:
            about = dict(file.execute("select key, value from about"))
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"cannot be read: {error}", where=str(path)) from error
    if about.get("schema") != SCHEMA or not isinstance(about.get("fleet"), str):
        raise DataError(f"cannot be read: it is a {str(about.get('schema'))[:40]} of another kind", where=str(path))
    return str(about["fleet"])


class SlowFile:
    """The file of one fleet."""

    def __init__(self, path: Path, fleet: str) -> None:
        """Keep what is remembered of the fleet of that name in `path`."""
        self.path = path
        self._fleet = fleet

    def read(self, wall: float) -> Read:
        """Return all that is kept, with what is older than the newest changes need merged by days; DataError when the
        file is none of ours or cannot be read."""
        if not self.path.exists():
            return [], [], {}
        try:
            with closing(self._open()) as file, file:
                file.execute("begin immediate")
                _merge(file, wall)
                standings = [_standing(*row) for row in file.execute("select node, scope, packed from standing")]
                changes = [
                    Change(*row) for row in file.execute("select metric, node, device, slot, amount from change")
                ]
                return standings, changes, dict(file.execute("select node, wall from seen"))
        except (sqlite3.Error, OSError, msgspec.MsgspecError, zstandard.ZstdError, ValueError) as error:
            raise DataError(f"cannot be read: {error}", where=str(self.path)) from error

    def save(self, standings: Iterable[Standing], changes: Iterable[Change], seen: Mapping[str, float]) -> None:
        """Keep what is new, in one transaction; DataError when that cannot be, and then nothing of it is kept."""
        booked: dict[tuple[str, str, str], list[Change]] = {}
        for change in changes:
            booked.setdefault((change.metric, change.node, change.device), []).append(change)
        try:
            with closing(self._open()) as file, file:
                file.execute("begin immediate")
                for standing in standings:
                    _save_standing(file, standing, booked)
                rows = [change for entries in booked.values() for change in entries if change.amount]
                file.executemany(
                    "insert into change (metric, node, device, slot, amount) values (?, ?, ?, ?, ?)"
                    " on conflict do update set amount = amount + excluded.amount",
                    [(c.metric, c.node, c.device, int(c.slot), c.amount) for c in rows],
                )
                file.executemany(
                    "insert into seen (node, wall) values (?, ?)"
                    " on conflict do update set wall = max(wall, excluded.wall)",
                    list(seen.items()),
                )
        except (sqlite3.Error, OSError, msgspec.MsgspecError, zstandard.ZstdError, ValueError) as error:
            raise DataError(f"cannot be written: {error}", where=str(self.path)) from error

    def set_aside(self, wall: float) -> Path:
        """Move a file that cannot be read out of the way and return its new name; OSError when that cannot be."""
        aside = self.path.with_name(f"{self.path.name}.broken-{int(wall)}")
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return aside

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its other files the mode of this one.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        file = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)
        try:
            file.execute("pragma journal_mode = wal")
            file.execute("pragma synchronous = normal")
            file.executescript(_TABLES)
            about = dict(file.execute("select key, value from about"))
            if not about:
                file.executemany(
                    "insert or ignore into about values (?, ?)", [("schema", SCHEMA), ("fleet", self._fleet)]
                )
            elif about.get("schema") != SCHEMA or about.get("fleet") != self._fleet:
                raise ValueError(f"it is a {str(about.get('schema'))[:40]} of another kind or fleet")
        except BaseException:
            file.close()
            raise
        return file


def _merge(file: sqlite3.Connection, wall: float) -> None:
    """Merge what is old by days, and forget what is very old."""
    file.execute("delete from change where slot < ?", (int(wall - KEEP_S),))
    old = "from change where slot < ? and slot % ? != 0"
    limits = (int((wall - FINE_S) // DAY_S * DAY_S), int(DAY_S))
    merged = file.execute(
        f"select metric, node, device, slot / ? * ?, sum(amount) {old} group by 1, 2, 3, 4",
        (int(DAY_S), int(DAY_S), *limits),
    ).fetchall()
    file.execute(f"delete {old}", limits)
    file.executemany(
        "insert into change values (?, ?, ?, ?, ?) on conflict do update set amount = amount + excluded.amount", merged
    )


def _save_standing(
    file: sqlite3.Connection, standing: Standing, booked: dict[tuple[str, str, str], list[Change]]
) -> None:
    """Keep where the devices of a node stand; leave out of `booked` what another console has booked meanwhile."""
    key = (standing.node, standing.scope.value)
    row = file.execute("select packed from standing where node = ? and scope = ?", key).fetchone()
    first = standing.first
    if row is not None:
        kept = _standing(*key, row[0])
        there = {device: at for at, device in enumerate(kept.devices)}
        at = np.array([there.get(device, -1) for device in standing.devices], np.int64)
        first = np.fmin(first, np.where(at >= 0, kept.first[at], np.nan))
        for metric, now in standing.last.items():
            if metric in kept.last:
                _leave_out(metric, standing, now, np.where(at >= 0, kept.last[metric][at], np.nan), booked)
    packed = _Packed(standing.devices, _bytes(first), {metric: _bytes(last) for metric, last in standing.last.items()})
    raw = zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(packed))
    file.execute("insert or replace into standing values (?, ?, ?)", (*key, raw))


def _leave_out(
    metric: str, standing: Standing, now: Floats, kept: Floats, booked: dict[tuple[str, str, str], list[Change]]
) -> None:
    """Of what one device counted, keep the latest as far as the kept total does not hold it yet."""
    for at in np.flatnonzero(now >= kept):
        changes = booked.get((metric, standing.node, standing.devices[at]))
        if not changes:
            continue
        left = float(now[at] - kept[at])
        for place in range(len(changes) - 1, -1, -1):
            amount = min(changes[place].amount, left)
            changes[place] = changes[place]._replace(amount=amount)
            left -= amount


def _standing(node: str, scope: str, packed: bytes) -> Standing:
    raw = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_LARGEST)
    kept = msgspec.msgpack.decode(raw, type=_Packed)
    first, last = _floats(kept.first), {metric: _floats(values) for metric, values in kept.last.items()}
    if any(len(values) != len(kept.devices) for values in (first, *last.values())):
        raise ValueError(f"the devices of {node} do not fit their numbers")
    return Standing(node, Scope(scope), kept.devices, first, last)


def _bytes(values: Floats) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def _floats(raw: bytes) -> Floats:
    return np.frombuffer(raw, "<f8").astype(np.float64)
