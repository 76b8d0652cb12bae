"""Whatever a person does in the console, the differences that are sent add up to what drawing it whole would show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyte
import pytest
from rich.color import ColorSystem
from textual import events
from textual._compositor import CompositorUpdate

from stethoscope.model.frame import Link, LinkState
from stethoscope.ui import app as console
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.paint import Difference, Picture
from stethoscope.ui.widgets.grid import GridView
from stethoscope.ui.widgets.rows import strip_of
from tests.ui.consoles import StillSession
from tests.ui.scenes import troubled

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from stethoscope.model.fleet import FleetSnapshot

STEPS = (
    ("down", "down", "right", "right"), ("pagedown",), ("G",), ("pageup",), ("g",), ("tick",),
    ("right_square_bracket",), ("tick",), ("question_mark",), ("tick",), ("escape",), ("m",), ("s", "y", "m"),
    ("escape",), ("f",), ("d",), ("tick",), ("G",), ("burst",), ("g",), ("tick",), ("enter",), ("down", "down"),
    ("a",), ("pagedown",), ("escape",), ("T",), ("tick",), ("T",), ("down",), ("resize",), ("tick",),
    ("down", "down"), ("back",), ("D",), ("down",), ("escape",), ("s",), ("slash", "0", "1"), ("enter",),
    ("escape",), ("d",), ("down", "tick"), ("d",), ("up",),
)  # fmt: skip


class Watched(StethoscopeApp):
    """A console whose terminal is drawn from what it would send."""

    CSS_PATH = str(Path(console.__file__).with_name("stethoscope.tcss"))

    def __init__(self, session: StillSession, columns: int, lines: int) -> None:
        """Show `session` on a terminal of this size."""

        async def opened() -> Any:
            return session

        super().__init__(opened, "test", clock=session.clock)
        self.terminal = terminal(columns, lines)
        self._feed = pyte.Stream(self.terminal)
        self._sent = Picture()

    def resized(self, columns: int, lines: int) -> None:
        """Take that the terminal has another size."""
        self.terminal.resize(lines, columns)
        self._sent.forget()

    def _display(self, screen: Any, renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate):
            self._feed.feed(Difference(renderable, self._sent).render_segments(self.console))

    def drawn_whole(self) -> pyte.Screen:
        """Return a new terminal on which everything is drawn once."""
        fresh, picture = terminal(self.size.width, self.size.height), Picture()
        stream = pyte.Stream(fresh)
        for y, strip in enumerate(self.screen._compositor.render_strips()):
            stream.feed(picture.draw(0, y, strip.cell_length, strip, ColorSystem.EIGHT_BIT))
        return fresh


def terminal(columns: int, lines: int) -> pyte.Screen:
    screen = pyte.Screen(columns, lines)
    screen.reset_mode(pyte.modes.DECAWM)
    return screen


def cells(screen: pyte.Screen) -> list[list[object]]:
    return [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]


def lost(snapshot: FleetSnapshot, count: int) -> FleetSnapshot:
    link = Link(LinkState.CLOSED, snapshot.wall - 1.0, "connection reset by peer")
    nodes = tuple(replace(node, link=link) if node.index < count else node for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes)


async def do(pilot: Pilot[None], app: Watched, session: StillSession, key: str, size: tuple[int, int]) -> None:
    if key == "tick":
        session.now = replace(session.now, wall=session.now.wall + 1.0, mono=session.now.mono + 1.0)
        app.pull()
    elif key == "burst":
        session.now = lost(session.now, 500)
        app.pull()
    elif key in ("resize", "back"):
        columns, lines = (size[0] - 11, size[1] - 5) if key == "resize" else size
        app.resized(columns, lines)
        await pilot.resize_terminal(columns, lines)
    else:
        await pilot.press(key)
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_differences_show_what_plain_drawing_shows(size: tuple[int, int]) -> None:
    session = StillSession(troubled(800))
    app = Watched(session, *size)
    async with app.run_test(size=size) as pilot:
        for _ in range(100):
            await pilot.pause(0.02)
            if app.session is not None and app.fleet_screen.grid is not None:
                break
            app.pull()
        for step in STEPS:
            for key in step:
                await do(pilot, app, session, key, size)
            for _ in range(50):
                whole = app.drawn_whole()
                if cells(app.terminal) == cells(whole):
                    break
                await pilot.pause(0.02)
            assert app.terminal.display == whole.display, step
            assert cells(app.terminal) == cells(whole), step


async def ready(pilot: Pilot[None], app: Watched) -> None:
    for _ in range(100):
        await pilot.pause(0.02)
        if app.session is not None and app.fleet_screen.grid is not None and app.fleet_screen.view.line_count():
            return
        app.pull()
    raise AssertionError("no rows")


async def test_a_key_that_moves_is_on_the_terminal_before_anything_else_happens() -> None:
    app = Watched(StillSession(troubled(800)), 200, 60)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot, app)
        for key in ("down", "right", "pagedown", "up", "n", "x", "right_square_bracket", "end", "home"):
            await pilot.pause(0.1)
            before = cells(app.terminal)
            assert app.give_key(events.Key(key, None))
            assert cells(app.terminal) != before, key
            assert cells(app.terminal) == cells(app.drawn_whole()), key


async def test_rows_that_come_into_view_again_are_as_they_are_now() -> None:
    app = Watched(StillSession(troubled(800)), 120, 30)
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("f", "f", "down", "down", "down")
        await pilot.pause(0.1)
        for key in ("pagedown", "pagedown", "home", "end", "pageup", "down", "home"):
            app.give_key(events.Key(key, None))
            view = app.fleet_screen.query_one(GridView)
            top = view.scroll_offset.y
            for line in range(top, min(view.line_count(), top + view.size.height)):
                text = view.render_line(line - top).text
                assert text == strip_of(view.line(line), view.cells, app).text
                assert view._painted[line] == view.line(line), (key, line)


async def test_keys_behind_one_that_opens_a_screen_wait_for_it() -> None:
    app = Watched(StillSession(troubled(800)), 120, 30)
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        key = app.fleet_screen.view.key
        for name in ("question_mark", "down", "escape", "down"):
            app.give_key(events.Key(name, None))
        assert app.fleet_screen.view.key == key
        for _ in range(100):
            await pilot.pause(0.02)
            if app.fleet_screen.view.key != key:
                break
        assert app.screen is app.fleet_screen
        assert app.fleet_screen.view.key == app.fleet_screen.grid.lines[1]  # type: ignore[union-attr]
