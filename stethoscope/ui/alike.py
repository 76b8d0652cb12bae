"""Asks the library what looks like something, and which parts keep coming back, while a screen goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from stethoscope.model.incident import Clues, Incident, Lemon, Match
    from stethoscope.session.incidents import Library
    from stethoscope.ui.app import StethoscopeApp

AGAIN_S = 30.0
"""So long an answer stands: others add to the library while the console runs."""
_MOST, _SHOWN = 200, 3


@dataclass(frozen=True, slots=True)
class Past:
    """What the library says about something."""

    matches: tuple[Match, ...] = ()
    lemons: tuple[Lemon, ...] = ()
    history: tuple[Incident, ...] = ()
    """Of the place that was asked about, the latest first."""


class Alike:
    """The answers of one screen, by what was asked; one question at a time, and the last one that waits."""

    def __init__(self, console: StethoscopeApp, listener: Callable[[], None]) -> None:
        """Call `listener` when there is a new answer."""
        self._owner = console
        self._listener = listener
        self._known: dict[Hashable, tuple[float, Past]] = {}
        self._busy = False
        self._next: tuple[Hashable, Callable[[], Past]] | None = None
        self._is_off = False

    def of(self, clues: Clues) -> Past:
        """Return what is known by now of what looks like `clues`, and ask again when that is old."""
        library, console = self._library, self._owner

        def work() -> Past:
            found = library()
            mine = console.mine(found)
            alike = [one for one in found.similar(clues, _SHOWN + len(mine)) if one.incident.id not in mine]
            lemons = found.lemons(clues.places, clues.fleet) if clues.places else ()
            return Past(tuple(alike[:_SHOWN]), tuple(lemons))

        return self._ask(clues, work)

    def at(self, place: str, fleet: str) -> Past:
        """Return what is known by now of what happened at `place` of `fleet`."""
        library = self._library

        def work() -> Past:
            found = library()
            return Past((), tuple(found.lemons((place,), fleet)), tuple(found.history(place, fleet)))

        return self._ask(place, work)

    @property
    def _library(self) -> Callable[[], Library]:
        console = self._owner

        def fresh() -> Library:
            console.library.refresh()
            return console.library

        return fresh

    def _ask(self, key: Hashable, work: Callable[[], Past]) -> Past:
        now = self._owner.clock.monotonic()
        asked, past = self._known.get(key, (None, Past()))
        if not self._is_off and (asked is None or not 0 <= now - asked < AGAIN_S):
            if self._busy:
                self._next = (key, work)
            else:
                self._run(key, work)
        return past

    def _run(self, key: Hashable, work: Callable[[], Past]) -> None:
        self._busy = True

        def refuse(why: str) -> None:
            # Told once: a directory that cannot be read is not asked again at every picture.
            self._is_off = True
            self._owner.tell(why, seconds=8)

        def take(past: Past) -> None:
            self._busy = False
            before = self._known.get(key, (0.0, None))[1]
            if len(self._known) > _MOST:
                self._known.clear()
            self._known[key] = (self._owner.clock.monotonic(), past)
            waiting, self._next = self._next, None
            if waiting is not None and waiting[0] != key:
                self._run(*waiting)
            if past != before:
                self._listener()

        self._owner.beside(work, take, failed="the incidents of the past are not looked at", refused=refuse)
