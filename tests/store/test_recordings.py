"""The format: what is written is read again, seeking is exact, and no damage is worse than what it damaged."""

from __future__ import annotations

import io
import random
import struct
import time
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.store import format as sthr
from stethoscope.store.format import BlockData, FleetEntry, NodeEntry, Record, RecordType
from stethoscope.store.recordings import Recording
from stethoscope.store.writer import Writer, create

if TYPE_CHECKING:
    from pathlib import Path

FLEET = FleetEntry(
    "prod", tuple(NodeEntry(f"n{number}", "r1", "p1", 2.0, 8, expected_ib_gbps=400.0) for number in range(4)), run="ab"
)
WALL, MONO = 1_773_454_447.0, 5_000.0


def block(second: int, *payloads: bytes) -> BlockData:
    made = BlockData()
    for number, payload in enumerate(payloads or (b"%d-" % second * 40,)):
        made.add(RecordType.FRAME, number % 4, WALL + second, MONO + second, payload)
    return made


def written(path: Path, seconds: int = 20, *, close: bool = True) -> bytes:
    writer = Writer(create(path), FLEET)
    for second in range(seconds):
        writer.write(block(second))
    if close:
        writer.close()
    else:
        writer.abandon()
    return path.read_bytes()


def read(path: Path) -> tuple[Recording, list[Record]]:
    recording = Recording(path)
    return recording, [record for records in recording.blocks() for record in records]


def seconds_of(records: list[Record]) -> list[int]:
    return [int(record.mono - MONO) for record in records]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.sthr"
    writer = Writer(create(path), FLEET)
    payloads = (b"", b"\x00\xff not json \n", b"x" * 300_000)
    writer.write(block(0, *payloads))
    writer.write(BlockData())
    writer.close()
    recording, records = read(path)
    assert records == [Record(RecordType.FRAME, number, WALL, MONO, payload) for number, payload in enumerate(payloads)]
    assert recording.fleet == FLEET
    assert (recording.closed, recording.damage, recording.version) == (True, [], 1)
    assert recording.span == (MONO, MONO)
    assert recording.wall_span == (WALL, WALL)


def test_files_are_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.sthr"
    written(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == path.parent.parent.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        create(path)


@pytest.mark.parametrize("close", [True, False])
def test_seeking_finds_the_block(tmp_path: Path, close: bool) -> None:
    path = tmp_path / "a.sthr"
    written(path, close=close)
    recording, records = read(path)
    assert recording.closed is close
    assert seconds_of(records) == list(range(20))
    assert [recording.find(MONO + at) for at in (-5, 0, 0.5, 7, 19, 19.5)] == [0, 0, 1, 7, 19, 20]
    assert [recording.find_wall(WALL + at) for at in (-5, 0, 7.5, 30)] == [0, 0, 8, 20]
    assert seconds_of([record for block_ in recording.blocks(17) for record in block_]) == [17, 18, 19]


def test_cut_anywhere_it_opens_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    data = written(path)
    whole = Recording(path)
    ends = [int(at) + sthr.HEAD_SIZE + int(stored) for at, stored in whole.entries[["at", "stored"]]]
    for size in [*range(0, 700, 7), *range(700, len(data), 131)]:
        path.write_bytes(data[:size])
        complete = sum(end <= size for end in ends)
        try:
            recording, records = read(path)
        except DataError as error:
            refused = str(error)
            recording, records = None, []
        if recording is None:
            assert complete == 0, refused
            continue
        assert seconds_of(records) == list(range(complete))
        if ends[0] < size < ends[-1] and size not in ends:
            assert [damage.what for damage in recording.damage] == ["cut off"]


@pytest.mark.parametrize("close", [True, False])
def test_a_damaged_block_costs_itself(tmp_path: Path, close: bool) -> None:
    path = tmp_path / "a.sthr"
    data = bytearray(written(path, close=close))
    entry = Recording(path).entries[7]
    for at in (int(entry["at"]) + 3, int(entry["at"]) + 20, int(entry["at"]) + sthr.HEAD_SIZE + 4):
        broken = bytearray(data)
        broken[at] ^= 0x55
        path.write_bytes(broken)
        recording, records = read(path)
        assert seconds_of(records) == [second for second in range(20) if second != 7]
        assert [(damage.at, damage.what) for damage in recording.damage] == [(int(entry["at"]), "damaged")]


def test_the_fleet_is_found_at_the_end_when_its_start_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    data = bytearray(written(path))
    data[sthr.PREAMBLE_SIZE + sthr.HEAD_SIZE + 5] ^= 1
    path.write_bytes(data)
    recording, records = read(path)
    assert recording.fleet == FLEET
    assert len(records) == 20


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    data = bytearray(written(path))
    at = sthr.unpack_trailer(bytes(data[-sthr.TRAILER_SIZE :]))
    assert at is not None
    data[at + sthr.HEAD_SIZE + 9] ^= 1
    path.write_bytes(data)
    recording, records = read(path)
    assert len(records) == 20
    assert "the index is damaged; it was made anew" in [damage.what for damage in recording.damage]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 40), cut=st.booleans(), close=st.booleans())
def test_no_file_makes_it_fail(tmp_path: Path, seed: int, flips: int, cut: bool, close: bool) -> None:
    chance = random.Random(seed)
    path = tmp_path / "a.sthr"
    path.unlink(missing_ok=True)
    data = bytearray(written(path, 6, close=close))
    for _ in range(flips):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if cut:
        del data[chance.randrange(len(data)) :]
    path.write_bytes(data)
    try:
        _, records = read(path)
    except DataError:
        return
    assert seconds_of(records) == sorted(seconds_of(records))
    assert len(records) <= 6


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=400))
def test_any_bytes_behind_a_good_start(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.sthr"
    path.write_bytes(sthr.preamble() + sthr.pack_fleet(FLEET) + tail)
    _, records = read(path)
    assert records == []


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=300))
def test_any_bytes_as_records(raw: bytes) -> None:
    records, bad = sthr.unpack_records(raw, 4)
    assert all(record.node < 4 for record in records)
    assert bad >= 0


def lying_block(content: bytes, raw: int, data: bytes | None = None) -> bytes:
    """Return a block whose head says `raw` bytes, whatever is in it, with sound checksums."""
    honest = sthr.pack_block(sthr.BlockKind.RECORDS, content, block(0))
    head = list(sthr._HEAD.unpack(honest[: sthr.HEAD_SIZE]))
    data = honest[sthr.HEAD_SIZE :] if data is None else data
    head[3], head[4], head[10], head[11] = len(data), raw, zlib.crc32(data), 0
    packed = sthr._HEAD.pack(*head)[:-4]
    return packed + struct.pack("<I", zlib.crc32(packed)) + data


def test_a_bomb_takes_no_room(tmp_path: Path) -> None:
    bomb = zstandard.ZstdCompressor(level=3).compress(bytes(512 * 1024 * 1024))
    unsized = io.BytesIO()
    with zstandard.ZstdCompressor(write_content_size=False).stream_writer(unsized, closefd=False) as stream:
        stream.write(bytes(64 * 1024 * 1024))
    path = tmp_path / "a.sthr"
    start = sthr.preamble() + sthr.pack_fleet(FLEET)
    for data in (bomb, unsized.getvalue()):
        for raw in (1000, sthr.MAX_RAW, 512 * 1024 * 1024):
            path.write_bytes(start + lying_block(b"", raw, data))
            import tracemalloc

            tracemalloc.start()
            try:
                _, records = read(path)
            finally:
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            assert records == []
            assert peak < 16 * 1024 * 1024


def test_what_only_looks_like_blocks_is_one_hole_and_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    whole = written(path, 20, close=False)
    last = whole.rindex(sthr.BLOCK_MAGIC)
    false = sthr.BLOCK_MAGIC * 200_000
    path.write_bytes(whole[:last] + false + whole[last:])
    started = time.process_time()
    recording, records = read(path)
    assert time.process_time() - started < 5.0
    assert len(records) == 20
    assert recording.damage == [(last, len(false), "damaged", WALL + 18)]


def test_blocks_that_are_damaged_one_behind_the_other_are_one_hole_however_often_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    whole = bytearray(written(path, 200))
    entries = Recording(path).entries
    for number in range(10, 190):
        whole[int(entries["at"][number]) + sthr.HEAD_SIZE] ^= 1
    path.write_bytes(whole)
    recording, records = read(path)
    assert len(records) == 20
    first, behind = int(entries["at"][10]), int(entries["at"][190])
    for _ in range(2):
        assert recording.damage == [(first, behind - first, "damaged", WALL + 10)]
        assert len(list(recording.blocks(5))) == 195


def test_times_that_are_none_are_not_taken(tmp_path: Path) -> None:
    made = BlockData()
    for wall, mono in ((WALL, MONO), (float("nan"), MONO), (WALL, float("inf")), (-1.0, MONO), (WALL, 1e300)):
        made.add(RecordType.FRAME, 0, wall, mono, b"x")
    made.first = made.last = (WALL, MONO)
    path = tmp_path / "a.sthr"
    writer = Writer(create(path), FLEET)
    writer.write(made)
    writer.close()
    recording, records = read(path)
    assert [(record.wall, record.mono) for record in records] == [(WALL, MONO)]
    assert recording.lost_records == 4


def test_what_a_later_program_adds_is_passed_over(tmp_path: Path) -> None:
    made = BlockData()
    made.add(RecordType.FRAME, 0, WALL, MONO, b"a")
    made.add(200, 7_000_000, WALL, MONO, b"of the future")
    made.add(RecordType.FRAME, 1, WALL, MONO, b"b")
    path = tmp_path / "a.sthr"
    fleet = sthr.pack_block(
        sthr.BlockKind.FLEET, b'{"fleet":"f","nodes":[{"name":"n0","rail":3},{"name":"n1"}],"colour":"blue"}'
    )
    later = sthr._PREAMBLE.pack(sthr.MAGIC, 9, 1)
    records = sthr.pack_block(sthr.BlockKind.RECORDS, b"".join(made.parts), made)
    path.write_bytes(later + fleet + sthr.pack_block(77, b"?") + records)
    recording, found = read(path)
    assert recording.version == 9
    assert [record.payload for record in found] == [b"a", b"b"]
    assert (recording.damage, recording.lost_records) == ([], 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a recording"),
        (b"#!/bin/sh\n" * 10, "not a recording"),
        (sthr._PREAMBLE.pack(sthr.MAGIC, 3, 2), "recorded by a later program"),
        (sthr.preamble(), "description of the fleet"),
        (sthr.preamble() + sthr.pack_block(sthr.BlockKind.FLEET, b"[]"), "description of the fleet"),
        (sthr.preamble() + sthr.pack_fleet(FleetEntry("f", (NodeEntry("a"), NodeEntry("a")))), "description"),
        (sthr.preamble() + sthr.pack_fleet(FleetEntry("f", (NodeEntry("a\x1b[31m"),))), "description"),
        (sthr.preamble() + sthr.pack_fleet(FleetEntry("f", (NodeEntry("a", tick_s=1e300),))), "description"),
        (sthr.preamble() + sthr.pack_fleet(FleetEntry("f", (NodeEntry("a", expected_ib_gbps=-1.0),))), "description"),
    ],
)
def test_what_is_no_recording_says_so(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "a.sthr"
    path.write_bytes(data)
    with pytest.raises(DataError, match=words):
        Recording(path)


def test_texts_of_the_fleet_are_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    leaves = (("mlx5_0", "leaf-01"), ("mlx5_1", "l\x1b[31meaf"))
    path.write_bytes(
        sthr.preamble() + sthr.pack_fleet(FleetEntry("f\x1b]0;x\x07", (NodeEntry("a", "r\x9b1", leaves=leaves),)))
    )
    fleet = Recording(path).fleet
    assert fleet.nodes[0].leaves == (("mlx5_0", "leaf-01"), ("mlx5_1", "leaf"))
    assert fleet.fleet.isprintable()
    assert fleet.nodes[0].rack.isprintable()


def test_an_output_that_takes_little_at_once_gets_all(tmp_path: Path) -> None:
    class Slow(io.BytesIO):
        def write(self, data: object, /) -> int:
            return super().write(bytes(data)[:7])  # type: ignore[call-overload]

        def close(self) -> None:
            """Keep what came."""

    output = Slow()
    writer = Writer(output, FLEET)
    writer.write(block(0))
    writer.close()
    path = tmp_path / "a.sthr"
    path.write_bytes(output.getvalue())
    assert len(read(path)[1]) == 1
