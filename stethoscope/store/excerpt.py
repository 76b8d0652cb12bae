"""Copies a stretch of a tape into a recording of its own that begins with everything that stands there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from stethoscope.store.format import KEYFRAME, MAX_RAW, STANDING_AT, BlockData, RecordType
from stethoscope.store.writer import Writer, create

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.store.tape import Played, Tape

LEAST_S, MOST_S, RECORDS = 90.0, 1200.0, 120_000
"""The stretch before the moment that is asked about: that long at least and at most, and as much as is in so many
records (64 nodes: twenty minutes; 2,000 nodes: five)."""
FROZEN = "frozen"
"""Kind of the note at its end: the tape goes on to the moment itself."""
_BLOCK_S = 2.0
_STANDING = (RecordType.STANDING_FULL, RecordType.STANDING_PART)


def copy_stretch(
    tape: Tape, moment: float, wall: float, path: Path, change: Callable[[bytes], bytes] = lambda payload: payload
) -> int:
    """Copy what leads to second `moment` of `tape`, which is `wall`, into a new recording at `path`.

    Every payload passes `change`; returns how many. OSError when it cannot be written.
    """
    begin = tape.lead_in(moment, LEAST_S, RECORDS, MOST_S)
    reel = next(reel for reel in reversed(tape.reels) if reel.start <= moment)
    writer = Writer(create(path), reel.fleet)
    count, block, before = 0, BlockData(flags=KEYFRAME), begin
    for played in tape.play(begin):
        record = played.record
        if played.t > moment:
            break
        if played.reel.fleet.nodes != reel.fleet.nodes:
            continue
        if block.records and (block.is_full or played.t - before > _BLOCK_S):
            writer.write(block)
            block, before = BlockData(), played.t
        payload = _payload(played, change)
        if len(payload) < MAX_RAW:
            block.add(record.type, record.node, record.wall, played.t, payload)
            count += 1
    note = msgspec.json.encode({"kind": FROZEN, "value": None})
    last_wall = max(wall, block.last[0])
    block.add(RecordType.NOTE, 0, last_wall, max(moment, block.last[1]), note)
    writer.write(block)
    writer.close()
    return count


def _payload(played: Played, change: Callable[[bytes], bytes]) -> bytes:
    """Return the payload in the time of the tape, changed."""
    payload = played.record.payload
    if played.record.type not in _STANDING or len(payload) < STANDING_AT.size:
        return change(payload)
    wall, mono = STANDING_AT.unpack_from(payload)
    line = payload[STANDING_AT.size :]
    mono += played.reel.shift_s
    at = STANDING_AT.pack(wall, mono if math.isfinite(mono) else 0.0)
    return at + (change(line) if line else b"")
