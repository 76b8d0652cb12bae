"""The last hours of a fleet as a directory of short recordings: opens the next one, removes the oldest."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.paths import state_dir
from stethoscope.store.format import SUFFIX
from stethoscope.store.writer import create, is_being_written, make_private

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.store.writer import Output

SEGMENT_S = 600.0
"""A segment is closed after this time."""
AGE_S = 24 * 3600.0
BYTES = 2 * 1024**3
_SHARE = 32
"""A segment is closed at this share of the whole, so that what is removed at once is little."""
_NAME = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]+(?:-\d+)?\.sthr", re.ASCII)


@dataclass(frozen=True, slots=True)
class RingLimits:
    """How much is kept."""

    age_s: float = AGE_S
    size: int = BYTES
    """Bytes of all segments of the fleet, whichever console wrote them."""
    segment_s: float = SEGMENT_S

    @property
    def segment_size(self) -> int:
        """Return the bytes at which a segment is closed."""
        return max(1, self.size // _SHARE)


class Ring:
    """The directory of one fleet; several consoles may record into it, each into files of its own."""

    def __init__(self, directory: Path, run: str, limits: RingLimits) -> None:
        """Record into `directory`, naming files after `run` (hexadecimal)."""
        self.directory = directory
        self.limits = limits
        self._run = run

    def next(self, wall: float) -> Output:
        """Make room, then open a new segment that begins at `wall`; OSError when that cannot be."""
        make_private(self.directory)
        self.prune(wall)
        stamp = datetime.fromtimestamp(wall, UTC).strftime("%Y%m%dT%H%M%SZ")
        for number in range(1000):
            more = f"-{number}" if number else ""
            with suppress(FileExistsError):
                return create(self.directory / f"{stamp}-{self._run}{more}{SUFFIX}")
        raise FileExistsError(17, "too many segments of one second")

    def prune(self, wall: float) -> None:
        """Remove segments that are too old, and the oldest while all together are too large with one more to come;
        never one that somebody is writing."""
        segments = []
        for path in self.directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is not None:
                with suppress(OSError, ValueError):
                    started = datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
                    segments.append((started, path, path.stat().st_size))
        total = sum(size for _, _, size in segments) + self.limits.segment_size
        for started, path, size in sorted(segments):
            too_old = wall - started > self.limits.age_s
            if not (too_old or total > self.limits.size) or is_being_written(path):
                continue
            with suppress(OSError):
                path.unlink()
                total -= size


def ring_directory(fleet: str) -> Path:
    """Return where the recordings of the fleet of that name are kept."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", fleet).strip("-.")[:48] or "fleet"
    if slug != fleet:
        slug += f"-{zlib.crc32(fleet.encode('utf-8', 'replace')):08x}"
    return state_dir() / "recordings" / slug
