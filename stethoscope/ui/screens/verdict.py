"""The verdict: what it is, why that is believed, what would settle it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.present.verdict import verdict_markdown, verdict_rows, verdict_text, verdict_title
from stethoscope.ui.screens.triage import GuidedScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType


class VerdictScreen(GuidedScreen):
    """At most three hypotheses on one card."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("verdict", moves=True)
    part = "verdict"

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
        return verdict_rows(
            asked, self.guide.around(self._snapshot, self._owner.clock.wall()), self._owner.glyphs, cells
        )

    def action_copy_verdict(self) -> None:
        """Copy the card as text."""
        asked = self.guide.asked
        if asked is not None and self._snapshot is not None:
            around = self.guide.around(self._snapshot, self._owner.clock.wall())
            copy(self._owner, verdict_text(asked, around, self._owner.glyphs), "the verdict")

    def action_save_verdict(self) -> None:
        """Write the card into a file."""
        asked = self.guide.asked
        if asked is not None and self._snapshot is not None:
            now = self._owner.clock.wall()
            around = self.guide.around(self._snapshot, now)
            text = verdict_markdown(asked, self._snapshot.fleet, around, self._owner.glyphs)
            save(self._owner, text, f"verdict-{asked.found.verdict.root_cause}", now, ".md")

    def action_step_back(self) -> None:
        """Go back to the last question."""
        self._owner.pop_screen()
        if self.guide.back():
            self._owner.call_after_refresh(self._owner.pull)
