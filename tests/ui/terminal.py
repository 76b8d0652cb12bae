"""A program in a pseudo-terminal, and what a person would see of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyte

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
CONSOLES = Path(__file__).with_name("consoles.py")
# Private sequences that pyte would print as text: keyboard protocols and questions about modes.
_UNKNOWN = re.compile(rb"\x1b\[[<>=?][0-9;]*(?:\$p|u)")


class Terminal:
    """Runs a program; `screen` is what it has drawn, `raw` every byte of it."""

    def __init__(self, arguments: list[str], *, columns: int = 80, lines: int = 24, **environment: str) -> None:
        """Start `arguments` with a Python of this environment."""
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.cursor_column = 0
        """What is answered when the program asks where the cursor stands; nothing for 0."""
        self.status: int | None = None
        base = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "TEXTUAL_ANIMATIONS": "none", "PATH": os.environ["PATH"]}
        base["HOME"] = environment.pop("HOME", "/dev/null/nowhere")
        base["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
        self.started = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, *arguments], base | environment)
        self._size(columns, lines)

    def __enter__(self) -> Self:
        """Return the running terminal."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program if it has not ended."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            _, self.status = os.waitpid(self.pid, 0)
        os.close(self._fd)

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        self.screen.resize(lines, columns)
        self._size(columns, lines)
        os.kill(self.pid, signal.SIGWINCH)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._fd, keys.encode())

    def read(self, seconds: float) -> bytes:
        """Read for some time; return what came."""
        end = time.monotonic() + seconds
        got = b""
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if not ready:
                break
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:
                break
            if not data:
                break
            got += data
            if self.cursor_column and b"\x1b[6n" in data:
                self.send(f"\x1b[1;{self.cursor_column}R")
            self._stream.feed(_UNKNOWN.sub(b"", data))
        self.raw += got
        return got

    @property
    def text(self) -> str:
        """Return the screen as lines of text."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, true: Callable[[str], bool] | str, seconds: float = 60.0) -> str:
        """Read until the screen's text contains or fulfils `true`; fails with the screen when it never does."""
        end = time.monotonic() + seconds
        fulfilled = (lambda text: true in text) if isinstance(true, str) else true
        while not fulfilled(self.text):
            if time.monotonic() > end:
                raise AssertionError(f"not seen: {true}\n{self.text}")
            if not self.read(0.05) and self._ended():
                break
        assert fulfilled(self.text), self.text
        return self.text

    def settle(self) -> str:
        """Read until nothing more comes for a moment, and return the text."""
        while self.read(0.2):
            pass
        return self.text

    def finish(self, seconds: float = 30.0) -> int:
        """Read until the program has ended and return its exit code (negative: the signal)."""
        end = time.monotonic() + seconds
        while not self._ended():
            assert time.monotonic() < end, f"still running\n{self.text}"
            self.read(0.05)
        self.read(0.05)
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    def _ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None


def console(kind: str, *arguments: str, columns: int = 80, lines: int = 24, **environment: str) -> Terminal:
    """Return a terminal with the console on the scene `kind`."""
    return Terminal([str(CONSOLES), kind, *arguments], columns=columns, lines=lines, **environment)
