"""The map of the fleet on the screen: the cursor on halves, scrolling, zoom, and what reaches the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from stethoscope.model.metric import Scope
from stethoscope.ui.present.block_places import Zoom
from stethoscope.ui.present.grid import Target
from stethoscope.ui.present.spans import plain
from stethoscope.ui.widgets.blocks import BlocksView
from stethoscope.ui.widgets.rows import Lines
from tests.builders import fleet
from tests.ui.blocks_console import BlocksApp
from tests.ui.scenes import troubled
from tests.ui.terminal import ROOT, Terminal
from tests.ui.test_console import app_on, line
from tests.ui.test_console import ready as console_ready

if TYPE_CHECKING:
    from textual.pilot import Pilot

PROGRAM = ROOT / "tests" / "ui" / "blocks_console.py"


async def ready(pilot: Pilot[None]) -> BlocksApp:
    app = pilot.app
    assert isinstance(app, BlocksApp)
    for _ in range(3000):
        if app.view.map is not None and app.spent:
            break
        await pilot.pause(0.01)
    return app


def said(app: BlocksApp) -> str:
    return plain(app.query_one("#cursor", Lines).rows[0])


def at(app: BlocksApp) -> tuple[str, int]:
    current = app.view.current
    assert current is not None
    name, target = current
    return name, target.position if target.scope is Scope.GPU else -1


def shown(app: BlocksApp) -> list[str]:
    return [app.view.render_line(y).text.rstrip() for y in range(app.view.size.height)]


async def test_the_cursor_moves_between_the_halves_of_a_line() -> None:
    async with BlocksApp(fleet(2000)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        assert app.view.zoom is Zoom.GPU
        assert at(app) == ("gpu-001", -1)
        await pilot.press("down", "right", "right", "right")
        assert at(app) == ("gpu-002", 2)
        assert said(app).startswith(" ▄ lower gpu-002/gpu/2  SM clock 1980 MHz")
        await pilot.press("up")
        assert said(app).startswith(" ▀ upper gpu-001/gpu/2  SM clock")
        await pilot.press("up", "left", "left", "left", "left")
        assert at(app) == ("gpu-001", -1)
        await pilot.press("down", "down")
        assert at(app) == ("gpu-045", -1)
        await pilot.press(*["right"] * 10)
        assert at(app) == ("gpu-047", 0)
        await pilot.press("G", *["right"] * 85)
        assert at(app) == ("gpu-2000", 7)
        await pilot.press("down", "right")
        assert at(app) == ("gpu-2000", 7)
        await pilot.press("g")
        assert at(app) == ("gpu-001", -1)
        assert app.view.key is None


async def test_a_shorter_last_line_takes_the_cursor_to_its_nearest_node() -> None:
    async with BlocksApp(fleet(401)).run_test(size=(80, 40)) as pilot:
        app = await ready(pilot)
        assert app.view.zoom is Zoom.GPU
        await pilot.press(*["right"] * 80)
        assert at(app) == ("gpu-013", 7)
        await pilot.press("G")
        assert at(app) == ("gpu-400", 7)
        await pilot.press("left", *["right"] * 20, "up")
        assert at(app) == ("gpu-399", 7)
        await pilot.press("right")
        assert at(app) == ("gpu-401", -1)
        await pilot.press("down")
        assert at(app)[0] == "gpu-400"


async def test_a_node_is_found_by_name_and_keeps_the_cursor_when_others_go() -> None:
    async with BlocksApp(fleet(2000)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        assert not app.view.select("gpu-9999")
        assert app.view.select("gpu-1500")
        await pilot.press("right", "right")
        assert at(app) == ("gpu-1500", 1)
        app.grid.view.filter = "*00"
        app.feed()
        assert at(app) == ("gpu-1500", 1)
        app.grid.view.filter = "gpu-00*"
        app.feed()
        assert at(app)[0] in {f"gpu-{n:03}" for n in range(1, 10)}
        app.grid.view.filter = "nothing"
        app.feed()
        assert app.view.current is None
        assert set(shown(app)) == {""}
        app.grid.view.filter = ""
        app.feed()
        assert app.view.current is not None


async def test_zoom_goes_from_groups_to_nodes_to_gpus_to_names() -> None:
    async with BlocksApp(troubled(2000), group="rack").run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        assert app.view.zoom is Zoom.NODE
        await pilot.press("minus")
        assert app.view.zoom is Zoom.GROUP
        await pilot.press("minus", "right")
        assert app.view.zoom is Zoom.GROUP
        assert said(app).startswith(" rack-02  8 nodes · 4 with something wrong · ✖ gpu-009 GPU driver not answering")
        await pilot.press("enter")
        assert (app.view.zoom, at(app)) == (Zoom.NODE, ("gpu-009", -1))
        assert not app.view.enter()
        await pilot.press("plus", "right", "right")
        assert (app.view.zoom, at(app)) == (Zoom.GPU, ("gpu-009", 1))
        assert app.view.line_count() > app.view.size.height
        await pilot.press("plus", "plus")
        assert (app.view.zoom, at(app)) == (Zoom.NAME, ("gpu-009", 1))
        assert "✖ gpu-009  ‖‖‖‖‖‖‖‖" in "\n".join(shown(app))
        await pilot.press("0")
        assert app.view.zoom is Zoom.NODE


async def test_without_groups_there_are_no_tiles() -> None:
    async with BlocksApp(fleet(2000)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        assert app.view.zoom_by(-1)
        assert not app.view.zoom_by(-1)
        assert app.view.zoom is Zoom.NODE


async def test_the_next_node_that_deserves_a_look_is_found_in_the_order_of_the_map() -> None:
    async with BlocksApp(troubled(2000)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        seen = []
        for _ in range(4):
            assert app.view.next_wrong(1)
            seen.append(at(app)[0])
        assert seen == ["gpu-002", "gpu-007", "gpu-009", "gpu-011"]
        assert app.view.next_wrong(-1)
        assert at(app) == ("gpu-009", -1)
        assert app.view.under_cursor() == ["gpu-009"]
    async with BlocksApp(fleet(40)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        assert not app.view.next_wrong(1)


async def test_a_line_of_the_rows_leads_to_the_worst_of_its_nodes() -> None:
    async with BlocksApp(troubled(64), group="rack", fold="all").run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        head = next(line for line in app.grid.arranged if line.group == "rack-02")
        assert app.view.select(head.key)
        assert at(app)[0] == "gpu-009"
        app.grid.view.zoom = "group"
        app.feed()
        assert app.view.under_cursor() == [f"gpu-{n:03}" for n in range(9, 17)]
        assert app.view.next_wrong(1)
        await pilot.pause()
        assert said(app).startswith(" rack-03")


async def test_it_scrolls_by_half_pages() -> None:
    async with BlocksApp(fleet(6000)).run_test(size=(80, 23)) as pilot:
        app = await ready(pilot)
        app.view.zoom_by(1)
        height = app.view.size.height
        await pilot.press(*["down"] * (2 * height - 1))
        assert app.view.scroll_offset.y == 0
        await pilot.press("down")
        assert app.view.scroll_offset.y == height // 2
        await pilot.press("g")
        assert app.view.scroll_offset.y == 0
        await pilot.press("G")
        assert app.view.scroll_offset.y == app.view.line_count() - height
        await pilot.press("pageup")
        assert at(app)[0] < "gpu-6000"


async def test_a_click_takes_the_upper_half_and_a_second_one_the_lower() -> None:
    async with BlocksApp(fleet(2000)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        for expected in ("gpu-047", "gpu-048", "gpu-047"):
            await pilot.click(app.view, offset=(12, 1))
            assert at(app) == (expected, 2)
        await pilot.click(app.view, offset=(9, 1))
        assert at(app) == ("gpu-047", -1)
        await pilot.click(app.view, offset=(198, 1))
        assert at(app) == ("gpu-047", -1)


async def test_the_wheel_scrolls_by_half_a_page() -> None:
    from textual.events import MouseScrollDown, MouseScrollUp

    async with BlocksApp(fleet(6000)).run_test(size=(80, 23)) as pilot:
        app = await ready(pilot)
        app.view.zoom_by(1)
        await pilot._post_mouse_events([MouseScrollDown], app.view)
        await pilot.pause()
        assert app.view.scroll_offset.y == app.view.size.height // 2
        await pilot._post_mouse_events([MouseScrollUp], app.view)
        await pilot.pause()
        assert app.view.scroll_offset.y == 0


async def test_a_new_size_arranges_the_nodes_anew() -> None:
    async with BlocksApp(fleet(2000)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        await pilot.press("down", "right", "right")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert (app.view.zoom, at(app)[0]) == (Zoom.NODE, "gpu-002")
        await pilot.resize_terminal(200, 49)
        await pilot.pause()
        assert (app.view.zoom, at(app)) == (Zoom.GPU, ("gpu-002", 1))
        await pilot.press("plus", "G")
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        top, height = app.view.scroll_offset.y, app.view.size.height
        line = int(app.view.map.places.line[app.view._item])  # type: ignore[union-attr]
        assert top <= line < top + height


async def test_before_there_is_data_it_does_nothing() -> None:
    async with BlocksApp(fleet(8)).run_test(size=(80, 24)) as pilot:
        view = pilot.app.query_one("BlocksView")
        other = type(view)()
        assert other.current is None
        assert other.line_count() == 0
        assert not other.select("gpu-001")
        assert not other.zoom_by(1)
        assert not other.next_wrong(1)
        assert other.under_cursor() == []
        assert other.cursor_line(0.0, 80) is None
        assert other.headline(80) == ()
        other.move(1, 1)
        other.follow()


async def test_the_current_cell_is_that_of_the_metric() -> None:
    async with BlocksApp(fleet(40)).run_test(size=(200, 49)) as pilot:
        app = await ready(pilot)
        app.grid.view.metric = "ib_port_rate"
        app.feed()
        await pilot.press("right", "right", "right")
        assert app.view.current == ("gpu-001", Target(Scope.PORT, 2))
        assert said(app).startswith(" gpu-001/ib/mlx5_2")


# ---- in the console


async def test_the_console_shows_the_map_and_its_keys_work_there() -> None:
    async with app_on(troubled(2000)).run_test(size=(200, 60)) as pilot:
        app = await console_ready(pilot)
        while app.fleet_screen.chosen.density != "blocks":
            await pilot.press("d")
        await pilot.pause()
        view = app.fleet_screen.view
        assert isinstance(view, BlocksView)
        app.pull()
        await pilot.pause()
        assert view.zoom is Zoom.GPU
        assert view.line_count() <= view.size.height
        assert line(app, "headline").startswith(" a GPU is half a character")
        assert "by name" in line(app, "legend")
        await pilot.press("n", "n")
        assert line(app, "cursor").startswith(" ▀ upper gpu-007")
        await pilot.press("x", "j", "x")
        assert app.fleet_screen.selected() == ["gpu-007", "gpu-008"]
        assert "2 selected" in line(app, "legend")
        await pilot.press("Z")
        assert view.zoom is Zoom.NODE
        await pilot.press("z", "z")
        assert view.zoom is Zoom.NAME
        await pilot.press("enter")
        await pilot.pause(0.1)
        app.pull()
        await pilot.pause()
        assert line(app, "top").startswith(" · gpu-008")
        await pilot.press("escape")
        await pilot.pause(0.1)
        await pilot.press("d")
        assert not isinstance(app.fleet_screen.view, BlocksView)
        assert line(app, "cursor").startswith(" gpu-008")
        await pilot.press("z")
        assert not isinstance(app.fleet_screen.view, BlocksView)


# ---- what reaches the terminal


def on_terminal(*arguments: str, columns: int = 200, lines: int = 51, **environment: str) -> Terminal:
    return Terminal([str(PROGRAM), *arguments], columns=columns, lines=lines, **environment)


UP, DOWN, RIGHT, PAGE_UP, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[5~", "\x1b[6~"
STEPS: list[tuple[str, ...]] = [
    (DOWN, DOWN, RIGHT, RIGHT), ("G",), (PAGE_UP,), (PAGE_UP,), ("t",), ("t",), ("g",), ("o",), ("t",), ("o",), ("+",),
    (PAGE_DOWN,), (PAGE_DOWN,), ("t",), ("-", "-"), (RIGHT, DOWN), ("t",), ("T",), ("t",), (RIGHT,), ("T", "T"),
    ("T",), ("0",), ("t",), ("\r",), ("G",), ("resize",), ("t",), (UP,), ("back",), ("t",), ("g",),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "columns", "lines"),
    [
        (["troubled", "2000"], 200, 51),
        (["troubled", "2000", "--group=rack"], 120, 40),
        (["troubled", "600"], 80, 24),
        (["troubled", "600", "--ascii"], 80, 24),
    ],
)
def test_differences_show_what_plain_drawing_shows(arguments: list[str], columns: int, lines: int) -> None:
    with (
        on_terminal(*arguments, columns=columns, lines=lines) as thrifty,
        on_terminal(*arguments, "--plain", columns=columns, lines=lines) as whole,
    ):
        pressed = 0
        both = (thrifty, whole)
        for terminal in both:
            terminal.wait("character")
        for step in STEPS:
            for key in step:
                for terminal in both:
                    if key == "resize":
                        terminal.resize(columns - 11, lines - 7)
                    elif key == "back":
                        terminal.resize(columns, lines)
                    else:
                        terminal.send(key)
                pressed += key not in ("resize", "back")
            for terminal in both:
                terminal.wait(f"{pressed} keys" if pressed else "")
            end = time.monotonic() + 30
            while pictures(thrifty) != pictures(whole) and time.monotonic() < end:
                for terminal in both:
                    terminal.read(0.1)
            assert thrifty.screen.display == whole.screen.display, step
            assert pictures(thrifty) == pictures(whole), step
        assert len(thrifty.raw) < len(whole.raw)


def pictures(terminal: Terminal) -> list[list[tuple[object, ...]]]:
    """Return what can be seen of every cell: of a blank one its background, underline and nothing else."""
    screen = terminal.screen
    cells = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    return [
        [(c.data, "" if c.data == " " and not c.reverse else c.fg, c.bg, c.underscore, c.reverse) for c in line]
        for line in cells
    ]


def test_little_is_sent_and_reckoned_when_a_fifth_of_the_nodes_change_a_second() -> None:
    with on_terminal("troubled", "2000", "--jitter") as terminal:
        terminal.wait("two nodes share a line")
        terminal.read(3)
        before, start = len(terminal.raw), time.monotonic()
        while time.monotonic() - start < 5:
            terminal.read(0.2)
        assert (len(terminal.raw) - before) / (time.monotonic() - start) < 10_000
        terminal.send("q")
        assert terminal.finish() == 0
        update = float(terminal.raw.decode().rpartition("update ")[2].partition(" ms")[0])
        assert update < 20


def test_sixteen_colours_are_sixteen() -> None:
    with on_terminal("troubled", "2000", TERM="xterm") as terminal:
        terminal.wait("two nodes share a line")
        terminal.settle()
        assert b"38;5;" not in terminal.raw
        assert b"48;2;" not in terminal.raw
        assert "▀" in terminal.text
        assert "‖‖‖‖‖‖‖‖" in terminal.text
        terminal.send("q")
        assert terminal.finish() == 0


@pytest.mark.parametrize(("arguments", "sign"), [([], "·"), (["--ascii"], ".")])
def test_without_colours_every_node_has_its_worst_sign(arguments: list[str], sign: str) -> None:
    with on_terminal("troubled", "2000", *arguments, NO_COLOR="1") as terminal:
        text = terminal.wait("a node is one character")
        assert "▀" not in text
        assert text.splitlines()[1].startswith("gpu-001  " + sign)
        assert (text.isascii()) is bool(arguments)
        terminal.send("\x1b[C\x1b[C")
        terminal.settle()
        terminal.send("q")
        assert terminal.finish() == 0
