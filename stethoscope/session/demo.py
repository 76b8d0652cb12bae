"""A simulated fleet as a child process, for as long as a console is open on it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from stethoscope.errors import EXIT_DATA, EXIT_USAGE, DataError, InternalError, StethoscopeError, UsageError
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from stethoscope.session.session import Session
    from stethoscope.session.taps import Tap

START_TIMEOUT_S = 20.0
_CONTROL = re.compile(r", control (/[^\n]+)\n")


class DemoFleet:
    """Starts `stethoscope sim` at once, so that it boots while the console is imported; stops it on exit."""

    def __init__(self, *, scenario: str | None, start_at: str, speed: float, playbooks: Sequence[Path] = ()) -> None:
        """Take the scenario (a file, the name of a bundled one, None for the default), its start time and speed, and
        directories of an operator's own playbooks for those who look."""
        self._playbooks = tuple(playbooks)
        self._arguments = ["--start-at", start_at, "--speed", str(speed)]
        if scenario is not None:
            self._arguments += ["--scenario", scenario]
        self._child: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes]
        self._directory = Path()

    def __enter__(self) -> Self:
        """Start the child; it serves once its fleet file is there."""
        self._directory = Path(tempfile.mkdtemp(prefix="stethoscope-demo-"))
        command = [sys.executable, "-m", "stethoscope", "sim", "--write-fleet", str(self.fleet_file)]
        command += ["--with-parent", str(os.getpid()), *self._arguments]
        self._said = tempfile.TemporaryFile()
        # A session of its own: the terminal's Ctrl-C belongs to the console, which then ends the child.
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said, start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the child and remove its keys and fleet file."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(5)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._said.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def fleet_file(self) -> Path:
        """Return where the child writes the fleet file."""
        return self._directory / "fleet.yaml"

    async def open_session(self, taps: Sequence[Tap] = ()) -> Session:
        """Wait for the fleet to serve and return a session on it, whose `taps` get all that comes; a child that ended
        says why in a DataError."""
        # What opening needs takes as long to import as the fleet takes to start.
        _load()
        await self.serving()
        from stethoscope.session.open import open_fleet_file
        from stethoscope.session.resolve import journaled

        return open_fleet_file(self.fleet_file, journaled(), taps, self._directory / "recordings", self._playbooks)

    async def control(self) -> Path:
        """Return the control socket of the fleet, which serves by now."""
        for _ in range(int(START_TIMEOUT_S / 0.02)):
            self._said.seek(0)
            told = _CONTROL.search(self._said.read(4000).decode(errors="replace"))
            if told is not None:
                return Path(told[1])
            await asyncio.sleep(0.02)
        raise InternalError("the simulated fleet did not say where it can be controlled")

    def _why(self, code: int) -> StethoscopeError:
        """Return what ended the child, in its own words."""
        self._said.seek(0)
        said = clean(self._said.read(4000), 1000).removeprefix("stethoscope: ")
        if code in (EXIT_USAGE, EXIT_DATA) and said:
            return UsageError(said) if code == EXIT_USAGE else DataError(said)
        return InternalError(f"the simulated fleet ended with code {code}: {said}")

    async def serving(self) -> None:
        """Wait until the fleet serves; a child that ended says why in a DataError."""
        child = self._child
        if child is None:
            raise InternalError("the simulated fleet was not started")
        for _ in range(int(START_TIMEOUT_S / 0.02)):
            if self.fleet_file.exists():
                return
            if child.poll() is not None:
                raise self._why(child.returncode)
            await asyncio.sleep(0.02)
        raise InternalError(f"the simulated fleet did not start within {START_TIMEOUT_S:.0f} s")


def _load() -> None:
    import stethoscope.collect.dial
    import stethoscope.collect.ssh
    import stethoscope.session.open
    import stethoscope.specs.fleet  # noqa: F401
