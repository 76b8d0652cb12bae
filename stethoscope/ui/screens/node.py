"""The node screen: what is wrong with this one, and every value of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.ui.alike import Alike
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.outside import copy, open_shell, save
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.frame import footer, position, rule
from stethoscope.ui.present.node.explain import as_text, explain
from stethoscope.ui.present.node.history import SECTION
from stethoscope.ui.present.node.moves import Stand, find, first, last, sideways, vertical
from stethoscope.ui.present.node.page import ROOMY_LINES, WIDE, Page, node_page, node_text
from stethoscope.ui.present.node.view import Spot, View, row_of
from stethoscope.ui.present.node.wrong import node_title
from stethoscope.ui.present.spans import Span, Tone
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp

_ABOUT_LINES = (3, 2)
"""Lines of what is said about the value under the cursor, on narrow and on wide terminals."""
_WIDE = 130


class ValuesView(RowsView, inherit_bindings=False):
    """The page of the node; the screen moves its cursor, so that keys must not scroll it by themselves."""


class NodeScreen(Screen[None]):
    """Everything that is known of one node, updated in place, with a cursor on its values."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("node", moves=True)
    AUTO_FOCUS = "RowsView"

    def __init__(self, console: StethoscopeApp, name: str) -> None:
        """Show the node of that name."""
        super().__init__()
        self._owner = console
        self._node_name = name
        self._snapshot: FleetSnapshot | None = None
        self._now = (0.0, 0.0)
        self._page: Page | None = None
        self._view: View | None = None
        self._opened: dict[str, bool] = {}
        self._stand: Stand | None = None
        self._x: int | None = None
        self._shown: object = None
        self._alike = Alike(console, self._draw)
        self._moved = False
        """The cursor was moved; before that it follows the first thing that is wrong."""
        self.paused = False

    @property
    def node_name(self) -> str:
        """Return the name of the node."""
        return self._node_name

    @property
    def spot(self) -> Spot | None:
        """Return what the cursor stands on."""
        return self._stand.spot if self._stand is not None else None

    @property
    def _about_lines(self) -> int:
        return _ABOUT_LINES[self.size.width >= _WIDE]

    def compose(self) -> ComposeResult:
        """Lay out a title, the values, what is said of the one under the cursor, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield ValuesView(id="values")
        yield Lines(id="rule-about")
        yield Lines(id="about")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data, and what has come already."""
        self._frame()
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._frame()
        self._draw()

    def _frame(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        for name in ("rule-top", "rule-about"):
            self.query_one(f"#{name}", Lines).show([rule(cells, glyphs)])
        about = self.query_one("#about", Lines)
        about.show(about.rows if len(about.rows) == self._about_lines else [()] * self._about_lines)
        keys = footer(footer_of("node", replay=self._owner.replay is not None), cells)
        self.query_one("#keys", Lines).show([keys])

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Take the state of this moment."""
        if self.paused and self._snapshot is not None:
            return
        # What has not changed is drawn once a second, so that ages grow.
        node = snapshot.nodes[snapshot.by_name[self._node_name]] if self._node_name in snapshot.by_name else None
        shown = (node and (node.version, node.link), snapshot.findings, int(now_mono))
        self._snapshot = snapshot
        self._now = (now_mono, now_wall)
        if shown != self._shown:
            self._shown = shown
            self._draw()

    def _draw(self) -> None:
        snapshot = self._snapshot
        # A picture can be due before the screen is laid out, and while it is taken away.
        if snapshot is None or not self.query(RowsView):
            return
        if self._node_name not in snapshot.by_name:
            self._leave()
            return
        mono, wall = self._now
        session, widget = self._owner.session, self.query_one(RowsView)
        cells, past = widget.cells or self.size.width, self._alike.at(self._node_name, snapshot.fleet)
        self._view = View(
            assess(snapshot, mono),
            snapshot.node(self._node_name),
            wall,
            cells,
            self._owner.glyphs,
            past=session.history if session is not None else None,
            mark=session.mark if session is not None else None,
            focus=self.spot,
            opened=self._opened,
            roomy=cells >= WIDE and self.size.height >= ROOMY_LINES,
            incidents=past.history,
            lemons=past.lemons,
        )
        self._page = node_page(self._view)
        self._follow(self._page)
        replay = self._owner.replay
        state = replay.state if replay is not None else None
        title = node_title(self._view, self.size.width, paused=self.paused, replay=state, worst=self._page.worst)
        self.query_one("#top", Lines).show([title])
        self._show()

    def _leave(self) -> None:
        """Say that the node is gone, and show none of its numbers as if they were of now."""
        self._view = self._page = None
        title = (Span(f" {self._node_name}", Tone.TITLE), Span("  left the fleet", Tone.QUIET))
        self.query_one("#top", Lines).show([title])
        words = "   it is no longer among the nodes that are watched; escape goes back"
        self.query_one(RowsView).show([(Span(words, Tone.QUIET),)])
        self.query_one("#about", Lines).show([()] * self._about_lines)
        self.query_one("#rule-about", Lines).show([rule(self.size.width, self._owner.glyphs)])

    def _follow(self, page: Page) -> None:
        """Find the cursor again on a new page, and keep its line where it was on the screen."""
        old, widget = self._stand, self.query_one(RowsView)
        stand = find(page, old.spot, old.line) if old is not None and self._moved else first(page)
        self._stand = stand
        if old is not None and stand is not None and stand.line != old.line and self._moved:
            top, height = widget.scroll_offset.y, widget.size.height
            if top <= old.line < top + height:
                self._scroll(len(page.lines), top + stand.line - old.line)

    def _scroll(self, lines: int, top: int) -> None:
        widget = self.query_one(RowsView)
        widget.lengthen(lines)
        widget.scroll_to(y=max(0, top), animate=False, immediate=True)

    def _show(self) -> None:
        """Paint the page with its cursor, and what is said about it."""
        page, view = self._page, self._view
        if page is None or view is None:
            return
        widget, at = self.query_one(RowsView), self._stand
        spot, on = (at.spot, at.line) if at is not None else (None, -1)
        widget.show([row_of(line, spot if number == on else None) for number, line in enumerate(page.lines)])
        cells = self.size.width
        words = position(widget.scroll_offset.y, widget.size.height, len(page.lines), view.glyphs)
        self.query_one("#rule-about", Lines).show([rule(cells, view.glyphs, words)])
        self.query_one("#about", Lines).show(
            explain(view, spot, at.words if at is not None else "", cells, self._about_lines)
        )

    def _go(self, stand: Stand | None) -> None:
        """Put the cursor somewhere and let it be seen."""
        page, widget = self._page, self.query_one(RowsView)
        if stand is None or page is None:
            return
        trended = stand.spot[1:4:2] != self.spot[1:4:2] if self.spot is not None else True
        self._stand, self._moved = stand, True
        top, height = widget.scroll_offset.y, widget.size.height
        if stand.line < top:
            self._scroll(len(page.lines), 0 if stand == first(page) else stand.line)
        elif height and stand.line >= top + height:
            self._scroll(len(page.lines), stand.line - height + 1)
        if trended:
            # Tables show the trend of the device under the cursor.
            self._draw()
        else:
            self._show()

    # ---- what the keys do

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor by lines, or to the next value of its line."""
        page, at = self._page, self._stand
        if page is None or at is None:
            return
        # Over lines that have only one place the cursor keeps the column that it came from.
        self._x = at.x if self._x is None else self._x
        goal = vertical(page, at, rows, self._x) if rows else sideways(page, at, columns)
        if not rows or (goal.x < page.split) != (self._x < page.split):
            self._x = None
        if goal == at and rows:
            # Lines without a place for the cursor can stand above the first and below the last one.
            self._scroll(len(page.lines), self.query_one(RowsView).scroll_offset.y + rows)
        self._go(goal)

    def action_page(self, pages: int) -> None:
        """Move the picture and the cursor by pages."""
        widget, page = self.query_one(RowsView), self._page
        rows = pages * max(1, widget.size.height - 1)
        if page is not None:
            most = max(0, len(page.lines) - widget.size.height)
            self._scroll(len(page.lines), min(most, widget.scroll_offset.y + rows))
        self.action_move(rows, 0)

    def action_cursor_first(self) -> None:
        """Go to what is wrong first, and follow it."""
        if self._page is not None:
            self._go(first(self._page))
            self._moved = False

    def action_cursor_last(self) -> None:
        """Go to the last section."""
        if self._page is not None:
            self._go(last(self._page))

    def action_toggle_section(self) -> None:
        """Open or close the section under the cursor; from what is wrong, go to where it stands."""
        page, spot = self._page, self.spot
        if spot is not None and self._snapshot is not None and spot.key in {one.id for one in self._snapshot.findings}:
            self._owner.open_finding(spot.key)
            return
        recorded = {one.id for one in self._view.incidents} if self._view is not None else set()
        if spot is not None and spot.section == SECTION and spot.key in recorded:
            self._owner.open_incident(spot.key)
            return
        if page is None or spot is None or spot.section not in page.ids:
            return
        heading = find(page, Spot(spot.section))
        above = heading is not None and self._stand is not None and self._stand.line < heading.line
        self._opened[spot.section] = above or spot.section not in page.open
        self._moved = True
        if above and spot.is_value:
            self._draw()
            self._go(find(self._page, spot, len(self._page.lines)) if self._page is not None else None)
            return
        self._stand = Stand(self._stand.line if self._stand is not None else 0, 0, Spot(spot.section))
        self._draw()

    def action_toggle_all(self) -> None:
        """Open all sections, or close them again when all are open."""
        if self._page is not None:
            every = len(self._page.open) < len(self._page.ids)
            self._opened = dict.fromkeys(self._page.ids, every)
            self._draw()

    def action_retry_node(self) -> None:
        """Try the link to the node now."""
        if self._snapshot is not None and self._node_name in self._snapshot.by_name:
            self._owner.retry_node(self._snapshot.node(self._node_name))

    def action_pause(self) -> None:
        """Hold the view, or let it go on; a replay stands still itself."""
        if self._owner.replay is not None:
            self._owner.replay.toggle_pause()
        else:
            self.paused = not self.paused
        self._draw()

    def action_copy(self) -> None:
        """Copy what stands under the cursor."""
        if self._view is not None and self._stand is not None:
            text = as_text(self._view, self._stand.spot, self._stand.words)
            copy(self._owner, text, f"a line of {self._node_name}")

    def action_copy_node(self) -> None:
        """Copy the whole node as text."""
        if self._view is not None:
            copy(self._owner, node_text(self._view), self._node_name)

    def action_save_node(self) -> None:
        """Write the whole node as text into a file."""
        if self._view is not None:
            save(self._owner, node_text(self._view), self._node_name, self._view.wall)

    def action_open_logs(self) -> None:
        """Choose one of this node's logs and decode it."""
        self._owner.open_logs(self._node_name)

    def action_open_findings(self) -> None:
        """Show the night's list, that of this node alone."""
        self._owner.open_findings(self._node_name)

    def action_record_incident(self) -> None:
        """Record something about this node, or about the device under the cursor."""
        self._owner.record_by_hand(self._place)

    @property
    def _place(self) -> str:
        """Return the device under the cursor, else the node."""
        spot = self.spot
        if spot is None or spot.scope is None or self._view is None:
            return self._node_name
        return self._view.snapshot.place(self._view.node, spot.scope, spot.position)

    def action_choose_probe(self) -> None:
        """Choose a probe to run on this node, or on the device under the cursor."""
        from stethoscope.ui.screens.probe import offer

        offer(self._owner, self._node_name, self._place if self._place != self._node_name else "")

    def action_triage(self) -> None:
        """Be led to the cause of what is wrong with the node."""
        self._owner.open_triage(self._node_name)

    async def action_shell(self) -> None:
        """Open a shell on the node, and come back."""
        await open_shell(self._owner, self._node_name)
