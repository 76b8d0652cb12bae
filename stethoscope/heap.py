"""How the C library keeps memory that was given back."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Names of parameters of glibc's `mallopt` (malloc.h)."""
_LARGE = 256 * 1024
"""Bytes from which memory comes from the system and goes back to it at once."""
_SPARE = 1024 * 1024
"""Free bytes at the end of the heap that may stay."""


def one_heap() -> None:
    """Let all threads use one heap; before there is another thread. What one thread has given back, others need a
    moment later: with a heap for each, and an end that grows to 64 MiB, a fleet of 2,000 nodes keeps 27 MiB that
    nobody uses."""
    _set(_ARENA_MAX, 1)
    part_large()


def part_large() -> None:
    """Keep large arrays out of the heap of what is small, and let that shrink."""
    _set(_MMAP_THRESHOLD, _LARGE)
    _set(_TRIM_THRESHOLD, _SPARE)


def give_back() -> None:
    """Give what is free between what is in use back to the system: a look of the rules at a large fleet leaves
    20 MiB. Takes some milliseconds."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _set(option: int, value: int) -> None:
    set_option = _function("mallopt")
    if set_option is not None:
        set_option(option, value)


@cache
def _function(name: str) -> Any:
    """Return a function of the C library, None of one that does not have it."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
