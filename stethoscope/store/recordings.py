"""Reads one recording: opens whatever can be read of it, seeks by time, goes on behind what is damaged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.errors import DataError
from stethoscope.store.format import (
    BLOCK_MAGIC,
    HEAD_SIZE,
    MAX_RAW,
    PREAMBLE_SIZE,
    TRAILER_SIZE,
    BlockKind,
    FleetEntry,
    Head,
    Record,
    read_preamble,
    unpack_data,
    unpack_fleet,
    unpack_head,
    unpack_records,
    unpack_trailer,
)
from stethoscope.store.index import IndexBuilder, unpack_index
from stethoscope.store.writer import is_being_written
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.store.index import Entries

_WINDOW = 1024 * 1024
_MOST_DAMAGE = 100
"""Damaged places that are told one by one."""


class Damage(NamedTuple):
    """A part of a file that could not be read."""

    at: int
    """Byte at which it begins."""
    size: int
    what: str
    wall: float | None = None
    """When what is lost began, as far as known."""


class Recording:
    """One file, opened: its fleet, and its blocks in the order in which they were written."""

    def __init__(self, path: Path) -> None:
        """Open `path`; DataError when it is no recording or nothing says which nodes it is about."""
        self.path = path
        self.damage: list[Damage] = []
        self.lost_records = 0
        """Records that could not be read within blocks that could."""
        self.closed = False
        """The file has its index: whoever wrote it came to an end."""
        try:
            self.being_written = is_being_written(path)
            with path.open("rb") as file:
                descriptor = file.fileno()
                self.size = os.fstat(descriptor).st_size
                self.version = read_preamble(os.pread(descriptor, PREAMBLE_SIZE, 0), str(path))
                fleet = self._read_index(descriptor) or self._scan(descriptor)
        except OSError as error:
            raise DataError(error.strerror or "cannot be read", where=str(path)) from None
        if fleet is None:
            raise DataError("the description of the fleet is damaged or missing", where=str(path))
        self.fleet: FleetEntry = fleet
        self._ends = np.maximum.accumulate(self.entries["last_mono"]) if len(self.entries) else np.empty(0)
        self._wall_ends = np.maximum.accumulate(self.entries["last_wall"]) if len(self.entries) else np.empty(0)

    entries: Entries

    @property
    def name(self) -> str:
        """Return the name of the file, for people and documents."""
        return clean(self.path.name, 255)

    def _read_index(self, descriptor: int) -> FleetEntry | None:
        """Take the index at the end of the file; None when there is none to be trusted, or no fleet at the start."""
        at = unpack_trailer(os.pread(descriptor, TRAILER_SIZE, max(0, self.size - TRAILER_SIZE)))
        if at is None or not PREAMBLE_SIZE <= at < self.size:
            return None
        self.closed = True
        raw = self._block(descriptor, at, BlockKind.INDEX)
        entries = None if raw is None else unpack_index(raw, self.size)
        if entries is None:
            self._note(at, self.size - at, "the index is damaged; it was made anew")
            return None
        raw = self._block(descriptor, PREAMBLE_SIZE, BlockKind.FLEET)
        self.entries = entries
        return None if raw is None else unpack_fleet(raw)

    def _scan(self, descriptor: int) -> FleetEntry | None:
        """Walk from block to block, over what is damaged, and make the index anew."""
        index, fleet = IndexBuilder(), None
        at, last_wall = PREAMBLE_SIZE, None
        end = self.size - TRAILER_SIZE if self.closed else self.size
        while at < end:
            head = unpack_head(os.pread(descriptor, HEAD_SIZE, at))
            if head is not None and at + HEAD_SIZE + head.stored <= self.size:
                if head.kind == BlockKind.RECORDS:
                    index.add(at, head)
                    last_wall = head.last_wall
                elif head.kind == BlockKind.FLEET and fleet is None:
                    raw = self._block(descriptor, at, BlockKind.FLEET)
                    fleet = None if raw is None else unpack_fleet(raw)
                at += HEAD_SIZE + head.stored
                continue
            following = _find(descriptor, at + 1, self.size)
            if not (head is not None and following == self.size and self.being_written):
                cut = following == self.size and not self.closed
                self._note(at, following - at, "cut off" if cut else "damaged", last_wall)
            at = following
        if index.full:
            self._note(at, 0, "more blocks than can be kept in mind")
        self.entries = index.entries()
        return fleet

    def _block(self, descriptor: int, at: int, kind: BlockKind) -> bytes | None:
        head = unpack_head(os.pread(descriptor, HEAD_SIZE, at))
        if head is None or head.kind != kind:
            return None
        return unpack_data(head, os.pread(descriptor, head.stored, at + HEAD_SIZE))

    def _note(self, at: int, size: int, what: str, wall: float | None = None) -> None:
        if any(known.at <= at and at + size <= known.at + max(known.size, 1) for known in self.damage):
            return
        last = self.damage[-1] if self.damage else None
        if last is not None and last.what == what and last.at + last.size == at:
            # Blocks that are damaged one behind the other are one hole.
            self.damage[-1] = last._replace(size=last.size + size)
        elif len(self.damage) < _MOST_DAMAGE:
            self.damage.append(Damage(at, size, what, wall))

    @property
    def span(self) -> tuple[float, float]:
        """Return the first and the last monotonic second; equal when nothing is in the file."""
        if not len(self.entries):
            return 0.0, 0.0
        first = float(self.entries["first_mono"][0])
        return first, max(first, float(self._ends[-1]))

    @property
    def wall_span(self) -> tuple[float, float]:
        """Return the first and the last wall second."""
        if not len(self.entries):
            return 0.0, 0.0
        first = float(self.entries["first_wall"][0])
        return first, max(first, float(self._wall_ends[-1]))

    def find(self, mono: float) -> int:
        """Return the number of the first block that ends at `mono` or later."""
        return int(np.searchsorted(self._ends, mono))

    def find_wall(self, wall: float) -> int:
        """Return the number of the first block that ends at `wall` or later."""
        return int(np.searchsorted(self._wall_ends, wall))

    def blocks(self, first: int = 0) -> Iterator[list[Record]]:
        """Yield the records of each block from number `first` on; a damaged block yields none and is noted."""
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise DataError(error.strerror or "cannot be read", where=str(self.path)) from None
        with file:
            for number in range(max(0, first), len(self.entries)):
                yield self._records(file.fileno(), number)

    def _records(self, descriptor: int, number: int) -> list[Record]:
        entry = self.entries[number]
        at, stored = int(entry["at"]), int(entry["stored"])
        try:
            head = unpack_head(os.pread(descriptor, HEAD_SIZE, at))
            raw = None
            if head is not None and _is_meant(head, entry["stored"], entry["raw"]):
                raw = unpack_data(head, os.pread(descriptor, stored, at + HEAD_SIZE))
        except OSError:
            raw = None
        if raw is None:
            self._note(at, HEAD_SIZE + stored, "damaged", float(entry["first_wall"]))
            return []
        records, bad = unpack_records(raw, len(self.fleet.nodes))
        self.lost_records += bad
        return records


def _is_meant(head: Head, stored: int, raw: int) -> bool:
    return head.kind == BlockKind.RECORDS and head.stored == stored and head.raw == raw <= MAX_RAW


def _find(descriptor: int, at: int, size: int) -> int:
    """Return the place of the next whole block at `at` or later whose head is sound, `size` when there is none."""
    while at < size:
        window = os.pread(descriptor, _WINDOW, at)
        place = window.find(BLOCK_MAGIC)
        while place >= 0:
            # Looked at within the window: what only looks like a head, again and again, costs no reading anew.
            head = unpack_head(window[place : place + HEAD_SIZE])
            if head is not None and at + place + HEAD_SIZE + head.stored <= size:
                return at + place
            place = window.find(BLOCK_MAGIC, place + 1)
        if at + len(window) >= size or len(window) < HEAD_SIZE:
            return size
        at += len(window) - HEAD_SIZE + 1
    return size
