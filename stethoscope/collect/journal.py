"""The journal of everything that was run on nodes and login hosts: JSON lines, a file a month, kept for the user alone.

A line is `{"at":"2026-03-14T02:14:07Z","node":"gpu-007","who":"ops@desk1","kind":"stream","command":"...",
"result":"ok","seconds":0.21}`. `result` is `ok`, or `failed` with words behind a colon.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.paths import write_private
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.clock import Clock

_TEXT_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class Entry:
    """One command."""

    at: str
    """When it ended, ISO 8601 UTC."""
    node: str
    who: str
    kind: str
    command: str
    result: str
    seconds: float = 0.0


class Journal:
    """Appends entries; what cannot be written is a notice and never an error."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        """Write into `directory`, made at the first entry."""
        self._directory = directory
        self._clock = clock
        self._who = clean(f"{_user()}@{socket.gethostname()}", 200)
        self._month = ""
        self._file: int | None = None
        self._failed = self._scripts_failed = False
        self._notices: list[str] = []

    def write(self, node: str, kind: str, command: str, result: str, seconds: float) -> None:
        """Append one entry, in one write, so that several consoles can share a file."""
        at = iso(self._clock.wall())
        entry = Entry(
            at,
            clean(node, 255),
            self._who,
            kind,
            clean(command, _TEXT_LIMIT),
            clean(result, _TEXT_LIMIT),
            round(seconds, 3),
        )
        line = json.dumps(asdict(entry), ensure_ascii=False, separators=(",", ":")) + "\n"
        try:
            os.write(self._opened(at[:7]), line.encode("utf-8", "replace"))
        except OSError as error:
            if not self._failed:
                self._notices.append(f"commands are not written to {self._directory}: {error.strerror}")
            self._failed = True
        else:
            self._failed = False

    def keep(self, script: str, sha256: str) -> None:
        """Keep the text of a script beside the entries, once, as `scripts/SHA256.sh`, so that an entry that names it
        tells all that was run."""
        path = self._directory / "scripts" / f"{sha256}.sh"
        if path.exists():
            return
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, script.encode())
        except OSError as error:
            if not self._scripts_failed:
                self._notices.append(f"scripts are not kept in {path.parent}: {error.strerror}")
            self._scripts_failed = True

    def take_notices(self) -> list[str]:
        """Return what people should know, once."""
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        """Close the file; the next entry opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self, month: str) -> int:
        if self._file is None or month != self._month:
            self.close()
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._directory / f"{month}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._month = month
        return self._file


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # In a container the user may have a number and no name.
        return f"uid{os.getuid()}"


def read_journal(directory: Path, since: str = "") -> Iterator[Entry]:
    """Yield the entries since the time `since` (ISO 8601 UTC), oldest first; lines that are none are left out.

    Raises OSError when a file cannot be read.
    """
    for path in sorted(directory.glob("[0-9][0-9][0-9][0-9]-[0-9][0-9].jsonl")):
        if path.stem < since[:7]:
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                entry = _entry(line)
                if entry is not None and entry.at >= since:
                    yield entry


def _entry(line: str) -> Entry | None:
    try:
        found = json.loads(line)
        text = {name: clean(str(found[name])) for name in ("at", "node", "who", "kind", "command", "result")}
        return Entry(**text, seconds=float(found["seconds"]))
    except (ValueError, KeyError, TypeError):
        return None
