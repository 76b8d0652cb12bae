"""Runs the probe in sh in one of the shells and reads what it prints."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from stethoscope.collect import shell
from stethoscope.collect.stream import ProbeStream
from stethoscope.model import wire
from stethoscope.parse.stream import parse
from tests import needs
from tests.probe.running import group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stethoscope.model.wire import Message

NONCE = "5e11"
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "ash"], "mksh": ["mksh"]}
TOOLS = ("grep", "date", "sleep", "tail", "dd")
QUIET_DMESG = "#!/bin/sh\n"


def tools(directory: Path, name: str) -> Path:
    """Make a folder with nothing but what the probe needs, in the form that goes with the shell, and a dmesg that says
    nothing; return it."""
    directory.mkdir(parents=True)
    busybox = needs.tool("busybox") if name == "busybox" else ""
    for tool in TOOLS:
        (directory / tool).symlink_to(busybox or needs.tool(tool))
    dmesg = directory / "dmesg"
    dmesg.write_text(QUIET_DMESG)
    dmesg.chmod(0o755)
    return directory


class ShellProbe:
    """A probe in sh, in a process group of its own."""

    def __init__(self, name: str, path: str, root: Path | None, scratch: Path, *, tick_s: float = 0.2) -> None:
        """Run it in the shell `name` with this PATH on the tree `root`; `scratch` takes the script as it is sent."""
        script = scratch / "stream.sh"
        script.write_text(shell.script())
        program = [needs.tool(SHELLS[name][0]), *SHELLS[name][1:]]
        self.process = subprocess.Popen(
            [*program, str(script), NONCE, f"{tick_s:g}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": path, **({"STETHOSCOPE_ROOT": str(root)} if root else {})},
            start_new_session=True,
            # What ignores a signal at its start cannot be told to take it: the tests may run under nohup.
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
        )
        self.raw: list[bytes] = []
        self._queue: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        stream = ProbeStream(NONCE)
        while part := os.read(self.process.stdout.fileno(), 65536):
            for block in stream.feed(part, time.monotonic()):
                self._queue.put(block)
        self._queue.put(None)

    def send(self, line: bytes) -> None:
        """Write one control line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def close_input(self) -> None:
        """Let it see the end of its input."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def messages(self, patience_s: float = 20.0) -> Iterator[Message]:
        """Yield each message as it comes until the probe ends."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                block = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"nothing within {patience_s} s; last {self.raw[-1:]}") from None
            if block is None:
                return
            self.raw.append(block)
            yield parse(block)

    def until(self, wanted: Callable[[Any], Any], patience_s: float = 20.0) -> Any:
        """Read on to the first message that is wanted and return it."""
        for message in self.messages(patience_s):
            if wanted(message):
                return message
        raise AssertionError(f"the probe ended; last {self.raw[-1:]}")

    def full(self, wanted: Callable[[wire.Full], Any] = bool, patience_s: float = 20.0) -> wire.Full:
        """Read on to the first full frame that is wanted and return it."""
        found: wire.Full = self.until(
            lambda message: isinstance(message, wire.Full) and (wanted is bool or wanted(message)), patience_s
        )
        return found

    def gpus(self) -> wire.Full:
        """Return the first full frame with GPUs in it."""
        return self.full(lambda frame: frame.gpus)

    def processes(self) -> list[int]:
        """Return what still runs of it and its children."""
        return group_of(self.process.pid)

    def stop(self) -> None:
        """End it in every case."""
        self.close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        self.process.stderr.close()
