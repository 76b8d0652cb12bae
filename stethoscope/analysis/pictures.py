"""Copies of columns that do not change any more, in memory that is used again once nobody looks at it."""

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


class Pictures:
    """The last copies of the arrays of one table, by their names."""

    def __init__(self, kept: int) -> None:
        """Keep the memory of `kept` copies of each array for the next ones."""
        self._kept = kept
        self._by_name: dict[str, deque[npt.NDArray[Any]]] = {}

    def take(self, name: str, array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
        """Return a read-only copy of the first `rows` rows, in the memory of an earlier one that nobody looks at any
        more if there is one.

        Fresh memory for some megabytes costs several times what the copying does.
        """
        pictures = self._by_name.setdefault(name, deque(maxlen=self._kept))
        shape = (*array.shape[:-1], rows)
        for picture in pictures:
            if picture.shape == shape and getrefcount(picture) <= _UNSEEN:
                picture.setflags(write=True)
                break
        else:
            picture = np.empty(shape, array.dtype)
            pictures.append(picture)
        np.copyto(picture, array[..., :rows])
        picture.setflags(write=False)
        return picture
