"""What nodes said last in parts, for those who begin to read a recording later: a part is told whole only when it has
changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import zstandard

from stethoscope.store.format import PARTS_S, STANDING_AT
from stethoscope.store.lines import is_same, part_group

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERDUE_S = PARTS_S - 75.0
"""A part that was not written for so long is written again with the next keyframe: those come every minute, and a node
sends each part whole every five minutes."""
_LONGEST = 512 * 1024
_MOST_GROUPS = 32
_LEVEL = 1
_DICTIONARY = 32 * 1024
"""Bytes of the first part of a group that all others are told apart from."""


@dataclass(slots=True)
class _Part:
    at: bytes
    packed: bytes
    """The line, compressed."""
    packer: Packer
    written_mono: float
    same: bytes = b""
    """The last line behind it that says nothing has changed, with its time before it."""


class Packer:
    """Compresses lines of one kind by what they have in common with the first one that came: all parts of 2,000 nodes
    are some hundred megabytes of text that is much alike."""

    def __init__(self, first: bytes) -> None:
        """Tell all others apart from `first`."""
        alike = zstandard.ZstdCompressionDict(first[:_DICTIONARY], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        alike.precompute_compress(level=_LEVEL)
        self._compressor = zstandard.ZstdCompressor(dict_data=alike)
        self._decompressor = zstandard.ZstdDecompressor(dict_data=alike)

    def compress(self, line: bytes) -> bytes:
        """Return what `decompress` makes the line of."""
        # Copied, because what the compressor returns keeps the memory that the line could have needed.
        return bytes(memoryview(self._compressor.compress(line)))

    def compress_all(self, lines: list[bytes]) -> list[bytes]:
        """Return what `compress` returns for each line: at once, because each call lets other threads have the
        interpreter and waits for it again."""
        if not lines or not hasattr(self._compressor, "multi_compress_to_buffer"):
            return [self.compress(line) for line in lines]
        found = self._compressor.multi_compress_to_buffer([*lines])
        return [found[number].tobytes() for number in range(len(found))]

    def decompress(self, packed: bytes) -> bytes:
        """Return the line again."""
        return self._decompressor.decompress(packed)


class StandingParts:
    """The last whole part of each group of each node, and when it was written last."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._nodes: dict[int, dict[str, _Part]] = {}
        self._packers: dict[str, Packer] = {}
        self._waiting: dict[Packer, list[tuple[_Part, bytes]]] = {}
        """Parts that are not compressed yet."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of lines that are kept."""
        self.settle()
        return sum(len(part.packed) + len(part.same) for parts in self._nodes.values() for part in parts.values())

    def forget(self, node: int) -> None:
        """Take that the probe of `node` was started anew."""
        self._nodes.pop(node, None)

    def see(self, node: int, wall: float, mono: float, raw: bytes) -> None:
        """Take a line of `node` that is being written; those that are no parts mean nothing here."""
        group = part_group(raw)
        if not group:
            return
        parts = self._nodes.setdefault(node, {})
        at = STANDING_AT.pack(wall, mono)
        if is_same(raw):
            if group in parts:
                parts[group].same = at + raw
        elif len(raw) > _LONGEST:
            parts.pop(group, None)
        elif group in parts or len(parts) < _MOST_GROUPS:
            packer = self._packer(group, raw)
            parts[group] = part = _Part(at, b"", packer, mono)
            self._waiting.setdefault(packer, []).append((part, raw))

    def settle(self) -> None:
        """Compress the parts that were seen."""
        for packer, waiting in self._waiting.items():
            for (part, _), packed in zip(waiting, packer.compress_all([raw for _, raw in waiting]), strict=True):
                part.packed = packed
        self._waiting.clear()

    def due(self, mono: float, *, is_first: bool) -> Iterator[tuple[int, bytes]]:
        """Yield (node, payload of a record) of all parts that must be written at `mono`; all there are when `is_first`:
        nothing of it is in the file yet."""
        self.settle()
        for node, parts in self._nodes.items():
            for part in parts.values():
                if is_first or mono - part.written_mono > OVERDUE_S:
                    part.written_mono = mono
                    yield node, part.at + part.packer.decompress(part.packed)
                    if part.same:
                        yield node, part.same

    def _packer(self, group: str, raw: bytes) -> Packer:
        """Return the packer of a group; groups beyond the most that there should be share that of another one."""
        if group not in self._packers and len(self._packers) < _MOST_GROUPS:
            self._packers[group] = Packer(raw)
        return self._packers.get(group) or next(iter(self._packers.values()))
