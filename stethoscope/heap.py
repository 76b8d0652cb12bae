"""How the C library keeps memory that was given back."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of glibc's mallopt."""
_KEPT = 2 * 2**20
"""So many bytes at the end of the heap stay for what is needed next; larger arrays go back at once."""


def one_heap() -> None:
    """Let all threads use one heap, which shrinks; before there is another thread. What one thread has given back,
    others need a moment later: with a heap for each, and an end that grows to 64 MiB, a fleet of 2,000 nodes keeps
    27 MiB that nobody uses."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # another C library
    for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _KEPT), (_TRIM_THRESHOLD, _KEPT)):
        set_option(option, value)
