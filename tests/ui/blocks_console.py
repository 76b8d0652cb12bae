"""A program that shows nothing but the map of a fleet, in a terminal of its own: blocks_console.py KIND NODES [...]."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0])

import numpy as np
from textual import events
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.screen import ModalScreen
from textual.widgets import Static

from stethoscope.model.metric import Scope
from stethoscope.ui.paint import Difference, Picture
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.grid import FleetGrid
from stethoscope.ui.present.spans import ASCII, UNICODE, Span
from stethoscope.ui.present.view import View
from stethoscope.ui.theme import PALETTES, textual_theme
from stethoscope.ui.widgets.blocks import BlocksView
from stethoscope.ui.widgets.rows import Lines
from tests.builders import MONO, WALL

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.screen import Screen

    from stethoscope.model.fleet import FleetSnapshot

TICK_S = 0.5


class Over(ModalScreen[None]):
    """Something in front of the map."""

    CSS = """
    Over { align: center middle; background: transparent; }
    Static { width: 30; height: 5; background: #303030; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("o", "dismiss()", "")]

    def compose(self) -> ComposeResult:
        """Show a few words."""
        yield Static("in front of the map")


class BlocksApp(App[None]):
    """The map between a line above and the cursor's line below."""

    CSS = "Screen { background: #121212; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1,0)", ""), ("down", "move(1,0)", ""), ("left", "move(0,-1)", ""), ("right", "move(0,1)", ""),
        ("pagedown", "page(1)", ""), ("pageup", "page(-1)", ""), ("g", "home", ""), ("G", "last", ""),
        ("plus", "zoom(1)", ""), ("minus", "zoom(-1)", ""), ("0", "zoom(0)", ""), ("enter", "enter", ""),
        ("o", "over", ""), ("T", "turn", ""), ("t", "tick", ""), ("q", "quit", ""),
    ]  # fmt: skip

    def __init__(self, snapshot: FleetSnapshot, *, jitter: bool = False, plain: bool = False, ascii_only: bool = False,
                 **view: str) -> None:  # fmt: skip
        """Show `snapshot`; with `jitter` a tenth of its nodes send at each tick. `plain`: as Textual itself draws."""
        super().__init__(ansi_color=True)
        for theme in PALETTES.values():
            self.register_theme(textual_theme(theme))
        self.set_reactive(App.theme, "dark")
        self.snapshot, self.jitter, self.plain = snapshot, jitter, plain
        self.glyphs = ASCII if ascii_only else UNICODE
        self._picture = Picture()
        self.grid = FleetGrid(View("gpu_sm_clock", **{"fold": "none", "sort": "name"} | view), self.glyphs)
        self.spent: list[tuple[float, float]] = []
        """CPU seconds of each tick: of the map's update, and of everything from then until the next tick."""
        self._followed = time.process_time()
        self._random = np.random.default_rng(7)
        self._healthy = snapshot.tables[Scope.GPU].values
        self._turn = 0
        self._keys = 0

    def compose(self) -> ComposeResult:
        """Lay out the map."""
        yield Lines(id="top")
        view = BlocksView()
        view.when_moved = self.cursor_moved
        yield view
        yield Lines(id="cursor")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Show the first picture."""
        self.view.focus()
        self.call_after_refresh(self.feed)
        if self.jitter:
            self.set_interval(TICK_S, self.action_tick)

    @property
    def view(self) -> BlocksView:
        """Return the map's widget."""
        return self.query_one(BlocksView)

    def feed(self) -> None:
        """Give the snapshot to the map."""
        view = self.view
        view.grid = self.grid
        self.grid.update(assess(self.snapshot, MONO), WALL, view.cells, view.size.height, view.key)
        began = time.process_time()
        view.follow()
        ended = time.process_time()
        self.spent.append((ended - began, 0.0))
        self._followed = ended
        self.query_one("#top", Lines).show([view.headline(self.size.width)])
        self.cursor_moved()

    def cursor_moved(self) -> None:
        """Explain the cell."""
        for line in self.query("#cursor").results(Lines):
            line.show([self.view.cursor_line(WALL, self.size.width) or ()])

    async def on_event(self, event: events.Event) -> None:
        """Say how many keys were handled."""
        # The second time it comes here, whoever wanted it has had it.
        handled = isinstance(event, events.Key) and event.is_forwarded
        await super().on_event(event)
        if handled:
            self._keys += 1
            for line in self.screen_stack[0].query("#keys").results(Lines):
                line.show([(Span(f"{self._keys} keys"),)])

    def on_resize(self) -> None:
        """Draw everything again."""
        self._picture.forget()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        drawn: Any = renderable
        if not self.plain and isinstance(drawn, CompositorUpdate):
            drawn = Difference(drawn, self._picture)
        super()._display(screen, drawn)

    def action_tick(self) -> None:
        """Let a tenth of the nodes send: values tremble by 3 %, one in a hundred jumps."""
        if self.spent:
            self.spent[-1] = (self.spent[-1][0], time.process_time() - self._followed)
        table = self.snapshot.tables[Scope.GPU]
        column = table.index["gpu_sm_clock"]
        values = table.values.copy()
        nodes = len(self.snapshot.nodes)
        sent = np.repeat(np.arange(nodes) % 10 == self._turn % 10, values.shape[1] // nodes)
        noise = self._random.normal(1.0, 0.01, sent.sum()).clip(0.97, 1.03)
        noise[self._random.random(noise.size) < 0.01] = 0.7
        values[column, sent] = self._healthy[column, sent] * noise
        self._turn += 1
        self.snapshot = replace(
            self.snapshot, tables={**self.snapshot.tables, Scope.GPU: replace(table, values=values)}
        )
        self.feed()

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor."""
        self.view.move(rows, columns)

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.view.move(pages * (self.view.size.height - 1))

    def action_home(self) -> None:
        """Go to the first node."""
        self.view.home()

    def action_last(self) -> None:
        """Go to the last node."""
        self.view.move(self.view.line_count())

    def action_zoom(self, steps: int) -> None:
        """Look closer or from farther away."""
        self.view.zoom_by(steps)
        self.feed()

    def action_enter(self) -> None:
        """Look into a group."""
        self.view.enter()

    def action_over(self) -> None:
        """Put something in front."""
        self.push_screen(Over())

    def action_turn(self) -> None:
        """Take the next theme."""
        names = [*PALETTES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)]
        self.view.forget()
        for lines in self.query(Lines):
            lines.refresh()
        self.feed()


def main() -> None:
    """Run the map on a scene: blocks_console.py KIND NODES [--jitter] [--plain] [--ascii] [--group=rack]."""
    from tests.ui import scenes

    flags = set(sys.argv[3:])
    group = next((flag.partition("=")[2] for flag in flags if flag.startswith("--group=")), "none")
    app = BlocksApp(
        getattr(scenes, sys.argv[1])(int(sys.argv[2])),
        jitter="--jitter" in flags, plain="--plain" in flags, ascii_only="--ascii" in flags, group=group,
    )  # fmt: skip
    app.run(mouse=False)
    if app.jitter:
        update, painting = (sorted(part)[len(part) // 2] * 1e3 for part in zip(*app.spent[1:-1], strict=True))
        sys.stdout.write(f"update {update:.1f} ms, painting {painting:.1f} ms\n")


if __name__ == "__main__":
    main()
