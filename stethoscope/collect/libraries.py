"""Libraries that asyncssh asks the system for when it is loaded: looked for meanwhile, while something else is done.

Where liboqs is not installed, three programs are run for each of its names before Python knows: 20 ms on a quiet
machine, and 80 on a busy one, that the first values of nodes would wait for.
"""

from __future__ import annotations

import ctypes.util
import sys
from concurrent.futures import ThreadPoolExecutor

_NAMES = ("oqs", "liboqs")
"""What is looked for by names that most machines have nothing for."""


def look_ahead() -> None:
    """Begin to look, in a thread, unless asyncssh is there already; who asks for one of them gets the answer."""
    find = ctypes.util.find_library
    if "asyncssh" in sys.modules or getattr(find, "looks_ahead", False):
        return
    thread = ThreadPoolExecutor(1, thread_name_prefix="libraries")
    found = {name: thread.submit(find, name) for name in _NAMES}
    thread.shutdown(wait=False)

    def find_library(name: str) -> str | None:
        return found[name].result() if name in found else find(name)

    find_library.looks_ahead = True  # type: ignore[attr-defined]
    ctypes.util.find_library = find_library
