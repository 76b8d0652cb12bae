"""Several recordings as one stretch of time: the segments of a ring, or a single file.

Times on a tape are seconds since its first record (`t`), whatever the clocks of the recorders started from. Where two
recorders ran at once the one that began first is taken for as long as it goes on, and the other from where it ends.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.errors import DataError
from stethoscope.paths import is_directory
from stethoscope.store.format import KEYFRAME, PARTS_S, STANDING_AT, SUFFIX, Record, RecordType
from stethoscope.store.lines import is_hello, part_group
from stethoscope.store.recordings import Recording
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.store.format import FleetEntry

_OVERLAP_S = 0.5
"""Files of different runs may overlap by this much and still follow each other."""
_PAUSE_S = 30.0
"""A recorder that was silent for longer than this has not plainly gone on: another one may have seen more."""


@dataclass(frozen=True, slots=True)
class Reel:
    """One file on the tape."""

    recording: Recording
    shift_s: float
    """What is added to the recorder's monotonic seconds."""
    take: int
    """Number of the uninterrupted stretch of one recorder that this file belongs to."""
    start: float
    """Second from which on it is played; later than its first record where another recorder was played until then."""
    end: float

    @property
    def fleet(self) -> FleetEntry:
        """Return the description of the fleet."""
        return self.recording.fleet

    @property
    def begins_late(self) -> bool:
        """Tell whether it is played from its midst."""
        return self.start - self.shift_s - self.recording.span[0] > _OVERLAP_S


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
        """Files that cannot be read, each with the reason."""
        self.beside: list[str] = []
        """Files that are not played because another recorder ran all the time."""
        self.reels: list[Reel] = []
        order = sorted((one for one in recordings if len(one.entries)), key=lambda one: one.wall_span)
        while order:
            recording = self._following(order)
            order.remove(recording)
            self._append(recording)
        if not self.reels:
            where = str(recordings[0].path) if recordings else ""
            raise DataError("there is nothing in this recording yet", where=where)
        self._ends = [reel.end for reel in self.reels]

    def _following(self, order: list[Recording]) -> Recording:
        """Return the file with which the recorder that is being played went on, else the one that begins first."""
        if self.reels:
            before = self.reels[-1]
            for recording in order:
                if recording.fleet.run and recording.fleet.run == before.fleet.run:
                    goes_on = -_OVERLAP_S <= recording.span[0] + before.shift_s - before.end <= _PAUSE_S
                    return recording if goes_on else order[0]
        return order[0]

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
            before_wall, take = before.recording.wall_span[1], before.take + 1
            shift = before.end + max(0.0, first_wall - before_wall) - first
            if first_wall < before_wall - _OVERLAP_S:
                if recording.wall_span[1] <= before_wall + _OVERLAP_S:
                    self.beside.append(recording.name)
                    return
                shift = before.end - _mono_at(recording, before_wall)
                self.reels.append(Reel(recording, shift, take, before.end, max(before.end, last + shift)))
                return
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
                return min(max(reel.start, _mono_at(reel.recording, wall) + reel.shift_s), self.end)
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
                if start < reel.start:
                    break
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
        """Yield every record at second `t` or later, in order; before them, what nodes said rarely and still stands."""
        last = t
        for reel in self.reels[bisect.bisect_left(self._ends, t) :]:
            begin = t
            if reel.begins_late and reel.start >= t:
                begin = reel.start
            if reel.start < begin or reel.begins_late:
                last = max(last, begin)
                for record in _parts_before(reel, begin - reel.shift_s):
                    yield Played(last, record, reel)
            if reel.begins_late and reel.start >= t:
                for record in _standing(reel):
                    yield Played(last, record, reel)
            for block in reel.recording.blocks(reel.recording.find(begin - reel.shift_s)):
                for record in block:
                    at = record.mono + reel.shift_s
                    if at >= begin:
                        # Time does not go back within a tape, whatever a file says.
                        last = max(last, at)
                        yield Played(last, record, reel)


def _mono_at(recording: Recording, wall: float) -> float:
    """Return the monotonic second at which the recorder's clock showed `wall`, which it did before the file's end."""
    entries, number = recording.entries, recording.find_wall(wall)
    entry = entries[number]
    into = min(wall - float(entry["first_wall"]), float(entry["last_mono"] - entry["first_mono"]))
    least = float(entries[number - 1]["last_mono"]) if number else float(entry["first_mono"])
    return max(least, float(entry["first_mono"]) + into)


def _standing(reel: Reel) -> Iterator[Record]:
    """Yield what stands at the start of a file that is played from its midst: links, greetings and notes, from its
    last keyframe before that. Values are known with the next full frame of each node."""
    recording, until = reel.recording, reel.start - reel.shift_s
    behind = recording.find(until)
    keyframes = [number for number in range(behind) if recording.entries["flags"][number] & KEYFRAME]
    links: dict[int, Record] = {}
    hellos: dict[int, Record] = {}
    notes: list[Record] = []
    for number, block in enumerate(
        recording.blocks(keyframes[-1] if keyframes else 0), keyframes[-1] if keyframes else 0
    ):
        if number > behind:
            break
        for record in block:
            if record.mono >= until:
                continue
            if record.type in (RecordType.LINK, RecordType.STANDING_LINK):
                links[record.node] = record._replace(type=RecordType.STANDING_LINK)
            elif record.type == RecordType.STANDING_HELLO or (
                record.type == RecordType.FRAME and is_hello(record.payload)
            ):
                hellos[record.node] = record._replace(type=RecordType.STANDING_HELLO)
            elif record.type == RecordType.NOTE:
                notes.append(record)
    yield from hellos.values()
    yield from links.values()
    yield from notes


def _parts_before(reel: Reel, until: float) -> Iterator[Record]:
    """Yield the parts of the last PARTS_S before second `until` of a recorder, as what stands there."""
    recording = reel.recording
    entry = recording.entries[min(recording.find(until), len(recording.entries) - 1)]
    wall = max(0.0, float(entry["first_wall"]) + until - float(entry["first_mono"]))
    told: set[int] = set()
    for block in recording.blocks(recording.find(until - PARTS_S)):
        for record in block:
            if record.mono >= until:
                return
            if record.mono < until - PARTS_S:
                continue
            at = STANDING_AT.pack(record.wall, record.mono)
            if record.type == RecordType.STANDING_PART:
                told.add(record.node)
                yield record._replace(wall=wall, mono=until)
            elif record.type == RecordType.FRAME and part_group(record.payload):
                told.add(record.node)
                yield Record(RecordType.STANDING_PART, record.node, wall, until, at + record.payload)
            elif record.node in told and record.type == RecordType.FRAME and is_hello(record.payload):
                told.discard(record.node)
                yield Record(RecordType.STANDING_PART, record.node, wall, until, at)


def open_tape(path: Path) -> Tape:
    """Return the tape of a file, or of all recordings in a directory; DataError when there is none that can be read."""
    if not is_directory(path):
        return Tape([Recording(path)])
    recordings: list[Recording] = []
    left_out: list[str] = []
    for file in sorted(path.glob(f"*{SUFFIX}")):
        try:
            recordings.append(Recording(file))
        except DataError as error:
            left_out.append(f"{clean(file.name, 255)}: {error.message}")
    if not recordings:
        said = f": {left_out[0]}" if left_out else ""
        raise DataError(f"no recording in this directory{said}", where=str(path))
    return Tape(recordings, left_out=tuple(left_out))
