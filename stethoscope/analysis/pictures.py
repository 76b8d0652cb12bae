"""Copies of arrays in memory that is used again once nobody looks at it any more."""

from __future__ import annotations

from collections import deque
from sys import getrefcount
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

_UNSEEN = 3
"""References to an array that only its list, a loop and the counting itself know of; a view of it is one more."""


class Spares:
    """The last arrays of one table, by their names."""

    def __init__(self, kept: int) -> None:
        """Know the last `kept` arrays of each name, and take the memory of those that nobody else knows."""
        self._kept = kept
        self._by_name: dict[str, deque[npt.NDArray[Any]]] = {}

    def copy(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a copy, in the memory of an earlier array if there is one that nobody looks at any more.

        Fresh memory for some megabytes costs several times what the copying does.
        """
        spares = self._by_name.setdefault(name, deque(maxlen=self._kept))
        for spare in spares:
            if spare.shape == array.shape and getrefcount(spare) <= _UNSEEN:
                break
        else:
            spare = np.empty_like(array)
            spares.append(spare)
        np.copyto(spare, array)
        return spare
