"""The bytes of a recording (`.sthr`): a preamble, then blocks that stand for themselves.

    preamble   8 bytes magic, u16 version of the writer, u16 least version of a reader, 4 bytes zero
    block      64 bytes head (magic, kind, flags, lengths, records, time range, checksums), then zstd data
      FLEET    JSON: which nodes there are; the first block, and once more at the end
      RECORDS  records, at most 2 s or 256 KiB of them
      INDEX    the heads' places and time ranges, written on close
    trailer    u64 place of the index block, u32 checksum of it, 8 bytes magic

A record has a head of 25 bytes (type, node, length, wall and monotonic seconds of the recorder), then its payload. All
numbers are little-endian. Kinds of blocks and types of records that a reader does not know are passed over.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import msgspec
import zstandard

from stethoscope.errors import DataError
from stethoscope.model.maintenance import Maintenance
from stethoscope.text import clean

MAGIC = b"STHR\r\n\x1a\n"
BLOCK_MAGIC = b"\xf5STHBLK\n"
END_MAGIC = b"STHREND\n"
VERSION = 1
SUFFIX = ".sthr"

BLOCK_RAW = 256 * 1024
"""A block is closed at this many bytes of records."""
MAX_RAW = 4 * 1024 * 1024
"""Bytes of records that a reader takes from one block: a full one and the longest line of a probe fit."""
MAX_TABLE_RAW = 64 * 1024 * 1024
"""Bytes of a fleet description or an index."""
MAX_BLOCKS = 1_000_000
"""Blocks of one file that a reader keeps in mind."""
MAX_NODES = 100_000
MAX_PORTS = 64
"""Ports of one node whose leaf switch is kept."""
_MOST_WINDOWS = 32
KEYFRAME = 1
"""Flag of a block that begins with what stands: link states and greetings of all nodes."""
PARTS_S = 420.0
"""Every part that was whole when a moment came stands in the seconds before it, in the same file: what is played from
there reads back so far."""

STANDING_AT = struct.Struct("<dd")
"""Wall and monotonic seconds before a line that stands."""
_LATEST = 1e11
_LEVEL = 1
_PREAMBLE = struct.Struct("<8sHH4x")
_HEAD = struct.Struct("<8sBBxxIIIddddII")
_RECORD = struct.Struct("<BIIdd")
_TRAILER = struct.Struct("<QI8s")
HEAD_SIZE = _HEAD.size
PREAMBLE_SIZE = _PREAMBLE.size
TRAILER_SIZE = _TRAILER.size


class BlockKind(IntEnum):
    """What is in a block."""

    RECORDS = 1
    FLEET = 2
    INDEX = 3


class RecordType(IntEnum):
    """What a record tells; later writers may add types."""

    FRAME = 1
    """One line of a probe, byte by byte."""
    LINK = 2
    """JSON of the new state of a link."""
    STANDING_LINK = 3
    """JSON of the state of a link that has not changed; for those who begin to read here."""
    STANDING_HELLO = 4
    """The first line of the running probe of a node; as above."""
    STANDING_FULL = 7
    """The last full frame of a node that has sent none for long, behind its wall and monotonic time (STANDING_AT)."""
    STANDING_PART = 8
    """The last whole part of a group of a node that has not been written for long, or the last line behind it that says
    nothing has changed, behind its wall and monotonic time. Without a line: what the node said in parts before is of an
    earlier run of its probe; only a tape says that."""
    LOST = 5
    """JSON: how many records the disk was too slow for."""
    NOTE = 6
    """JSON with a `kind`: whatever else belongs to the night, such as results of measurements or lines of a job log."""


class Record(NamedTuple):
    """One record; times are seconds of the recorder's clocks."""

    type: int
    node: int
    """Position of the node in the fleet description."""
    wall: float
    mono: float
    payload: bytes


class Head(NamedTuple):
    """The head of a block."""

    kind: int
    flags: int
    stored: int
    """Bytes of the compressed data."""
    raw: int
    records: int
    first_wall: float
    last_wall: float
    first_mono: float
    last_mono: float
    data_crc: int


class NodeEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as the fleet description has it; what a source calls NodeSpec."""

    name: str
    rack: str = ""
    pod: str = ""
    tick_s: float = 2.0
    expected_gpus: int | None = None
    leaves: tuple[tuple[str, str], ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    expected_ib_gbps: float | None = None


class FleetEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a recording says of itself and its fleet; unknown keys of later writers are passed over."""

    fleet: str
    nodes: tuple[NodeEntry, ...]
    simulated: bool = False
    run: str = ""
    """The same in all files that one recorder wrote."""
    writer: str = ""
    """Name and version of the program."""


@dataclass(slots=True)
class BlockData:
    """Records on their way into a block."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    records: int = 0
    first: tuple[float, float] = (0.0, 0.0)
    last: tuple[float, float] = (0.0, 0.0)
    flags: int = 0

    @property
    def is_full(self) -> bool:
        """Tell whether there are as many bytes as a block may have."""
        return self.size >= BLOCK_RAW

    def add(self, type_: int, node: int, wall: float, mono: float, payload: bytes) -> None:
        """Append one record."""
        self.parts += (_RECORD.pack(type_, node, len(payload), wall, mono), payload)
        self.size += _RECORD.size + len(payload)
        if not self.records:
            self.first = (wall, mono)
        self.last = (wall, mono)
        self.records += 1


def preamble() -> bytes:
    """Return the first bytes of a file."""
    return _PREAMBLE.pack(MAGIC, VERSION, 1)


def read_preamble(data: bytes, where: str) -> int:
    """Return the version of the writer; DataError when this is no recording, or one that needs a later program."""
    if len(data) < PREAMBLE_SIZE or data[:8] != MAGIC:
        raise DataError("not a recording of this program", where=where)
    _, version, least = _PREAMBLE.unpack(data[:PREAMBLE_SIZE])
    if least > VERSION:
        raise DataError(f"recorded by a later program (format {version}): this one reads {VERSION}", where=where)
    return int(version)


def pack_block(kind: int, raw: bytes, block: BlockData | None = None) -> bytes:
    """Return a whole block around `raw`; the records' number, times and flags are those of `block`."""
    block = block or BlockData()
    data = zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
    (first_wall, first_mono), (last_wall, last_mono) = block.first, block.last
    head = _HEAD.pack(
        BLOCK_MAGIC, kind, block.flags, len(data), len(raw), block.records,
        first_wall, last_wall, first_mono, last_mono, zlib.crc32(data), 0,
    )  # fmt: skip
    return head[:-4] + struct.pack("<I", zlib.crc32(head[:-4])) + data


def unpack_head(data: bytes) -> Head | None:
    """Return the head of a block, or None when these bytes are not a sound one."""
    if len(data) < HEAD_SIZE or data[:8] != BLOCK_MAGIC:
        return None
    _, *fields, crc = _HEAD.unpack(data[:HEAD_SIZE])
    if crc != zlib.crc32(data[: HEAD_SIZE - 4]):
        return None
    head = Head(*fields)
    times = (head.first_wall, head.last_wall, head.first_mono, head.last_mono)
    limit = MAX_RAW if head.kind == BlockKind.RECORDS else MAX_TABLE_RAW
    if head.raw > limit or head.stored > limit + 1024 or not all(is_time(time) for time in times):
        return None
    return head


def is_time(seconds: float) -> bool:
    """Tell whether this can be a time of a clock."""
    return math.isfinite(seconds) and 0 <= seconds < _LATEST


def unpack_data(head: Head, data: bytes) -> bytes | None:
    """Return the raw bytes of a block, or None when they are damaged; never more than the head says."""
    if len(data) != head.stored or zlib.crc32(data) != head.data_crc:
        return None
    try:
        # The decompressor makes room for what the data says of itself: it must say what the head does.
        if zstandard.frame_content_size(data) != head.raw:
            return None
        raw = zstandard.ZstdDecompressor(max_window_size=1 << 23).decompress(data, max_output_size=max(1, head.raw))
    except (zstandard.ZstdError, MemoryError):
        return None
    return raw if len(raw) == head.raw else None


def unpack_records(raw: bytes, nodes: int) -> tuple[list[Record], int]:
    """Return the records of a block that this program knows, and how many of the others are damaged."""
    records: list[Record] = []
    bad, place = 0, 0
    while place < len(raw):
        if place + _RECORD.size > len(raw):
            return records, bad + 1
        type_, node, length, wall, mono = _RECORD.unpack_from(raw, place)
        place += _RECORD.size
        if place + length > len(raw):
            return records, bad + 1
        if type_ in _KNOWN:
            if node < nodes and is_time(wall) and is_time(mono):
                records.append(Record(type_, node, wall, mono, raw[place : place + length]))
            else:
                bad += 1
        place += length
    return records, bad


_KNOWN = frozenset(RecordType)


def pack_fleet(entry: FleetEntry) -> bytes:
    """Return the block with the fleet description."""
    return pack_block(BlockKind.FLEET, msgspec.json.encode(entry))


def unpack_fleet(raw: bytes) -> FleetEntry | None:
    """Return the fleet description, cleaned, or None when it is none."""
    try:
        entry = msgspec.json.decode(raw, type=FleetEntry)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    names = [node.name for node in entry.nodes]
    sound = all(
        name
        and name == clean(name, 255)
        and 0.05 <= node.tick_s <= 86_400
        and 0 <= (node.expected_gpus or 0) <= 1024
        and 0 <= (node.expected_ib_gbps or 0) <= 1e6
        for name, node in zip(names, entry.nodes, strict=True)
    )
    if not sound or not 0 < len(names) <= MAX_NODES or len(set(names)) < len(names):
        return None
    nodes = tuple(
        NodeEntry(
            node.name, clean(node.rack, 120), clean(node.pod, 120), node.tick_s, node.expected_gpus,
            tuple((clean(port, 64), clean(leaf, 120)) for port, leaf in node.leaves[:MAX_PORTS]),
            tuple(_window(window) for window in node.maintenance[:_MOST_WINDOWS]),
            node.expected_ib_gbps,
        )
        for node in entry.nodes
    )  # fmt: skip
    return FleetEntry(clean(entry.fleet, 200), nodes, entry.simulated, clean(entry.run, 64), clean(entry.writer, 120))


def _window(window: Maintenance) -> Maintenance:
    rules = tuple(clean(rule, 64) for rule in window.rules)
    return Maintenance(window.start, window.end, clean(window.reason, 200), rules)


def pack_trailer(index_at: int) -> bytes:
    """Return the last bytes of a file that was closed."""
    return _TRAILER.pack(index_at, zlib.crc32(struct.pack("<Q", index_at)), END_MAGIC)


def unpack_trailer(data: bytes) -> int | None:
    """Return the place of the index block, or None when the file was not closed."""
    if len(data) < TRAILER_SIZE:
        return None
    index_at, crc, magic = _TRAILER.unpack(data)
    return int(index_at) if magic == END_MAGIC and crc == zlib.crc32(struct.pack("<Q", index_at)) else None
