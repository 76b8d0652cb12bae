"""The incidents of the past in the console: recorded, opened, looked for, and told where something looks like them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from stethoscope.clock import hms, iso
from stethoscope.errors import DataError, StethoscopeError
from stethoscope.ui.defect import defect
from stethoscope.ui.triaging import Triaging

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.incident import Incident
    from stethoscope.session.incidents import Library
    from stethoscope.store.drafts import Draft
    from stethoscope.store.incidents import Version
    from stethoscope.ui.app import StethoscopeApp

T = TypeVar("T")
OFFER_S = 3.0
"""So long after the start, when the first nodes have been drawn, it is said what was not recorded."""
RESUMED_S = 24 * 3600.0
"""A draft of the same thing is taken up again within so long."""
OVER_S = 3600.0
"""What was resolved so long ago and comes again is another incident."""
_BESIDE = " +"
"""Stands between what a draft is about and the console that writes it, where another one writes about it too."""
_TOLD_BESIDE = "another console is writing about it too"
DEMO, DEMO_DRAFTS = "demo-incidents", "demo-drafts"
"""Below the state directory: what is recorded of a simulated fleet is no night of a real one."""


class Recording(Triaging):
    """An app that keeps a library of incidents."""

    _library: Library | None = None
    incidents: str | None = None
    """Directory of the incidents, where a flag says it."""
    _beside: set[asyncio.Task[None]] | None = None

    @cached_property
    def recorded(self) -> dict[str, str]:
        """What was recorded in this console: the id by what its draft was about."""
        return {}

    @property
    def library(self) -> Library:
        """Return the library; DataError where the settings that say its directory are broken."""
        if self._library is None:
            from stethoscope.paths import state_dir
            from stethoscope.session.incidents import Library, incidents_dir

            simulated = self.session is not None and self.session.snapshot().simulated
            state, said = state_dir(), self.incidents
            chosen = incidents_dir(said) if said is not None else state / DEMO if simulated else None
            self._library = Library(chosen, drafts=state / DEMO_DRAFTS if simulated else None)
        return self._library

    def beside(
        self,
        work: Callable[[], T],
        then: Callable[[T], object],
        *,
        failed: str = "",
        refused: Callable[[str], object] | None = None,
    ) -> None:
        """Do `work` in a thread and give what it returns to `then`; what goes wrong is given to `refused` in words,
        else told, behind the words `failed`.

        The disk may be slow, and no key waits for it.
        """

        def tell(words: str) -> None:
            if refused is not None:
                refused(words)
            else:
                self.tell(words, seconds=12)

        # Made here: a thread that imports beside this one can get a module that is half made.
        with suppress(StethoscopeError):
            _ = self.library

        async def run() -> None:
            try:
                found = await asyncio.to_thread(work)
            except StethoscopeError as error:
                tell(f"{failed}: {error}" if failed else str(error))
            except Exception as error:  # noqa: BLE001  a defect of the library must not end the console
                tell(str(defect(failed or "the incidents cannot be read", error)))
            else:
                if self.is_running:
                    then(found)

        task = asyncio.create_task(run())
        self._beside = self._beside or set()
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # ---- recording

    def record(self, draft: Callable[[], Incident], key: str) -> None:
        """Open the form with what `draft` returns; what was being written about the same `key` is taken up again, and
        what was recorded of it is opened instead."""
        known = self.recorded.get(key, "")
        now = self.clock.wall()

        def work() -> tuple[Incident | None, Draft | None, bool]:
            if known and not _is_over(self.library, known, now):
                return None, None, False
            kept, is_beside = self._draft_about(key, now - RESUMED_S)
            return (kept.incident, kept, False) if kept is not None else (draft(), None, is_beside)

        def show(found: tuple[Incident | None, Draft | None, bool]) -> None:
            from stethoscope.ui.screens.incident_form import FormScreen

            incident, kept, is_beside = found
            if incident is None:
                self.edit_incident(known)
                return
            told = f"taken up as it was at {hms(kept.saved)} UTC" if kept is not None else ""
            told = _TOLD_BESIDE if is_beside else told
            named = kept.key if kept is not None else _beside(key) if is_beside else key
            console = cast("StethoscopeApp", self)
            self.push_screen(FormScreen(console, incident, named, told=told, is_kept=kept is not None))

        self.beside(work, show, failed="nothing can be recorded")

    def _draft_about(self, about: str, since: float = 0.0) -> tuple[Draft | None, bool]:
        """Return the draft about something that no console has in its form, kept after wall second `since`, and whether
        another console has one."""
        now = self.clock.wall()
        drafts = [one for one in self.library.drafts() if one.key.split(_BESIDE)[0] == about]
        free = [one for one in drafts if not one.is_elsewhere(now)]
        return next((one for one in free if one.saved > since), None), len(free) < len(drafts)

    def record_by_hand(self, place: str = "") -> None:
        """Open the form with nothing but the time, the fleet, and `place`."""
        from stethoscope.session.incident_draft import draft_by_hand
        from stethoscope.session.night import user

        now, snapshot = self.clock.wall(), self.session.snapshot() if self.session is not None else None
        key = f"hand/{place}" if place else f"hand/{iso(now)}"
        self.record(lambda: draft_by_hand(now, place=place, snapshot=snapshot, author=user()), key)

    def edit_incident(self, identity: str) -> None:
        """Open the form on an incident that is recorded, with what was typed of it before and not saved."""

        def work() -> tuple[Incident, Version | None, Draft | None, bool]:
            library = self.library
            library.refresh()
            kept, is_beside = self._draft_about(identity)
            try:
                return library.get(identity), library.version(identity), kept, is_beside
            except DataError:
                if kept is None:
                    raise
                return kept.incident, None, kept, is_beside

        def show(found: tuple[Incident, Version | None, Draft | None, bool]) -> None:
            from stethoscope.ui.screens.incident_form import FormScreen

            one, version, kept, is_beside = found
            if one.is_reference:
                self.tell("a reference comes with the program; ctrl+n in the list records one of yours")
                return
            base: Incident | None = one
            told = _TOLD_BESIDE if is_beside else ""
            key = _beside(identity) if is_beside and kept is None else kept.key if kept is not None else identity
            if kept is not None:
                told = f"taken up as it was at {hms(kept.saved)} UTC"
                one = kept.incident
                if version is None:
                    base, told = None, f"{told}; its file is gone, saving writes a new one"
                elif kept.expected != version.digest:
                    # What the draft was made of is not known any more.
                    base, told = None, f"{told}; the file was changed since"
                    version = replace(version, digest=kept.expected)
            console, is_kept = cast("StethoscopeApp", self), kept is not None
            self.push_screen(FormScreen(console, one, key, told=told, version=version, base=base, is_kept=is_kept))

        self.beside(work, show, failed="it cannot be edited")

    def take_up(self, draft: Draft) -> None:
        """Open the form on a draft that no other console has in its form."""
        about = draft.key.split(_BESIDE)[0]
        if draft.is_elsewhere(self.clock.wall()):
            self.tell("another console is writing it: finish it there", seconds=8)
        elif draft.expected:
            self.edit_incident(about)
        else:
            self.record(lambda: draft.incident, about)

    def note_recorded(self, key: str, identity: str) -> None:
        """Remember that what `key` is about is recorded."""
        self.recorded[key.split(_BESIDE)[0]] = identity

    def mine(self, library: Library) -> frozenset[str]:
        """Return the incidents that were recorded in this console and may be what is on the screen now: nothing is like
        itself."""
        now = self.clock.wall()
        return frozenset(one for one in set(self.recorded.values()) if not _is_over(library, one, now))

    def offer_drafts(self) -> None:
        """Say soon that something was being written when a console ended, where that is so."""
        self.set_timer(OFFER_S, self._offer_drafts)

    def _offer_drafts(self) -> None:
        def show(drafts: list[Draft]) -> None:
            if drafts:
                one, more = drafts[0], len(drafts) - 1
                name, also = one.name[:60], f" and {more} more" if more else ""
                self.tell(f'not recorded yet: "{name}"{also}, kept {hms(one.saved)} UTC; I opens it', seconds=12)

        now = self.clock.wall()
        self.beside(lambda: [one for one in self.library.drafts() if not one.is_elsewhere(now)], show)

    # ---- what is recorded

    def action_open_incidents(self) -> None:
        """Show all incidents."""
        self.open_incidents()

    def open_incidents(self, words: str = "") -> None:
        """Show all incidents, or those that fit `words`."""
        from stethoscope.ui.screens.incidents import IncidentsScreen

        self.push_screen(IncidentsScreen(cast("StethoscopeApp", self), words))

    def open_incident(self, identity: str) -> None:
        """Show one incident."""
        from stethoscope.ui.screens.incident import IncidentScreen

        self.push_screen(IncidentScreen(cast("StethoscopeApp", self), identity))


def _is_over(library: Library, identity: str, now: float) -> bool:
    """Tell whether an incident was resolved long before wall second `now`, or is gone."""
    from stethoscope.model.incident import Status

    try:
        one = library.get(identity)
    except DataError:
        return True
    at = one.times.resolved
    return one.status is Status.RESOLVED and at is not None and now - at > OVER_S


def _beside(about: str) -> str:
    """Return the key of this console's draft about something of which another one keeps a draft."""
    return f"{about}{_BESIDE}{os.getpid()}"
