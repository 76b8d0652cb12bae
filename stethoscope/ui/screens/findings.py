"""The night's list: what was found, who has seen it, and what cleared; below it the card of the chosen one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.text import clean
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.finding_card import card_rows
from stethoscope.ui.present.finding_list import SORTS, ListRow, list_rows, list_title
from stethoscope.ui.present.view import following
from stethoscope.ui.screens.ask import AskScreen
from stethoscope.ui.screens.finding import FindingActions
from stethoscope.ui.screens.pages import LinesScreen
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.night import Entry
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.spans import Row

_SHORT = 30
"""Below this many lines the list has more of them than the card."""


class FindingsScreen(FindingActions, LinesScreen):
    """Lines in sections; the cursor stays on its finding, and what it stands on keeps its section."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("findings", moves=True)
    part = "findings"

    def __init__(self, console: StethoscopeApp, words: str = "") -> None:
        """Show all findings, or those in which `words` stand."""
        super().__init__(console)
        self._words = words
        self._sort = SORTS[0]
        self._rows: list[ListRow] = []
        self._finding = ""
        self._held: dict[str, str] = {}
        self._moved = False
        """The cursor was moved or used; before that it follows the first finding."""
        self._chosen = -1
        self._drawn: object = None
        self._second = 0

    def entry(self) -> Entry | None:
        """Return the finding under the cursor."""
        session = self._owner.session
        return session.night.entries.get(self._finding) if session is not None else None

    def changed(self, id_: str, section: str) -> None:
        """Draw again; what the cursor stands on does not move away from under it."""
        self._moved = True
        if id_ == self._finding:
            self._held = {id_: section}
        self.draw()

    def answered(self) -> None:
        """Draw the card of the chosen one again."""
        if self.query("#keys"):
            self.show_lines()

    def show_snapshot(self, snapshot: FleetSnapshot, _now_mono: float, now_wall: float) -> None:
        """Take the state of this moment; what has not changed is drawn once a second, so that ages grow."""
        if snapshot.night is not self._drawn or int(now_wall) != self._second:
            self._drawn, self._second = snapshot.night, int(now_wall)
            self.draw()

    def draw(self) -> None:
        """Draw the list, with the cursor on the finding on which it was, where that was on the screen."""
        session = self._owner.session
        # A picture can be due before the screen is laid out, and while it is taken away.
        if session is None or not self.query(RowsView):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width or 80, self._owner.glyphs
        now, entries = self._owner.clock.wall(), list(session.night.entries.values())
        title = list_title(entries, now, session.snapshot().fleet, cells, glyphs, sort=self._sort, words=self._words)
        self.query_one("#top", Lines).show([title])
        before, wide = self._chosen, (view.cells or cells) - 1
        self._rows = list_rows(entries, now, glyphs, wide, sort=self._sort, words=self._words, held=self._held)
        self._choose(before)
        moved = self._chosen - before
        if before >= 0 and moved and view.scroll_offset.y + moved >= 0:
            view.lengthen(len(self._rows))
            view.scroll_to(y=view.scroll_offset.y + moved, animate=False, immediate=True)
        self.show_lines()

    def _choose(self, before: int) -> None:
        """Find the line of the chosen finding, or the nearest that has one."""
        ids = [row.id for row in self._rows]
        if self._moved and self._finding and self._finding in ids:
            self._chosen = ids.index(self._finding)
            return
        leading = [number for number, id_ in enumerate(ids) if id_]
        nearest = before if self._moved else 0
        self._chosen = min(leading, key=lambda number: abs(number - nearest), default=-1)
        self._finding = ids[self._chosen] if leading else ""

    def line_rows(self) -> Sequence[Row]:
        """Return the lines as they look without the cursor."""
        return [row.row for row in self._rows]

    def leads(self, number: int) -> bool:
        """Tell whether a line is that of a finding."""
        return self._rows[number].id != ""

    def show_lines(self) -> None:
        """Show the lines, and below them the card of the chosen one."""
        super().show_lines()
        height = self.size.height
        room = max(4, height // 2 - 4 if height < _SHORT else height // 2)
        entry, known = self.entry(), self.known()
        rows: list[Row] = []
        if entry is not None and known is not None:
            rows = card_rows(entry, known, self._owner.glyphs, self.size.width or 80)
        # As many lines for every finding, so that the list stands still.
        self.query_one("#detail", Lines).show([*rows[:room], *[()] * max(0, room - len(rows))])

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor; what it leaves goes to the section where it belongs."""
        super().action_move(rows, columns)
        id_ = self._rows[self._chosen].id if 0 <= self._chosen < len(self._rows) else ""
        if id_ and id_ != self._finding:
            self._finding, self._moved = id_, True
            was_held, self._held = self._held, {}
            if was_held:
                self.draw()
            else:
                self.show_lines()

    def action_cursor_first(self) -> None:
        """Go to the first finding, and follow it."""
        super().action_cursor_first()
        self._moved = False

    # ---- what the keys do

    def action_open_card(self) -> None:
        """Show all that is known of the finding under the cursor."""
        if self.entry() is None:
            self._owner.tell("there is no finding here")
        else:
            self._owner.open_finding(self._finding)

    def action_next_sort(self) -> None:
        """Order the list in the next way."""
        self._sort = following(SORTS, self._sort)
        self.draw()

    def action_filter_findings(self) -> None:
        """Ask for the words that are to stand in a finding."""

        def take(words: str | None) -> None:
            self._words = clean(words or "", 80).strip()
            self.draw()

        self._owner.push_screen(AskScreen(self._owner, "a node, a rule, a cause, P0; nothing shows all"), take)

    async def action_back(self) -> None:
        """Drop the filter, then go back."""
        if self._words:
            self._words = ""
            self.draw()
        else:
            self._owner.pop_screen()
