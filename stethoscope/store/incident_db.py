"""The file of the index: opened, made anew where it is broken or old, or in memory where none can be kept.

It is of one directory on one machine, readable by the user alone, and holds nothing that the files do not say.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw

from stethoscope.store.incident_tables import TABLES, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from apsw.fts5 import Table

BUSY_MS = 3000
"""So long another console may write before we go on without."""
KEPT_DAYS = 90.0
"""An index that nobody opened for so long is of a directory that is no more."""
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.ConstraintError)
"""What a file says that is no index, or half of one; in a whole one nothing stands in the way of what is written."""
# A question reads in few pages what stands together; several consoles read while one writes.
_SETTINGS = """PRAGMA page_size = 16384; PRAGMA journal_mode = wal; PRAGMA synchronous = normal;
               PRAGMA cache_size = -65536"""
# What binds letters to one word in running text separates parts of a name in ours: nccl.timeout, ib_link_fault.
_JOINTS = {ord(character): " " for character in "_.:"}
_CATEGORIES = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No")
"""What a word has one of: letters and digits."""


def index_path(directories: Iterable[Path], cache: Path) -> Path:
    """Return the file of the index over these directories, in the cache directory `cache`.

    Another machine, version of ours or of the library has another file: what shares a home does not share it.
    """
    from stethoscope.store.incidents import digest

    about = [str(VERSION), apsw.apsw_version(), os.uname().nodename, *(os.path.realpath(one) for one in directories)]
    return cache / "index" / f"{digest(chr(0).join(about).encode('utf-8', 'surrogateescape'))}.db"


class Database:
    """A connection to the index, and the table of its words."""

    def __init__(self, path: Path) -> None:
        """Open the index at `path`, new where there is none; in memory where the file cannot be written."""
        self.path: Path | None = path
        self.inode = 0
        try:
            try:
                self.connection = self._opened(path)
            except (*BROKEN, apsw.SQLError):
                remove(path)
                self.connection = self._opened(path)
        except (apsw.Error, OSError):
            self.connection = self._in_memory(path)
        self._words: Table | None = None

    @property
    def words(self) -> Table:
        """Return the table of words with the library's tools for it, which take 50 ms to load: a search that finds
        something needs none of them."""
        if self._words is None:
            from apsw.fts5 import Table

            class Words(Table):
                """The table, which compares a mistyped word only with those that can be it."""

                def closest_tokens(self, token: str, **how: Any) -> list[tuple[float, str]]:
                    """Return the known tokens that are nearest to `token`, with how near they are."""
                    letters, length = set(token), len(token)
                    known = how.pop("all_tokens", None) or self.tokens.items()
                    how["all_tokens"] = [
                        one
                        for one in known
                        if -3 < len(one[0]) - length < 3 and len(letters.symmetric_difference(one[0])) < 4
                    ]
                    return super().closest_tokens(token, **how)

            self._words = Words(self.connection, "words")
        return self._words

    def close(self) -> None:
        """Let the file go."""
        with suppress(apsw.Error):
            self.connection.close()

    def is_current(self) -> bool:
        """Tell whether our file is the one that others find under its name."""
        if self.path is None:
            return True
        try:
            return self.path.stat().st_ino == self.inode
        except OSError:
            return False

    def to_memory(self) -> None:
        """Go on in memory with what the file held: it cannot be written any more."""
        path = self.path
        self.close()
        self.connection = self._in_memory(path)
        self._words = None

    def _opened(self, path: Path) -> apsw.Connection:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made by us first: what the library makes itself everybody could read.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.inode = os.fstat(file).st_ino
        os.close(file)
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(BUSY_MS)
            connection.execute(_SETTINGS)
            register(connection)
            _make(connection)
        except BaseException:
            connection.close()
            raise
        with suppress(OSError):
            os.utime(path)
        return connection

    def _in_memory(self, path: Path | None) -> apsw.Connection:
        self.path = None
        if path is not None and os.path.exists(path):
            with suppress(apsw.Error):
                connection = apsw.Connection(":memory:")
                kept = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
                with connection.backup("main", kept, "main") as copy:
                    copy.step()
                kept.close()
                register(connection)
                _make(connection)
                return connection
        connection = apsw.Connection(":memory:")
        register(connection)
        _make(connection)
        return connection


def register(connection: apsw.Connection) -> None:
    """Let `connection` read and write the table of words."""
    connection.register_fts5_tokenizer("stethoscope", lambda _connection, _arguments: tokens_of)


def tokens_of(utf8: bytes, _flags: int = 0, _locale: str | None = None) -> Iterator[tuple[int, int, str]]:
    """Yield start, end (in bytes) and token of each word of a text, by the rules of Unicode: what the library's own
    tokenizers do in several steps.

    Case, marks and widths make no difference. Where words stand without spaces each character is one, so that two of
    them side by side are found.
    """
    from apsw import unicode

    text = utf8.decode("utf-8", "replace")
    plain = len(text) == len(utf8)
    place = behind = 0
    words: Any = unicode.word_iter_with_offsets(
        text.translate(_JOINTS), 0, categories=_CATEGORIES, emoji=True, regional_indicator=True
    )
    for start, end, word in words:
        if plain:
            yield start, end, word.lower()
            continue
        token = unicode.casefold(unicode.strip(word))
        first = place + len(text[behind:start].encode("utf-8", "replace"))
        place, behind = first + len(text[start:end].encode("utf-8", "replace")), end
        if token:
            yield first, place, token


def _make(connection: apsw.Connection) -> None:
    """Make the tables where there are none; raises apsw.Error for a file that holds something else."""
    if connection.execute("PRAGMA user_version").get == VERSION:
        connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchall()
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another console may have been faster.
        if connection.execute("PRAGMA user_version").get != VERSION:
            connection.execute(TABLES)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")
        raise


def remove(path: Path) -> None:
    """Take away an index, with what the library keeps beside it."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def tidy(directory: Path, now: float) -> None:
    """Take away indexes in `directory` that nobody opened for long (`now`: wall seconds)."""
    with suppress(OSError):
        for path in directory.glob("*.db"):
            with suppress(OSError):
                if now - path.stat().st_mtime > KEPT_DAYS * 86400:
                    remove(path)
                    path.with_suffix(".lock").unlink(missing_ok=True)
