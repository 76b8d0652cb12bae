"""Where the files of a recording go: one named file, or the segments of a ring."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol

from stethoscope.store.ring import Ring, RingLimits
from stethoscope.store.writer import create
from stethoscope.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.store.writer import Output


class Outlet(Protocol):
    """Where files of a recording come from."""

    name: str
    """For words about it."""
    path: Path
    """The file, or the directory of the files."""

    def next(self, wall: float) -> Output:
        """Open a new file; OSError when that cannot be."""

    def is_due(self, age_s: float, size: int) -> bool:
        """Tell whether a file of this age and size is to be followed by a new one."""


class FileOutlet:
    """One named file, or numbered ones beside it when it is opened again."""

    def __init__(self, path: Path) -> None:
        """Write into `path`, which must not be there yet."""
        self.path = path
        self.name = clean(str(path))
        self._opened = False

    def next(self, wall: float) -> Output:
        """Open the file; after the first time under its own name only when that was moved away, else numbered."""
        if not self._opened:
            self._opened = True
            return create(self.path)
        for number in range(1, 10_000):
            path = self.path if number == 1 else self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}")
            if not path.exists():
                return create(path)
        raise FileExistsError(17, "too many files of this name")

    def is_due(self, age_s: float, size: int) -> bool:
        """Keep to the file."""
        return False


class RingOutlet:
    """The segments of a ring."""

    def __init__(self, directory: Path, limits: RingLimits | None = None) -> None:
        """Record the last hours into `directory`."""
        self.path = directory
        self.name = clean(str(directory))
        self._limits = limits or RingLimits()
        self._ring = Ring(directory, secrets.token_hex(4), self._limits)

    def next(self, wall: float) -> Output:
        """Make room and open the next segment."""
        return self._ring.next(wall)

    def is_due(self, age_s: float, size: int) -> bool:
        """Tell whether the segment is long or large enough."""
        return age_s >= self._limits.segment_s or size >= self._limits.segment_size
