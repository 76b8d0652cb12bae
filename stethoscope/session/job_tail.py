"""The log of one job: read again and again where it lies, on a node or here, into what judges it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.collect import nodelog
from stethoscope.collect.command import CommandError
from stethoscope.model.job import JobLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stethoscope.analysis.job_judge import JobJudge
    from stethoscope.clock import Clock

MORE = 8 * nodelog.MOST
"""So much of the end of a long log is read at first where its last megabyte tells of too few steps ..."""
ENOUGH = 50
"""... which are fewer than these."""
MOST_ASKED = 4
"""Nodes that are asked for a log before it is said that it cannot be read."""
_SLICE = 65_536
"""Bytes that are read at once: keys must not wait for a megabyte."""


class JobTail:
    """One log on a node, followed."""

    def __init__(self, judge: JobJudge, path: str, clock: Clock) -> None:
        """Put what `path` has into `judge`."""
        self.judge = judge
        self.log = JobLog(path=path)
        self.is_read = False
        """It was read to its end at least once."""
        self._clock = clock
        self._position: nodelog.Position | None = None
        self._node = ""
        self._size = 0

    async def read_on(self, source: nodelog.Reaching, nodes: Sequence[str]) -> None:
        """Read what was added, on the node that had it before, else on the first of `nodes` that has it; what goes
        wrong is said in the log."""
        wrong = ""
        known = [self._node] if self._node in nodes else list(nodes[:MOST_ASKED])
        for node in known:
            try:
                await self._read(source, node)
            except CommandError as error:
                wrong = wrong or str(error)
                continue
            self._node = node
            self.log = replace(self.log, node=node, trouble="", read_at=self._clock.wall())
            return
        self._node = ""
        self.log = replace(self.log, trouble=wrong or "no node of the job can be asked now")

    async def _read(self, source: nodelog.Reaching, node: str) -> None:
        reader = self.judge.reader
        if node != self._node and self._node == "" and self._position is not None and node != self.log.node:
            # Another node: whether its file is the same one, nobody knows.
            self._position = None
        while True:
            first = self._position is None
            piece = await nodelog.tail(source, node, self.log.path, self._position, quiet=self.is_read)
            if first or piece.is_new_file:
                reader.begin(is_start=piece.at == 0)
            await self._feed(piece.data, is_new=self.is_read)
            self._position, self._size = piece.position, piece.size
            if first and piece.at > 0 and len(reader.entries.entries) < ENOUGH:
                # A log with few steps in its last megabyte: look farther back, once.
                reader.begin(is_start=False)
                self._position = nodelog.Position(piece.position.number, max(0, piece.size - MORE))
                continue
            if piece.position.offset >= piece.size or not piece.data:
                self.is_read = True
                return

    async def _feed(self, data: bytes, *, is_new: bool) -> None:
        now = self._clock.wall()
        for at in range(0, len(data), _SLICE):
            self.judge.reader.feed(data[at : at + _SLICE], now=now, is_new=is_new)
            await asyncio.sleep(0)
        if data:
            self.log = replace(self.log, line_at=now if is_new else self.log.line_at)


class LocalTail:
    """One log on this machine."""

    def __init__(self, judge: JobJudge, path: Path, clock: Clock) -> None:
        """Put what `path` has into `judge`."""
        self.judge = judge
        self.log = JobLog(path=str(path))
        self._path = path
        self._clock = clock
        self._offset = 0
        self._number = -1
        self._is_read = False

    def read_on(self, say: Callable[[float], object] = lambda share: None) -> None:
        """Read what was added since the last time; `say` gets how much of it is behind. OSError when it cannot be
        read."""
        now = self._clock.wall()
        with self._path.open("rb") as file:
            about = os.fstat(file.fileno())
            if self._number != about.st_ino or about.st_size < self._offset:
                self._offset = max(0, about.st_size - MORE) if not self._is_read else 0
                self._number = about.st_ino
                self.judge.reader.begin(is_start=self._offset == 0)
            file.seek(self._offset)
            while data := file.read(_SLICE):
                # What is older than the file's last change was not written just now.
                self.judge.reader.feed(data, now=now if self._is_read else about.st_mtime, is_new=self._is_read)
                self._offset += len(data)
                say(self._offset / max(1, about.st_size))
        self._is_read = True
        self.log = replace(self.log, read_at=now, line_at=about.st_mtime, trouble="")
