"""Writes a recording: blocks as they come, the index on close. Knows no threads and swallows no error."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from stethoscope.store.format import (
    HEAD_SIZE,
    BlockData,
    BlockKind,
    FleetEntry,
    pack_block,
    pack_fleet,
    pack_trailer,
    preamble,
    unpack_head,
)
from stethoscope.store.index import IndexBuilder

if TYPE_CHECKING:
    from pathlib import Path


class Output(Protocol):
    """A file that bytes go into without a buffer of our own."""

    def write(self, data: bytes, /) -> int | None:
        """Take all of `data`, or say how much of it was taken."""

    def close(self) -> None:
        """Let go of the file."""


def make_private(directory: Path) -> None:
    """Make `directory` and those above it that are missing, each with mode 0700."""
    for missing in [path for path in (directory, *directory.parents) if not path.exists()][::-1]:
        missing.mkdir(mode=0o700, exist_ok=True)


def create(path: Path) -> Output:
    """Make a new file for the user alone, locked for as long as it is open; FileExistsError when there is one."""
    make_private(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    # Some file systems have no locks; there the age of a file must do.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return os.fdopen(descriptor, "wb", buffering=0)


def is_being_written(path: Path) -> bool:
    """Tell whether somebody records into this file now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


class Writer:
    """One file of a recording; OSError comes out of every method that writes."""

    def __init__(self, output: Output, fleet: FleetEntry) -> None:
        """Write what the recording is about."""
        self._output = output
        self._fleet = fleet
        self._index = IndexBuilder()
        self.size = 0
        self._put(preamble() + pack_fleet(fleet))

    def write(self, block: BlockData) -> None:
        """Write records; they are with the operating system when this returns."""
        if block.records:
            data = pack_block(BlockKind.RECORDS, b"".join(block.parts), block)
            head = unpack_head(data[:HEAD_SIZE])
            at = self.size
            self._put(data)
            if head is not None:
                self._index.add(at, head)

    def close(self) -> None:
        """Write the index and let go of the file, whatever happens."""
        try:
            data = pack_fleet(self._fleet)
            at = self.size + len(data)
            if not self._index.full:
                data += pack_block(BlockKind.INDEX, self._index.packed) + pack_trailer(at)
            self._put(data)
        finally:
            self._output.close()

    def abandon(self) -> None:
        """Let go of the file as it stands."""
        with suppress(OSError):
            self._output.close()

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = self._output.write(bytes(view))
            view = view[len(view) if written is None else written :]
        self.size += len(data)
