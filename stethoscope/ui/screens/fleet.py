"""The fleet screen: is something wrong, and where?"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import LEAST, footer, opening_line, position, rule, too_small
from stethoscope.ui.present.kept import keep, read_kept, to_keep
from stethoscope.ui.screens.fleet_filter import FleetFilter
from stethoscope.ui.screens.fleet_keys import first_metric
from stethoscope.ui.widgets.grid import GridView
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from stethoscope.analysis.alike import Recall
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.view_state import ViewState
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.grid import FleetGrid
    from stethoscope.ui.present.spans import Row
    from stethoscope.ui.widgets.blocks import BlocksView

_KEEP_S = 1.0
"""So long after the last choice all of them are kept."""
_MANY_NODES = 256
"""Above so many nodes keys would wait for their levels."""
_FRESH_S = 0.25
"""So old the levels of a snapshot may be; what ages by time alone is told in whole seconds."""
_SHORT = 30
"""Below this many lines the headline gives its place to a node."""
_FIXED_LINES = 6
"""Top line, legend, two rules, cursor line, keys."""


class FleetScreen(FleetFilter):
    """A row per node, the findings below, and one line about the cell under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("fleet", moves=True)
    AUTO_FOCUS = "GridView"

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`, whose choices and session it uses."""
        super().__init__(console)
        self.paused = False
        self._restarts = 0
        self._rows: GridView | None = None
        self._map: BlocksView | None = None
        """The map of half blocks, once it was asked for."""
        self._cursor: str | None = None
        """Where the cursor was the last time, until there is a row to put it on."""
        self._timer: Timer | None = None
        self._said: dict[str, object] | None = None
        """What is to be kept when the timer ends."""
        self._assessed: tuple[FleetSnapshot, float, Assessment] | None = None
        self._beside: ThreadPoolExecutor | None = None
        self._recall: Recall | None = None
        """What the levels of one snapshot have in common with those of the next."""

    def compose(self) -> ComposeResult:
        """Lay out the lines; all of them are there from the first picture on."""
        yield Lines(id="small")
        yield Lines(id="top")
        yield Lines(id="legend")
        yield Lines(id="rule-top")
        yield Lines(id="headline")
        grid = GridView(id="grid")
        grid.when_moved = self.cursor_moved
        yield grid
        yield Lines(id="rule-bottom")
        yield Lines(id="findings", rows=())
        yield Lines(id="cursor")
        yield Lines(id="keys")

    @property
    def view(self) -> GridView | BlocksView:
        """Return the widget that shows the nodes now."""
        if self._map is not None and self._map.display:
            return self._map
        # Looking for it costs as much as drawing it: every key asks several times.
        if self._rows is None:
            self._rows = self.query_one(GridView)
        return self._rows

    def _swap(self) -> GridView | BlocksView:
        """Let the map take the place of the rows, or the other way round; the cursor stays on its node."""
        wanted = self.chosen.density == "blocks"
        if wanted is (self._map is not None and self._map.display):
            return self.view
        before = self.view
        if self._map is None:
            from stethoscope.ui.widgets.blocks import BlocksView

            self._map = BlocksView(id="blocks")
            self._map.when_moved = self.cursor_moved
            self.mount(self._map, after="#grid")
        self._map.display, self.query_one(GridView).display = wanted, not wanted
        after = self.view
        line = self._grid.line_of(before.key) if self._grid is not None else None
        after.key = self._grid.members(line)[0] if self._grid is not None and line is not None else None
        after.grid = self._grid
        after.focus()
        # Only when it has its place does it know what it shows.
        self.call_after_refresh(self._draw)
        return after

    @property
    def grid(self) -> FleetGrid | None:
        """Return the rows, once there is a snapshot."""
        return self._grid

    def on_mount(self) -> None:
        """Show what is known before there is data."""
        self.draw_frame()

    def on_resize(self, event: events.Resize) -> None:
        """Choose the columns again for the new size."""
        self.draw_frame()
        self._draw()

    def draw_frame(self) -> None:
        """Draw the lines that need no data."""
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        small = 0 < self.size.width < LEAST[0] or 0 < self.size.height < LEAST[1]
        self.set_class(small, "-small")
        self.query_one("#small", Lines).show(too_small(cells, self.size.height) if small else [])
        self.show_line("rule-top", rule(cells, glyphs))
        self.show_line("rule-bottom", self._bottom_rule())
        replay, drill = self._owner.replay is not None, self._owner.drill is not None
        self.show_line("keys", footer(footer_of("fleet", replay=replay, drill=drill), cells))
        if self._snapshot is None:
            console = self._owner
            self.show_line("top", opening_line(console.title, console.doing, console.clock.wall(), cells))

    def change_glyphs(self) -> None:
        """Draw everything again with the characters that the app has now."""
        self._grid = None
        self.view.forget()
        self.draw_frame()
        self._draw()

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Take the state of this moment; a paused view keeps the one that it has."""
        if self.paused and self._snapshot is not None:
            self._draw_top(now_wall)
            return
        restarts = self._owner.replay.state.restarts if self._owner.replay is not None else 0
        if restarts and restarts != self._restarts:
            # A replay went back: rows are not held in the order that they had in what is now the future.
            self._restarts = restarts
            self._grid = None
            self.view.forget()
        self._snapshot = snapshot
        self._now = (now_mono, now_wall)
        self._draw()

    def _draw(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        from stethoscope.ui.present.findings import finding_rows
        from stethoscope.ui.present.grid import FleetGrid
        from stethoscope.ui.present.job_words import job_segment
        from stethoscope.ui.present.layout import headline
        from stethoscope.ui.present.legend import legend_line
        from stethoscope.ui.present.lines import unseen_line
        from stethoscope.ui.present.node.trend import span_text

        glyphs, view, cells = self._owner.glyphs, self._swap(), self.size.width
        if self._grid is None:
            self._grid = FleetGrid(self.chosen, glyphs)
            self._grid.marked = self.marked
        view.grid = self._grid
        grid = self._grid
        if self.metric_chosen and self.chosen.metric not in snapshot.catalogue:
            # A view of another version, or of one with more metrics.
            self._owner.tell(f'no metric is called "{self.chosen.metric}" here')
            self.metric_chosen = False
        if not self.metric_chosen:
            self.chosen.metric = self._owner.metric or first_metric(snapshot)
        now_mono, now_wall = self._now
        assessment = self._assess(snapshot, now_mono)
        tall = self.size.height >= _SHORT
        # The map shows itself where something is wrong; with few lines below it, 2,000 nodes fit on 60 lines.
        most = 2 if not tall else 4 if self.chosen.density == "blocks" else max(4, self.size.height // 6)
        findings = finding_rows(assessment, now_wall, cells, most, glyphs)
        unseen = unseen_line(assessment, cells, glyphs)
        if unseen is not None and (tall or not findings):
            findings.append(unseen)
        # The room is reckoned, not asked for: the widget still has the height that it had before.
        room = self.size.height - _FIXED_LINES - len(findings) - tall
        view.key = self._cursor or view.key
        if self._owner.session is not None:
            grid.mark, grid.history = self._owner.session.mark, self._owner.session.history
        grid.update(assessment, now_wall, view.cells or cells - 1, room, view.key)
        if self._cursor is not None and self._cursor not in grid.lines:
            view.key = None
        self._cursor = None
        assert grid.layout is not None
        self._draw_top(now_wall)
        segment = job_segment(assessment.snapshot, self._owner.glyphs)
        self.show_line("legend", legend_line(grid, cells, segment))
        span = span_text(grid.trends.span_s)
        names = headline(grid.layout, span) if isinstance(view, GridView) else view.headline(cells)
        self.query_one("#headline", Lines).show([names] if tall else [])
        self.query_one("#findings", Lines).show(findings)
        view.follow()
        self.draw_cursor()
        if not self.draw_filter():
            self.show_line("rule-bottom", self._bottom_rule())

    async def prepare(self, snapshot: FleetSnapshot, now_mono: float) -> None:
        """Work out the levels of a snapshot of many nodes, which is shown next, in a thread."""
        if len(snapshot.nodes) <= _MANY_NODES or self.paused:
            return
        self._beside = self._beside or ThreadPoolExecutor(1, thread_name_prefix="levels")
        done = await asyncio.get_running_loop().run_in_executor(self._beside, self._levels, snapshot, now_mono)
        self._assessed = snapshot, now_mono, done

    def _assess(self, snapshot: FleetSnapshot, now_mono: float) -> Assessment:
        """Return the levels of a snapshot, worked out once however often it is drawn."""
        kept = self._assessed
        if kept is None or kept[0] is not snapshot or not 0 <= now_mono - kept[1] <= _FRESH_S:
            kept = self._assessed = snapshot, now_mono, self._levels(snapshot, now_mono)
        return kept[2]

    def _levels(self, snapshot: FleetSnapshot, now_mono: float) -> Assessment:
        from stethoscope.analysis.alike import Recall
        from stethoscope.ui.present.assess import assess

        self._recall = self._recall or Recall()
        return assess(snapshot, now_mono, self._recall)

    def draw(self) -> None:
        """Draw what is chosen, and keep it for the next time."""
        self._draw()
        self._remember()

    def _bottom_rule(self) -> Row:
        """Return the line below the rows, which says where in them the screen is when they do not all fit."""
        view, glyphs, cells = self.view, self._owner.glyphs, self.size.width or 80
        where = position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs)
        words = [where] if where else []
        if self._snapshot is not None and self._snapshot.findings:
            words.append("F findings")
        return rule(cells, glyphs, f" {glyphs.rule} ".join(words))

    def show_clock(self, wall: float) -> None:
        """Draw the top line at another time, once there is one."""
        if self._grid is not None and self._grid.assessment is not None:
            self._draw_top(wall)

    def _draw_top(self, wall: float) -> None:
        from stethoscope.ui.present.lines import top_line

        assert self._grid is not None
        assert self._grid.assessment is not None
        replay = self._owner.replay
        row = top_line(
            self._grid.assessment,
            wall,
            self.size.width,
            self._owner.glyphs,
            paused=self.paused,
            replay=replay.state if replay is not None else None,
        )
        self.show_line("top", row)

    def draw_cursor(self) -> None:
        """Explain the cell under the cursor."""
        from stethoscope.ui.present.cursor import cursor_line

        current = self.view.current
        if self._grid is None or current is None:
            words = "no node fits the filter; escape clears it" if self.chosen.filter else ""
            self.show_line("cursor", opening_words(words))
            return
        view, wall, cells = self.view, self._now[1], self.size.width
        if isinstance(view, GridView):
            self.show_line("cursor", cursor_line(self._grid, *current, wall, cells))
        else:
            self.show_line("cursor", view.cursor_line(wall, cells) or ())

    def cursor_moved(self) -> None:
        """Explain the new cell."""
        self.draw_cursor()
        self._remember()
        self.show_line("rule-bottom", self._bottom_rule())

    # ---- what the keys do

    def action_open_node(self) -> None:
        """Open the node under the cursor, or unfold; open or close the group."""
        view, current = self.view, self.view.current
        if current is None or self._grid is None:
            return
        line = self._grid.line_of(current[0])
        if not isinstance(view, GridView):
            if not view.enter():
                self._owner.open_node(current[0])
        elif line is not None and line.kind.is_node:
            self._owner.open_node(self._grid.members(line)[0])
        elif line is not None:
            self._grid.toggle(line)
            self.draw()

    def action_open_drift(self) -> None:
        """Show which nodes differ in versions and settings."""
        self._owner.open_drift()

    def action_open_logs(self) -> None:
        """Decode the kernel logs of the fleet, and others."""
        self._owner.open_logs()

    def action_open_heat(self) -> None:
        """Show the metric of every node over the last minutes."""
        self._owner.open_heat()

    def action_open_findings(self) -> None:
        """Show the night's list."""
        self._owner.open_findings()

    def action_retry_node(self) -> None:
        """Try the link to the node under the cursor now."""
        names = self._under_cursor()
        if len(names) == 1 and self._snapshot is not None:
            self._owner.retry_node(self._snapshot.node(names[0]))

    def action_pause(self) -> None:
        """Hold the view, or let it go on; a replay stands still itself."""
        if self._owner.replay is not None:
            self._owner.replay.toggle_pause()
            self._draw_top(self._now[1])
        elif self._snapshot is not None:
            self.paused = not self.paused
            self._draw_top(self._now[1])

    def action_back(self) -> None:
        """Clear the filter, then the selection, then let the cursor go."""
        if self.chosen.filter:
            self.set_filter("")
        elif self.marked:
            self.action_mark_none()
        else:
            self.view.home()

    def on_click(self, event: events.Click) -> None:
        """Open what was clicked twice."""
        if event.chain == 2 and event.widget is self.view:
            self.action_open_node()

    # ---- what is kept

    def restore(self, memory: ViewState, *, fresh: bool) -> None:
        """Keep choices in `memory` from now on; unless `fresh`, begin with those that are there."""
        self.memory = self.views = memory
        if not fresh:
            chosen, self.marked, self._cursor, self.filters = read_kept(memory.load())
            metric = self._owner.metric or chosen.metric
            self.take_view(replace(chosen, metric=metric))

    def _remember(self) -> None:
        """Keep what is chosen a moment later, when nothing more was chosen meanwhile."""
        if self.memory is None:
            return
        metric = self.chosen.metric if self.metric_chosen else ""
        self._said = to_keep(replace(self.chosen, metric=metric), self.marked, self.view.key, self.filters)
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_KEEP_S, self._keep)

    async def _keep(self) -> None:
        memory, said, self._said = self.memory, self._said, None
        if memory is not None and said is not None:
            # A home directory can be slow.
            await asyncio.get_running_loop().run_in_executor(None, keep, memory, said)

    def on_unmount(self) -> None:
        """Keep what was chosen last."""
        if self._beside is not None:
            self._beside.shutdown(wait=False)
        if self.memory is not None and self._said is not None:
            keep(self.memory, self._said)


def opening_words(words: str) -> Row:
    """Return a quiet line."""
    from stethoscope.ui.present.spans import Span, Tone

    return (Span(f" {words}", Tone.QUIET),)
