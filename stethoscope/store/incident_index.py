"""The index over a directory of incidents: what was read once is not read again while its file stands unchanged.

It can be thrown away at any time. One console writes it at a time, many read it; who cannot write it keeps one in
memory. What is not in a file is in no index.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import apsw

from stethoscope.errors import DataError
from stethoscope.model.incident import Incident, Trouble
from stethoscope.store.incident_db import BROKEN, Database, index_path, remove, tidy
from stethoscope.store.incident_tables import asked, columns_of, packed, terms_of, unpacked
from stethoscope.store.incidents import IncidentFiles, Reading, Seen, Version, as_reference
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from stethoscope.clock import Clock

OWN, SEEDS = 0, 1
"""Which of the directories a file is in."""
SEED_PREFIX = "references/"
"""What stands before the path of a bundled file where it is told."""
_LONGEST_PATH = 1024
_BATCH = 64
"""Files that are taken in at once: others can search between two batches."""
_RACY_NS = 2_000_000_000
"""A file that changed so shortly before it was read may have changed again without looking so."""
_SETTLED_NS = 100_000_000
_LOCK_S, _POLL_S = 0.3, 0.02


class IncidentIndex:
    """What the files of `roots` say: the engineers' own directory, and the bundled references behind it."""

    def __init__(self, own: IncidentFiles, seeds: IncidentFiles | None, cache: Path, clock: Clock) -> None:
        """Open nothing yet; `cache` is the cache directory."""
        self._roots: tuple[IncidentFiles, ...] = (own,) if seeds is None else (own, seeds)
        self._path = index_path((root.directory for root in self._roots), cache)
        self._clock = clock
        self._opened: Database | None = None
        self._is_followed = False
        self.waiting = 0
        """Files that were seen and are not taken in yet."""
        self.to_read = 0
        """Files that the last look had to take in."""

    @property
    def database(self) -> Database:
        """Return the open index."""
        if self._opened is not None and not self._opened.is_current():
            self.close()
        if self._opened is None:
            self._opened = Database(self._path)
            self._is_followed = False
        return self._opened

    @property
    def is_followed(self) -> bool:
        """Tell whether the directories were looked at since the index was opened, for the first time or anew."""
        return self.database is not None and self._is_followed

    @property
    def _db(self) -> apsw.Connection:
        return self.database.connection

    def close(self) -> None:
        """Let the index go; the next question opens it again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def rebuild(self) -> None:
        """Forget all that was read; `follow` reads it again."""
        self.close()
        with suppress(OSError):
            remove(self._path)
            tidy(self._path.parent, self._clock.wall())

    def to_memory(self) -> None:
        """Go on without the file of the index, which cannot be used any more."""
        self.database.to_memory()
        self._is_followed = False

    def follow(self) -> Iterator[int]:
        """Take in what changed in the directories, some files at a time, and yield how many were after each time.

        Nothing is yielded where nothing changed, or where another console is at it. DataError when the directory cannot
        be looked into.
        """
        seen = [set(files.scan()) for files in self._roots]
        self._is_followed = self.database is not None
        changed, gone = self._differences(seen)
        if not changed and not gone:
            return
        with self._alone() as alone:
            if not alone:
                return
            # While we waited another console may have done it.
            changed, gone = self._differences(seen)
            for start in range(0, max(len(changed), 1), _BATCH):
                batch = changed[start : start + _BATCH]
                readings = [(root, one, self._clock.wall(), self._read(root, one.path)) for root, one in batch]
                last = start + _BATCH >= len(changed)
                count = self._write(readings, gone if start == 0 else [], last)
                self.waiting = max(min(self.waiting, len(changed) - start - _BATCH), 0)
                if count:
                    yield count

    def take(self, path: str) -> None:
        """Take in one file of the engineers' own directory that was written just now."""
        root, files = OWN, self._roots[OWN]
        files.tidy(self._clock.wall())
        try:
            status = os.stat(files.directory / path)
        except OSError:
            self._write([], [(root, path)], True)
            return
        seen = Seen(path, status.st_mtime_ns, status.st_size, status.st_ino)
        self._write([(root, seen, self._clock.wall(), self._read(root, path))], [], True)

    def _read(self, root: int, path: str) -> Reading | None:
        try:
            return self._roots[root].read(path)
        except DataError as error:
            # Gone again, or not for us to read.
            return Reading(Version(path, ""), None, (Trouble(path, 0, error.message),))

    def _differences(self, seen: Sequence[set[Seen]]) -> tuple[list[tuple[int, Seen]], list[tuple[int, str]]]:
        """Return what has to be read, and what is no more; of an index that is broken, all for a new one."""
        try:
            return self._compared(seen)
        except BROKEN:
            self.rebuild()
            return self._compared(seen)

    def _compared(self, seen: Sequence[set[Seen]]) -> tuple[list[tuple[int, Seen]], list[tuple[int, str]]]:
        changed: list[tuple[int, Seen]] = []
        gone: list[tuple[int, str]] = []
        for root, files in enumerate(seen):
            rows = self._db.execute("SELECT path, mtime_ns, size, inode FROM file WHERE root = ?", (root,))
            known: set[Any] = set(rows)
            if files == known:
                continue
            paths = {one.path for one in files}
            changed += [(root, one) for one in sorted(files - known)]
            gone += [(root, path) for path, *_ in known - files if path not in paths]
        racy = self._db.execute(
            "SELECT root, path, mtime_ns, size, inode FROM file WHERE mtime_ns > read_ns - ? AND read_ns < ?",
            (_RACY_NS, int(self._clock.wall() * 1e9) - _SETTLED_NS),
        )
        self.waiting = self.to_read = len(changed)
        again = [(root, Seen(*one)) for root, *one in racy]
        return changed + [(root, one) for root, one in again if one in seen[root]], gone

    def _write(
        self, readings: Sequence[tuple[int, Seen, float, Reading | None]], gone: Sequence[tuple[int, str]], last: bool
    ) -> int:
        """Take in what was read, in one step; return how many files say something else than before."""
        count = 0
        try:
            db = self._db
            db.execute("BEGIN IMMEDIATE")
            try:
                for root, path in gone:
                    count += self._forget(root, path)
                for root, seen, wall, reading in readings:
                    if reading is not None:
                        count += self._take(root, seen, wall, reading)
                if count:
                    db.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
                    if last:
                        self._hide_doubles()
                db.execute("COMMIT")
            except BaseException:
                with suppress(apsw.Error):
                    db.execute("ROLLBACK")
                raise
        except apsw.BusyError:
            # Another console writes for very long; the next look takes it in.
            return 0
        except BROKEN:
            self.rebuild()
            return 0
        except apsw.Error:
            # The disk is full, or was taken from under us.
            if self.database.path is None:
                raise
            self.database.to_memory()
            return self._write(readings, gone, last)
        return count

    def _take(self, root: int, seen: Seen, wall: float, reading: Reading) -> int:
        db = self._db
        path, read_ns = seen.path, int(wall * 1e9)
        old = db.execute("SELECT digest FROM file WHERE root = ? AND path = ?", (root, path)).get
        if old is not None and old == reading.version.digest:
            db.execute(
                "UPDATE file SET mtime_ns = ?, size = ?, inode = ?, read_ns = ? WHERE root = ? AND path = ?",
                (seen.mtime_ns, seen.size, seen.inode, read_ns, root, path),
            )
            return 0
        self._forget(root, path)
        row = None
        if reading.incident is not None:
            row = self._insert(root, path, as_reference(reading.incident) if root == SEEDS else reading.incident)
        db.execute(
            "INSERT INTO file VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            (root, path, seen.mtime_ns, seen.size, seen.inode, read_ns, reading.version.digest, row),
        )
        for trouble in reading.troubles:
            db.execute("INSERT INTO trouble VALUES(?, ?, ?, ?)", (root, path, trouble.line, trouble.message))
        return 1

    def _insert(self, root: int, path: str, incident: Incident) -> int:
        db = self._db
        db.execute(
            "INSERT INTO incident(root, path, id, began, reference) VALUES(?, ?, ?, ?, ?)",
            (root, path, incident.id, incident.at, incident.is_reference),
        )
        row = db.last_insert_rowid()
        db.execute("INSERT INTO said VALUES(?, ?)", (row, packed(incident)))
        db.execute("INSERT INTO words(rowid, id, title, fix, signs, place, body) VALUES(?, ?, ?, ?, ?, ?, ?)",
                   (row, *columns_of(incident)))  # fmt: skip
        db.executemany("INSERT INTO term VALUES(?, ?, ?)", [(*term, row) for term in sorted(terms_of(incident))])
        return row

    def _forget(self, root: int, path: str) -> int:
        db = self._db
        found = db.execute("SELECT row FROM file WHERE root = ? AND path = ?", (root, path)).fetchone()
        if found is None:
            return 0
        (row,) = found
        db.execute("DELETE FROM trouble WHERE root = ? AND path = ?", (root, path))
        db.execute("DELETE FROM file WHERE root = ? AND path = ?", (root, path))
        if row is not None:
            db.execute("DELETE FROM words WHERE rowid = ?", (row,))
            db.execute("DELETE FROM term WHERE row = ?", (row,))
            db.execute("DELETE FROM said WHERE row = ?", (row,))
            db.execute("DELETE FROM incident WHERE row = ?", (row,))
        return 1

    def _hide_doubles(self) -> None:
        # Of two files with one id the nearer directory's is shown, then the one whose path comes first.
        self._db.execute(
            """UPDATE incident SET hidden = NOT hidden WHERE hidden != EXISTS(
                   SELECT 1 FROM incident AS other
                   WHERE other.id = incident.id AND (other.root, other.path) < (incident.root, incident.path))"""
        )

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yield whether no other console takes files in at this moment."""
        if self.database.path is None:
            yield True
            return
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _locked(lock)
        finally:
            os.close(lock)

    @property
    def generation(self) -> int:
        """Return a number that changes when anything did."""
        return int(self._db.execute("SELECT value FROM meta WHERE key = 'generation'").get or 0)

    def all(self) -> list[Incident]:
        """Return all incidents and references, the latest first, references last."""
        rows = self._db.execute(
            """SELECT said.incident FROM incident JOIN said USING(row) WHERE NOT hidden
               ORDER BY reference, began DESC, id"""
        )
        return [unpacked(said) for (said,) in rows]

    def rows(self, rows: Sequence[int]) -> dict[int, Incident]:
        """Return incidents by their rows."""
        found = self._db.execute(
            "SELECT row, incident FROM said WHERE row IN (SELECT value FROM json_each(?))", (json.dumps(rows),)
        )
        return {row: unpacked(said) for row, said in found}

    def with_term(self, field: str, value: str) -> list[Incident]:
        """Return the incidents that a query asks for by `field:value`, the latest first, references last."""
        fields, word = asked(field, value.casefold())
        rows = self._db.execute(
            """SELECT said.incident FROM incident JOIN said USING(row) WHERE NOT hidden AND incident.row IN (
                   SELECT row FROM term WHERE field IN (SELECT value FROM json_each(?)) AND value = ?)
               ORDER BY reference, began DESC, id""",
            (json.dumps(fields), word),
        )
        return [unpacked(said) for (said,) in rows]

    def for_place(self, place: str) -> list[Incident]:
        """Return the incidents of a place or of a part of it, the latest first; one that names no culprit is of its
        nodes."""
        return [one for one in self.with_term("culprit", place) if not one.is_reference]

    def by_id(self, identity: str) -> Incident | None:
        """Return the incident of that id, None where there is none."""
        said = self._db.execute(
            "SELECT said.incident FROM incident JOIN said USING(row) WHERE NOT hidden AND id = ?", (identity,)
        ).get
        return None if said is None else unpacked(said)

    def ids(self) -> list[str]:
        """Return the ids of all incidents."""
        return [one for (one,) in self._db.execute("SELECT id FROM incident WHERE NOT hidden ORDER BY id")]

    def version(self, identity: str) -> tuple[int, Version] | None:
        """Return in which directory that incident is and what its file said, None where there is none."""
        row = self._db.execute(
            """SELECT file.root, file.path, file.digest FROM incident JOIN file USING(root, path)
               WHERE id = ? AND NOT hidden""",
            (identity,),
        ).fetchone()
        return None if row is None else (row[0], Version(row[1], row[2]))

    def troubles(self) -> tuple[Trouble, ...]:
        """Return what is wrong with files, in the order of their paths."""
        found = [
            Trouble(SEED_PREFIX + path if root == SEEDS else path, line, message)
            for root, path, line, message in self._db.execute("SELECT root, path, line, message FROM trouble")
        ]
        doubles = self._db.execute(
            """SELECT incident.path, other.path, incident.id FROM incident
               JOIN incident AS other ON other.id = incident.id AND NOT other.hidden
               WHERE incident.hidden AND incident.root = 0"""
        )
        found += [
            Trouble(path, 0, f"not shown: {other} has the same id {identity}") for path, other, identity in doubles
        ]
        # A name of a file is text of others, too.
        said = [Trouble(clean(one.path, _LONGEST_PATH), one.line, clean(one.message)) for one in found]
        return tuple(sorted(said, key=lambda trouble: (trouble.path, trouble.line, trouble.message)))


def _locked(lock: int) -> bool:
    waited_s = 0.0
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if waited_s >= _LOCK_S:
                return False
            time.sleep(_POLL_S)
            waited_s += _POLL_S
        except OSError:
            # A file system without locks: the library's own keep two writers apart.
            return True
