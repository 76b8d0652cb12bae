"""What nodes said last, for those who begin to read a recording later: a part is told whole only when it has changed,
and who says nothing any more has said something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import zstandard

from stethoscope.store.aside import NOWHERE, Aside, length_of
from stethoscope.store.format import PARTS_S, STANDING_AT
from stethoscope.store.lines import is_same, part_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OVERDUE_S = PARTS_S - 75.0
"""A part that was not written for so long is written again with the next keyframe: those come every minute, and a node
sends each part whole every five minutes."""
_LONGEST = 512 * 1024
_MOST_GROUPS = 32
_MOST_ALIKE = 256
_LEVEL = 1
_DICTIONARY = 32 * 1024
"""Bytes of the first part of a group that all others are told apart from."""


class _Slots:
    """One line of each node: of parts, the node knows which."""

    def __init__(self) -> None:
        """Have room for no node yet."""
        self.whole = np.empty(0, np.int64)
        """Places of the lines with their times before them, compressed behind those."""
        self.same = np.empty(0, np.int64)
        """Places of the last line behind each that says nothing has changed, with its times before it."""
        self.written_mono = np.empty(0)
        """When the line came, or was written again."""

    def reach(self, node: int) -> None:
        """Have room for `node`."""
        if node >= len(self.whole):
            more = max(node + 1, len(self.whole) + len(self.whole) // 4) - len(self.whole)
            self.whole, self.same = (np.pad(array, (0, more)) for array in (self.whole, self.same))
            self.written_mono = np.pad(self.written_mono, (0, more))

    def before(self, mono: float) -> list[int]:
        """Return the nodes of the lines that were written last before `mono`."""
        nodes: list[int] = np.flatnonzero((self.whole != NOWHERE) & (self.written_mono < mono)).tolist()
        return nodes


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


class StandingLines:
    """The last full line and the last whole part of each group of each node, and when they were written last.

    The lines are set aside; what is here of each is where it is.
    """

    def __init__(self, near: Path) -> None:
        """Know nothing yet; what is set aside is near the recording."""
        self._groups: dict[int, tuple[str, ...]] = {}
        """Of each node, whose parts are in its slots from the second on; one tuple for nodes that came by the same."""
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._slots = [_Slots()]
        self._packers: dict[str, Packer] = {}
        self._aside = Aside(near)
        self._waiting: dict[Packer, dict[tuple[int, int], tuple[bytes, bytes]]] = {}
        """By node and slot, times and line of what is not set aside yet, and ..."""
        self._same: dict[tuple[int, int], bytes] = {}
        """... what came behind some part, with its times."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of lines that are kept."""
        self.settle()
        return sum(length_of(places) for slots in self._slots for places in (slots.whole, slots.same))

    def forget(self, node: int) -> None:
        """Take that the probe of `node` was started anew."""
        for number, group in enumerate(self._groups.pop(node, ()), 1):
            self._drop(node, number, group)

    def see_full(self, node: int, wall: float, mono: float, raw: bytes) -> None:
        """Take a full line of `node` that is being written."""
        self._put(node, 0, self._packer("", raw), wall, mono, raw)

    def see(self, node: int, wall: float, mono: float, raw: bytes) -> None:
        """Take a line of `node` that is being written; those that are no parts mean nothing here."""
        group = part_group(raw)
        if not group:
            return
        groups = self._groups.get(node, ())
        is_known = group in groups
        if is_same(raw):
            if is_known:
                self._same[node, groups.index(group) + 1] = STANDING_AT.pack(wall, mono) + raw
        elif len(raw) > _LONGEST:
            if is_known:
                self._drop(node, groups.index(group) + 1, group)
        elif is_known or len(groups) < _MOST_GROUPS:
            number = groups.index(group) + 1 if is_known else self._begin(node, (*groups, group))
            self._put(node, number, self._packer(group, raw), wall, mono, raw)

    def settle(self) -> None:
        """Set aside the lines that were seen."""
        if not self._waiting and not self._same:
            return
        keys: list[tuple[int, int]] = []
        pieces: list[bytes] = []
        for packer, waiting in self._waiting.items():
            packed = packer.compress_all([raw for _, raw in waiting.values()])
            keys += waiting
            pieces += [at + line for (at, _), line in zip(waiting.values(), packed, strict=True)]
        places = self._aside.keep([*pieces, *self._same.values()])
        for (node, number), place in zip(keys, places, strict=False):
            self._slots[number].whole[node] = place
        for (node, number), place in zip(self._same, places[len(keys) :], strict=True):
            # Without the whole one before it, it means nothing.
            if self._slots[number].whole[node] != NOWHERE:
                self._slots[number].same[node] = place
        self._waiting.clear()
        self._same.clear()
        if self._aside.is_full:
            self._aside.move(*(places for slots in self._slots for places in (slots.whole, slots.same)))

    def due(self, mono: float, *, is_first: bool) -> Iterator[tuple[int, bytes]]:
        """Yield (node, payload of a record) of all parts that must be written at `mono`; all there are when `is_first`:
        nothing of it is in the file yet."""
        self.settle()
        for number, slots in enumerate(self._slots[1:]):
            for node in slots.before(np.inf if is_first else mono - OVERDUE_S):
                line = self._line(slots, node, self._groups[node][number])
                if not line:
                    continue
                slots.written_mono[node] = mono
                yield node, line
                same = int(slots.same[node])
                if same != NOWHERE and (payload := self._aside.at(same)):
                    yield node, payload

    def silent(self, mono: float, for_s: float) -> Iterator[tuple[int, bytes]]:
        """Yield (node, payload of a record) of the last full line of each node whose last one came more than `for_s`
        before `mono`."""
        self.settle()
        slots = self._slots[0]
        for node in slots.before(mono - for_s):
            line = self._line(slots, node, "")
            if line:
                yield node, line

    def close(self) -> None:
        """Let go of all lines; nobody asks for them any more."""
        self._groups.clear()
        self._slots = [_Slots()]
        self._waiting.clear()
        self._same.clear()
        self._aside.close()

    def _put(self, node: int, number: int, packer: Packer, wall: float, mono: float, raw: bytes) -> None:
        slots = self._slots[number]
        slots.reach(node)
        slots.same[node], slots.written_mono[node] = NOWHERE, mono
        self._same.pop((node, number), None)
        self._waiting.setdefault(packer, {})[node, number] = STANDING_AT.pack(wall, mono), raw

    def _line(self, slots: _Slots, node: int, group: str) -> bytes:
        """Return a line with its times; empty when a disk has lost it."""
        kept = self._aside.at(int(slots.whole[node]))
        try:
            return kept[: STANDING_AT.size] + self._packer(group).decompress(kept[STANDING_AT.size :])
        except zstandard.ZstdError:
            return b""

    def _begin(self, node: int, groups: tuple[str, ...]) -> int:
        """Give a slot to the last one of the groups of `node`, and return its number."""
        if len(self._alike) > _MOST_ALIKE:
            self._alike.clear()
        self._groups[node] = self._alike.setdefault(groups, groups)
        if len(groups) >= len(self._slots):
            self._slots.append(_Slots())
        return len(groups)

    def _drop(self, node: int, number: int, group: str) -> None:
        slots = self._slots[number]
        slots.reach(node)
        slots.whole[node] = slots.same[node] = NOWHERE
        self._same.pop((node, number), None)
        self._waiting.get(self._packer(group), {}).pop((node, number), None)

    def _packer(self, group: str, raw: bytes = b"") -> Packer:
        """Return the packer of a group, which begins with `raw`; groups beyond the most that there should be share that
        of another one."""
        if group not in self._packers and len(self._packers) <= _MOST_GROUPS:
            self._packers[group] = Packer(raw)
        return self._packers.get(group) or next(iter(self._packers.values()))
