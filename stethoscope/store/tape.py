"""Several recordings as one stretch of time: the segments of a ring, or a single file.

Times on a tape are seconds since its first record (`t`), whatever the clocks of the recorders started from. Where two
recorders ran at once the one that began first is taken, and the other from where the first one ends.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.errors import DataError
from stethoscope.store.format import KEYFRAME, SUFFIX, Record
from stethoscope.store.recordings import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.store.format import FleetEntry

_OVERLAP_S = 0.5
"""Files of different runs may overlap by this much and still follow each other."""


@dataclass(frozen=True, slots=True)
class Reel:
    """One file on the tape."""

    recording: Recording
    shift_s: float
    """What is added to the recorder's monotonic seconds."""
    take: int
    """Number of the uninterrupted stretch of one recorder that this file belongs to."""
    start: float
    end: float

    @property
    def fleet(self) -> FleetEntry:
        """Return the description of the fleet."""
        return self.recording.fleet


class Played(NamedTuple):
    """One record at its time on the tape."""

    t: float
    record: Record
    reel: Reel


class Tape:
    """What can be played."""

    def __init__(self, recordings: list[Recording], *, left_out: tuple[str, ...] = ()) -> None:
        """Put `recordings` in order; DataError when there is nothing in them."""
        self.left_out = list(left_out)
        """Files that are not played, each with the reason."""
        self.reels: list[Reel] = []
        order = sorted((one for one in recordings if len(one.entries)), key=lambda one: one.wall_span)
        for recording in order:
            self._append(recording)
        if not self.reels:
            where = str(recordings[0].path) if recordings else ""
            raise DataError("there is nothing in this recording yet", where=where)
        self._ends = [reel.end for reel in self.reels]

    def _append(self, recording: Recording) -> None:
        (first, last), (first_wall, _) = recording.span, recording.wall_span
        if not self.reels:
            self.reels.append(Reel(recording, -first, 0, 0.0, last - first))
            return
        before = self.reels[-1]
        run = recording.fleet.run
        if run and run == before.fleet.run and first + before.shift_s >= before.end - _OVERLAP_S:
            shift, take = before.shift_s, before.take
        else:
            before_wall = before.recording.wall_span[1]
            if first_wall < before_wall - _OVERLAP_S:
                self.left_out.append(f"{recording.path.name}: another recorder ran at the same time")
                return
            shift, take = before.end + max(0.0, first_wall - before_wall) - first, before.take + 1
        self.reels.append(Reel(recording, shift, take, first + shift, max(before.end, last + shift)))

    @property
    def end(self) -> float:
        """Return the last second."""
        return self.reels[-1].end

    @property
    def wall_span(self) -> tuple[float, float]:
        """Return the wall time of the first and of the last record."""
        return self.reels[0].recording.wall_span[0], self.reels[-1].recording.wall_span[1]

    def at_wall(self, wall: float) -> float:
        """Return the second on the tape at which the recorder's clock showed `wall`, within the tape."""
        for reel in self.reels:
            number = reel.recording.find_wall(wall)
            if number < len(reel.recording.entries):
                entry = reel.recording.entries[number]
                into = min(wall - float(entry["first_wall"]), float(entry["last_mono"] - entry["first_mono"]))
                least = float(reel.recording.entries[number - 1]["last_mono"]) + reel.shift_s if number else reel.start
                return min(max(least, float(entry["first_mono"]) + reel.shift_s + into), self.end)
        return self.end

    def lead_in(self, t: float, least_s: float, records: int, most_s: float = math.inf) -> float:
        """Return from which second to play so that at `t` all is known: a keyframe at least `least_s` before, and as
        much more as is in `records` records or `most_s`; the start of the stretch when that is nearer."""
        found = 0.0
        for reel in reversed([reel for reel in self.reels if reel.start <= t]):
            take, entries = reel.take, reel.recording.entries
            starts = entries["first_mono"] + reel.shift_s
            for number in range(int(np.searchsorted(starts, t, side="right")) - 1, -1, -1):
                start = float(starts[number])
                records -= int(entries["records"][number])
                if entries["flags"][number] & KEYFRAME and t - start >= least_s:
                    found = start
                    if records <= 0 or t - start >= most_s:
                        return found
            index = self.reels.index(reel)
            if index == 0 or self.reels[index - 1].take != take:
                return max(0.0, reel.start)
        return found

    def play(self, t: float) -> Iterator[Played]:
        """Yield every record at second `t` or later, in order."""
        last = t
        for reel in self.reels[bisect.bisect_left(self._ends, t) :]:
            for block in reel.recording.blocks(reel.recording.find(t - reel.shift_s)):
                for record in block:
                    at = record.mono + reel.shift_s
                    if at >= t:
                        # Time does not go back within a tape, whatever a file says.
                        last = max(last, at)
                        yield Played(last, record, reel)


def open_tape(path: Path) -> Tape:
    """Return the tape of a file, or of all recordings in a directory; DataError when there is none that can be read."""
    if not path.is_dir():
        return Tape([Recording(path)])
    recordings: list[Recording] = []
    left_out: list[str] = []
    for file in sorted(path.glob(f"*{SUFFIX}")):
        try:
            recordings.append(Recording(file))
        except DataError as error:
            left_out.append(f"{file.name}: {error.message}")
    if not recordings:
        said = f": {left_out[0]}" if left_out else ""
        raise DataError(f"no recording in this directory{said}", where=str(path))
    return Tape(recordings, left_out=tuple(left_out))
