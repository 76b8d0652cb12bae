"""The night's list of a session: kept in a file beside the event loop, shared with other consoles on the same fleet."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from stethoscope.analysis.night import Night
from stethoscope.errors import DataError, UsageError
from stethoscope.model.night import LONGEST_NOTE, LOOKED_S, Acknowledged, Looked, Noted, Snoozed, Standing
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.finding import Finding
    from stethoscope.model.night import Entry, Records
    from stethoscope.store.night import NightFile

EXCHANGE_S = 1.0
"""How often it is looked whether others wrote something."""
_LONGEST_QUEUE = 2000


class NightKeeper:
    """What was found tonight, and what people said about it."""

    def __init__(self, file: NightFile | None = None, *, writes: bool = True, read_only: str = "") -> None:
        """Begin with what is in `file`, and unless it `writes` leave that as it is; without one the list ends with the
        session. `read_only` is why nothing can be said about a finding here."""
        self._file = file
        self._read_only = read_only
        self._who = f"{socket.gethostname()}-{os.getpid()}-{id(self):x}"
        self._night = Night(self._who)
        self._lock = threading.Lock()
        self._queue: list[Records] = []
        """What is to be written."""
        self._told: deque[tuple[str, Entry]] = deque(maxlen=_LONGEST_QUEUE)
        self._notices: list[str] = []
        self._came: list[tuple[list[Records], bool]] = []
        """What others wrote, read beside the loop."""
        self._exchanged = self._looked = 0.0
        self._busy = False
        self._failed = False
        if file is not None:
            self._exchange()
            self._take_news()
            if not writes:
                self._file = None
            elif file.is_large:
                self._compact(0.0)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Return the list by the ids of the findings; another one after every change."""
        return self._night.entries

    def take(self, findings: tuple[Finding, ...], wall: float) -> tuple[Finding, ...]:
        """Take what the rules found at `wall`, and return it with the times since which it is so as the night knows."""
        self._take_news()
        for word, record in self._night.take(findings, wall):
            self._queue.append(record)
            id_ = record.finding.id if hasattr(record, "finding") else getattr(record, "id", "")
            if id_ in self._night.entries:
                self._told.append((word, self._night.entries[id_]))
        return self._night.findings(findings)

    def take_told(self) -> list[tuple[str, Entry]]:
        """Return what changed, once: a word (`new`, `back`, `still`, `changed`, `cleared`, `folded`) and its entry."""
        told = list(self._told)
        self._told.clear()
        return told

    def take_notices(self) -> list[str]:
        """Return what went wrong, once."""
        notices, self._notices = self._notices, []
        return notices

    def is_loud(self, id_: str, wall: float) -> bool:
        """Tell whether a finding wants to be seen at once; one that is not in the list does."""
        entry = self._night.entries.get(id_)
        return entry is None or entry.standing(wall) is Standing.LOUD

    # ---- what people say

    def acknowledge(self, id_: str, wall: float, *, undo: bool = False) -> None:
        """Note that somebody has seen a finding, or with `undo` that it is to be loud again."""
        entry = self._entry(id_)
        self._say(
            Acknowledged(at=wall, id=id_, by=user(), severity=entry.finding.severity, nodes=entry.nodes, undo=undo)
        )

    def snooze(self, id_: str, wall: float, until: float | None, *, undo: bool = False) -> None:
        """Keep a finding quiet until a time, or until it changes, or with `undo` no longer."""
        entry = self._entry(id_)
        severity = entry.finding.severity
        self._say(
            Snoozed(
                at=wall, id=id_, by=user(), severity=severity, nodes=entry.nodes, until=until, as_was=entry.as_is,
                undo=undo,
            )
        )  # fmt: skip

    def note(self, id_: str, wall: float, text: str) -> None:
        """Write a line about a finding."""
        self._entry(id_)
        words = clean(text, LONGEST_NOTE).strip()
        if not words:
            raise UsageError("a note needs words")
        self._say(Noted(at=wall, id=id_, by=user(), text=words))

    def retire(self, wall: float) -> None:
        """Forget what ended too long ago."""
        self._night.trim(wall)

    def _entry(self, id_: str) -> Entry:
        """Return what is said something about; UsageError where nothing can be said, or it is not known."""
        if self._read_only:
            raise UsageError(self._read_only)
        if id_ not in self._night.entries:
            raise UsageError(f"no finding of tonight is called {id_}")
        return self._night.entries[id_]

    def _say(self, record: Records) -> None:
        self._night.apply(record)
        self._queue.append(record)
        self.tend(record.at, now=True)

    # ---- the file

    def tend(self, wall: float, *, now: bool = False) -> None:
        """Write what is to be written and read what others wrote, when that is due, beside the event loop."""
        self._take_news()
        if self._file is None:
            self._queue.clear()
            return
        if not now and 0 <= wall - self._exchanged < EXCHANGE_S:
            return
        self._exchanged = wall
        if abs(wall - self._looked) >= LOOKED_S and any(entry.is_active for entry in self.entries.values()):
            self._looked = wall
            self._queue.append(Looked(at=wall, who=self._who))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._exchange()
            self._take_news()
            return
        if self._busy:
            return
        self._busy = True
        loop.run_in_executor(None, self._exchange_beside, wall)

    def _exchange_beside(self, wall: float) -> None:
        try:
            self._exchange()
            if self._file is not None and self._file.is_large:
                self._compact(wall)
        finally:
            self._busy = False

    def stop(self) -> None:
        """Write what is left."""
        if self._file is not None and self._queue:
            self._exchange()

    def _exchange(self) -> None:
        assert self._file is not None
        with self._lock:
            count = len(self._queue)
            try:
                news = self._file.exchange(self._queue[:count])
            except DataError as error:
                self._fail(error)
                # What cannot be written now may be later, as far as there is room for it.
                del self._queue[: max(0, count - _LONGEST_QUEUE)]
            else:
                self._failed = False
                if news[1]:
                    # It holds all but what was written just now.
                    news = ([*news[0], *self._queue[:count]], True)
                del self._queue[:count]
                if news[0]:
                    self._came.append(news)

    def _compact(self, wall: float) -> None:
        assert self._file is not None

        def merge(records: list[Records]) -> list[Records]:
            night = Night()
            night.apply_all(records)
            return night.whole(wall or max((record.at for record in records), default=0.0))

        with self._lock, suppress(DataError):
            # It is no loss if it cannot be: the file is only larger than it need be.
            self._file.compact(merge)

    def _fail(self, error: DataError) -> None:
        if not self._failed:
            self._failed = True
            self._notices.append(f"the night's list is not kept, it ends with this console: {error}")

    def _take_news(self) -> None:
        while self._came:
            records, anew = self._came.pop(0)
            if anew:
                # Records that were made meanwhile are not in it yet.
                self._night.begin_again([*records, *self._queue])
            else:
                self._night.apply_all(records)


def user() -> str:
    """Return the name of who sits here."""
    import getpass

    try:
        return clean(getpass.getuser(), 40)
    except (KeyError, OSError):
        return "?"
