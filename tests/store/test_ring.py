"""The ring keeps the last hours and no more, and two recorders leave each other's files alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stethoscope.store.format import BlockData, FleetEntry, NodeEntry, RecordType
from stethoscope.store.recordings import Recording
from stethoscope.store.ring import BYTES, Ring, RingLimits, ring_directory
from stethoscope.store.writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

WALL = 1_773_454_447.0
MIB = 1024**2


def segment(ring: Ring, wall: float, size: int = 1000) -> Writer:
    writer = Writer(ring.next(wall), FleetEntry("f", (NodeEntry("a"),)))
    made = BlockData()
    made.add(RecordType.FRAME, 0, wall, wall, os.urandom(size))
    writer.write(made)
    return writer


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_segments_are_removed_after_a_day(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "ring", "ab12", RingLimits())
    for number in range(30 * 6):
        segment(ring, WALL + number * 600).close()
    assert len(names(ring.directory)) == 24 * 6 + 1
    oldest = Recording(ring.directory / names(ring.directory)[0])
    assert WALL + 179 * 600 - oldest.wall_span[0] == 24 * 3600
    assert ring.directory.stat().st_mode & 0o777 == 0o700


def test_all_together_stay_below_the_limit(tmp_path: Path) -> None:
    limit = 4 * MIB
    ring = Ring(tmp_path / "ring", "ab12", RingLimits(size=limit))
    assert ring.limits.segment_size == limit // 32
    for number in range(60):
        segment(ring, WALL + number, ring.limits.segment_size - 2000).close()
        assert sum(path.stat().st_size for path in ring.directory.iterdir()) <= limit
    kept = names(ring.directory)
    assert 28 <= len(kept) <= 32
    assert Recording(ring.directory / kept[-1]).wall_span[0] == WALL + 59
    assert BYTES == 2 * 1024**3


def test_two_recorders_leave_alone_what_the_other_one_writes(tmp_path: Path) -> None:
    limits = RingLimits(size=MIB, age_s=100)
    one, other = Ring(tmp_path, "aaaa", limits), Ring(tmp_path, "bbbb", limits)
    writing = segment(one, WALL, MIB)
    old = segment(one, WALL + 1, MIB)
    old.close()
    second = segment(other, WALL + 5000, 100)
    assert len(names(tmp_path)) == 2
    assert names(tmp_path)[0].endswith("-aaaa.sthr")
    writing.close()
    second.close()
    segment(other, WALL + 5000.5, 100).close()
    assert len(names(tmp_path)) == 2
    assert all("-bbbb" in name for name in names(tmp_path))


def test_what_is_not_a_segment_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "19700101T000000Z-ab.sthr.bak", "mine.sthr", "99999999T999999Z-ab.sthr"):
        (tmp_path / name).write_bytes(b"x" * 2 * MIB)
    before = names(tmp_path)
    Ring(tmp_path, "aa", RingLimits(size=MIB)).prune(WALL)
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("fleet", "beginning"),
    [("prod-a", "prod-a"), ("gpu[001-064]", "gpu-001-064-"), ("../../etc", "etc-"), ("", "fleet-"), (".", "fleet-")],
)
def test_the_directory_of_a_fleet(fleet: str, beginning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    directory = ring_directory(fleet)
    assert directory.parent == tmp_path / "stethoscope" / "recordings"
    assert directory.name.startswith(beginning)
    assert ring_directory(f"{fleet} ") != directory
