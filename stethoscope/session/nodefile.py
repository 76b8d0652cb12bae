"""One log that lies on a node and grows: read from near its end, then on, over rotations, into a scanner."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stethoscope.collect import nodelog
from stethoscope.collect.command import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.analysis.decode import Scanner

FIRST_BYTES = 8 * nodelog.MOST
"""So much of the end of a long log is read when it is opened."""


class NodeFile:
    """A file that one of some nodes has."""

    def __init__(self, source: nodelog.Reaching, scanner: Scanner, nodes: Sequence[str], path: str) -> None:
        """Read `path` on the first of `nodes` that has it, and put it into `scanner`."""
        self._source = source
        self._scanner = scanner
        self._scan = scanner.file(path)
        self._nodes = list(nodes)
        self._path = path
        self._position: nodelog.Position | None = None
        self._size = 0
        self._left_out = 0
        self.node = ""
        """The node that has it, once one was found."""
        self.is_new = False
        """Something came since this was last set to False."""

    @property
    def words(self) -> str:
        """Return how large it is, and how much of it was read."""
        size = f"{self._size / 1e6:,.1f} MB"
        return f"the last {(self._size - self._left_out) / 1e6:,.1f} of {size}" if self._left_out else size

    async def read_on(self, say: Callable[[str], object]) -> None:
        """Read what was added since the last time; `say` gets how far it is. CommandError when it cannot be read."""
        while True:
            piece = await self._piece()
            if self._position is None and piece.at > 0:
                # A long log: go back so far that a cause has a chance to be in it.
                self._left_out = max(0, piece.size - FIRST_BYTES)
                self._position = nodelog.Position(piece.position.number, self._left_out)
                continue
            if piece.is_new_file:
                self._scan.end("it was rotated or cut short")
                self._scan, self._left_out = self._scanner.file(self._path), 0
            self._position, self._size = piece.position, piece.size
            if piece.data:
                await asyncio.to_thread(self._scan.feed, piece.data)
                self.is_new = True
            if piece.position.offset >= piece.size or not piece.data:
                return
            say(f"reading, {piece.position.offset / max(1, piece.size):.0%}")

    async def _piece(self) -> nodelog.Piece:
        """Ask the nodes one after the other until one has the file; from then on that one alone."""
        wrong: CommandError | None = None
        for node in self._nodes:
            try:
                piece = await nodelog.tail(self._source, node, self._path, self._position)
            except CommandError as error:
                wrong = wrong or error
                continue
            self._nodes, self.node = [node], node
            return piece
        raise wrong or CommandError("there is no node to ask")
