"""Arrays that say the same in every row, as one cell; and what was worked out before from the same arrays.

Of the rules that ship hardly one is true anywhere at a time, and most of what they look at stands still: what they make
of that is not made again for every row at every look.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stethoscope.model.grid import is_uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

T = TypeVar("T")

_LONG = 2**16
_FIRST = 64
"""So many cells tell of most arrays that they need all their digits."""


def filled(rows: int, value: Any, dtype: npt.DTypeLike) -> Array:
    """Return an array of one value, which nobody may change."""
    return np.broadcast_to(np.array(value, dtype), (rows,))


def of_one(array: Array, made: Callable[[Array], Array]) -> Array:
    """Return what `made`, which looks at each row for itself, makes of an array: of one that is the same in every row
    only once."""
    return np.broadcast_to(made(array[:1]), array.shape) if is_uniform(array) else made(array)


def settled(array: Array) -> Array:
    """Return an array as it is from now on, as one cell where it says the same in every row."""
    if array.size > 1 and not is_uniform(array) and not array.dtype.hasobject:
        bits = array.view(f"u{array.itemsize}")
        if bits[0] == bits[-1] == bits[array.size // 2] and (bits == bits[0]).all():
            return np.broadcast_to(array[:1].copy(), array.shape)
    array.flags.writeable = False
    return array


def is_equal(one: Array, other: Array) -> bool:
    """Tell whether two arrays say the same, what is missing in both included."""
    if one is other:
        return True
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if is_uniform(one) and is_uniform(other):
        one, other = one[:1], other[:1]
    return bool((one.view(f"u{one.itemsize}") == other.view(f"u{other.itemsize}")).all())


def shorter(array: Array) -> Array:
    """Return an array of 64-bit floats as one of 16-bit floats, or of 32-bit ones, where these are exactly the same."""
    if array.dtype != np.float64 or is_uniform(array):
        return array
    for dtype in (np.float16, np.float32):
        short = _exactly(array[:_FIRST], dtype)
        if short is not None:
            short = _exactly(array, dtype)
        if short is not None:
            return settled(short)
    return array


def _exactly(array: Array, dtype: npt.DTypeLike) -> Array | None:
    """Return what is exactly the same in another type, None where that cannot be."""
    with np.errstate(over="ignore"):
        short = array.astype(dtype)
    return short if (short.astype(np.float64).view(np.uint64) == array.view(np.uint64)).all() else None


def is_any(flags: Array) -> bool:
    """Tell whether any of some flags is set."""
    return bool(flags[0]) if is_uniform(flags) else bool(flags.any())


class Recall:
    """What was made last time, by a key, and of what."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._made: dict[Hashable, tuple[tuple[object, ...], Any]] = {}
        self._same: dict[Hashable, Array] = {}
        self._equal: dict[Hashable, Any] = {}

    def made(self, key: Hashable, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return what `make` makes; the same object as last time when that was made `of` the very same objects."""
        before = self._made.get(key)
        if before is not None and len(before[0]) == len(of) and all(map(is_, before[0], of)):
            made: T = before[1]
            return made
        made = make()
        self._made[key] = (of, made)
        return made

    def joined(self, array: Array) -> Array:
        """Return another array that was made and says the same, where this one, which nobody may change any more, is
        as long as those of links and devices are: that is rarely made and takes megabytes."""
        if array.size >= _LONG and not is_uniform(array):
            ends = array[:: array.size // 3].tobytes()
            for _, made in self._made.values():
                if (
                    isinstance(made, np.ndarray)
                    and made.shape == array.shape
                    and made.dtype == array.dtype
                    and made[:: array.size // 3].tobytes() == ends
                    and is_equal(made, array)
                ):
                    return made
        return array

    def same(self, key: Hashable, array: Array) -> Array:
        """Return the array of last time when this one says the same, else this one; nobody may change it any more."""
        before = self._same.get(key)
        if before is not None and is_equal(before, array):
            return before
        self._same[key] = array = settled(array)
        return array

    def equal(self, key: Hashable, made: T) -> T:
        """Return the object of last time when this one is equal to it, else this one; nobody may change it any more."""
        before = self._equal.get(key)
        if before is not None and before == made:
            same: T = before
            return same
        self._equal[key] = made
        return made
