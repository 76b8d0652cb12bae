"""The file of the index: opened, made anew where it is broken or old, or in memory where none can be kept.

It is of one directory on one machine, readable by the user alone, and holds nothing that the files do not say.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

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
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)
"""What a file says that is no index, or half of one."""
# What binds letters to one word in running text separates parts of a name in ours: nccl.timeout, ib_link_fault.
_JOINTS = {ord(character): " " for character in "_.:"}


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
        """Return the table of words; who only asks for incidents does not wait the 50 ms that its tools take to load.

        Words can be written after this alone.
        """
        if self._words is None:
            import apsw.fts5

            _register(self.connection)
            self._words = apsw.fts5.Table(self.connection, "words")
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
            connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = normal; PRAGMA cache_size = -65536")
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
                _make(connection)
                return connection
        connection = apsw.Connection(":memory:")
        _make(connection)
        return connection


def _register(connection: apsw.Connection) -> None:
    import apsw.fts5
    import apsw.unicode

    categories = apsw.fts5.convert_unicode_categories("L* N*")

    def words(_db: apsw.Connection, _args: list[str]) -> Any:
        def tokenize(text: str, _flags: int, _locale: str | None) -> Iterator[Any]:
            yield from apsw.unicode.word_iter_with_offsets(
                text.translate(_JOINTS), 0, categories=categories, emoji=True, regional_indicator=True
            )

        return tokenize

    # Ours is named in the tables; the others are what it is wrapped in.
    tokenizers: dict[str, Any] = dict(cast("Any", apsw.fts5.map_tokenizers))
    tokenizers["stethoscope"] = apsw.fts5.StringTokenizer(words)
    apsw.fts5.register_tokenizers(connection, tokenizers)


def _make(connection: apsw.Connection) -> None:
    """Make the tables where there are none; raises apsw.Error for a file that holds something else."""
    if connection.execute("PRAGMA user_version").get == VERSION:
        connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchall()
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another console may have been faster.
        if connection.execute("PRAGMA user_version").get != VERSION:
            _register(connection)
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
