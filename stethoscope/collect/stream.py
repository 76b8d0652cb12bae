"""From the bytes of a probe's output to its lines: skips login noise, cuts off what floods. Does no I/O."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from stethoscope.collect.blocks import Blocks
from stethoscope.model import wire

LINE_LIMIT = 1024 * 1024
"""A longer line, in bytes, does not come from a probe."""
NOISE_LIMIT = 1024 * 1024
"""More login noise than this, in bytes, and no sentinel: not a probe."""
NOTE_LIMIT = 4096
"""Bytes of login noise that are kept."""
RATE_LIMIT = 2 * 1024 * 1024
"""Bytes per second, over RATE_WINDOW_S, that one node may send."""
LINES_LIMIT = 3_000
"""Lines per second, over RATE_WINDOW_S, that one node may send, and pieces in which they may come: short ones cost the
console as much as long ones. A probe sends 400 lines of the kernel log a tick at most."""
RATE_WINDOW_S = 5.0
_MOST_LINES, _MOST_BYTES = LINES_LIMIT * RATE_WINDOW_S, RATE_LIMIT * RATE_WINDOW_S


class Phase(IntEnum):
    """How far the output of a probe has come."""

    NOISE = 0
    """The sentinel has not come yet."""
    READY = 1
    """The sentinel came, no full frame yet."""
    LIVE = 2
    NO_PYTHON = 3
    NOT_A_PROBE = 4
    FLOODING = 5


_LIVE = Phase.LIVE
"""Looked at with every piece: members of an enumeration take longer to find than to compare."""


class ProbeStream:
    """The output of one run of a probe."""

    def __init__(self, nonce: str) -> None:
        """Wait for the sentinel of `nonce`."""
        self._sentinel = wire.sentinel(nonce).encode()
        self._partial = b""
        self._noise = bytearray()
        self._noise_bytes = 0
        self._blocks: Blocks | None = None
        self._window_from = float("-inf")
        self._window_bytes = self._window_lines = self._window_pieces = 0
        self.phase = Phase.NOISE
        self.wants_shell = False
        """The node has no Python and waits for the probe in sh."""

    @property
    def is_shell(self) -> bool:
        """Tell whether it is the probe in sh that speaks."""
        return self._blocks is not None

    @property
    def noise(self) -> bytes:
        """Return what came before the sentinel, as it came, up to NOTE_LIMIT bytes."""
        return bytes(self._noise)

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """Take `data` that came at `now` (monotonic seconds); return the probe's whole lines in it, without newlines;
        of the probe in sh its whole blocks.

        Once the phase is NO_PYTHON, NOT_A_PROBE or FLOODING nothing more comes out.
        """
        if self.phase > _LIVE:
            return []
        size = len(data)
        if self._partial:
            data = self._partial + data
        lines = data.split(b"\n")
        self._partial = lines.pop()
        self._count(size, len(lines), now)
        if self.phase > _LIVE:
            return []
        if len(data) > LINE_LIMIT and max(map(len, (self._partial, *lines))) > LINE_LIMIT:
            return self._cut()
        if self.phase is not _LIVE or self._blocks is not None:
            lines = self._begun(lines)
        return [line for line in lines if line and not line.isspace()]

    def _begun(self, lines: list[bytes]) -> list[bytes]:
        """Return the probe's own lines, or blocks, among those that came, and take note of how far it has come."""
        if self.phase is Phase.NOISE:
            lines = self._skip_noise(lines)
        if self._blocks is not None:
            blocks = self._blocks.take(lines)
            if blocks is None:
                return self._cut()
            lines = blocks
        if self.phase is Phase.READY and any(_is_full(line) for line in lines):
            self.phase = Phase.LIVE
        return lines

    def count(self, data: bytes, now: float) -> None:
        """Count `data` that came at `now`, be it of the standard error, and cut it off when it is too much."""
        self._count(len(data), data.count(b"\n"), now)

    def _count(self, size: int, lines: int, now: float) -> None:
        if now - self._window_from >= RATE_WINDOW_S:
            self._window_from = now
            self._window_bytes = self._window_lines = self._window_pieces = 0
        self._window_bytes += size
        self._window_lines += lines
        self._window_pieces += 1
        many = self._window_lines > _MOST_LINES or self._window_pieces > _MOST_LINES
        if (many or self._window_bytes > _MOST_BYTES) and self.phase <= _LIVE:
            self._cut()

    def _cut(self) -> list[bytes]:
        # Before the sentinel it is anything but a probe; after it, a probe that lost its way.
        self.phase = Phase.NOT_A_PROBE if self.phase is Phase.NOISE else Phase.FLOODING
        self._partial = b""
        return []

    def _skip_noise(self, lines: list[bytes]) -> list[bytes]:
        for position, line in enumerate(lines):
            line = line.rstrip(b"\r")
            # Noise that ends without a newline (`echo -n` in a profile) stands before the sentinel on its line.
            before, found, behind = line.rpartition(self._sentinel)
            if found and not behind:
                self._keep_noise(before)
                self.phase = Phase.READY
                return lines[position + 1 :]
            if found and behind == b" sh":
                self._keep_noise(before)
                self._blocks = Blocks(LINE_LIMIT)
                self.phase = Phase.READY
                return lines[position + 1 :]
            if found and behind.strip() == b"no-python sh":
                self._keep_noise(before)
                self.wants_shell = True
                continue
            if found and behind.strip() == b"no-python":
                self._keep_noise(before)
                self.phase = Phase.NO_PYTHON
                return []
            self._keep_noise(line + b"\n")
        if self._noise_bytes + len(self._partial) > NOISE_LIMIT:
            self.phase = Phase.NOT_A_PROBE
        return []

    def _keep_noise(self, noise: bytes) -> None:
        self._noise_bytes += len(noise)
        self._noise += noise[: max(0, NOTE_LIMIT - len(self._noise))]


def _is_full(line: bytes) -> bool:
    if line.startswith(b"@full "):
        return True
    if b'"full"' not in line[:64]:
        return False
    try:
        return isinstance(wire.decode(line), wire.Full)
    except msgspec.DecodeError:
        return False
