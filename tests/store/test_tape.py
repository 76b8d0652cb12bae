"""Several files as one stretch of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.session.info import describe, info_json, info_lines
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
    assert tape.beside == ["b.sthr"]


def test_the_other_recorder_is_played_from_where_the_first_one_ends(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 100)
    write(tmp_path / "b.sthr", 50, 200, run="r2", mono=7.0)
    tape = open_tape(tmp_path)
    assert tape.beside == []
    assert [(reel.take, reel.start, reel.end) for reel in tape.reels] == [(0, 0.0, 99.0), (1, 99.0, 249.0)]
    assert played(tmp_path) == [
        *((float(s), s) for s in range(100)),
        (99.0, 99),
        *((float(s), s) for s in range(100, 250)),
    ]
    assert played(tmp_path, 120.0)[:2] == [(120.0, 120), (121.0, 121)]
    assert [tape.at_wall(WALL + at) for at in (20, 99, 99.5, 180, 400)] == [20, 99, 99.5, 180, 249]
    assert tape.lead_in(130, 75, 1000) == 99
    assert tape.lead_in(249, 75, 0) == 170


def test_what_stands_is_told_where_a_file_is_played_from_its_midst(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 100)
    writer = Writer(create(tmp_path / "b.sthr"), FleetEntry("f", (NodeEntry("a"), NodeEntry("b")), run="r2"))
    told = {
        50: [(RecordType.LINK, 0, b"old")],
        60: [(RecordType.STANDING_HELLO, 0, b"h0"), (RecordType.STANDING_LINK, 0, b"l0")],
        70: [(RecordType.FRAME, 1, b'{"hello"'), (RecordType.LINK, 0, b"l1"), (RecordType.NOTE, 0, b"n1")],
        80: [(RecordType.NOTE, 0, b"n2"), (RecordType.FRAME, 0, b"v")],
        120: [(RecordType.FRAME, 0, b"w")],
    }
    for second, records in told.items():
        made = BlockData(flags=KEYFRAME if second in (50, 60) else 0)
        for type_, node, payload in records:
            made.add(type_, node, WALL + second, MONO + second, payload)
        writer.write(made)
    writer.close()
    last = [
        (t, record.type, record.node, record.payload) for t, record, reel in open_tape(tmp_path).play(0) if reel.take
    ]
    assert last == [
        (99.0, RecordType.STANDING_HELLO, 0, b"h0"),
        (99.0, RecordType.STANDING_HELLO, 1, b'{"hello"'),
        (99.0, RecordType.STANDING_LINK, 0, b"l1"),
        (99.0, RecordType.NOTE, 0, b"n1"),
        (99.0, RecordType.NOTE, 0, b"n2"),
        (120.0, RecordType.FRAME, 0, b"w"),
    ]


def test_lines_of_one_recorder_that_come_late_are_played(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 10)
    write(tmp_path / "b.sthr", 10, 5, mono=MONO - 1.4)
    assert [second for _, second in played(tmp_path)] == list(range(15))


def test_a_recorder_is_followed_from_file_to_file_for_as_long_as_it_goes_on(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"a{number}.sthr", number * 10, 10)
        write(tmp_path / f"b{number}.sthr", number * 10 - number, 10, run="r2")
    tape = open_tape(tmp_path)
    assert [reel.recording.path.name for reel in tape.reels] == ["a0.sthr", "a1.sthr", "a2.sthr"]
    assert [t for t, _ in played(tmp_path)] == list(range(30))
    assert tape.beside == ["b0.sthr", "b1.sthr", "b2.sthr"]


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


def test_what_another_recorder_wrote_beside_is_no_damage(tmp_path: Path) -> None:
    write(tmp_path / "a.sthr", 0, 100)
    write(tmp_path / "b.sthr", 50, 20, run="r2")
    (tmp_path / "c.sthr").write_bytes(b"text")
    info = describe(open_tape(tmp_path))
    assert (info_json(info)["left_out"], info_json(info)["damage"]) == (
        ["b.sthr"],
        ["c.sthr: not a recording of this program: not played"],
    )
    assert info_lines(info)[-2:] == [
        "beside   1 file of another recorder that ran at the same time: not played",
        "damage   c.sthr: not a recording of this program: not played",
    ]
