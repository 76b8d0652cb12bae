"""The guided triage: one question at a time, with the facts that answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.errors import StethoscopeError
from stethoscope.model.verdict import HEALTHY
from stethoscope.session.guided import node_for
from stethoscope.ui.bindings import bindings_of, works
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.present.triage import step_rows, triage_title
from stethoscope.ui.screens.pages import PlacedScreen
from stethoscope.ui.widgets.rows import RowsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Wanted
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.guide import Guide


class GuidedScreen(PlacedScreen):
    """A screen of a guided triage: asks while it is in front."""

    def __init__(self, console: StethoscopeApp, guide: Guide) -> None:
        """Show what `guide` knows."""
        super().__init__(console)
        self.guide = guide
        self._snapshot: FleetSnapshot | None = None
        self._second = -1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Some keys mean something else in a replay."""
        return works(action, parameters, replay=self._owner.replay is not None)

    def show_snapshot(self, snapshot: FleetSnapshot, _now_mono: float, now_wall: float) -> None:
        """Ask when that is due; ages grow once a second."""
        self._snapshot = snapshot
        self.guide.listen(self.redraw)
        self.guide.tend(snapshot)
        if int(now_wall) != self._second:
            self._second = int(now_wall)
            self.redraw()

    def redraw(self) -> None:
        """Draw what is known now."""
        # A picture can be due before the screen is laid out, and while it is taken away.
        if self.is_current and self._snapshot is not None and self.query(RowsView):
            self._draw()

    def go_on(self) -> None:
        """Ask again now, and draw."""
        self.query_one(RowsView).scroll_to(y=0, animate=False, immediate=True)
        if self._snapshot is not None:
            self.guide.tend(self._snapshot)
        self.redraw()

    def action_measure(self) -> None:
        """Choose what to measure of what would settle it, and show exactly what would be run."""
        asked, step, runs = self.guide.asked, self.guide.step, self.guide.runs
        if runs is None:
            self._owner.tell("a recording runs nothing" if self._owner.replay is not None else "nothing runs here")
            return
        if runs.why_not:
            self._owner.tell(runs.why_not)
            return
        wanted: Sequence[Wanted] = step.wanted if step is not None and self.part == "triage" else ()
        wanted = wanted or (asked.found.wanted if asked is not None else ())
        here = [one for one in wanted if one.probe in runs.probes]
        if not here:
            words = f": by hand {wanted[0].command or wanted[0].probe} at {wanted[0].place}" if wanted else ""
            self._owner.tell(f"nothing that runs from here would settle it{words}", seconds=8)
        elif len(here) == 1:
            self._preview(here[0])
        else:
            choices = [(f"{one.probe} at {one.place}", one.settles, str(number)) for number, one in enumerate(here)]
            self._owner.choose("measure", choices, lambda chosen: self._preview(here[int(chosen)]))

    def _preview(self, wanted: Wanted) -> None:
        from stethoscope.ui.screens.probe import ProbePreviewScreen

        runs = self.guide.runs
        if runs is None or self._snapshot is None:
            return
        place = node_for(wanted, self._snapshot)
        try:
            preview = runs.preview(wanted.probe, [place])
        except StethoscopeError as error:
            self._owner.tell(str(error), seconds=8)
            return
        if len(preview.steps) == 1:
            self.guide.aim(wanted, preview.steps[0].aim.place or preview.steps[0].aim.node)
        self._owner.push_screen(
            ProbePreviewScreen(self._owner, runs, preview, preview.nodes[0] if preview.nodes else place)
        )


class TriageScreen(GuidedScreen):
    """One step."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("triage", moves=True)
    part = "triage"

    def __init__(self, console: StethoscopeApp, guide: Guide) -> None:
        """Show the step that is to be answered."""
        super().__init__(console, guide)
        self._why = False

    def title_row(self, cells: int) -> Row:
        """Return what is asked about."""
        return triage_title(self.guide.asked, self.guide.focus, self._owner.clock.wall(), cells)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the step."""
        guide = self.guide
        if guide.trouble:
            return [(Span(f" {guide.trouble}", Tone.WARNING),)]
        if guide.asked is None or self._snapshot is None:
            return [(Span(" looking at findings, logs, jobs and ranks", Tone.QUIET),)]
        if not any(node.frames for node in self._snapshot.nodes):
            return [(Span(" no node has answered yet: nothing can be told", Tone.WARNING),)]
        around = guide.around(self._snapshot, self._owner.clock.wall())
        return step_rows(guide.asked, around, self._owner.glyphs, cells, why=self._why)

    # ---- what the keys do

    def action_accept(self) -> None:
        """Take the proposed answer; after the last one show the verdict."""
        guide = self.guide
        if self._snapshot is None or not any(node.frames for node in self._snapshot.nodes):
            self._owner.tell("no node has answered yet: nothing can be told")
        elif guide.step is not None:
            guide.accept()
            self._why = False
            asked = guide.asked
            if asked is not None and asked.at >= len(asked.steps) and asked.found.verdict.root_cause != HEALTHY:
                self.action_verdict()
                return
            self.go_on()
        else:
            self.action_verdict()

    def action_other_answer(self) -> None:
        """Choose another answer than the proposed one."""
        step = self.guide.step
        if step is None:
            self._owner.tell("there is no question left; b goes back to one")
            return
        choices = [
            (answer, "as proposed" if answer == step.proposed else "", answer) for answer in dict.fromkeys(step.answers)
        ]

        def take(answer: str) -> None:
            self.guide.choose(answer)
            self._why = False
            self.go_on()

        self._owner.choose("answer", choices, take)

    def action_skip_step(self) -> None:
        """Leave the question without an answer."""
        self.guide.skip()
        self._why = False
        self.go_on()

    def action_step_back(self) -> None:
        """Take the last answer back."""
        if not self.guide.back():
            self._owner.tell("this is the first question; escape leaves")
        self._why = False
        self.go_on()

    def action_toggle_why(self) -> None:
        """Show which condition of the flow decides."""
        self._why = not self._why
        self.redraw()

    def action_verdict(self) -> None:
        """Show the verdict as it is now."""
        from stethoscope.ui.screens.verdict import VerdictScreen

        if self.guide.asked is None or self._snapshot is None or not any(node.frames for node in self._snapshot.nodes):
            self._owner.tell("no node has answered yet: nothing can be told")
            return
        self._owner.push_screen(VerdictScreen(self._owner, self.guide))
        self._owner.call_after_refresh(self._owner.pull)
