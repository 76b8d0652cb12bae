"""The mark of a fleet on disk, so that "since the maintenance window" outlives the console.

One file for each fleet in the state directory, `marks/NAME-HASH.mark`: MessagePack in zstd, readable by the user alone.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import zstandard

from stethoscope.errors import DataError
from stethoscope.model.mark import Mark, MarkedNode, MarkedTotals, MarkedValues
from stethoscope.model.metric import Scope  # noqa: TC001  msgspec reads it from the annotations
from stethoscope.paths import of_fleet, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot

SCHEMA = "stethoscope.mark/2"
READ = ("stethoscope.mark/1", SCHEMA)
"""What can be read: the first version has no values of what does not count."""
_LARGEST = 256 * 2**20
"""Bytes of a mark of 10,000 nodes; a file that says it is larger is not one of ours."""


class _Totals(msgspec.Struct):
    counters: tuple[str, ...]
    rows: int
    totals: bytes
    """Little-endian uint64, counter by counter."""
    reasons: bytes


class _Values(msgspec.Struct):
    metrics: tuple[str, ...]
    rows: int
    values: bytes
    """Little-endian float32, metric by metric; NaN where there was none."""


class _Node(msgspec.Struct):
    boot_id: str
    first: dict[Scope, int]
    devices: dict[Scope, tuple[str, ...]]


class _File(msgspec.Struct):
    schema: str
    fleet: str
    wall: float
    nodes: dict[str, _Node]
    totals: dict[Scope, _Totals]
    values: dict[Scope, _Values] = {}


class MarkFile:
    """Where the mark of one fleet is kept."""

    def __init__(self, fleet: str, directory: Path | None = None) -> None:
        """Keep the mark of the fleet of that name in `directory`, or in the user's state directory."""
        self._fleet = fleet
        path = of_fleet("marks", fleet, "mark")
        self.path = path if directory is None else directory / path.name

    def read(self) -> Mark | None:
        """Return the mark, None when there is none; DataError when the file is not one."""
        try:
            packed = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(self.path)) from error
        try:
            raw = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_LARGEST)
            file = msgspec.msgpack.decode(raw, type=_File)
            if file.schema not in READ or file.fleet != self._fleet:
                raise ValueError(f"it is a {file.schema[:40]} of another kind or fleet")
            return _mark(file)
        except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
            raise DataError(f"not a mark: {error}", where=str(self.path)) from error

    def write(self, mark: Mark) -> None:
        """Keep `mark` in place of the one before; DataError when that cannot be."""
        file = _File(
            SCHEMA,
            mark.fleet,
            mark.wall,
            {name: _Node(node.boot_id, dict(node.first), dict(node.devices)) for name, node in mark.nodes.items()},
            {
                scope: _Totals(
                    table.counters,
                    table.totals.shape[1],
                    np.ascontiguousarray(table.totals, dtype="<u8").tobytes(),
                    np.ascontiguousarray(table.reasons).tobytes(),
                )
                for scope, table in mark.totals.items()
            },
            {
                scope: _Values(
                    kept.metrics,
                    kept.values.shape[1],
                    np.ascontiguousarray(kept.values, dtype="<f4").tobytes(),
                )
                for scope, kept in mark.values.items()
            },
        )
        try:
            write_private(self.path, zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(file)))
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(self.path)) from error

    def clear(self) -> None:
        """Forget the mark; DataError when that cannot be."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(self.path)) from error


def _mark(file: _File) -> Mark:
    totals = {}
    for scope, table in file.totals.items():
        shape = (len(table.counters), table.rows)
        totals[scope] = MarkedTotals(
            table.counters,
            np.frombuffer(table.totals, "<u8").reshape(shape).astype(np.uint64),
            np.frombuffer(table.reasons, np.uint8).reshape(shape),
        )
    values = {
        scope: MarkedValues(
            kept.metrics,
            np.frombuffer(kept.values, "<f4").reshape((len(kept.metrics), kept.rows)).astype(np.float32),
        )
        for scope, kept in file.values.items()
    }
    sizes = [{scope: table.totals.shape[1] for scope, table in totals.items()}]
    sizes.append({scope: kept.values.shape[1] for scope, kept in values.items()})
    for name, node in file.nodes.items():
        for scope, devices in node.devices.items():
            first = node.first.get(scope, -1)
            rows = min((size[scope] for size in sizes if scope in size), default=None)
            if rows is not None and devices and not 0 <= first <= rows - len(devices):
                raise ValueError(f"the rows of {name} are outside of the table")
    nodes = {name: MarkedNode(node.boot_id, node.first, node.devices) for name, node in file.nodes.items()}
    return Mark(file.fleet, file.wall, nodes, totals, values)


class MarkKeeper:
    """The mark of a session: set and cleared by keys, kept in a file beside the event loop."""

    def __init__(self, file: MarkFile | None = None) -> None:
        """Begin with the mark in `file`; without one a mark ends with the session."""
        self._file = file
        self._lock = threading.Lock()
        self._notices: list[str] = []
        self.mark: Mark | None = None
        if file is not None:
            try:
                self.mark = file.read()
            except DataError as error:
                self._notices.append(f"the mark is not used, M sets another: {error}")

    def set(self, snapshot: FleetSnapshot) -> Mark:
        """Set the mark at the moment of `snapshot`."""
        self.mark = mark = Mark.of(snapshot)
        self._keep()
        return mark

    def clear(self) -> None:
        """Forget the mark."""
        self.mark = None
        self._keep()

    def take_notices(self) -> list[str]:
        """Return what went wrong, once."""
        notices, self._notices = self._notices, []
        return notices

    def _keep(self) -> None:
        if self._file is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write()
        else:
            # A large fleet has some megabytes of totals: a screen must not wait for the disk.
            loop.run_in_executor(None, self._write)

    def _write(self) -> None:
        assert self._file is not None
        with self._lock:
            # Whatever it is by now: of two that were set soon after each other the later one stays.
            mark = self.mark
            try:
                if mark is None:
                    self._file.clear()
                else:
                    self._file.write(mark)
            except DataError as error:
                self._notices.append(f"the mark will be lost with this console: {error}")
