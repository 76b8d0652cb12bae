"""Libraries that are looked for before somebody asks."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from stethoscope.collect.libraries import look_ahead

if TYPE_CHECKING:
    import pytest


def test_who_asks_gets_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def find(name: str) -> str | None:
        asked.append((name, threading.current_thread() is threading.main_thread()))
        return f"lib{name}.so.1" if name == "liboqs" else None

    monkeypatch.setattr(ctypes.util, "find_library", find)
    monkeypatch.delitem(sys.modules, "asyncssh", raising=False)
    look_ahead()
    look_ahead()
    names = ("oqs", "liboqs", "nettle")
    assert [ctypes.util.find_library(name) for name in names] == [None, "libliboqs.so.1", None]
    assert asked == [("oqs", False), ("liboqs", False), ("nettle", True)]


def test_nothing_is_looked_for_once_asyncssh_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", sys)
    find = ctypes.util.find_library
    look_ahead()
    assert ctypes.util.find_library is find


def test_asyncssh_is_loaded_with_it() -> None:
    said = (
        "from stethoscope.collect.libraries import look_ahead; look_ahead(); import asyncssh; print(asyncssh.__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", said], check=True, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("asyncssh\n", "")
