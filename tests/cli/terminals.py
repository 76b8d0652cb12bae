"""The command run with a terminal of its own, and every byte that it writes there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def in_terminal(
    home: Path, *arguments: str, columns: int = 200, errors: bool = True, **environment: str
) -> tuple[int, bytes]:
    """Return the exit code and what was written to a terminal of that width; `errors` go there too, or nowhere."""
    keep, give = pty.openpty()
    surroundings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        surroundings[name] = str(home)
    surroundings |= {"TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "stethoscope", *arguments],
        stdin=give,
        stdout=give,
        stderr=give if errors else subprocess.DEVNULL,
        env=surroundings,
    )
    os.close(give)
    written = b""
    while True:
        try:
            part = os.read(keep, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(keep)
    return process.wait(), written
