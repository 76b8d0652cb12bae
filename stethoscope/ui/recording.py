"""The incidents of the past in the console: recorded, opened, looked for, and told where something looks like them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
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
DEMO, DEMO_DRAFTS = "demo-incidents", "demo-drafts"
"""Below the state directory: what is recorded of a simulated fleet is no night of a real one."""


class Recording(Triaging):
    """An app that keeps a library of incidents."""

    _library: Library | None = None
    _beside: set[asyncio.Task[None]] | None = None
    recorded: dict[str, str]
    """What was recorded in this console: the id by the key of its draft."""

    @property
    def library(self) -> Library:
        """Return the library; DataError where the settings that say its directory are broken."""
        if self._library is None:
            from stethoscope.paths import state_dir
            from stethoscope.session.incidents import Library

            simulated = self.session is not None and self.session.snapshot().simulated
            state = state_dir()
            self._library = Library(state / DEMO, drafts=state / DEMO_DRAFTS) if simulated else Library()
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
        known = self._recorded().get(key)
        if known is not None:
            self.edit_incident(known)
            return
        now = self.clock.wall()

        def work() -> tuple[Incident, Draft | None]:
            kept = [one for one in self.library.drafts() if one.key == key and now - one.saved < RESUMED_S]
            return (kept[0].incident, kept[0]) if kept else (draft(), None)

        def show(found: tuple[Incident, Draft | None]) -> None:
            from stethoscope.ui.screens.incident_form import FormScreen

            incident, kept = found
            told = f"taken up as it was at {hms(kept.saved)} UTC" if kept is not None else ""
            console = cast("StethoscopeApp", self)
            self.push_screen(FormScreen(console, incident, key, told=told, is_kept=kept is not None))

        self.beside(work, show, failed="nothing can be recorded")

    def record_by_hand(self, place: str = "") -> None:
        """Open the form with nothing but the time, the fleet, and `place`."""
        from stethoscope.session.incident_draft import draft_by_hand
        from stethoscope.session.night import user

        now, snapshot = self.clock.wall(), self.session.snapshot() if self.session is not None else None
        key = f"hand/{place}" if place else f"hand/{iso(now)}"
        self.record(lambda: draft_by_hand(now, place=place, snapshot=snapshot, author=user()), key)

    def edit_incident(self, identity: str) -> None:
        """Open the form on an incident that is recorded, with what was typed of it before and not saved."""

        def work() -> tuple[Incident, Version | None, Draft | None]:
            library = self.library
            library.refresh()
            kept = next((draft for draft in library.drafts() if draft.key == identity), None)
            try:
                return library.get(identity), library.version(identity), kept
            except DataError:
                if kept is None:
                    raise
                return kept.incident, None, kept

        def show(found: tuple[Incident, Version | None, Draft | None]) -> None:
            from stethoscope.ui.screens.incident_form import FormScreen

            one, version, kept = found
            if one.is_reference:
                self.tell("a reference comes with the program; ctrl+n in the list records one of yours")
                return
            base: Incident | None = one
            told = ""
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
            self.push_screen(FormScreen(console, one, identity, told=told, version=version, base=base, is_kept=is_kept))

        self.beside(work, show, failed="it cannot be edited")

    def take_up(self, draft: Draft) -> None:
        """Open the form on a draft."""
        if draft.expected:
            self.edit_incident(draft.key)
        else:
            self.record(lambda: draft.incident, draft.key)

    def note_recorded(self, key: str, identity: str) -> None:
        """Remember that what `key` is about is recorded."""
        self._recorded()[key] = identity

    def _recorded(self) -> dict[str, str]:
        if "recorded" not in self.__dict__:
            self.recorded = {}
        return self.recorded

    def offer_drafts(self) -> None:
        """Say soon that something was being written when a console ended, where that is so."""
        self.set_timer(OFFER_S, self._offer_drafts)

    def _offer_drafts(self) -> None:

        def show(drafts: list[Draft]) -> None:
            if drafts:
                one, more = drafts[0], len(drafts) - 1
                title = one.incident.title or "without a title"
                also = f" and {more} more" if more else ""
                self.tell(f'not recorded yet: "{title[:60]}"{also}, kept {hms(one.saved)} UTC; I opens it', seconds=12)

        self.beside(lambda: self.library.drafts(), show)

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
