"""Runs the real probe as a child process and reads what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stethoscope.collect import payload
from stethoscope.model import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NONCE = "0f1e2d3c4b5a6978"
PATIENCE_S = 20.0


def interpreters() -> list[str]:
    """Return every Python from 3.6 to 3.13 that is on this machine, one of each version."""
    found: dict[str, str] = {}
    places = [
        *Path.home().glob(".pyenv/versions/*/bin"),
        Path("/usr/bin"),
        Path("/usr/local/bin"),
        Path("/opt/python3/bin"),
    ]
    for folder in places:
        for minor in range(6, 14):
            path = folder / f"python3.{minor}"
            if os.access(path, os.X_OK):
                found.setdefault(f"3.{minor}", str(path))
    return [found[version] for version in sorted(found, key=lambda version: int(version[2:]))]


class RunningProbe:
    """A probe that was started by the console's command line, in a process group of its own.

    `through` is the program that gets the command line as its last argument: a login shell, or a client of a server.
    """

    def __init__(
        self,
        environment: dict[str, str] | None = None,
        *,
        tick_s: float = 0.2,
        through: Sequence[str] = ("/bin/sh", "-c"),
        path: str = "/usr/bin:/bin",
        sent: bytes | None = None,
        nonce: str = NONCE,
    ) -> None:
        self.nonce = nonce
        self.process = subprocess.Popen(
            [*through, payload.command(nonce, tick_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": path, "HOME": "/nonexistent", **(environment or {})},
            start_new_session=True,
        )
        self.raw: list[bytes] = []
        self._queue: queue.Queue[bytes] = queue.Queue()
        self._stdin = self.process.stdin
        self.write(payload.payload() if sent is None else sent)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line)
        self._queue.put(b"")

    def write(self, data: bytes) -> None:
        """Write to the probe's standard input."""
        assert self._stdin is not None
        self._stdin.write(data)
        self._stdin.flush()

    def send(self, **message: Any) -> None:
        """Write one control line."""
        self.write(json.dumps(message).encode() + b"\n")

    def close_input(self) -> None:
        """Let the probe see the end of its input."""
        assert self._stdin is not None
        with contextlib.suppress(OSError):
            self._stdin.close()

    def messages(self, patience_s: float = PATIENCE_S) -> Iterator[wire.Message]:
        """Yield each message as it comes until the probe ends; the sentinel must come first."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"nothing within {patience_s} s; so far {self.raw[-3:]}") from None
            if not line:
                return
            self.raw.append(line)
            if len(self.raw) == 1:
                assert line == wire.sentinel(self.nonce).encode() + b"\n"
                continue
            yield wire.decode(line)

    def until(self, wanted: Callable[[wire.Message], Any], patience_s: float = PATIENCE_S) -> Any:
        """Read on to the first message that is wanted and return it."""
        for message in self.messages(patience_s):
            if wanted(message):
                return message
        raise AssertionError(f"the probe ended; last lines {self.raw[-3:]}, errors {self.errors()!r}")

    def full(self) -> wire.Full:
        """Ask for a full frame and return it."""
        self.send(do="full")
        return self.until(lambda message: isinstance(message, wire.Full))

    def gpus(self) -> wire.Full:
        """Return the first full frame that has GPUs in it; children that a test beside this one has lost on this
        machine hold it up as long as they are there."""
        return self.until(lambda message: isinstance(message, wire.Full) and message.gpus, 3 * PATIENCE_S)

    def note(self, key: str, words: str, patience_s: float = PATIENCE_S) -> wire.Message:
        """Read on to the first frame whose notes say `words` about `key`."""
        return self.until(
            lambda message: (
                isinstance(message, wire.Full | wire.Delta)
                and message.notes is not None
                and message.notes.get(key) == words
            ),
            patience_s,
        )

    def errors(self) -> bytes:
        """Return what the probe wrote to its standard error; only when it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read() if self.process.poll() is not None else b""

    def ended_within(self, seconds: float) -> bool:
        """Tell whether the probe ends in time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End it in every case."""
        self.close_input()
        if not self.ended_within(5):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def strike(pid: int, number: int) -> None:
    """Send a signal to a process that exists: 0 would be everybody in the group, the tests themselves among them."""
    assert pid > 1
    os.kill(pid, number)


def children_of(pid: int, mark: str = "stethoscope-nvml") -> list[int]:
    """Return the processes whose parent is `pid` and that have `mark` among their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and has_mark(int(entry.name), mark):
            with contextlib.suppress(OSError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def has_mark(pid: int, mark: str) -> bool:
    """Tell whether the process is there and has `mark` among its arguments."""
    try:
        return mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def group_of(group: int) -> list[int]:
    """Return the processes of a process group that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], Any], patience_s: float) -> bool:
    """Tell whether the condition comes true in time."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
