"""Heat over time: one metric of every node, a column for every few seconds of the last minutes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.frame import footer, position, rule
from stethoscope.ui.present.grid import FleetGrid
from stethoscope.ui.present.heat_lines import (
    cell_line,
    findings_row,
    heat_row,
    legend_row,
    times_row,
    title_row,
    waiting_row,
)
from stethoscope.ui.present.heat_time import NodeSeries, picture_of
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.heat_time import HeatPicture
    from stethoscope.ui.present.spans import Row

_NO_HISTORY = "nothing is remembered yet: the first column comes with the first sample"
_NO_NODE = "no node fits the filter"
_FIXED_LINES = 8
"""Title, legend, times, findings, two rules, the cell's line, keys."""


class HeatView(RowsView):
    """The rows of a picture, drawn while they are visible."""

    screen_rows: HeatScreen | None = None

    def line_count(self) -> int:
        """Return how many rows there are."""
        return self.screen_rows.line_count() if self.screen_rows is not None else 0

    def line(self, index: int) -> Row:
        """Return the row `index`."""
        assert self.screen_rows is not None
        return self.screen_rows.row(index)


class HeatScreen(Screen[None]):
    """A row for each node, in the order of the fleet screen; the cursor stands on a node at a time."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("heat", moves=True)
    AUTO_FOCUS = ""
    part = "heat"

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`, whose fleet screen says which metric, which nodes and in which order."""
        super().__init__()
        self._owner = console
        self._snapshot: FleetSnapshot | None = None
        self._now = (0.0, 0.0)
        self._grid: FleetGrid | None = None
        self._series = NodeSeries()
        self._picture: HeatPicture | None = None
        self._rows: dict[int, tuple[int | None, Row]] = {}
        """Rows of the picture with the column of the cursor in them."""
        self._state: tuple[object, ...] = ()
        self._key: str | None = console.fleet_screen.view.key
        """Line under the cursor; None follows the first one."""
        self._line = 0
        self._moment: float | None = None
        """Monotonic time of the column under the cursor; None follows the newest one."""

    def compose(self) -> ComposeResult:
        """Lay out the lines."""
        yield Lines(id="top")
        yield Lines(id="legend")
        yield Lines(id="rule-top")
        yield Lines(id="times")
        yield Lines(id="found")
        yield HeatView(id="heat")
        yield Lines(id="rule-bottom")
        yield Lines(id="cursor")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data."""
        view = self.query_one(HeatView)
        view.can_focus = False
        view.screen_rows = self
        self._frame()

    def on_resize(self, event: events.Resize) -> None:
        """Choose the columns again for the new size."""
        self._frame()
        self._draw()

    def _frame(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        self.query_one("#rule-top", Lines).show([rule(cells, glyphs)])
        keys = footer_of("heat", replay=self._owner.replay is not None)
        self.query_one("#keys", Lines).show([footer(keys, cells)])

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Take the state of this moment; the picture is made again when there is another sample."""
        self._snapshot, self._now = snapshot, (now_mono, now_wall)
        self._draw()

    def _draw(self) -> None:
        session, snapshot = self._owner.session, self._snapshot
        if session is None or snapshot is None:
            return
        chosen = self._owner.fleet_screen.chosen
        view = replace(chosen, mode="value", density="cells", group="none")
        state = (session.history.last_mono, view, self.size, self._owner.glyphs, len(snapshot.nodes))
        if state != self._state or self._grid is None:
            self._state = state
            if self._grid is None or self._grid.glyphs is not self._owner.glyphs:
                self._grid = FleetGrid(view, self._owner.glyphs)
            self._make(self._grid, snapshot)
        self._show()

    def _make(self, grid: FleetGrid, snapshot: FleetSnapshot) -> None:
        session, cells = self._owner.session, self.size.width or 80
        assert session is not None
        grid.view = replace(self._owner.fleet_screen.chosen, mode="value", density="cells", group="none")
        assessment = assess(snapshot, self._now[0])
        grid.update(assessment, self._now[1], cells, len(snapshot.nodes), self._key)
        self._series.update(session.history, assessment, grid.metric)
        height = max(1, self.size.height - _FIXED_LINES)
        picture = self._picture = picture_of(grid, self._series, cells - 1, height, self._key)
        self._rows.clear()
        self.query_one("#legend", Lines).show([legend_row(grid, cells)])
        self.query_one("#times", Lines).show([times_row(grid, picture, cells)])
        self.query_one("#found", Lines).show([findings_row(grid, picture)])
        keys = [line.key for line in picture.lines]
        before = self._line
        self._line = keys.index(self._key) if self._key in keys else min(self._line, max(0, len(keys) - 1))
        if self._key is None:
            self._line = 0
        elif self._line != before:
            self._stay(self._line - before)

    def _stay(self, moved: int) -> None:
        """Scroll by as many lines as came or went above the cursor."""
        view = self.query_one(HeatView)
        top = max(0, min(view.scroll_offset.y + moved, view.line_count() - view.size.height))
        if top != view.scroll_offset.y and view.size.height:
            view.lengthen(view.line_count())
            view.scroll_to(y=top, animate=False, immediate=True)

    def line_count(self) -> int:
        """Return how many rows there are."""
        return len(self._picture.lines) if self._picture is not None else 0

    def row(self, index: int) -> Row:
        """Return the row `index`, with the cell under the cursor marked."""
        assert self._grid is not None
        assert self._picture is not None
        cursor = self._column if index == self._line else None
        kept = self._rows.get(index)
        if kept is None or kept[0] != cursor:
            kept = self._rows[index] = cursor, heat_row(self._grid, self._picture, index, cursor)
        return kept[1]

    @property
    def _column(self) -> int:
        """Return the column under the cursor, which stays on its time while the columns move."""
        assert self._picture is not None
        last = self._picture.columns - 1
        return last if self._moment is None else max(0, min(last, self._picture.column_of(self._moment)))

    def _show(self) -> None:
        grid, picture, session, cells = self._grid, self._picture, self._owner.session, self.size.width
        if grid is None or picture is None or session is None:
            return
        replay = self._owner.replay.state if self._owner.replay is not None else None
        self.query_one("#top", Lines).show([title_row(grid, picture, self._now[1], cells, replay)])
        view = self.query_one(HeatView)
        view.sync()
        if picture.columns and picture.lines:
            said = cell_line(grid, picture, session.history, self._line, self._column, self._now[0], cells)
        else:
            said = waiting_row(_NO_NODE if picture.columns else _NO_HISTORY, cells, grid.glyphs.ellipsis)
        self.query_one("#cursor", Lines).show([said])
        words = position(view.scroll_offset.y, view.size.height, view.line_count(), grid.glyphs)
        self.query_one("#rule-bottom", Lines).show([rule(cells, grid.glyphs, words)])

    # ---- what the keys do

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor by nodes and columns; it stops at the edges."""
        picture = self._picture
        if picture is None or not picture.lines:
            return
        self._line = max(0, min(len(picture.lines) - 1, self._line + rows))
        self._key = picture.lines[self._line].key
        if columns and picture.columns:
            column = max(0, min(picture.columns - 1, self._column + columns))
            newest = column == picture.columns - 1
            self._moment = None if newest else (picture.first + column + 0.5) * picture.step_s
        view = self.query_one(HeatView)
        top, height = view.scroll_offset.y, view.size.height
        if height and not top <= self._line < top + height:
            target = self._line if self._line < top else self._line - height + 1
            view.scroll_to(y=target, animate=False, immediate=True)
        self._show()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(1, self.query_one(HeatView).size.height - 1), 0)

    def action_cursor_first(self) -> None:
        """Go to the first node and to now, and follow both."""
        self._moment = None
        self.action_move(-self.line_count(), 0)
        self._key = None
        self._show()

    def action_cursor_last(self) -> None:
        """Go to the last node."""
        self.action_move(self.line_count(), 0)

    def action_open_node(self) -> None:
        """Open the node under the cursor, or ask which of those that are alike."""
        if self._picture is None or not self._picture.lines or self._snapshot is None:
            return
        names = [self._snapshot.nodes[node].name for node in self._picture.lines[self._line].nodes]
        if len(names) == 1:
            self._owner.open_node(names[0])
        else:
            choices = [(name, "like the others", name) for name in names]
            self._owner.choose("node", choices, self._owner.open_node)

    def action_next_metric(self, step: int) -> None:
        """Show the next or previous metric, here and on the fleet screen."""
        self._owner.fleet_screen.action_next_metric(step)
        self._draw()

    def action_choose_metric(self) -> None:
        """Ask which metric to show."""
        self._owner.fleet_screen.action_choose_metric()
