"""Puts the lines of the probe in sh together to whole blocks. Does no I/O."""

from __future__ import annotations


class Blocks:
    """Blocks begin with a line that starts with `@` and end with one that starts with `@end `."""

    def __init__(self, limit: int) -> None:
        """Begin outside of a block; none may be longer than `limit` bytes."""
        self._limit = limit
        self._lines: list[bytes] = []
        self._bytes = 0

    def take(self, lines: list[bytes]) -> list[bytes] | None:
        """Return the blocks that `lines`, without newlines, complete; None when one grows beyond the limit.

        A line between two blocks that begins none is nobody's and is left out.
        """
        whole = []
        for line in lines:
            if not self._lines and not line.startswith(b"@"):
                continue
            self._lines.append(line)
            self._bytes += len(line) + 1
            if self._bytes > self._limit:
                return None
            if line.startswith(b"@end "):
                whole.append(b"\n".join(self._lines))
                self._lines, self._bytes = [], 0
        return whole
