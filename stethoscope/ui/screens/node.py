"""The node screen: what is wrong with this one, and every value of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.node import node_rows, node_title
from stethoscope.ui.present.spans import Span, Tone
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp


class NodeScreen(Screen[None]):
    """All current values of one node, updated in place."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("node", moves=True)
    AUTO_FOCUS = "RowsView"

    def __init__(self, console: StethoscopeApp, name: str) -> None:
        """Show the node of that name."""
        super().__init__()
        self._owner = console
        self._node_name = name
        self._snapshot: FleetSnapshot | None = None
        self._now = (0.0, 0.0)
        self.paused = False

    def compose(self) -> ComposeResult:
        """Lay out a title, the values, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="values")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data."""
        self._frame()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._frame()
        self._draw()

    def _frame(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        for name, row in (
            ("rule-top", rule(cells, glyphs)),
            ("rule-bottom", rule(cells, glyphs)),
            ("keys", footer(footer_of("node", replay=self._owner.replay is not None), cells)),
        ):
            self.query_one(f"#{name}", Lines).show([row])

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Take the state of this moment."""
        if self.paused and self._snapshot is not None:
            return
        self._snapshot = snapshot
        self._now = (now_mono, now_wall)
        self._draw()

    def _draw(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        mono, wall = self._now
        glyphs, view = self._owner.glyphs, self.query_one(RowsView)
        if self._node_name not in snapshot.by_name:
            self.query_one("#top", Lines).show(
                [(Span(f" {self._node_name}", Tone.TITLE), Span("  left the fleet", Tone.QUIET))]
            )
            return
        node = snapshot.node(self._node_name)
        assessment = assess(snapshot, mono)
        replay = self._owner.replay
        state = replay.state if replay is not None else None
        title = node_title(assessment, node, wall, self.size.width, glyphs, paused=self.paused, replay=state)
        self.query_one("#top", Lines).show([title])
        view.show(node_rows(assessment, node, wall, view.cells or self.size.width, glyphs))

    def action_retry_node(self) -> None:
        """Try the link to the node now."""
        if self._snapshot is not None and self._node_name in self._snapshot.by_name:
            self._owner.retry_node(self._snapshot.node(self._node_name))

    def action_choose_probe(self) -> None:
        """Choose a probe to run on this node."""
        from stethoscope.ui.screens.probe import offer

        offer(self._owner, self._node_name)

    def action_pause(self) -> None:
        """Hold the view, or let it go on; a replay stands still itself."""
        if self._owner.replay is not None:
            self._owner.replay.toggle_pause()
            self._draw()
            return
        self.paused = not self.paused
        self._draw()

    def action_move(self, rows: int, _columns: int) -> None:
        """Scroll by lines."""
        view = self.query_one(RowsView)
        view.scroll_to(y=view.scroll_offset.y + rows, animate=False, immediate=True)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_move(pages * max(1, self.query_one(RowsView).size.height - 1), 0)
