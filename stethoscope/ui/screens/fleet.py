"""The fleet screen: is something wrong, and where?"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import LEAST, filter_rule, footer, opening_line, position, rule, too_small
from stethoscope.ui.present.view import FOLDS, SORTS, View, following
from stethoscope.ui.widgets.grid import GridView
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widgets import Input

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.grid import FleetGrid
    from stethoscope.ui.present.spans import Row

_SHORT = 30
"""Below this many lines the headline gives its place to a node."""
_FIXED_LINES = 6
"""Top line, legend, two rules, cursor line, keys."""


class FleetScreen(Screen[None]):
    """A row per node, the findings below, and one line about the cell under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("fleet", moves=True)
    AUTO_FOCUS = "GridView"

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`, whose choices and session it uses."""
        super().__init__()
        self._owner = console
        self._grid: FleetGrid | None = None
        self.chosen = View()
        self._snapshot: FleetSnapshot | None = None
        self._now = (0.0, 0.0)
        self._metric_chosen = False
        self.paused = False
        self._restarts = 0
        self._filter_before = ""

    def compose(self) -> ComposeResult:
        """Lay out the lines; all of them are there from the first picture on."""
        yield Lines(id="small")
        yield Lines(id="top")
        yield Lines(id="legend")
        yield Lines(id="rule-top")
        yield Lines(id="headline")
        yield GridView(id="grid")
        yield Lines(id="rule-bottom")
        yield Lines(id="findings", rows=())
        yield Lines(id="cursor")
        yield Lines(id="keys")

    @property
    def view(self) -> GridView:
        """Return the grid's widget."""
        return self.query_one(GridView)

    @property
    def grid(self) -> FleetGrid | None:
        """Return the rows, once there is a snapshot."""
        return self._grid

    def on_mount(self) -> None:
        """Show what is known before there is data."""
        self.query_one("#findings", Lines).display = False
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
        self._show("rule-top", rule(cells, glyphs))
        self._show("rule-bottom", self._bottom_rule())
        self._show("keys", footer(footer_of("fleet", replay=self._owner.replay is not None), cells))
        if self._snapshot is None:
            console = self._owner
            self._show("top", opening_line(console.title, console.doing, console.clock.wall(), cells))

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
        from stethoscope.ui.present.assess import assess
        from stethoscope.ui.present.grid import FleetGrid
        from stethoscope.ui.present.layout import headline
        from stethoscope.ui.present.lines import finding_rows, legend_line, unseen_line

        glyphs, view, cells = self._owner.glyphs, self.view, self.size.width
        if self._grid is None:
            self._grid = view.grid = FleetGrid(self.chosen, glyphs)
        grid = self._grid
        if not self._metric_chosen:
            self.chosen.metric = self._owner.metric or first_metric(snapshot)
        now_mono, now_wall = self._now
        assessment = assess(snapshot, now_mono)
        tall = self.size.height >= _SHORT
        findings = finding_rows(assessment, now_wall, cells, max(4, self.size.height // 6) if tall else 2, glyphs)
        unseen = unseen_line(assessment, cells, glyphs)
        if unseen is not None and (tall or not findings):
            findings.append(unseen)
        # The room is reckoned, not asked for: the widget still has the height that it had before.
        room = self.size.height - _FIXED_LINES - len(findings) - tall
        grid.update(assessment, now_wall, view.cells or cells - 1, room, view.key)
        assert grid.layout is not None
        self._draw_top(now_wall)
        self._show("legend", legend_line(grid, cells))
        self.query_one("#headline", Lines).show([headline(grid.layout)] if tall else [])
        self.query_one("#findings", Lines).show(findings)
        view.follow()
        self.draw_cursor()
        if not self.query("#filter"):
            self._show("rule-bottom", self._bottom_rule())

    def _bottom_rule(self) -> Row:
        """Return the line below the rows, which says where in them the screen is when they do not all fit."""
        view, glyphs, cells = self.view, self._owner.glyphs, self.size.width or 80
        return rule(cells, glyphs, position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs))

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
        self._show("top", row)

    def draw_cursor(self) -> None:
        """Explain the cell under the cursor."""
        from stethoscope.ui.present.cursor import cursor_line

        current = self.view.current
        if self._grid is None or current is None:
            words = "no node fits the filter; escape clears it" if self.chosen.filter else ""
            self._show("cursor", opening_words(words))
            return
        self._show("cursor", cursor_line(self._grid, *current, self._now[1], self.size.width))

    def on_grid_view_cursor_moved(self) -> None:
        """Explain the new cell."""
        self.draw_cursor()
        self._show("rule-bottom", self._bottom_rule())

    def _show(self, name: str, row: Row) -> None:
        self.query_one(f"#{name}", Lines).show([row])

    # ---- what the keys do

    def action_open_node(self) -> None:
        """Open the node under the cursor, or unfold."""
        from stethoscope.ui.present.grid import FOLD, FOLD_IDLE

        current = self.view.current
        if current is None:
            return
        if current[0] in (FOLD, FOLD_IDLE):
            self.chosen.fold = "none"
            self._draw()
        else:
            self._owner.open_node(current[0])

    def action_open_drift(self) -> None:
        """Show which nodes differ in versions and settings."""
        self._owner.open_drift()

    def action_retry_node(self) -> None:
        """Try the link to the node under the cursor now."""
        current = self.view.current
        if current is not None and self._snapshot is not None and current[0] in self._snapshot.by_name:
            self._owner.retry_node(self._snapshot.node(current[0]))

    def action_next_metric(self, step: int) -> None:
        """Show the next or previous metric of the catalogue."""
        if self._snapshot is not None:
            ids = [metric.id for metric in choosable(self._snapshot)]
            place = ids.index(self.chosen.metric) if self.chosen.metric in ids else 0
            self.choose_metric(ids[(place + step) % len(ids)])

    def choose_metric(self, metric: str) -> None:
        """Show `metric` in the grid."""
        self.chosen.metric = metric
        self._metric_chosen = True
        self._draw()

    def action_choose_metric(self) -> None:
        """Ask which metric to show."""
        if self._snapshot is not None:
            choices = [(metric.title, metric.meaning, metric.id) for metric in choosable(self._snapshot)]
            self._owner.choose("metric", choices, self.choose_metric)

    def action_next_sort(self) -> None:
        """Order the rows in the next way."""
        self.chosen.sort = following(SORTS, self.chosen.sort)
        self._draw()

    def action_next_fold(self) -> None:
        """Fold healthy nodes in the next way."""
        self.chosen.fold = following(FOLDS, self.chosen.fold)
        self._draw()

    def action_pause(self) -> None:
        """Hold the view, or let it go on; a replay stands still itself."""
        if self._owner.replay is not None:
            self._owner.replay.toggle_pause()
            self._draw_top(self._now[1])
        elif self._snapshot is not None:
            self.paused = not self.paused
            self._draw_top(self._now[1])

    def action_back(self) -> None:
        """Clear the filter, then let the cursor go."""
        if self.chosen.filter:
            self.set_filter("")
        else:
            self.view.home()

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor."""
        self.view.move(rows, columns)

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.view.move(pages * max(1, self.view.size.height - 1))

    def action_cursor_first(self) -> None:
        """Go to the worst node."""
        self.view.home()

    def action_cursor_last(self) -> None:
        """Go to the last row."""
        self.view.move(self.view.line_count())

    # ---- the filter

    def action_edit_filter(self) -> None:
        """Open the filter's input in place of the cursor line."""
        from textual.widgets import Input

        if not self.query(Input):
            field = Input(self.chosen.filter, placeholder="part of a node name, or a pattern with * and ?", id="filter")
            self.mount(field, before="#keys")
            self.query_one("#cursor", Lines).display = False
            self._filter_before = self.chosen.filter
            self._show("keys", footer([("enter", "keep the filter"), ("escape", "drop it")], self.size.width))
            self._draw_filter_rule()
            field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.set_filter(event.value)
        self._draw_filter_rule()

    def _draw_filter_rule(self) -> None:
        if self._grid is not None and self._grid.assessment is not None:
            fits, hidden = self._grid.filtered()
            nodes = len(self._grid.snapshot.nodes)
            self._show("rule-bottom", filter_rule(self.size.width, self._owner.glyphs, fits, nodes, hidden))

    def on_input_submitted(self) -> None:
        """Keep the filter and give the keys back to the grid."""
        self.close_filter()

    def close_filter(self) -> bool:
        """Close the filter's input; False when it was not open."""
        from textual.widgets import Input

        fields = self.query(Input)
        if not fields:
            return False
        fields.remove()
        self.query_one("#cursor", Lines).display = True
        self.view.focus()
        self.draw_frame()
        return True

    def drop_filter(self) -> bool:
        """Close the filter's input and show again what was shown before it; False when it was not open."""
        if not self.close_filter():
            return False
        self.set_filter(self._filter_before)
        return True

    def set_filter(self, text: str) -> None:
        """Show only the nodes that fit `text`."""
        self.chosen.filter = text.strip()
        self._draw()


def opening_words(words: str) -> Row:
    """Return a quiet line."""
    from stethoscope.ui.present.spans import Span, Tone

    return (Span(f" {words}", Tone.QUIET),)


def choosable(snapshot: FleetSnapshot) -> list[Metric]:
    """Return the metrics that the grid can show."""
    return [
        metric
        for metric in snapshot.catalogue.values()
        if metric.fleet and metric.id in snapshot.tables[metric.scope].index
    ]


def first_metric(snapshot: FleetSnapshot) -> str:
    """Return the metric to start with: the GPU's clock, or how busy the CPU is where there is no GPU."""
    ids = [metric.id for metric in choosable(snapshot)]
    has_gpus = any(node.gpus for node in snapshot.nodes) or all(node.frame_mono is None for node in snapshot.nodes)
    wanted = "gpu_sm_clock" if has_gpus else "cpu_util"
    return wanted if wanted in ids else ids[0]
