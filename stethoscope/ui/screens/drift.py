"""The drift screen: which nodes differ from the others in versions and settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.analysis.drift import comparison
from stethoscope.analysis.history import MANY_NODES
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.drift import drift_lines, drift_title
from stethoscope.ui.present.frame import footer, position, rule
from stethoscope.ui.present.spans import Span, Tone, plain
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Generator

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.analysis.drift import DriftTable
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.drift import Line
    from stethoscope.ui.present.spans import Row

COMPARE_S, COMPARE_MANY_S = 3.0, 15.0
"""What is compared is read once a minute or more rarely, and 2,000 nodes take more than a tenth of a second, ..."""
PAUSE_S = 0.01
"""... which is done in steps with this between, so that keys need not wait."""


class DriftScreen(Screen[None]):
    """A line for everything that is compared, and below it those who differ."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("drift", moves=True)
    AUTO_FOCUS = ""
    part = "drift"

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`."""
        super().__init__()
        self._owner = console
        self._snapshot: FleetSnapshot | None = None
        self._table: DriftTable | None = None
        self._compared_mono = 0.0
        self._steps: Generator[None, None, DriftTable] | None = None
        self._now_wall = 0.0
        self._lines: list[Line] = []
        self._chosen = 0

    def compose(self) -> ComposeResult:
        """Lay out a title, the lines, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="drift")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data."""
        # The keys move the cursor here, and the lines only where they must.
        self.query_one(RowsView).can_focus = False
        self._frame()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._frame()
        self._draw()

    def _frame(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        self.query_one("#rule-top", Lines).show([rule(cells, glyphs)])
        self.query_one("#rule-bottom", Lines).show([rule(cells, glyphs)])
        keys = footer_of("drift", replay=self._owner.replay is not None)
        self.query_one("#keys", Lines).show([footer(keys, cells)])

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Take the state of this moment, and compare it now and then."""
        self._now_wall = now_wall
        every_s = COMPARE_S if len(snapshot.nodes) <= MANY_NODES else COMPARE_MANY_S
        is_due = self._table is None or not 0 <= now_mono - self._compared_mono < every_s
        if self._steps is None and is_due:
            self._compared_mono, self._steps = now_mono, comparison(snapshot)
            self._compare(snapshot)
        self._draw()

    def _compare(self, snapshot: FleetSnapshot) -> None:
        """Go on with the comparison; that of a small fleet is done at once."""
        if self._steps is None:
            return
        is_small = len(snapshot.nodes) <= MANY_NODES
        try:
            next(self._steps)
            while is_small:
                next(self._steps)
        except StopIteration as end:
            self._snapshot, self._table, self._steps = snapshot, end.value, None
        else:
            self.set_timer(PAUSE_S, partial(self._compare, snapshot))

    def _draw(self) -> None:
        # A picture can be due before the screen is laid out, and while it is taken away.
        if self._table is None or self._snapshot is None or not self.query(RowsView):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width, self._owner.glyphs
        replay = self._owner.replay.state if self._owner.replay is not None else None
        title = drift_title(self._table, self._snapshot, self._now_wall, cells, glyphs, replay=replay)
        self.query_one("#top", Lines).show([title])
        said = self._lines[self._chosen].says if self._chosen < len(self._lines) else ""
        self._lines = drift_lines(self._table, glyphs, (view.cells or cells) - 1)
        # The cursor stays on what it stood on when lines come above it.
        same = [number for number, line in enumerate(self._lines) if said and line.says == said]
        if same and self._chosen not in same:
            self._chosen = same[0]
        self._chosen = max(0, min(self._chosen, len(self._lines) - 1))
        view.show([self._row(number) for number in range(len(self._lines))])
        self._draw_position()

    def _row(self, number: int) -> Row:
        row = self._lines[number].row
        if number != self._chosen:
            return row
        text = plain(row)
        words = text.lstrip()
        return (Span(" " * (len(text) - len(words))), Span(words, Tone.PLAIN, selected=True))

    def _draw_position(self) -> None:
        view, glyphs = self.query_one(RowsView), self._owner.glyphs
        words = position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs)
        self.query_one("#rule-bottom", Lines).show([rule(self.size.width or 80, glyphs, words)])

    def action_open_nodes(self) -> None:
        """Open the node that the line is about, or ask which of several."""
        if not self._lines or self._snapshot is None:
            return
        line = self._lines[self._chosen]
        if len(line.nodes) == 1:
            self._owner.open_node(line.nodes[0])
        elif line.nodes:
            choices = [(name, line.says, name) for name in line.nodes]
            self._owner.choose("node", choices, self._owner.open_node)
        else:
            self._owner.tell("all nodes have the same here")

    def action_move(self, rows: int, _columns: int) -> None:
        """Move the cursor, and the lines with it."""
        if not self._lines:
            return
        self._chosen = max(0, min(len(self._lines) - 1, self._chosen + rows))
        view = self.query_one(RowsView)
        view.show([self._row(number) for number in range(len(self._lines))])
        top, height = view.scroll_offset.y, view.size.height
        if not top <= self._chosen < top + height:
            target = self._chosen if self._chosen < top else self._chosen - height + 1
            view.scroll_to(y=target, animate=False, immediate=True)
            view.sync()
        self._draw_position()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(1, self.query_one(RowsView).size.height - 1), 0)
