"""What is being written down and not yet recorded: a draft of each is kept as it is typed, for the user alone."""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from stethoscope.errors import DataError
from stethoscope.model.incident import Incident  # noqa: TC001  msgspec reads it
from stethoscope.paths import state_dir, write_private
from stethoscope.text import clean, clean_page

SCHEMA = "stethoscope.draft/1"
LARGEST = 8 * 2**20
_AWAY_S = 60.0
"""Of a console on another machine nothing is known: for so long after its last key it is taken to be at it."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An incident that is being written."""

    schema: str = SCHEMA
    key: str
    """What it is about, such that the same question finds it again: `verdict/job/4242`, `INC-2026-03-14-k7qmx`."""
    saved: float
    """Wall seconds."""
    expected: str = ""
    """Digest of the file whose editing this is, empty for a new one."""
    incident: Incident
    writer: str = ""
    """The console that has it in its form, as `writer` names it; empty once it was left."""

    @property
    def name(self) -> str:
        """Return its title, or how what is written begins."""
        one = self.incident
        said = (one.title, *one.resolution.splitlines(), *one.places)
        return next((clean(text.strip(), 120) for text in said if text.strip()), "without a title")

    def is_elsewhere(self, now: float) -> bool:
        """Tell whether another console that still runs has it in its form, at wall second `now`."""
        if self.writer in ("", writer()):
            return False
        host, _, process = self.writer.rpartition(" ")
        if host != _host():
            return 0 <= now - self.saved < _AWAY_S
        number = process.partition(".")[0]
        return number.isdecimal() and process == _process(int(number))


def writer(process: int | None = None) -> str:
    """Return the name of a console, by default of this one: no other has it, and none gets it later."""
    return f"{_host()} {_process(os.getpid() if process is None else process)}"


@cache
def _host() -> str:
    import socket

    return socket.gethostname()


def _process(number: int) -> str:
    """Return the number of a process with the tick at which it started, which the next one of that number has not;
    empty where there is none."""
    try:
        said = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{number}.{said.rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        pass
    try:
        os.kill(number, 0)
    except PermissionError:
        return f"{number}.0"
    except OSError:
        return ""
    return f"{number}.0"


class Drafts:
    """The drafts of the user, a file each: a console that is killed has lost nothing but its last key."""

    def __init__(self, directory: Path | None = None) -> None:
        """Keep them in `directory`, by default that of the user's state."""
        self.directory = directory if directory is not None else state_dir() / "drafts"

    def save(self, draft: Draft) -> None:
        """Keep `draft` in place of an older one of its key; DataError when that cannot be."""
        try:
            content = msgspec.json.encode(draft)
        except UnicodeEncodeError:
            content = msgspec.json.encode(_without_surrogates(draft))
        path = self._path(draft.key)
        try:
            write_private(path, content)
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(path)) from error

    def all(self) -> list[Draft]:
        """Return the drafts, the latest first; what cannot be read is none."""
        found = []
        with suppress(OSError):
            for path in sorted(self.directory.glob("*.json")):
                with suppress(OSError, ValueError, RecursionError, msgspec.MsgspecError):
                    if path.stat().st_size <= LARGEST:
                        found.append(msgspec.json.decode(path.read_bytes(), type=Draft))
        return sorted((draft for draft in found if draft.schema == SCHEMA), key=lambda draft: -draft.saved)

    def drop(self, key: str) -> None:
        """Forget the draft of `key`, which was recorded or is not wanted."""
        with suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        word = re.sub(r"[^A-Za-z0-9._-]+", "_", key)[:60].lstrip(".")
        return self.directory / f"{word}-{zlib.crc32(key.encode('utf-8', 'surrogatepass')):08x}.json"


def _without_surrogates(draft: Draft) -> Draft:
    import json

    def plain(value: object) -> object:
        if isinstance(value, str):
            return clean_page(value)
        if isinstance(value, list):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {plain(key): plain(one) for key, one in value.items()}
        return value

    said = plain(json.loads(json.dumps(msgspec.to_builtins(draft))))
    return msgspec.convert(said, Draft)
