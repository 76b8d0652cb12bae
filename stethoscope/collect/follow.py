"""Logs that grow: what was added since the last look, over rotation and truncation."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.collect.files import BLOCK, LogReader, LogSource, binary, compression

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Grown:
    """Bytes that a log has gained."""

    data: bytes
    is_fresh: bool = False
    """They begin a file: the first look, or it was rotated or cut back since the last one."""
    trouble: str = ""
    """Why nothing more will come."""


class Follower:
    """One log that is looked at again and again."""

    def __init__(self, source: LogSource) -> None:
        """Nothing is opened before `more`."""
        self.source = source
        self.is_over = False
        """Nothing more can come: the standard input has ended, or it is no plain text."""
        self._descriptor: int | None = None
        self._at = 0

    def more(self) -> Iterator[Grown]:
        """Yield what came since the last call; nothing when it did not grow or is not there."""
        if self.is_over:
            return
        if self.source.path is None:
            yield from self._piped()
            return
        try:
            yield from self._grown(self.source.path)
        except FileNotFoundError:
            # Between two names of a rotation, or not written yet.
            self.close()
        except OSError as error:
            self.close()
            self.is_over = True
            yield Grown(b"", trouble=error.strerror or str(error))

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file that is open, whatever its name is by now."""
        if self._descriptor is None:
            return None
        held = os.fstat(self._descriptor)
        return held.st_dev, held.st_ino

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _grown(self, path: str) -> Iterator[Grown]:
        if self._descriptor is not None:
            yield from self._rest(self._descriptor)
            held, named = os.fstat(self._descriptor), os.stat(path)
            if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) and held.st_size >= self._at:
                return
            self.close()
        yield from self._begun(path)

    def _begun(self, path: str) -> Iterator[Grown]:
        descriptor = os.open(path, os.O_RDONLY)
        head = os.pread(descriptor, _HEAD, 0)
        if head and (compression(head) or binary(head)):
            os.close(descriptor)
            self.is_over = True
            yield from self._once()
            return
        if not head:
            os.close(descriptor)
            return
        self._descriptor, self._at = descriptor, 0
        yield from self._rest(descriptor, is_fresh=True)

    def _once(self) -> Iterator[Grown]:
        """Read what cannot grow, as any other log."""
        reader, is_fresh = LogReader(self.source), True
        for block in reader.blocks():
            yield Grown(block, is_fresh)
            is_fresh = False
        if reader.trouble:
            yield Grown(b"", is_fresh, reader.trouble)

    def _rest(self, descriptor: int, *, is_fresh: bool = False) -> Iterator[Grown]:
        while data := os.pread(descriptor, BLOCK, self._at):
            self._at += len(data)
            yield Grown(data, is_fresh)
            is_fresh = False

    def _piped(self) -> Iterator[Grown]:
        is_fresh = self._at == 0
        while select.select([0], [], [], 0)[0]:
            data = os.read(0, BLOCK)
            if not data:
                self.is_over = True
                return
            self._at += len(data)
            yield Grown(data, is_fresh)
            is_fresh = False
