"""The logs screen: what happened first, in kernel logs of the fleet, in a job's log, in files and in pasted text."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.frame import footer, position, rule
from stethoscope.ui.present.logs import LogRow, Places, detail_rows, log_rows, log_title
from stethoscope.ui.present.spans import Row, Span, fit, plain
from stethoscope.ui.screens.open_log import ask_which, take_paste
from stethoscope.ui.screens.pages import as_text
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.logbook import LogBook, OpenLog
    from stethoscope.specs.codes import Codes
    from stethoscope.ui.app import StethoscopeApp

AGES_S = 5.0
"""How often lines are drawn again only because time passes."""
_SAVED = 200
"""Width of what is copied and saved."""


class LogsScreen(Screen[None]):
    """The answer of one log, and below it the time line; a line leads to its explanation and its node."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("logs", moves=True)
    AUTO_FOCUS = ""
    part = "logs"

    def __init__(self, console: StethoscopeApp, book: LogBook) -> None:
        """Show the kernel logs of the fleet first."""
        super().__init__()
        self._owner = console
        self.book = book
        self.shown_log: OpenLog = book.fleet
        self._every = False
        self._rows: list[LogRow] = []
        self._chosen = -1
        self._snapshot: FleetSnapshot | None = None
        self._now_wall = 0.0
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out a title, the lines, what the chosen one means, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="log")
        yield Lines(id="rule-bottom")
        yield Lines(id="detail", rows=())
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data."""
        # The keys move the cursor here, and the lines only where they must.
        self.query_one(RowsView).can_focus = False
        self._frame()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._frame()
        self._drawn = ()
        self._draw()

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
        self._draw()

    def _frame(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        self.query_one("#rule-top", Lines).show([rule(cells, glyphs)])
        self.query_one("#rule-bottom", Lines).show([rule(cells, glyphs)])
        keys = footer_of("logs", replay=self._owner.replay is not None)
        self.query_one("#keys", Lines).show([footer(keys, cells)])

    def _draw(self) -> None:
        # A picture can be due before the screen is laid out, and while it is taken away.
        if not self.query(RowsView):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width or 80, self._owner.glyphs
        replay = self._owner.replay.state if self._owner.replay is not None else None
        fleet = self._snapshot.fleet if self._snapshot is not None else ""
        title = log_title(self.shown_log, self._snapshot, fleet, self._now_wall, cells, glyphs, replay=replay)
        self.query_one("#top", Lines).show([title])
        drawn = (self.shown_log, self.shown_log.version, self._every, view.cells, glyphs, int(self._now_wall / AGES_S))
        if drawn == self._drawn:
            return
        self._drawn = drawn
        before = self._rows[self._chosen] if 0 <= self._chosen < len(self._rows) else None
        wide = (view.cells or cells) - 1
        places = Places(self._snapshot)
        self._rows = log_rows(self.shown_log, places, self._codes, glyphs, wide, self._now_wall, every=self._every)
        self._chosen = self._again(before)
        view.show([self._row(number) for number in range(len(self._rows))])
        self._draw_detail()

    def _again(self, before: LogRow | None) -> int:
        """Return where the line is on which the cursor stood, else the first that leads anywhere."""
        leading = [number for number, row in enumerate(self._rows) if row.leads]
        if before is not None:
            for number in leading:
                row = self._rows[number]
                if row.event is before.event and (row.event is not None or row.verdict == before.verdict):
                    return number
        return leading[0] if leading else -1

    def _row(self, number: int) -> Row:
        view, glyphs = self.query_one(RowsView), self._owner.glyphs
        row = fit(self._rows[number].row, view.cells or self.size.width or 80, glyphs.ellipsis)
        if number != self._chosen:
            return row
        text = plain(row)
        words = text.lstrip()
        return (Span(" " * (len(text) - len(words))), Span(words, selected=True))

    @property
    def _codes(self) -> Codes | None:
        # They are loaded in a thread before anything is shown that needs them.
        return self.book.codes if self.shown_log.decoded is not None else None

    @property
    def _current(self) -> LogRow | None:
        return self._rows[self._chosen] if 0 <= self._chosen < len(self._rows) else None

    def _draw_detail(self) -> None:
        view, cells, glyphs = self.query_one(RowsView), self.size.width or 80, self._owner.glyphs
        words = position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs)
        self.query_one("#rule-bottom", Lines).show([rule(cells, glyphs, words)])
        rows = detail_rows(self._current, self.shown_log.decoded, self._codes, glyphs, cells)
        self.query_one("#detail", Lines).show(rows)

    # ---- what the keys do

    def action_move(self, rows: int, _columns: int) -> None:
        """Move the cursor to the next line that leads anywhere, and the lines with it."""
        view = self.query_one(RowsView)
        leading = [number for number, row in enumerate(self._rows) if row.leads]
        step = 1 if rows > 0 else -1
        ahead = [number for number in leading if (number - self._chosen) * step > 0]
        ahead.sort(key=lambda number: abs(number - self._chosen))
        if not ahead:
            # There is no further line to stand on: show what is above the first, and below the last.
            view.scroll_to(y=view.scroll_offset.y + rows, animate=False, immediate=True)
            view.sync()
        else:
            wanted = [number for number in ahead if abs(number - self._chosen) <= abs(rows)]
            self._chosen = wanted[-1] if wanted else ahead[0]
            self._show_chosen()
        self._draw_detail()

    def _show_chosen(self) -> None:
        view = self.query_one(RowsView)
        view.show([self._row(number) for number in range(len(self._rows))])
        top, height = view.scroll_offset.y, view.size.height
        if not top <= self._chosen < top + height:
            target = self._chosen if self._chosen < top else self._chosen - height + 1
            view.scroll_to(y=target, animate=False, immediate=True)
            view.sync()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(1, self.query_one(RowsView).size.height - 1), 0)

    def action_cursor_first(self) -> None:
        """Go to the first line."""
        self._chosen = next((number for number, row in enumerate(self._rows) if row.leads), -1)
        self.query_one(RowsView).scroll_to(y=0, animate=False, immediate=True)
        self._show_chosen()
        self._draw_detail()

    def action_cursor_last(self) -> None:
        """Go to the last line."""
        self.action_move(len(self._rows), 0)

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

    def action_choose_log(self) -> None:
        """Choose which log is shown."""
        ask_which(self._owner, self.book, self._snapshot, self.show_log)

    def action_toggle_every(self) -> None:
        """Show every event, or again what went wrong."""
        self._every = not self._every
        self._draw()

    def action_browse(self) -> None:
        """Choose one of all signatures and codes, and explain it."""
        from stethoscope.ui.screens.explained import browse

        browse(self._owner, self.book)

    def _text(self) -> str:
        places = Places(self._snapshot)
        glyphs, wall = self._owner.glyphs, self._now_wall
        rows = log_rows(self.shown_log, places, self._codes, glyphs, _SAVED, wall, every=self._every)
        return as_text([row.row for row in rows])

    def action_copy_log(self) -> None:
        """Copy the answer and the time line."""
        copy(self._owner, self._text(), "what the log says")

    def action_save_log(self) -> None:
        """Write the answer and the time line into a file."""
        save(self._owner, self._text(), f"log-{self.shown_log.title}", self._owner.clock.wall())
