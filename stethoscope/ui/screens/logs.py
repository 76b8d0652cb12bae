"""The logs screen: what happened first, in kernel logs of the fleet, in a job's log, in files and in pasted text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.verdict import HEALTHY
from stethoscope.session.incident_draft import LogSaid, clues_of, draft_of_log, log_said
from stethoscope.session.night import user
from stethoscope.ui.alike import Alike
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.incident_alike import alike_rows
from stethoscope.ui.present.incident_fact import fact_writer
from stethoscope.ui.present.logs import LABEL_CELLS, LogRow, Places, detail_rows, log_rows, log_title
from stethoscope.ui.screens.open_log import ask_which, take_paste
from stethoscope.ui.screens.pages import LinesScreen, as_text
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.incident import Match
    from stethoscope.session.logbook import LogBook, OpenLog
    from stethoscope.specs.codes import Codes
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.spans import Row

AGES_S = 5.0
"""How often lines are drawn again only because time passes."""
_ROOMY = 30
"""From so many lines of the terminal on there is room for what looks like it."""
_SAVED = 200
"""Width of what is copied and saved."""


class LogsScreen(LinesScreen):
    """The answer of one log, and below it the time line; a line leads to its explanation and its node."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("logs", moves=True)
    part = "logs"

    def __init__(self, console: StethoscopeApp, book: LogBook) -> None:
        """Show the kernel logs of the fleet first."""
        super().__init__(console)
        self.book = book
        self.shown_log: OpenLog = book.fleet
        self._every = False
        self._rows: list[LogRow] = []
        self._chosen = -1
        self._snapshot: FleetSnapshot | None = None
        self._now_wall = 0.0
        self._drawn: tuple[object, ...] = ()
        self._alike = Alike(console, self.draw)

    def on_paste(self, event: events.Paste) -> None:
        """Decode what is pasted while this screen is in front."""
        event.stop()
        self.show_log(take_paste(self.book, event.text))

    def show_log(self, log: OpenLog) -> None:
        """Show another log."""
        self.shown_log = log
        self._chosen, self._drawn = -1, ()
        self._owner.pull()

    def show_snapshot(self, snapshot: FleetSnapshot, _now_mono: float, now_wall: float) -> None:
        """Take the state of this moment."""
        self._snapshot, self._now_wall = snapshot, now_wall
        self.book.watch(self.shown_log)
        if self.shown_log.of_fleet:
            self.book.feed_fleet(snapshot)
        else:
            self.book.feed_kernels(self.shown_log, snapshot)
        self.draw()

    def draw(self) -> None:
        """Draw what has changed."""
        # A picture can be due before the screen is laid out, and while it is taken away.
        if not self.query(RowsView):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width or 80, self._owner.glyphs
        replay = self._owner.replay.state if self._owner.replay is not None else None
        fleet = self._snapshot.fleet if self._snapshot is not None else ""
        title = log_title(self.shown_log, self._snapshot, fleet, self._now_wall, cells, glyphs, replay=replay)
        self.query_one("#top", Lines).show([title])
        similar = self._similar
        drawn = (
            self.shown_log,
            similar,
            self.shown_log.version,
            self._every,
            view.cells,
            self.size,
            glyphs,
            int(self._now_wall / AGES_S),
        )
        if drawn == self._drawn:
            return
        self._drawn = drawn
        before = self._rows[self._chosen] if 0 <= self._chosen < len(self._rows) else None
        wide = (view.cells or cells) - 1
        places = Places(self._snapshot)
        self._rows = log_rows(
            self.shown_log,
            places,
            self._codes,
            glyphs,
            wide,
            self._now_wall,
            every=self._every,
            similar=() if self.shown_log.of_fleet else [match.as_json() for match in similar],
        )
        self._chosen = self._again(before)
        self.show_lines()

    def _again(self, before: LogRow | None) -> int:
        """Return where the line is on which the cursor stood, else the first that leads anywhere."""
        leading = [number for number, row in enumerate(self._rows) if row.leads]
        if before is not None:
            for number in leading:
                row = self._rows[number]
                if row.event is before.event and (row.event is not None or row.verdict == before.verdict):
                    return number
        return leading[0] if leading else -1

    def line_rows(self) -> Sequence[Row]:
        """Return the lines as they look without the cursor."""
        return [row.row for row in self._rows]

    def leads(self, number: int) -> bool:
        """Tell whether a line leads to an explanation or a node."""
        return self._rows[number].leads

    @property
    def _codes(self) -> Codes | None:
        # They are loaded in a thread before anything is shown that needs them.
        return self.book.codes if self.shown_log.decoded is not None else None

    @property
    def _current(self) -> LogRow | None:
        return self._rows[self._chosen] if 0 <= self._chosen < len(self._rows) else None

    @property
    def _said(self) -> LogSaid | None:
        """Return what the log says; of the kernels of a fleet the trouble under the cursor, by default the first."""
        decoded, log, row = self.shown_log.decoded, self.shown_log, self._current
        if decoded is None or self._codes is None:
            return None
        places, said = Places(self._snapshot), log_said(decoded, log.job)
        verdict = row.verdict if row is not None and row.verdict is not None else decoded.verdict
        said = replace(said, verdict=places.named(verdict))
        if log.of_fleet:
            hosts = {one.host for one in verdict.culprits}
            events = [event for event in decoded.log.events if not hosts or event.origin.host in hosts]
            said = replace(said, events=events, alternatives=())
        return None if verdict.root_cause == HEALTHY and not verdict.supports else said

    @property
    def _similar(self) -> tuple[Match, ...]:
        said = self._said
        return self._alike.of(clues_of(said, self._snapshot)).matches if said is not None else ()

    def show_lines(self) -> None:
        """Show the lines, and below them what the chosen one means."""
        super().show_lines()
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        rows = detail_rows(self._current, self.shown_log.decoded, self._codes, glyphs, cells)
        if self.shown_log.of_fleet and self.size.height >= _ROOMY:
            # Below, as many lines for every trouble, so that the list stands still.
            alike = list(alike_rows([match.as_json() for match in self._similar[:1]], cells, LABEL_CELLS))
            rows += [*alike, (), ()][:2]
        self.query_one("#detail", Lines).show(rows)

    # ---- what the keys do

    def action_explain(self) -> None:
        """Explain what the line under the cursor means."""
        row = self._current
        if row is None:
            self._owner.tell("there is nothing to explain here")
            return
        signature = row.event.signature if row.event is not None else row.verdict.signature if row.verdict else None
        if signature is None:
            self._owner.tell("no single kind of line stands for this")
            return
        from stethoscope.ui.screens.explained import ExplainedScreen

        self._owner.push_screen(ExplainedScreen(self._owner, self.book, signature, row))

    def action_open_node(self) -> None:
        """Open the node that the line under the cursor is about."""
        row = self._current
        node = row.node if row is not None else ""
        if node:
            self._owner.open_node(node)
        else:
            self._owner.tell("the line names no node of this fleet" if row is not None else "there is no line here")

    def action_record_incident(self) -> None:
        """Write down what the log says as an incident."""
        said, snapshot, now = self._said, self._snapshot, self._owner.clock.wall()
        if said is None:
            self._owner.tell("the log tells of nothing that could be recorded")
            return
        say = fact_writer(snapshot.catalogue if snapshot is not None else {})
        first = said.verdict.culprits[0].place if said.verdict.culprits else ""
        key = "/".join(("log", self.shown_log.title, said.verdict.root_cause, first or ""))
        self._owner.record(lambda: draft_of_log(said, now, snapshot=snapshot, author=user(), say=say), key)

    def action_choose_log(self) -> None:
        """Choose which log is shown."""
        ask_which(self._owner, self.book, self._snapshot, self.show_log)

    def action_toggle_every(self) -> None:
        """Show every event, or again what went wrong."""
        self._every = not self._every
        self.draw()

    def action_browse(self) -> None:
        """Choose one of all signatures and codes, and explain it."""
        from stethoscope.ui.screens.explained import browse

        browse(self._owner, self.book)

    def _text(self) -> str:
        places = Places(self._snapshot)
        glyphs, wall = self._owner.glyphs, self._now_wall
        similar = () if self.shown_log.of_fleet else [match.as_json() for match in self._similar]
        log = self.shown_log
        rows = log_rows(log, places, self._codes, glyphs, _SAVED, wall, every=self._every, similar=similar)
        return as_text([row.row for row in rows])

    def action_copy_log(self) -> None:
        """Copy the answer and the time line."""
        copy(self._owner, self._text(), "what the log says")

    def action_save_log(self) -> None:
        """Write the answer and the time line into a file."""
        save(self._owner, self._text(), f"log-{self.shown_log.title}", self._owner.clock.wall())
