"""The night's list of one fleet on disk: records as JSON lines that consoles write beside each other.

One file for each fleet in the state directory, `nights/NAME-HASH.jsonl`, readable by the user alone. A line is written
in one piece and begins with a line break, so that one which was cut off by a crash costs only itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.errors import DataError
from stethoscope.model.night import Found, Records, Whole
from stethoscope.paths import of_fleet, write_private
from stethoscope.text import clean, clean_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

SCHEMA = "stethoscope.night/1"
LARGEST = 64 * 2**20
"""Bytes of a file that is read."""
COMPACT_ABOVE = 4 * 2**20
"""A file that has grown beyond this is written anew."""
MOST_PLACES = 4096
"""Places of a finding that are kept."""
_LONGEST_LINE = 2**20
_WAIT_S, _POLL_S = 2.0, 0.02
"""A lock that another console keeps for longer is done without: a line goes out in one piece anyway."""


class NightFile:
    """The records of one fleet, shared by all consoles of the user."""

    def __init__(self, fleet: str, directory: Path | None = None) -> None:
        """Keep the records of the fleet of that name in `directory`, or in the user's state directory."""
        self.fleet = fleet
        path = of_fleet("nights", fleet, "jsonl")
        self.path = path if directory is None else directory / path.name
        self.bad_lines = 0
        """Lines that could not be read."""
        self._inode = 0
        self._read = 0

    def exchange(self, records: Iterable[Records] = ()) -> tuple[list[Records], bool]:
        """Write `records`; return those of others since the last time, and whether they are all that the file holds,
        because it is another one. DataError when it cannot be written or read."""
        lines = b"".join(map(_line, records))
        try:
            if not lines and not self._has_more():
                return [], False
            with self._locked():
                others, anew = self._news()
                if lines:
                    self._append(lines)
                return others, anew
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(self.path)) from error

    @property
    def is_large(self) -> bool:
        """Tell whether the file should be written anew."""
        return self._read > COMPACT_ABOVE

    def compact(self, merge: Callable[[list[Records]], Iterable[Records]]) -> None:
        """Replace all records by what `merge` makes of them; DataError when that cannot be."""
        try:
            with self._locked():
                records = self._decoded(self._content(0))
                write_private(self.path, _head(self.fleet) + b"".join(map(_line, merge(records))))
                status = self.path.stat()
                self._inode, self._read = status.st_ino, status.st_size
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(self.path)) from error

    def _has_more(self) -> bool:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return False
        return status.st_ino != self._inode or status.st_size != self._read

    def _news(self) -> tuple[list[Records], bool]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            status = None
        anew = status is None or status.st_ino != self._inode or status.st_size < self._read
        content = self._content(0 if anew else self._read) if status is not None else b""
        self._inode = status.st_ino if status is not None else 0
        self._read = (0 if anew else self._read) + len(content)
        return self._decoded(content), anew

    def _content(self, start: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read(LARGEST)
        except FileNotFoundError:
            return b""

    def _append(self, lines: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size == 0:
                lines = _head(self.fleet) + lines
            written = os.write(file, lines)
            if written < len(lines):
                # A disk that is full took a part of it, which then is nothing.
                raise OSError(28, "the disk is full")
            status = os.fstat(file)
            self._inode, self._read = status.st_ino, status.st_size
        finally:
            os.close(file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            waited_s = 0.0
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if waited_s >= _WAIT_S:
                        break
                    time.sleep(_POLL_S)
                    waited_s += _POLL_S
                except OSError:
                    # A file system without locks.
                    break
            yield
        finally:
            os.close(lock)

    def _decoded(self, content: bytes) -> list[Records]:
        records: list[Records] = []
        for line in content.split(b"\n"):
            if not line or len(line) > _LONGEST_LINE or line.startswith(b'{"schema"'):
                continue
            try:
                records.append(msgspec.convert(clean_json(json.loads(line), clean), _RECORD))
            except (ValueError, RecursionError, msgspec.MsgspecError):
                self.bad_lines += 1
        return records


_RECORD: Any = Records


def night_dir() -> Path:
    """Return the directory of all lists."""
    return of_fleet("nights", "", "jsonl").parent


def kept_fleets(directory: Path | None = None) -> dict[str, Path]:
    """Return the fleets of which a list is kept, each with its file."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        for path in sorted((directory or night_dir()).glob("*.jsonl")):
            with suppress(OSError, ValueError, AttributeError), path.open("rb") as file:
                fleet = json.loads(file.readline(8192).strip() or file.readline(8192)).get("fleet")
                if isinstance(fleet, str):
                    found[fleet] = path
    return found


def _head(fleet: str) -> bytes:
    return json.dumps({"schema": SCHEMA, "fleet": fleet}).encode() + b"\n"


def _line(record: Records) -> bytes:
    if isinstance(record, Found) and len(record.finding.where) > MOST_PLACES:
        record = msgspec.structs.replace(record, finding=_shortened(record.finding))
    elif isinstance(record, Whole) and len(record.entry.finding.where) > MOST_PLACES:
        from dataclasses import replace

        record = Whole(at=record.at, entry=replace(record.entry, finding=_shortened(record.entry.finding)))
    # JSON that holds none but ASCII characters has no line break inside; a lone surrogate stays what it is.
    return b"\n" + json.dumps(msgspec.to_builtins(record)).encode() + b"\n"


def _shortened(finding: Any) -> Any:
    from dataclasses import replace

    return replace(finding, where=finding.where[:MOST_PLACES])
