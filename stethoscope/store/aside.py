"""Bytes that are wanted seldom, kept out of memory: in a file without a name, for the user alone, that is gone with the
program. Where no file can be made or written to, they stay in memory."""

from __future__ import annotations

import io
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOWHERE = 0
"""The place of nothing."""
_BITS = 24
"""A place is where a piece begins, and in this many bits how long it is."""
_LENGTH = (1 << _BITS) - 1
_ROOM, _ROOM_IN_MEMORY = 32 * 2**20, 2**20
"""Bytes of pieces, also of those that nobody wants any more, from which on it is worth to let go of those."""
_READ = 2**20

Places = npt.NDArray[np.int64]


def length_of(places: Places) -> int:
    """Return the bytes of the pieces at these places."""
    return int((places & _LENGTH).sum())


class Aside:
    """Pieces of bytes; whoever keeps them has their places."""

    def __init__(self, near: Path) -> None:
        """Keep nothing yet; the file will be in the directory `near`, or beside that file, which is there by then."""
        self._near = near
        self._file: io.FileIO | io.BytesIO | None = None
        self._size = self._limit = 0

    @property
    def is_full(self) -> bool:
        """Tell whether `move` is due."""
        return self._size > self._limit

    def keep(self, pieces: Sequence[bytes]) -> list[int]:
        """Take these pieces, of less than 16 MiB each, and return the place of each one."""
        if not pieces:
            return []
        if self._file is None:
            self._begin(self._new())
        data = b"".join(pieces)
        self._write(data)
        places, at = [], self._size
        for piece in pieces:
            places.append(at << _BITS | len(piece))
            at += len(piece)
        self._size = at
        return places

    def at(self, place: int) -> bytes:
        """Return a piece again; empty where it cannot be read any more."""
        return self._read(place >> _BITS, place & _LENGTH)

    def move(self, *wanted: Places) -> None:
        """Let go of all pieces but those whose places these arrays have, and put their new places into the arrays."""
        former = self._file
        if former is None:
            return
        begun = Aside(self._near)
        begun._begin(io.BytesIO() if isinstance(former, io.BytesIO) else self._new())
        every = np.concatenate(wanted)
        order = np.argsort(every)
        order = order[every[order] != NOWHERE]
        begins, lengths = every[order] >> _BITS, every[order] & _LENGTH
        moved = np.full(len(every), NOWHERE, np.int64)
        first = 0
        while first < len(order):
            # What stands close together is read at once.
            behind = max(first + 1, int(np.searchsorted(begins, begins[first] + _READ)))
            start, stop = int(begins[first]), int((begins + lengths)[first:behind].max())
            data = self._read(start, stop - start)
            if data:
                pieces = [
                    data[begin : begin + length]
                    for begin, length in zip(
                        (begins[first:behind] - start).tolist(), lengths[first:behind].tolist(), strict=True
                    )
                ]
                moved[order[first:behind]] = begun.keep(pieces)
            first = behind
        for places in wanted:
            places[:], moved = moved[: len(places)], moved[len(places) :]
        former.close()
        self._file, self._size = begun._file, begun._size
        self._limit = max(begun._limit, 2 * self._size)

    def close(self) -> None:
        """Let go of everything."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._size = self._limit = 0

    def _new(self) -> io.FileIO | io.BytesIO:
        directory = self._near if self._near.is_dir() else self._near.parent
        try:
            return tempfile.TemporaryFile(buffering=0, dir=directory)
        except OSError:
            return io.BytesIO()

    def _begin(self, file: io.FileIO | io.BytesIO) -> None:
        self._file, self._size = file, 0
        self._limit = _ROOM_IN_MEMORY if isinstance(file, io.BytesIO) else _ROOM

    def _write(self, data: bytes) -> None:
        """Put `data` behind all that is there; when the disk takes no more, all goes on in memory."""
        assert self._file is not None
        self._file.seek(self._size)
        try:
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            before, size = self._read(0, self._size), self._size
            self._file.close()
            self._begin(io.BytesIO(before.ljust(size, b"\0")))
            self._file.seek(size)
            self._file.write(data)
            self._size = size

    def _read(self, begin: int, length: int) -> bytes:
        assert self._file is not None
        try:
            self._file.seek(begin)
            data = self._file.read(length)
        except OSError:
            return b""
        return data if len(data) == length else b""
