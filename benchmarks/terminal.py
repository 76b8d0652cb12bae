"""A program in a pseudo-terminal whose bytes, answers to keys, CPU and memory are taken down, and nothing drawn."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TICKS = os.sysconf("SC_CLK_TCK")


class Terminal:
    """Runs a program; `taken` has what it sent, with the seconds since its start."""

    def __init__(self, command: Sequence[str], columns: int, rows: int, environment: Mapping[str, str]) -> None:
        """Start `command` in a terminal of this size."""
        self.columns, self.rows = columns, rows
        self._controller, terminal = pty.openpty()
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.taken: list[tuple[float, bytes]] = []
        self.sent = 0
        """Bytes that the program has sent."""
        self.started = time.perf_counter()
        self._child = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=dict(environment), start_new_session=True,
        )  # fmt: skip
        os.close(terminal)
        self.pid = self._child.pid

    def __enter__(self) -> Self:
        """Return the running terminal."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program."""
        if self._child.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()
        os.close(self._controller)

    def read(self, timeout_s: float) -> bytes:
        """Return what comes next, nothing after `timeout_s`, or once the program has ended."""
        if not select.select([self._controller], [], [], max(0.0, timeout_s))[0]:
            return b""
        try:
            data = os.read(self._controller, 1 << 20)
        except OSError:
            raise RuntimeError(f"it ended:\n{self.tail()}") from None
        self.taken.append((time.perf_counter() - self.started, data))
        self.sent += len(data)
        return data

    def tail(self) -> str:
        """Return the end of what was sent, for people."""
        return b"".join(data for _, data in self.taken[-20:])[-1500:].decode("utf-8", "replace")

    def run(self, seconds: float) -> None:
        """Read for so long."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def type(self, keys: str) -> None:
        """Send keys."""
        os.write(self._controller, keys.encode())

    def answer_ms(self, keys: str, answer: bytes, limit_s: float = 5.0) -> float:
        """Send keys and return after how many milliseconds `answer` was in what came since; `limit_s` when it never
        was."""
        while self.read(0.0):
            pass
        began = time.perf_counter()
        self.type(keys)
        got = b""
        while answer not in got:
            left = began + limit_s - time.perf_counter()
            if left <= 0:
                return 1000 * limit_s
            got += self.read(left)
        return 1000 * (time.perf_counter() - began)

    def cpu_s(self) -> float:
        """Return the CPU seconds that the program has used, in user and in system mode, without its children."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mib(self) -> tuple[float, float]:
        """Return what the program holds in memory now, and the most that it held."""
        found = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return int(found["VmRSS"].split()[0]) / 1024, int(found["VmHWM"].split()[0]) / 1024

    def steady(self, seconds: float) -> tuple[float, float]:
        """Read for so long; return the share of a core in percent, and the bytes a second to the terminal."""
        cpu, sent, began = self.cpu_s(), self.sent, time.perf_counter()
        self.run(seconds)
        elapsed = time.perf_counter() - began
        return 100 * (self.cpu_s() - cpu) / elapsed, (self.sent - sent) / elapsed


def available(name: str) -> str | None:
    """Return the path of a program, None where it is not installed."""
    import shutil

    return shutil.which(name)
