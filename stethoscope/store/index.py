"""The index of a recording: where its blocks of records are and which times they cover."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stethoscope.store.format import HEAD_SIZE, MAX_BLOCKS, MAX_RAW, Head, is_time

DTYPE = np.dtype(
    [
        ("at", "<u8"),
        ("stored", "<u4"),
        ("raw", "<u4"),
        ("records", "<u4"),
        ("flags", "<u4"),
        ("first_wall", "<f8"),
        ("last_wall", "<f8"),
        ("first_mono", "<f8"),
        ("last_mono", "<f8"),
    ]
)
"""One block; `at` is the place of its head in the file."""
_TIMES = ("first_wall", "last_wall", "first_mono", "last_mono")
Entries = npt.NDArray[np.void]


class IndexBuilder:
    """Collects one entry a block."""

    def __init__(self) -> None:
        """Start without a block."""
        self._rows = bytearray()
        self.full = False
        """There are more blocks than a reader keeps in mind."""

    def add(self, at: int, head: Head) -> None:
        """Take the block whose head is at byte `at`."""
        if len(self._rows) >= MAX_BLOCKS * DTYPE.itemsize:
            self.full = True
            return
        row = (
            at, head.stored, head.raw, head.records, head.flags,
            head.first_wall, head.last_wall, head.first_mono, head.last_mono,
        )  # fmt: skip
        self._rows += np.array([row], DTYPE).tobytes()

    @property
    def packed(self) -> bytes:
        """Return the entries as they stand in the index block."""
        return bytes(self._rows)

    def entries(self) -> Entries:
        """Return the entries."""
        return np.frombuffer(self.packed, DTYPE)


def unpack_index(raw: bytes, size: int) -> Entries | None:
    """Return the entries of an index block of a file of `size` bytes, or None when they make no sense."""
    if len(raw) % DTYPE.itemsize or len(raw) > MAX_BLOCKS * DTYPE.itemsize:
        return None
    entries = np.frombuffer(raw, DTYPE)
    if not len(entries):
        return entries
    ends = entries["at"].astype(np.float64) + HEAD_SIZE + entries["stored"]
    sound = (
        bool((ends <= size).all())
        and bool((np.diff(entries["at"].astype(np.float64)) > 0).all())
        and int(entries["raw"].max()) <= MAX_RAW
        and all(is_time(float(edge)) for name in _TIMES for edge in (entries[name].min(), entries[name].max()))
    )
    return entries if sound else None
