"""How the C library keeps memory that was given back."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of glibc's mallopt."""
_KEPT = 2 * 2**20
"""So many bytes at the end of the heap stay for what is needed next; larger arrays go back at once."""


def one_heap() -> None:
    """Let all threads use one heap, which shrinks; before there is another thread. What one thread has given back,
    others need a moment later: with a heap for each, and an end that grows to 64 MiB, a fleet of 2,000 nodes keeps
    27 MiB that nobody uses."""
    set_option = _function("mallopt")
    if set_option is None:
        return
    for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _KEPT), (_TRIM_THRESHOLD, _KEPT)):
        set_option(option, value)


def give_back() -> None:
    """Give what is free between what is in use back to the system: a look of the rules at a large fleet leaves
    20 MiB. Takes some milliseconds."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


@cache
def _function(name: str) -> Any:
    """Return a function of the C library, None of one that does not have it."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
