"""Several files as one stretch of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.store.format import KEYFRAME, BlockData, FleetEntry, NodeEntry, RecordType
from stethoscope.store.tape import open_tape
from stethoscope.store.writer import Writer, create

if TYPE_CHECKING:
    from pathlib import Path

WALL, MONO = 1_773_454_447.0, 5_000.0


def write(path: Path, start: int, seconds: int, *, run: str = "r1", mono: float = MONO, every: int = 60) -> None:
    """Write a record a second from `start` on, each in a block of its own."""
    writer = Writer(create(path), FleetEntry("f", (NodeEntry("a"),), run=run))
    for second in range(start, start + seconds):
        made = BlockData(flags=KEYFRAME if (second - start) % every == 0 else 0)
        made.add(RecordType.FRAME, 0, WALL + second, mono + second, b"%d" % second)
        writer.write(made)
    writer.close()


def played(tape_path: Path, t: float = 0.0) -> list[tuple[float, int]]:
    return [(t, int(record.payload)) for t, record, _ in open_tape(tape_path).play(t)]


def test_segments_of_one_recorder_follow_each_other(tmp_path: Path) -> None:
    write(tmp_path / "b.sthr", 10, 10)
    write(tmp_path / "a.sthr", 0, 10)
    tape = open_tape(tmp_path)
    assert played(tmp_path) == [(float(second), second) for second in range(20)]
    assert played(tmp_path, 15.5) == [(float(second), second) for second in range(16, 20)]
    assert (tape.end, tape.wall_span, {reel.take for reel in tape.reels}) == (19.0, (WALL, WALL + 19), {0})
    assert [tape.at_wall(WALL + at) for at in (-9, 0, 3, 12, 12.5, 99)] == [0, 0, 3, 12, 12.5, 19]


def test_another_start_of_the_recorder_begins_anew_at_its_wall_time(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 10)
    write(tmp_path / "b.sthr", 100, 10, run="r2", mono=3.0)
    tape = open_tape(tmp_path)
    assert [t for t, _ in played(tmp_path)] == [*range(10), *range(100, 110)]
    assert [reel.take for reel in tape.reels] == [0, 1]
    assert tape.at_wall(WALL + 105) == 105
    assert tape.lead_in(105, 75, 1000) == 100


def test_of_two_recorders_at_once_one_is_played(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 100)
    write(tmp_path / "b.sthr", 50, 20, run="r2")
    tape = open_tape(tmp_path)
    assert len(played(tmp_path)) == 100
    assert tape.left_out == ["b.sthr: another recorder ran at the same time"]


def test_the_lead_in_begins_where_all_links_are_told(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 600)
    write(tmp_path / "b.sthr", 600, 600)
    tape = open_tape(tmp_path)
    assert [tape.lead_in(t, 75, 0) for t in (10, 75, 200, 650, 1199)] == [0, 0, 120, 540, 1080]
    assert tape.lead_in(1199, 75, 300) == 900
    assert tape.lead_in(1199, 75, 10**9) == 0
    assert tape.lead_in(1199, 75, 10**9, 200) == 960


def test_a_directory_without_a_recording(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no recording in this directory"):
        open_tape(tmp_path)
    (tmp_path / "a.sthr").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a\.sthr: not a recording"):
        open_tape(tmp_path)
    write(tmp_path / "b.sthr", 0, 3)
    assert open_tape(tmp_path).left_out == ["a.sthr: not a recording of this program"]


def test_a_recording_with_nothing_in_it(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 0)
    with pytest.raises(DataError, match="nothing in this recording yet"):
        open_tape(tmp_path / "a.sthr")
