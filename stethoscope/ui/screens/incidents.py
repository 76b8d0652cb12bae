"""The incidents: have we seen this? A line to search in, what fits below it as one types."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.widgets import Input

from stethoscope.errors import StethoscopeError
from stethoscope.text import clean
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.incident_list import (
    DRAFT,
    FILTERS,
    INCIDENT,
    SUGGESTION,
    TROUBLE,
    Listed,
    ListLine,
    detail_rows,
    list_lines,
    list_title,
    query_of,
)
from stethoscope.ui.present.view import following
from stethoscope.ui.screens.pages import LinesScreen
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.model.incident import Hit, Search, Trouble
    from stethoscope.store.drafts import Draft
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.spans import Row

FOLLOW_S = 3.0
"""So often it is looked whether files came, changed or went."""
MOST = 200
"""Incidents that are listed."""
PROGRESS_S = 0.5
"""So often it is said how many files were read, until the first list is there."""
_SHORT, _DETAIL = 30, (3, 5)
"""Below so many lines of the terminal fewer are about the chosen one."""

_Found = tuple["Search", "list[Draft]", "tuple[Trouble, ...]", int, str, "frozenset[str]"]


class IncidentsScreen(LinesScreen):
    """What is typed goes into the search; the arrows choose, enter opens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("incidents"),
        Binding("escape", "leave", show=False, priority=True),
        *(
            Binding(key, action, show=False, priority=True)
            for key, action in (
                ("up", "move(-1, 0)"),
                ("down", "move(1, 0)"),
                ("pageup", "page(-1)"),
                ("pagedown", "page(1)"),
                ("ctrl+d", "drop_draft"),
                ("tab", "next_filter"),
            )
        ),
    ]
    AUTO_FOCUS = "Input"
    part = "incidents"

    def __init__(self, console: StethoscopeApp, words: str = "") -> None:
        """Show all incidents, or those that fit `words`."""
        super().__init__(console)
        self._words = words
        self._only = FILTERS[0]
        self._listed = Listed(None)
        self._total = 0
        self._directory = ""
        self._lines: list[ListLine] = []
        self._at: tuple[str, str] = ("", "")
        """What the cursor stands on; it is followed once it was moved."""
        self._moved = False
        self._asked = 0
        self._busy = False
        self._is_due = False

    def compose(self) -> ComposeResult:
        """Lay out a title, the search, what was found, what is known of the chosen one, and the keys."""
        yield Lines(id="top")
        yield Input(
            self._words,
            placeholder='search: words, "a phrase", xid:79 node:gpu-014 status:open after:2026-03',
            id="find",
        )
        yield Lines(id="rule-top")
        yield RowsView(id="lines")
        yield Lines(id="rule-bottom")
        yield Lines(id="detail", rows=())
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data, look, and go on looking."""
        super().on_mount()
        # What was told on the screen before would stand over the first lines.
        self._owner.clear_notifications()
        self.draw()
        self.look()
        self.set_interval(FOLLOW_S, self._follow)
        self._reading = self.set_interval(PROGRESS_S, self._progress)

    def _progress(self) -> None:
        """Say how many files were read, as long as there is no list."""
        if self._listed.search is not None or self._listed.why:
            self._reading.stop()
            return
        # Settings that are broken are told by the one who asks.
        with suppress(StethoscopeError):
            self._listed = self._listed._replace(read=self._owner.library.progress)
        self.draw()

    def on_screen_resume(self) -> None:
        """Look again: something may have been recorded meanwhile."""
        self.look()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Look for what is typed."""
        if event.value != self._words:
            self._words, self._moved = event.value, False
            self.look()

    def _follow(self) -> None:
        if self.is_current and not self._owner.away and not self._listed.why:
            self.look()

    def look(self) -> None:
        """Ask the library, in a thread; what is asked meanwhile waits, and only the last of it is asked."""
        if self._busy:
            self._is_due = True
            return
        self._busy, self._is_due = True, False
        words, only, now = self._words, self._only, self._owner.clock.wall()

        def work() -> _Found:
            library = self._owner.library
            library.refresh()
            found = library.search(query_of(words, only), MOST, typing=True)
            total = library.search("", 1).total
            self._directory = clean(str(library.directory).replace(os.path.expanduser("~"), "~", 1), 80)
            drafts = library.drafts()
            elsewhere = frozenset(draft.key for draft in drafts if draft.is_elsewhere(now))
            return found, drafts, library.troubles, total, words, elsewhere

        def take(found: _Found) -> None:
            search, drafts, troubles, self._total, query, elsewhere = found
            show(Listed(search, drafts, troubles, query.strip(), only, elsewhere=elsewhere))

        def refuse(why: str) -> None:
            # Nothing is found now, and typing asks again; only the clock does not.
            show(Listed(None, query=words, only=only, why=why))

        def show(listed: Listed) -> None:
            self._busy, self._listed = False, listed
            self.draw()
            if self._is_due:
                self.look()

        self._owner.beside(work, take, refused=refuse)

    # ---- how it looks

    def draw(self) -> None:
        """Draw the list, with the cursor on what it was on where somebody moved it there."""
        # A picture can be due before the screen is laid out, and while it is taken away.
        if not self.query("#keys"):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width or 80, self._owner.glyphs
        listed = self._listed._replace(only=self._only)
        self.query_one("#top", Lines).show([list_title(listed, self._total, self._directory, cells, glyphs)])
        self._lines = list_lines(listed, glyphs, (view.cells or cells) - 1)
        leading = [number for number, line in enumerate(self._lines) if line.kind]
        # Before somebody moves, the best hit is chosen, and neither a draft nor a suggestion.
        first = next(
            (number for number in leading if self._lines[number].kind == INCIDENT), leading[0] if leading else -1
        )
        same = [number for number in leading if self._lines[number][1:] == self._at] if self._moved else []
        self._chosen = same[0] if same else first
        self._remember()
        self.show_lines()

    def _remember(self) -> None:
        line = self._line
        self._at = (line.kind, line.id) if line is not None else ("", "")

    @property
    def _line(self) -> ListLine | None:
        return self._lines[self._chosen] if 0 <= self._chosen < len(self._lines) else None

    @property
    def _hit(self) -> Hit | None:
        line, search = self._line, self._listed.search
        if line is None or line.kind != INCIDENT or search is None:
            return None
        return next((hit for hit in search.hits if hit.incident.id == line.id), None)

    def line_rows(self) -> Sequence[Row]:
        """Return the lines as they look without the cursor."""
        return [line.row for line in self._lines]

    def leads(self, number: int) -> bool:
        """Tell whether a line leads somewhere."""
        return self._lines[number].kind != ""

    def show_lines(self) -> None:
        """Show the lines, and below them what is known of the chosen one."""
        super().show_lines()
        line = self._line
        broken = line.id if line is not None and line.kind == TROUBLE else ""
        wrong = next((f"{one.path}: {one.message}" for one in self._listed.troubles if one.path == broken), "")
        room = _DETAIL[self.size.height >= _SHORT]
        rows = detail_rows(self._hit, self._owner.glyphs, self.size.width or 80, room, wrong)
        self.query_one("#detail", Lines).show(rows)

    # ---- what the keys do

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor."""
        super().action_move(rows, columns)
        self._moved = True
        self._remember()

    def on_input_submitted(self) -> None:
        """Open what the cursor stands on."""
        self.action_open_line()

    def action_open_line(self) -> None:
        """Open what the cursor stands on."""
        line = self._line
        if line is None:
            self._owner.tell("there is nothing to open here")
        elif line.kind == INCIDENT:
            self._owner.open_incident(line.id)
        elif line.kind == SUGGESTION:
            self.query_one(Input).value = line.id
            self.query_one(Input).cursor_position = len(line.id)
        elif line.kind == DRAFT:
            draft = next((one for one in self._listed.drafts if one.key == line.id), None)
            if draft is not None:
                self._owner.take_up(draft)
        elif line.kind == TROUBLE:
            self.run_worker(self._mend(line.id), group="editor", exclusive=True)

    async def _mend(self, path: str) -> None:
        """Open a file that cannot be read in the user's editor."""
        from stethoscope.ui.editing import mend

        await mend(self._owner, self._owner.library.directory / path)
        self.look()

    def action_next_filter(self) -> None:
        """Narrow the list to the next status, then to files with faults."""
        self._only = following(FILTERS, self._only)
        self._moved = False
        self.draw()
        self.look()

    def action_record_by_hand(self) -> None:
        """Record something that no verdict and no finding tells."""
        self._owner.record_by_hand()

    def action_drop_draft(self) -> None:
        """Forget the draft under the cursor, after asking."""
        line = self._line
        if line is None or line.kind != DRAFT:
            self._owner.tell("only a draft is dropped here; files of incidents are yours")
            return
        if line.id in self._listed.elsewhere:
            self._owner.tell("another console is writing it: drop it there")
            return
        key, library = line.id, self._owner.library

        def take(chosen: str) -> None:
            if chosen == "drop":
                self._owner.beside(lambda: library.drop_draft(key), lambda _: self.look())

        choices = [("keep it", "nothing happens", "keep"), ("drop it", "what was typed is gone", "drop")]
        self._owner.choose("draft", choices, take)

    def action_leave(self) -> None:
        """Clear the search, then go back."""
        if self._words:
            self.query_one(Input).value = ""
        elif self._only != FILTERS[0]:
            self._only = FILTERS[0]
            self.draw()
            self.look()
        else:
            self._owner.pop_screen()
            self._owner.call_after_refresh(self._owner.pull)
