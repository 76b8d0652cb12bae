"""The directory of incidents: one Markdown file each, which people edit and git merges while the program runs.

A file is replaced in one step and only where it still says what its editor began with; a new one never takes the place
of another. Nothing but these files is what is known: the index beside them can be thrown away.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.errors import DataError
from stethoscope.model.incident import Incident, Status, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 8 * 2**20
"""Bytes of a file that is read."""
SUFFIX = ".md"
PREFIX = "INC-"
_LETTERS = "23456789abcdefghjkmnpqrstvwxyz"
"""What a random part of an id is made of: nothing that is taken for something else on the phone."""
_MODE = 0o640
_ATTEMPTS = 20
_STRAY = re.compile(r"\..+\.md\.[0-9a-f]{12}")
_STRAY_S = 3600.0


@dataclass(frozen=True, slots=True)
class Version:
    """What a file said at a moment: who writes over it says which one was read."""

    path: str
    """Below the directory."""
    digest: str


class Seen(NamedTuple):
    """A file as a look into the directory finds it."""

    path: str
    """Below the directory."""
    mtime_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file said: an incident, or why none; and what is odd about it."""

    version: Version
    incident: Incident | None
    troubles: tuple[Trouble, ...] = ()


class ConflictError(DataError):
    """A file says something else than its editor began with: somebody else wrote it meanwhile."""

    def __init__(self, where: str, theirs: Reading | None) -> None:
        """Keep what the file says now, None where it is gone."""
        said = "was changed by somebody else" if theirs is not None else "was removed or renamed by somebody else"
        super().__init__(f"{said} meanwhile; nothing was written", where=where)
        self.theirs = theirs


class IncidentFiles:
    """The incidents below one directory, which need not exist before the first one is written."""

    def __init__(self, directory: Path) -> None:
        """Look at `directory`."""
        self.directory = directory

    def scan(self) -> list[Seen]:
        """Return every Markdown file below the directory, in any order; what is hidden is not looked at.

        A directory that cannot be looked into has nothing; DataError when that is the one of all.
        """
        found: list[Seen] = []
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                opened = os.open(self.directory / below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError as error:
                if not below:
                    raise DataError(error.strerror or str(error), where=str(self.directory)) from error
                continue
            try:
                waiting += self._look(opened, below, found)
            finally:
                os.close(opened)
        return found

    @staticmethod
    def _look(opened: int, below: str, found: list[Seen]) -> list[str]:
        """Add the files of one directory, and return the directories in it."""
        directories: list[str] = []
        with suppress(OSError), os.scandir(opened) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if not name.endswith(SUFFIX):
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(f"{below}{name}/")
                    continue
                try:
                    # Half the price of asking by a whole path, and there are ten thousand of them.
                    status = os.stat(name, dir_fd=opened)
                except OSError:
                    continue
                # A name that is no text cannot be written down.
                if stat.S_ISREG(status.st_mode) and (name.isascii() or _is_text(below + name)):
                    found.append(Seen(below + name, status.st_mtime_ns, status.st_size, status.st_ino))
        return directories

    def read(self, path: str) -> Reading:
        """Return what the file at `path` below the directory says; a broken one has its fault as trouble.

        DataError where there is no such file.
        """
        return self._reading(path, self._content(path))

    def _content(self, path: str) -> bytes:
        where = self.directory / path
        try:
            # Not waiting: a pipe that nobody writes to would keep us for ever.
            file = os.open(where, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise DataError("no regular file", where=str(where))
                return opened.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            raise DataError(getattr(error, "strerror", None) or str(error), where=str(where)) from error

    def _reading(self, path: str, content: bytes) -> Reading:
        # Who only finds that nothing changed does not wait for a reader of YAML.
        from stethoscope.specs.incident import fronts_incident, read_with_remarks

        version = Version(path, digest(content))
        named = Path(path).name.startswith(PREFIX)
        try:
            if len(content) > LARGEST:
                raise DataError(f"larger than {LARGEST // 2**20} MiB", where=path)
            text = _text(path, content)
            if not named and not fronts_incident(text):
                return Reading(version, None)
            incident, remarks = read_with_remarks(text, path)
        except DataError as error:
            return Reading(version, None, tuple(_troubles(path, error)))
        if named and Path(path).stem != incident.id:
            remarks.append(Trouble(path, 0, f"the file is named otherwise than its id {incident.id}"))
        return Reading(version, incident, tuple(remarks))

    def tidy(self, now: float) -> None:
        """Take away what a console left behind that was killed while it wrote; `now` in wall seconds."""
        with suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                if _STRAY.fullmatch(entry.name):
                    with suppress(OSError):
                        if now - entry.stat(follow_symlinks=False).st_mtime > _STRAY_S:
                            os.unlink(entry.path)

    def new_id(self, day: str) -> str:
        """Return an id for an incident of `day` (`2026-03-14`) that no other engineer has, and no file of here."""
        import secrets

        for _ in range(_ATTEMPTS):
            identity = f"{PREFIX}{day}-{''.join(secrets.choice(_LETTERS) for _ in range(5))}"
            if not os.path.lexists(self.directory / (identity + SUFFIX)):
                return identity
        raise DataError("no free id was found", where=str(self.directory))

    def create(self, incident: Incident) -> Version:
        """Write a new file for `incident`; DataError where one of that name is there already, or none can be."""
        from stethoscope.specs.incident_text import incident_text

        return self._new(incident.id + SUFFIX, incident, _encoded(incident_text(incident)))

    def write(self, incident: Incident, expected: Version | None) -> Version:
        """Write `incident` over the file that was `expected` when its editing began, a new one with None.

        Raises ConflictError when the file says something else by now, DataError when it cannot be written.
        """
        if expected is None:
            return self.create(incident)
        from stethoscope.specs.incident_text import incident_text

        return self.write_text(incident_text(incident), expected)

    def write_text(self, text: str, expected: Version) -> Version:
        """Write `text`, an incident's, to the letter, as `write` does."""
        content = _encoded(text)
        # What a link points to is written, and the link stays.
        target = Path(os.path.realpath(self.directory / expected.path))
        with self._held(target, expected) as mode:
            try:
                _replace(target, content, mode)
            except OSError as error:
                raise DataError(error.strerror or str(error), where=str(target)) from error
        return Version(expected.path, digest(content))

    def _new(self, path: str, incident: Incident, content: bytes) -> Version:
        from stethoscope.specs.incident import id_error

        if wrong := id_error(incident.id):
            raise DataError(wrong)
        target = self.directory / path
        try:
            self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            temporary = _temporary(target, content, None)
            try:
                _link(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            _sync(self.directory)
        except FileExistsError:
            raise DataError("an incident of this id is there already", where=str(target)) from None
        except OSError as error:
            raise DataError(error.strerror or str(error), where=str(target)) from error
        return Version(path, digest(content))

    @contextmanager
    def _held(self, target: Path, expected: Version) -> Iterator[int]:
        """Keep others who write through here away from the file, see that it is as expected, and yield its mode."""
        import fcntl

        for _ in range(_ATTEMPTS):
            try:
                file = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:
                raise ConflictError(str(target), None) from None
            except OSError as error:
                raise DataError(error.strerror or str(error), where=str(target)) from error
            with os.fdopen(file, "rb") as opened:
                # A file system without locks is done without: what the file says is looked at anyway.
                with suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
                status = os.fstat(file)
                # Who held it before us has put another file in its place.
                if not _is_at(target, status):
                    continue
                content = opened.read(LARGEST + 1)
                now = self._reading(expected.path, content)
                if now.version.digest != expected.digest:
                    raise ConflictError(str(target), now)
                yield stat.S_IMODE(status.st_mode)
                return
        raise DataError("others write this file again and again", where=str(target))


def digest(content: bytes) -> str:
    """Return what stands for the content of a file."""
    try:
        # What hashlib has too, without OpenSSL, which takes 5 ms to load.
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(content, digest_size=16).hexdigest()


def as_reference(incident: Incident) -> Incident:
    """Return an incident of the bundled ones as what it is, whatever its file says of its status."""
    return incident if incident.is_reference else replace(incident, status=Status.REFERENCE)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_at(path: Path, status: os.stat_result) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    return (there.st_ino, there.st_dev) == (status.st_ino, status.st_dev)


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError("not UTF-8 text", where=f"{path}:{line}") from None


def _encoded(text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    if len(content) > LARGEST:
        raise DataError(f"larger than {LARGEST // 2**20} MiB")
    return content


def _troubles(path: str, error: DataError) -> Iterator[Trouble]:
    for one in getattr(error, "errors", (error,)):
        place = one.where.removeprefix(path).split(":")
        line = int(place[1]) if len(place) > 1 and place[1].isdecimal() else 0
        column = f"column {place[2]}: " if len(place) > 2 and place[2].isdecimal() else ""
        yield Trouble(path, line, column + one.message)


def _temporary(target: Path, content: bytes, mode: int | None) -> Path:
    """Write `content` beside `target` under a hidden name, down to the disk."""
    path = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(file, "wb") as opened:
            if mode is not None:
                os.fchmod(file, mode)
            opened.write(content)
            opened.flush()
            os.fsync(file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _replace(target: Path, content: bytes, mode: int) -> None:
    temporary = _temporary(target, content, mode)
    try:
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(target.parent)


def _link(temporary: Path, target: Path) -> None:
    """Give the file its name, never that of another one: FileExistsError."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: the name is taken first, then filled in one step.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
        temporary.replace(target)


def _sync(directory: Path) -> None:
    with suppress(OSError):
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
