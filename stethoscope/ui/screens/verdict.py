"""The verdict: what it is, why that is believed, what would settle it, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.verdict import HEALTHY, UNKNOWN, PathStep
from stethoscope.session.incident_draft import clues_of, draft_of_verdict
from stethoscope.session.night import user
from stethoscope.ui.alike import Alike, Past
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.incident_fact import fact_writer
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.present.verdict import verdict_markdown, verdict_rows, verdict_text, verdict_title
from stethoscope.ui.screens.triage import GuidedScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.analysis.triage_ask import Asked
    from stethoscope.model.night import Entry
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.guide import Guide


class VerdictScreen(GuidedScreen):
    """At most three hypotheses on one card."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("verdict", moves=True)
    part = "verdict"

    def __init__(self, console: StethoscopeApp, guide: Guide) -> None:
        """Show the verdict of `guide`, and what looks like it in the past."""
        super().__init__(console, guide)
        self._alike = Alike(console, self.redraw)

    @property
    def _entries(self) -> tuple[Entry, ...]:
        session = self._owner.session
        return tuple(session.night.entries.values()) if session is not None else ()

    def _with_past(self, asked: Asked) -> tuple[Asked, Past]:
        """Return the verdict with what looks like it, as far as that is known by now."""
        if not asked.found.verdict.places and asked.found.verdict.root_cause in (HEALTHY, UNKNOWN):
            return asked, Past()
        past = self._alike.of(clues_of(asked.found, self._snapshot, self._entries))
        similar = tuple(match.as_json() for match in past.matches)
        return replace(asked, found=replace(asked.found, similar=similar)), past

    def title_row(self, cells: int) -> Row:
        """Return about whom it is."""
        asked, now = self.guide.asked, self._owner.clock.wall()
        return verdict_title(asked, now, cells) if asked is not None else (Span(" Verdict", Tone.TITLE),)

    def action_freeze_verdict(self) -> None:
        """Write what the verdict rests on into a bundle."""
        from stethoscope.ui.freezing import freeze_verdict

        asked, snapshot = self.guide.asked, self._snapshot
        if asked is not None and snapshot is not None:
            around = self.guide.around(snapshot, self._owner.clock.wall())
            freeze_verdict(self._owner, self.guide, verdict_markdown(asked, snapshot.fleet, around, self._owner.glyphs))

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the card."""
        asked = self.guide.asked
        if self.guide.trouble:
            return [(Span(f" {self.guide.trouble}", Tone.WARNING),)]
        if asked is None or self._snapshot is None:
            return [()]
        asked, past = self._with_past(asked)
        around = self.guide.around(self._snapshot, self._owner.clock.wall())
        return verdict_rows(asked, around, self._owner.glyphs, cells, past.lemons)

    def action_copy_verdict(self) -> None:
        """Copy the card as text."""
        asked = self.guide.asked
        if asked is not None and self._snapshot is not None:
            around = self.guide.around(self._snapshot, self._owner.clock.wall())
            asked, past = self._with_past(asked)
            copy(self._owner, verdict_text(asked, around, self._owner.glyphs, lemons=past.lemons), "the verdict")

    def action_save_verdict(self) -> None:
        """Write the card into a file."""
        asked = self.guide.asked
        if asked is not None and self._snapshot is not None:
            now = self._owner.clock.wall()
            around = self.guide.around(self._snapshot, now)
            asked, past = self._with_past(asked)
            text = verdict_markdown(asked, self._snapshot.fleet, around, self._owner.glyphs, past.lemons)
            save(self._owner, text, f"verdict-{asked.found.verdict.root_cause}", now, ".md")

    def action_record_incident(self) -> None:
        """Write it down as an incident."""
        asked, snapshot = self.guide.asked, self._snapshot
        if asked is None or snapshot is None:
            self._owner.tell("there is no verdict yet")
            return
        verdict, entries, now = asked.found.verdict, self._entries, self._owner.clock.wall()
        # The way as a person went it, not the one that was proposed.
        way = tuple(PathStep(step.id, step.question, step.answer, step.how or "auto") for step in asked.steps)
        found = replace(asked.found, path=way or asked.found.path)
        say = fact_writer(snapshot.catalogue)
        key = "/".join(("verdict", self.guide.focus or "fleet", verdict.root_cause, *verdict.places[:1]))
        self._owner.record(
            lambda: draft_of_verdict(found, now, snapshot=snapshot, entries=entries, author=user(), say=say), key
        )

    def action_step_back(self) -> None:
        """Go back to the last question."""
        self._owner.pop_screen()
        if self.guide.back():
            self._owner.call_after_refresh(self._owner.pull)
