"""What the keys and the mouse do on the fleet screen: groups, selection, jumps, filters, and what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.color import Color

from stethoscope.session.view_state import ViewState
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.present.block_places import Zoom
from stethoscope.ui.present.kept import read_kept, to_keep
from stethoscope.ui.present.view import View, following
from stethoscope.ui.screens.finder import FinderScreen
from stethoscope.ui.screens.node import NodeScreen
from stethoscope.ui.widgets.blocks import BlocksView
from tests.builders import fleet
from tests.ui.consoles import StillSession
from tests.ui.scenes import healthy, troubled
from tests.ui.terminal import console
from tests.ui.test_console import app_on, line, ready, visible

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot


async def typed(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_groups_go_round_and_open() -> None:
    async with app_on(troubled(24)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "b")
        assert line(app, "legend").rstrip().endswith("in racks")
        assert visible(app)[0].startswith(" ✖ rack-01")
        await typed(pilot, "f", "f", "g", "enter")
        assert [row.split()[1] for row in visible(app)[:2]] == ["rack-01", "rack-02"]
        await typed(pilot, "enter")
        assert [row.split()[1] for row in visible(app)[:2]] == ["rack-01", "gpu-002"]
        await typed(pilot, "b", "b")
        assert "in leaves" in line(app, "legend")
        await typed(pilot, "b")
        assert "in " not in line(app, "legend").split("worst first")[1]


async def test_space_selects_and_goes_on_and_escape_lets_go() -> None:
    async with app_on(troubled()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        screen = app.fleet_screen
        await typed(pilot, "space", "space")
        assert screen.selected() == ["gpu-002", "gpu-009"]
        assert "2 selected" in line(app, "legend")
        assert [row[:9] for row in visible(app)[:3]] == ["✖*gpu-002", "✖*gpu-009", "– gpu-014"]
        assert line(app, "cursor").startswith(" gpu-014")
        await typed(pilot, "up", "x")
        assert screen.selected() == ["gpu-002"]
        await typed(pilot, "/", *"gpu-00", "enter", "asterisk")
        assert len(screen.selected()) == 9
        await typed(pilot, "asterisk")
        assert screen.marked == set()
        await typed(pilot, "x", "escape")
        assert "filter" not in line(app, "legend")
        assert len(screen.marked) == 1
        await typed(pilot, "escape")
        assert screen.marked == set()


async def test_space_on_a_group_selects_all_of_it() -> None:
    async with app_on(healthy(24)).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "b", "space")
        assert app.fleet_screen.selected() == [f"gpu-{n:03}" for n in range(1, 9)]
        await typed(pilot, "G", "x")
        assert len(app.fleet_screen.selected()) in (9, 16)


async def test_without_a_selection_the_node_under_the_cursor_counts() -> None:
    async with app_on(troubled()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "down")
        assert app.fleet_screen.selected() == ["gpu-009"]


async def test_n_goes_from_one_deviating_node_to_the_next() -> None:
    async with app_on(troubled()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "s")
        seen = []
        for _ in range(3):
            await typed(pilot, "n")
            seen.append(line(app, "cursor").split()[0].partition("/")[0])
        await typed(pilot, "N")
        assert seen == ["gpu-002", "gpu-007", "gpu-009"]
        assert line(app, "cursor").startswith(" gpu-007")
        await typed(pilot, "right_curly_bracket", "left_curly_bracket", "left_curly_bracket")
        assert line(app, "cursor").startswith(" gpu-002")


async def test_densities_go_round_and_the_cursor_stays_on_its_node() -> None:
    async with app_on(troubled()).run_test(size=(160, 40)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "down", "down", "down")
        assert line(app, "cursor").startswith(" gpu-011")
        await typed(pilot, "d")
        assert app.fleet_screen.chosen.density == "cells"
        assert visible(app)[3].split()[2:6] == ["█", "█", "█", "█"]
        await typed(pilot, "d")
        assert isinstance(app.fleet_screen.view, BlocksView)
        await pilot.pause(0.1)
        assert "gpu-011" in line(app, "cursor")
        await typed(pilot, "d")
        await pilot.pause(0.1)
        assert line(app, "cursor").startswith(" gpu-011")
        assert "1410" in visible(app)[3]


async def test_numbers_can_be_had_on_a_narrow_screen() -> None:
    async with app_on(troubled()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "d", "d")
        assert app.fleet_screen.chosen.density == "numbers"
        await pilot.pause(0.1)
        assert "1980" in visible(app)[0]
        assert all(len(row) <= 80 for row in visible(app))


async def test_a_filter_says_what_is_wrong_with_it_and_keeps_what_was_shown() -> None:
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "/", *"temp>85")
        assert [row.split()[1] for row in visible(app) if row] == ["gpu-011"]
        assert "1 of 64 nodes" in app.screen.query_one("#filter").render_line(0).text
        await typed(pilot, *" & (host~gpu", ")")
        assert [row.split()[1] for row in visible(app) if row] == ["gpu-011"]
        await typed(pilot, *" & tmep>3")
        assert "did you mean" in line(app, "keys")
        await typed(pilot, "enter")
        assert app.screen.query("#filter")
        await typed(pilot, "escape")
        assert not app.screen.query("#filter")
        assert app.fleet_screen.chosen.filter == ""
        await typed(pilot, "/", *"st", "tab")
        assert app.fleet_screen.chosen.filter.startswith("state")
        await typed(pilot, "escape", "/", *"gpu-007", "enter", "/", *["backspace"] * 7, "up")
        assert app.fleet_screen.chosen.filter == "gpu-007"


async def test_a_click_stands_on_a_cell_and_two_open_the_node() -> None:
    async with app_on(troubled()).run_test(size=(160, 40)) as pilot:
        app = await ready(pilot)
        column = visible(app)[3].index("1410")
        await pilot.click("#grid", offset=(column, 3))
        await pilot.pause()
        assert line(app, "cursor").startswith(" gpu-011/gpu/4  SM clock 1410 MHz")
        await pilot.click("#grid", offset=(5, 30))
        await pilot.pause(0.6)
        await pilot.click("#grid", offset=(5, 4), times=2)
        await pilot.pause(0.2)
        assert isinstance(app.screen, NodeScreen)


async def test_the_row_under_the_cursor_stays_on_its_line_when_rows_come_above_it() -> None:
    session = StillSession(fleet(100, per_rack=10, name="prod-a"))

    async def open_session() -> StillSession:
        return session

    app = StethoscopeApp(open_session, "test")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await typed(pilot, "f", "f", "s", *["down"] * 50)
        view = app.fleet_screen.view
        before = view.key
        y = visible(app).index(next(row for row in visible(app) if row.split()[1] == before))
        await typed(pilot, "b")
        rows = visible(app)
        assert view.key == before
        assert rows[y].split()[1] == before


async def test_what_was_chosen_is_there_the_next_time(tmp_path: Path) -> None:
    memory = ViewState("prod-a", tmp_path)
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        app.fleet_screen.restore(memory, fresh=True)
        await typed(pilot, "s", "b", "down", "x", "right_square_bracket")
        key = app.fleet_screen.view.key
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = pilot.app  # type: ignore[assignment]
        app.fleet_screen.restore(memory, fresh=False)
        await ready(pilot)
        screen = app.fleet_screen
        assert (screen.chosen.sort, screen.chosen.group) == ("name", "rack")
        assert screen.marked == {"gpu-002"}
        assert screen.view.key == key == "gpu-002"
        assert line(app, "legend").startswith(" GPU busy")
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = pilot.app  # type: ignore[assignment]
        app.fleet_screen.restore(memory, fresh=True)
        await ready(pilot)
        assert app.fleet_screen.chosen.sort == "worst"


async def test_views_are_saved_under_a_name_and_opened(tmp_path: Path) -> None:
    async with app_on(troubled()).run_test(size=(100, 30), notifications=True) as pilot:
        app = await ready(pilot)
        app.fleet_screen.restore(ViewState("prod-a", tmp_path), fresh=True)
        await typed(pilot, "v")
        assert app.screen is app.fleet_screen
        await typed(pilot, "b", "right_square_bracket", "V", *"hot [/x]", "enter")
        await typed(pilot, "b", "left_square_bracket", "v")
        await pilot.pause(0.1)
        assert isinstance(app.screen, FinderScreen)
        assert app.screen.found == [("hot [/x]", "gpu_util, worst first, by rack", "hot [/x]")]
        await typed(pilot, "enter")
        await pilot.pause(0.1)
        assert app.fleet_screen.chosen.group == "rack"
        assert line(app, "legend").startswith(" GPU busy")


async def test_how_close_the_map_is_looked_at_is_kept_and_needs_no_groups(tmp_path: Path) -> None:
    memory = ViewState("prod-a", tmp_path)
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        app.fleet_screen.restore(memory, fresh=True)
        app.fleet_screen.take_view(View(density="blocks", group="rack"))
        await pilot.pause(0.1)
        await typed(pilot, "Z", "Z", "Z")
        assert app.fleet_screen.chosen.zoom == "group"
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = pilot.app  # type: ignore[assignment]
        app.fleet_screen.restore(memory, fresh=False)
        await ready(pilot)
        await pilot.pause(0.1)
        view = app.fleet_screen.view
        assert isinstance(view, BlocksView)
        assert view.zoom is Zoom.GROUP
        app.fleet_screen.chosen.group = "none"
        app.fleet_screen.draw()
        assert view.zoom is Zoom.NODE


async def test_views_can_be_saved_where_nothing_else_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "s", "V", *"mine", "enter")
        assert app.fleet_screen.memory is None
    assert View.from_dict(ViewState("another").named()["mine"]).sort == "name"


def test_a_view_survives_being_kept() -> None:
    view = View("gpu_temp", "blocks", "peers", "value", "job", "none", "temp>85 & host~gpu-0", "node")
    assert View.from_dict(view.to_dict()) == view
    assert View.from_dict({"sort": "evil", "group": 7, "filter": "a\x1b", "metric": None, "new": "x"}) == View()
    assert following(("a", "b"), "b") == "a"
    said = to_keep(view, {"b", "a"}, "gpu-001", ["x"])
    assert read_kept(said) == (view, {"a", "b"}, "gpu-001", ["x"])
    assert read_kept({"view": 3, "selected": "x", "cursor": 7, "filters": {}}) == (View(), set(), None, [])


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_the_mouse_in_a_terminal(size: tuple[int, int]) -> None:
    columns, lines = size
    with console("troubled", columns=columns, lines=lines) as terminal:
        terminal.wait("fell off the bus")
        terminal.settle()
        assert terminal.raw.rfind(b"\x1b[?1002h") > terminal.raw.rfind(b"\x1b[?1003h")
        row = next(y for y, text in enumerate(terminal.screen.display) if " gpu-007 " in text)
        terminal.send(f"\x1b[<0;6;{row + 1}M\x1b[<0;6;{row + 1}m")
        terminal.wait(lambda text: any(part.startswith(" gpu-007  CPU") for part in text.splitlines()[-3:]))
        terminal.send(f"\x1b[<65;6;{row + 1}M" * 3)
        terminal.settle()
        terminal.send("\x1b[<0;6;6M\x1b[<0;6;6m\x1b[<0;6;6M\x1b[<0;6;6m")
        terminal.settle()
        terminal.send("q")
        assert terminal.finish() == 0, terminal.raw[-2000:]
        assert b"\x1b[?1002l" in terminal.raw


async def test_a_notice_hides_neither_findings_nor_what_is_under_the_cursor() -> None:
    async with app_on(troubled(24)).run_test(size=(80, 24), notifications=True) as pilot:
        app = await ready(pilot)
        for key in ("z", "z", "T"):
            await typed(pilot, key)
        await pilot.pause(0.1)
        toasts = [toast for toast in app.screen.query("Toast") if toast.display]
        assert [toast.region for toast in toasts] == [app.screen.query_one("#keys").region]
        app.tell("long " * 30)
        await pilot.pause(0.2)
        (toast,) = app.screen.query("Toast")
        assert (toast.region.y, toast.region.height) == (3, 2)


async def test_a_theme_is_drawn_on_the_map_and_while_the_picture_is_held() -> None:
    async with app_on(troubled(24)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "d", "d", "p")
        app.set_look("ascii")
        await pilot.pause(0.1)
        shown = [app.screen.query_one(BlocksView).render_line(y).text for y in range(10)]
        assert "".join(shown).isascii()
        assert line(app, "legend").isascii()
        app.set_look("light")
        await pilot.pause(0.1)
        view = app.screen.query_one(BlocksView)
        grounds = {segment.style.bgcolor for segment in view.render_line(0) if segment.style is not None}
        assert Color.from_ansi(231) in grounds


async def test_a_theme_is_drawn_on_a_node_that_is_held() -> None:
    async with app_on(troubled(24)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await typed(pilot, "enter")
        await pilot.pause(0.1)
        await typed(pilot, "p")
        app.set_look("ascii")
        await pilot.pause(0.1)
        assert isinstance(app.screen, NodeScreen)
        assert line(app, "top").isascii()
        assert all(row.isascii() for row in visible(app))


async def test_what_is_too_small_says_nothing_else() -> None:
    async with app_on(troubled(24)).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        assert app.screen.query_one("#findings").display
        await typed(pilot, "slash")
        await pilot.resize_terminal(20, 5)
        for _ in range(100):
            seen = [widget.id for widget in app.screen.children if widget.display and widget.region.area]
            if seen == ["small"]:
                break
            await pilot.pause(0.05)
        assert seen == ["small"]


@pytest.mark.parametrize("wrong", ["no_such", "[red]", "\x1b[2J"])
async def test_a_view_with_a_metric_that_is_gone_falls_back(wrong: str, tmp_path: Path) -> None:
    memory = ViewState("test", tmp_path)
    memory.save(
        {"view": {"metric": wrong, "group": "rack", "filter": "temp>>"}, "selected": ["gone"], "cursor": "gone"}
    )
    async with app_on(troubled(24)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        app.fleet_screen.restore(memory, fresh=False)
        await pilot.pause(0.1)
        assert line(app, "legend").startswith(" SM clock")
        app.fleet_screen.take_view(View(metric=wrong))
        await pilot.pause(0.1)
        assert line(app, "legend").startswith(" SM clock")


@pytest.mark.parametrize("density", ["cells", "blocks"])
async def test_a_theme_leaves_no_line_in_the_old_one(density: str) -> None:
    async with app_on(troubled(24)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        app.fleet_screen.take_view(View(density=density))
        await pilot.pause(0.1)
        app.set_look("light")
        await pilot.pause(0.2)
        seen = {
            str(segment.style.bgcolor.number)
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None and segment.style.bgcolor is not None
        }
        assert "233" not in seen
