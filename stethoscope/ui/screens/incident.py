"""One incident: what it was, how long it took, what fixed it, and what else looks like it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from stethoscope.errors import DataError
from stethoscope.model.incident import Status
from stethoscope.ui.alike import Alike
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.incident_alike import alike_rows, lemon_rows
from stethoscope.ui.present.incident_text import incident_rows
from stethoscope.ui.present.spans import Level, Row, Span, Tone, fit, spread
from stethoscope.ui.screens.ask import AskScreen
from stethoscope.ui.screens.pages import PlacedScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.model.incident import Incident
    from stethoscope.ui.app import StethoscopeApp

FOLLOW_S = 3.0
_LABEL = 10
_WIDEST = 120


class IncidentScreen(PlacedScreen):
    """All that its file says."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("incident", moves=True)
    part = "incident"

    def __init__(self, console: StethoscopeApp, identity: str) -> None:
        """Show the incident of that id."""
        super().__init__(console)
        self._identity = identity
        self._one: Incident | None = None
        self._trouble = ""
        self._meanings: dict[str, str] = {}
        self._busy = False
        self._alike = Alike(console, self.redraw)

    def on_mount(self) -> None:
        """Read it, and follow its file."""
        super().on_mount()
        self.look()
        self.set_interval(FOLLOW_S, self._follow)

    def on_screen_resume(self) -> None:
        """Read it again: it may have been edited."""
        self.look()

    def _follow(self) -> None:
        if self.is_current and not self._owner.away:
            self.look()

    def look(self) -> None:
        """Read the incident, in a thread."""
        if self._busy:
            return
        self._busy = True

        def work() -> tuple[Incident | None, str, dict[str, str]]:
            from stethoscope.specs.root_cause import load_root_causes

            self._owner.library.refresh()
            one = self._owner.library.get(self._identity)
            return one, "", self._meanings or {key: cause.meaning for key, cause in load_root_causes().items()}

        def take(found: tuple[Incident | None, str, dict[str, str]]) -> None:
            self._busy = False
            if found != (self._one, self._trouble, self._meanings):
                self._one, self._trouble, self._meanings = found
                self.redraw()

        self._owner.beside(work, take, refused=lambda why: take((None, why, self._meanings)))

    def redraw(self) -> None:
        """Draw what is known now."""
        # An answer can come while the screen is taken away.
        if self.query("#keys"):
            self._draw()

    def title_row(self, cells: int) -> Row:
        """Return which incident it is."""
        fleet = self._one.fleet if self._one is not None else ""
        return spread((Span(" Incident", Tone.TITLE),), (Span(f"{fleet} ", Tone.QUIET),), cells)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return all of it."""
        one, glyphs = self._one, self._owner.glyphs
        if one is None:
            return [(Span(f" {self._trouble or 'reading'}", Tone.WARNING if self._trouble else Tone.QUIET),)]
        from stethoscope.session.incident_draft import clues_of_incident

        wide = min(cells, _WIDEST) - 2
        rows = [(Span(" "), *row) for row in incident_rows(one, wide, glyphs, self._meanings)]
        past = self._alike.of(clues_of_incident(one))
        more = [
            *lemon_rows(past.lemons, wide, _LABEL, glyphs.level(Level.WARNING)),
            *alike_rows([match.as_json() for match in past.matches], wide, _LABEL, "alike"),
        ]
        return [fit(row, cells, glyphs.ellipsis) for row in [*rows, *([()] if more else []), *more]]

    # ---- what the keys do

    def _mine(self) -> Incident | None:
        """Return the incident where it can be changed."""
        if self._one is not None and self._one.is_reference:
            self._owner.tell("a reference is no night of yours: ctrl+n in the list records one")
            return None
        return self._one

    def action_edit(self) -> None:
        """Edit it in the form."""
        if self._mine() is not None:
            self._owner.edit_incident(self._identity)

    async def action_edit_outside(self) -> None:
        """Edit its file in the editor of the user."""
        from stethoscope.ui.editing import edit_file

        if self._mine() is not None:
            await edit_file(self._owner, self._identity)
            self.look()

    def action_close(self) -> None:
        """Ask what fixed it, and write that down as resolved now."""
        one = self._mine()
        if one is None:
            return
        if one.status is Status.RESOLVED:
            self._owner.tell("it is resolved already; e edits what fixed it")
            return

        def take(words: str | None) -> None:
            if words:
                self._close(one, words)

        self._owner.push_screen(AskScreen(self._owner, "What fixed it?", one.title), take)

    def _close(self, one: Incident, words: str) -> None:
        library, now = self._owner.library, self._owner.clock.wall()

        def work() -> None:
            # What the file says by now, so that nothing of others is lost.
            version, fresh = library.version(one.id), library.get(one.id)
            fixed = f"{fresh.resolution}\n{words}".strip()
            at = fresh.times.resolved if fresh.times.resolved is not None else now
            times = replace(fresh.times, resolved=at)
            closed = replace(fresh, status=Status.RESOLVED, resolution=fixed, times=times)
            try:
                library.save(closed, version)
            except DataError as error:
                # The words of a person are not lost to a full disk.
                library.save_draft(one.id, closed, version)
                raise DataError(f"your words are kept as a draft: {error}") from error

        def done(_: None) -> None:
            self._owner.tell(f"resolved: {one.id}")
            self.look()

        self._owner.beside(work, done, failed="not saved")

    def action_copy_incident(self) -> None:
        """Copy it as text."""
        if self._one is not None:
            copy(self._owner, self.text(), self._identity)

    def action_save_incident(self) -> None:
        """Write it into a file as a report."""
        if self._one is not None:
            from stethoscope.ui.present.incident_report import report_md

            now = self._owner.clock.wall()
            save(self._owner, report_md([self._one], self._meanings, now), self._identity, now, ".md")

    def action_open_alike(self) -> None:
        """Open one that looks like it, or that it is linked with."""
        if self._one is None:
            return
        from stethoscope.session.incident_draft import clues_of_incident

        linked = [(link.to, f"linked: {link.how}", link.to) for link in self._one.links if link.to.startswith("INC-")]
        past = self._alike.of(clues_of_incident(self._one))
        found = [(match.incident.id, match.incident.title, match.incident.id) for match in past.matches]
        if not linked and not found:
            self._owner.tell("nothing looks like it, and it has no links")
            return
        self._owner.choose("incident", [*linked, *found], self._owner.open_incident)
