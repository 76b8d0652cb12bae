"""Triage playbooks that follow their files: those that changed are taken at the next question."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from stethoscope.errors import DataError
from stethoscope.session.rules_kept import told
from stethoscope.specs.playbook import load_playbooks, playbook_paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.session.rules_kept import Stamps
    from stethoscope.specs.playbook import Playbooks


class KeptBooks:
    """The playbooks of some directories, of the user and the bundled ones."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Read nothing yet."""
        self._directories = tuple(directories)
        self._books: Playbooks | None = None
        self._stamps: Stamps = ()
        self._notices: list[str] = []
        self._lock = Lock()

    def now(self) -> Playbooks:
        """Return the playbooks as their files are; those of before where one is broken now, DataError where there are
        none of before. For one thread at a time."""
        stamps = self._stamps_now()
        if self._books is not None and stamps == self._stamps:
            return self._books
        is_first, self._stamps = self._books is None, stamps
        try:
            self._books = load_playbooks(*self._directories)
        except DataError as error:
            if self._books is None:
                raise
            self._tell(f"{told(error)} · the triage playbooks of before stand")
        else:
            if not is_first:
                self._tell("triage playbooks read again")
        assert self._books is not None
        return self._books

    def _stamps_now(self) -> Stamps:
        found = []
        for path in playbook_paths(*self._directories):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)

    def _tell(self, text: str) -> None:
        with self._lock:
            self._notices.append(text)

    def take_notices(self) -> list[str]:
        """Return what people should know of the files, once."""
        if not self._notices:
            return []
        with self._lock:
            notices, self._notices = self._notices, []
        return notices
