"""One finding: its card, and what can be done about it, on its own screen and in the night's list."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.errors import UsageError
from stethoscope.model.ids import node_of
from stethoscope.model.night import Standing
from stethoscope.session.incident_draft import clues_of, draft_of_entry
from stethoscope.session.night import user
from stethoscope.ui.alike import Alike
from stethoscope.ui.bindings import bindings_of, works
from stethoscope.ui.keys import footer_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.finding_card import Known, card_markdown, card_rows, card_text
from stethoscope.ui.present.incident_fact import fact_writer
from stethoscope.ui.present.spans import Row, Span, Tone, spread
from stethoscope.ui.screens.ask import AskScreen
from stethoscope.ui.screens.pages import RowsScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.night import Entry
    from stethoscope.ui.app import StethoscopeApp

BEFORE_S = 300.0
"""So long before a finding began its log is read."""
_SNOOZES = (("30 minutes", 1800.0), ("2 hours", 7200.0))


class FindingActions:
    """What can be done about the finding that a screen has chosen."""

    _owner: StethoscopeApp
    _alike: Alike | None = None

    def entry(self) -> Entry | None:
        """Return the finding that is meant."""
        raise NotImplementedError

    def changed(self, id_: str, section: str) -> None:
        """Draw again, after something was said about a finding that stood in `section`."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Some keys mean something else in a replay."""
        return works(action, parameters, replay=self._owner.replay is not None)

    def known(self) -> Known | None:
        """Return what cards are written from, None before there is a session."""
        session = self._owner.session
        if session is None:
            return None
        rule_of = getattr(session, "rule", None) or (lambda _: None)
        snapshot, entry = session.snapshot(), self.entry()
        known = Known(snapshot, self._owner.clock.wall(), session.history, rule_of)
        if entry is None:
            return known
        if self._alike is None:
            self._alike = Alike(self._owner, self.answered)
        past = self._alike.of(clues_of(entry, snapshot))
        return known._replace(similar=[match.as_json() for match in past.matches], lemons=past.lemons)

    def answered(self) -> None:
        """Draw again: it is known now what looks like the finding."""
        raise NotImplementedError

    def _say(self, entry: Entry, say: Callable[[float], None], words: str) -> None:
        from stethoscope.ui.present.finding_list import section_of

        wall = self._owner.clock.wall()
        section = section_of(entry, wall)
        try:
            say(wall)
        except UsageError as error:
            self._owner.tell(str(error), seconds=8)
            return
        self._owner.tell(words)
        self.changed(entry.id, section)

    def action_acknowledge(self) -> None:
        """Say that somebody has seen it, or take that back."""
        entry, session = self.entry(), self._owner.session
        if entry is None or session is None:
            self._owner.tell("there is no finding here")
            return
        night, undo = session.night, entry.standing(self._owner.clock.wall()) is Standing.ACKNOWLEDGED
        words = "loud again" if undo else "acknowledged: quiet until it gets worse; a takes it back"
        self._say(entry, lambda wall: night.acknowledge(entry.id, wall, undo=undo), words)

    def action_snooze(self) -> None:
        """Ask how long it is to be quiet."""
        entry, session = self.entry(), self._owner.session
        if entry is None or session is None:
            self._owner.tell("there is no finding here")
            return
        night, id_ = session.night, entry.id
        choices = [(title, "then it is loud again", str(seconds)) for title, seconds in _SNOOZES]
        choices.append(("until it changes", "comes again, gets worse or better, has other places", "changed"))
        if entry.standing(self._owner.clock.wall()) is Standing.SNOOZED:
            choices.insert(0, ("no longer", "it is loud again now", "undo"))

        def take(chosen: str) -> None:
            if chosen == "undo":
                self._say(entry, lambda wall: night.snooze(id_, wall, None, undo=True), "loud again")
            elif chosen == "changed":
                self._say(entry, lambda wall: night.snooze(id_, wall, None), "snoozed until it changes")
            else:
                seconds = float(chosen)
                self._say(
                    entry,
                    lambda wall: night.snooze(id_, wall, wall + seconds),
                    f"snoozed for {next(title for title, length in _SNOOZES if length == seconds)}",
                )

        self._owner.choose("snooze", choices, take)

    def action_note(self) -> None:
        """Ask for a line about it."""
        entry, session = self.entry(), self._owner.session
        if entry is None or session is None:
            self._owner.tell("there is no finding here")
            return
        night, id_ = session.night, entry.id

        def take(text: str | None) -> None:
            if text:
                self._say(entry, lambda wall: night.note(id_, wall, text), "noted")

        self._owner.push_screen(AskScreen(self._owner, f"a line about {entry.finding.summary}"), take)

    def _node_names(self, snapshot: FleetSnapshot) -> list[str]:
        entry = self.entry()
        places = entry.finding.where if entry is not None else ()
        return [name for name in dict.fromkeys(map(node_of, places)) if name in snapshot.by_name]

    def _with_node(self, then: Callable[[str], object]) -> None:
        known = self.known()
        names = self._node_names(known.snapshot) if known is not None else []
        if known is None or not names:
            self._owner.tell("no node of this fleet stands behind this")
        elif len(names) == 1:
            then(names[0])
        else:
            choices = [(name, known.snapshot.node(name).link.state.value, name) for name in names]
            self._owner.choose("node", choices, then)

    def action_open_node(self) -> None:
        """Open the node that it is on, or the job."""
        entry = self.entry()
        kind, _, job = entry.finding.where[0].partition("/") if entry is not None else ("", "", "")
        if kind == "job":
            self._owner.open_jobs(job.partition("/")[0])
        else:
            self._with_node(self._owner.open_node)

    def action_open_logs(self) -> None:
        """Read the kernel log of its node from shortly before it began."""
        entry = self.entry()
        if entry is not None:
            self._with_node(lambda name: self._owner.open_log_since(name, entry.since - BEFORE_S))

    def action_triage(self) -> None:
        """Be led to the cause of it."""
        entry = self.entry()
        if entry is not None:
            self._owner.open_triage_for(entry.finding)

    def action_record_incident(self) -> None:
        """Write it down as an incident."""
        entry, session = self.entry(), self._owner.session
        if entry is None or session is None:
            self._owner.tell("there is no finding here")
            return
        snapshot, now = session.snapshot(), self._owner.clock.wall()
        say = fact_writer(snapshot.catalogue)
        self._owner.record(
            lambda: draft_of_entry(entry, now, snapshot=snapshot, author=user(), say=say), f"finding/{entry.id}"
        )

    def action_explain_rule(self) -> None:
        """Show what its rule looks for."""
        from stethoscope.ui.screens.rule import RuleScreen

        entry, known = self.entry(), self.known()
        rule = known.rule_of(entry.finding.rule) if entry is not None and known is not None else None
        if rule is None:
            self._owner.tell("the rule is not among those that judge now")
        else:
            self._owner.push_screen(RuleScreen(self._owner, rule))

    def action_copy_finding(self) -> None:
        """Copy the card as text."""
        entry, known = self.entry(), self.known()
        if entry is not None and known is not None:
            copy(self._owner, card_text(entry, known, self._owner.glyphs), "the finding")

    def action_save_finding(self) -> None:
        """Write the card into a file."""
        entry, known = self.entry(), self.known()
        if entry is not None and known is not None:
            text = card_markdown(entry, known, self._owner.glyphs)
            save(self._owner, text, f"finding-{entry.id}", self._owner.clock.wall(), ".md")


class FindingScreen(FindingActions, RowsScreen):
    """The card of one finding."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("finding", moves=True)
    part = "finding"

    def __init__(self, console: StethoscopeApp, id_: str) -> None:
        """Show the finding of that id."""
        super().__init__(console)
        self._finding = id_
        self._second = 0

    def entry(self) -> Entry | None:
        """Return the finding; one that is forgotten is none."""
        session = self._owner.session
        return session.night.entries.get(self._finding) if session is not None else None

    def changed(self, id_: str, section: str) -> None:
        """Draw again."""
        self._draw()

    def answered(self) -> None:
        """Draw again."""
        if self.query("#keys"):
            self._draw()

    def show_snapshot(self, _snapshot: FleetSnapshot, _now_mono: float, now_wall: float) -> None:
        """Take the state of this moment, once a second."""
        if int(now_wall) != self._second and self.query("#values"):
            self._second = int(now_wall)
            self._draw()

    def footer_keys(self) -> list[tuple[str, str]]:
        """Return the keys of the footer."""
        return footer_of(self.part, replay=self._owner.replay is not None)

    def title_row(self, cells: int) -> Row:
        """Return which finding it is."""
        right = (Span(f"{self._finding} ", Tone.QUIET),)
        return spread((Span(" Finding", Tone.TITLE),), right, cells)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the card."""
        entry, known = self.entry(), self.known()
        if entry is None or known is None:
            return [(Span("   it is no longer in the night's list; escape goes back", Tone.QUIET),)]
        return card_rows(entry, known, self._owner.glyphs, cells)
