"""Noise as a pure function of (seed, metric, place, time step): the same whoever asks, in whatever order and pace."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_SCALE = 2.0**-53


def _mix(value: Any) -> Any:
    """Return the splitmix64 finaliser of uint64 values."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class Noise:
    """Draws for arrays of places; every stream (a metric, a personality) has a name."""

    def __init__(self, seed: int) -> None:
        """Start from the scenario's seed."""
        self._seed = seed
        self._keys: dict[tuple[str, tuple[int, ...]], npt.NDArray[np.uint64]] = {}

    def _key(self, stream: str, shape: tuple[int, ...]) -> npt.NDArray[np.uint64]:
        key = self._keys.get((stream, shape))
        if key is None:
            start = (self._seed * _GOLDEN + zlib.crc32(stream.encode()) * 0xD1B54A32D192ED03) & _MASK
            # The place is numbered by node first, so that a node's noise does not depend on how many nodes there are.
            rows = np.arange(shape[0], dtype=np.uint64)
            places = rows if len(shape) == 1 else rows[:, None] * np.uint64(4096) + np.arange(shape[1], dtype=np.uint64)
            with np.errstate(over="ignore"):
                key = _mix(_mix(places * np.uint64(_GOLDEN) + np.uint64(start)) + np.uint64(start))
            self._keys[(stream, shape)] = key
        return key

    def uniform(self, stream: str, shape: tuple[int, ...], step: int = 0) -> Floats:
        """Return values in [0, 1), one a place, for that time step."""
        with np.errstate(over="ignore"):
            mixed = _mix(self._key(stream, shape) + np.uint64((step * _GOLDEN) & _MASK))
        drawn: Floats = (mixed >> np.uint64(11)).astype(np.float64) * _SCALE
        return drawn

    def normal(self, stream: str, shape: tuple[int, ...], step: int = 0) -> Floats:
        """Return values of mean 0 and standard deviation 1, never beyond 3.5, one a place, for that time step."""
        with np.errstate(over="ignore"):
            mixed = _mix(self._key(stream, shape) + np.uint64((step * _GOLDEN) & _MASK))
        # The sum of four 16-bit uniforms out of one hash.
        total = (
            (mixed & np.uint64(0xFFFF))
            + ((mixed >> np.uint64(16)) & np.uint64(0xFFFF))
            + ((mixed >> np.uint64(32)) & np.uint64(0xFFFF))
            + (mixed >> np.uint64(48))
        )
        drawn: Floats = (total.astype(np.float64) - 131070.0) * (1.7320508 / 65535.0)
        return drawn

    def smooth(self, stream: str, shape: tuple[int, ...], at_s: float) -> Floats:
        """Return values in [0, 1) that move linearly from one second's draw to the next: no jump at any time."""
        step = int(at_s // 1)
        share = at_s - step
        return self.uniform(stream, shape, step) * (1 - share) + self.uniform(stream, shape, step + 1) * share
