"""The heat over time and the modes of the fleet screen, driven by keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.model.metric import Scope
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.look import Look
from stethoscope.ui.present.heat_time import MORE
from stethoscope.ui.screens.finder import FinderScreen
from stethoscope.ui.screens.heat import HeatScreen
from stethoscope.ui.screens.node import NodeScreen
from tests.ui.consoles import StillSession
from tests.ui.scenes import hostile, troubled
from tests.ui.test_console import line, ready, visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot

    from stethoscope.model.fleet import FleetSnapshot

SAMPLES = 91


def remembering(snapshot: FleetSnapshot) -> StillSession:
    """Return a session with 15 minutes of history: gpu-011/gpu/4 slows down, gpu-009 falls silent, gpu-005 is away."""
    session = StillSession(snapshot)
    table = snapshot.tables[Scope.GPU]
    clock = table.index["gpu_sm_clock"]
    for number in range(SAMPLES):
        values = table.values.copy()
        if "gpu-011" in snapshot.by_name:
            slow, hung, away = (snapshot.node(name).gpu_first for name in ("gpu-011", "gpu-009", "gpu-005"))
            values[clock, slow + 4] = max(1410.0, 1980.0 - 40 * max(0, number - 36))
            if number < 80:
                values[clock, hung : hung + 8] = 1980
            if 20 <= number < 40:
                values[:, away : away + 8] = float("nan")
        before_s = 10.0 * (SAMPLES - 1 - number)
        tables = dict(snapshot.tables) | {Scope.GPU: replace(table, values=values)}
        past = replace(snapshot, tables=tables, mono=snapshot.mono - before_s, wall=snapshot.wall - before_s)
        assert session.history.take(past)
    return session


def app_on(snapshot: FleetSnapshot, *, ascii_only: bool = False) -> StethoscopeApp:
    session = remembering(snapshot)

    async def open_session() -> StillSession:
        return session

    return StethoscopeApp(open_session, "test", Look(ascii_only=ascii_only))


def text_of(app: StethoscopeApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def opened(pilot: Pilot[None]) -> StethoscopeApp:
    app = await ready(pilot)
    await pilot.press("H")
    await pilot.pause(0.1)
    app.pull()
    await pilot.pause()
    assert isinstance(app.screen, HeatScreen)
    return app


async def test_time_goes_from_left_to_right_and_the_cursor_says_what_a_cell_is() -> None:
    async with app_on(troubled(24)).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        assert line(app, "top").startswith(" prod-a  heat over time  15 min, 15 s a column")
        rows = visible(app)
        assert rows[1] == " ✖ gpu-009  " + "█" * 54 + "?" * 7
        assert rows[2] == " – gpu-014  " + "?" * 61
        assert rows[3] == " ▲ gpu-011  " + "█" * 28 + "▓▓▓" + "▒" * 30
        assert line(app, "cursor").startswith(" gpu-002  02:13:57 UTC · SM clock 1980 MHz, gpu/0 · median of all 1980")
        await pilot.press("down", "down", "down")
        assert line(app, "cursor").startswith(" gpu-011  02:13:57 UTC · SM clock 1410 MHz, gpu/4 ")
        await pilot.press(*["left"] * 32)
        assert line(app, "cursor").startswith(" gpu-011  02:05:57 UTC, 8 m ago · SM clock 1740 MHz, gpu/4 ")
        await pilot.press(*["h"] * 60, "k")
        assert line(app, "cursor").startswith(" gpu-014  01:58:57 UTC, 15 m ago · no value ")
        await pilot.press(*["l"] * 70, "pageup", "pageup")
        assert line(app, "cursor").startswith(" gpu-002  02:13:57 UTC · ")
        await pilot.press("enter")
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, HeatScreen)
        await pilot.press("escape")
        assert app.screen is app.fleet_screen


async def test_the_cursor_stays_on_its_moment_while_time_goes_on() -> None:
    async with app_on(troubled(24)).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        await pilot.press("down", "left", "left")
        before = line(app, "cursor")[:23]
        assert before == " gpu-009  02:13:27 UTC,"
        session = app.session
        assert isinstance(session, StillSession)
        for _ in range(6):
            session.now = replace(session.now, mono=session.now.mono + 10, wall=session.now.wall + 10)
            session.clock.advance(10)
            assert session.history.take(session.now)
            app.pull()
            await pilot.pause()
        assert line(app, "cursor")[:23] == before
        await pilot.press("home")
        assert line(app, "cursor").startswith(" gpu-002  02:14:57 UTC · ")


async def test_those_that_are_alike_are_asked_for() -> None:
    async with app_on(troubled(64)).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        await pilot.press("G")
        assert visible(app)[-1].startswith(" · 49 more  ███")
        assert line(app, "cursor").startswith(" 49 nodes  02:13:57 UTC · median 1980 MHz · alike: gpu-[")
        assert isinstance(app.screen, HeatScreen)
        assert app.screen._key == MORE
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, FinderScreen)
        assert len(app.screen.found) == 49


async def test_another_metric_is_chosen_here_and_holds_on_the_fleet() -> None:
    async with app_on(troubled(24)).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        before = line(app, "legend")
        await pilot.press("right_square_bracket")
        assert line(app, "legend") != before
        await pilot.press("left_square_bracket")
        assert line(app, "legend") == before
        await pilot.press("m", *"GPU temp")
        await pilot.press("enter")
        await pilot.pause(0.1)
        app.pull()
        await pilot.pause()
        assert line(app, "legend").startswith(" GPU temperature °C ")
        await pilot.press("escape")
        app.pull()
        await pilot.pause()
        assert line(app, "legend").startswith(" GPU temperature °C ")


@pytest.mark.parametrize("size", [(40, 10), (60, 15), (80, 24), (200, 60)])
async def test_it_fits_the_terminal_and_in_ascii(size: tuple[int, int]) -> None:
    async with app_on(troubled(24), ascii_only=True).run_test(size=size) as pilot:
        app = await opened(pilot)
        for key in ("down", "left", "pagedown", "G", "home", "up"):
            await pilot.press(key)
        rows = text_of(app).splitlines()
        assert len(rows) == size[1]
        assert all(row.isascii() and len(row) <= size[0] for row in rows)


async def test_without_a_history_or_a_node_it_says_so() -> None:
    session = StillSession(troubled(24))

    async def open_session() -> StillSession:
        return session

    async with StethoscopeApp(open_session, "test", Look()).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        assert line(app, "cursor") == " nothing is remembered yet: the first column comes with the first sample"
        await pilot.press("left", "enter", "escape", "enter")


async def test_evil_names_end_at_the_screen() -> None:
    async with app_on(hostile()).run_test(size=(120, 30)) as pilot:
        app = await opened(pilot)
        await pilot.press("down", "down")
        assert not any(
            ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in text_of(app).replace("\n", "")
        )


async def test_c_goes_through_the_ways_to_compare() -> None:
    async with app_on(troubled(24)).run_test(size=(160, 40), notifications=True) as pilot:
        app = await ready(pilot)
        await pilot.press("c")
        assert line(app, "legend").startswith(" SM clock, deviation from peers   −30 % ↓↓·↑↑ +30 % ")
        assert "0    0    0    0 ▲−29    0" in text_of(app)
        await pilot.press("M", "c")
        assert line(app, "legend").startswith(" SM clock, change since the mark 02:14:07   −")
        await pilot.press("U")
        app.pull()
        await pilot.pause()
        assert line(app, "legend").startswith(" SM clock  no mark is set: M sets one ")
        await pilot.press("c")
        assert line(app, "legend").startswith(" SM clock MHz ")


async def test_rows_have_a_trend_where_there_is_room() -> None:
    async with app_on(troubled(24)).run_test(size=(200, 60)) as pilot:
        app = await ready(pilot)
        assert "15 min            what" in line(app, "headline")
        assert "██████▆▃▃▃▃▃▃▃▃" in next(row for row in visible(app) if "gpu-011" in row)


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    async def before(pilot: Pilot[None]) -> None:
        app = await ready(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.1)
        app.pull()
        await pilot.pause()

    return before


@pytest.mark.parametrize(
    ("size", "keys", "ascii_only"),
    [
        pytest.param((80, 24), ("H", *["down"] * 3, *["left"] * 20), False, id="heat-narrow"),
        pytest.param((200, 60), ("H", "down"), False, id="heat-wide"),
        pytest.param((100, 30), ("H", *["down"] * 3), True, id="heat-ascii"),
        pytest.param((200, 60), ("c",), False, id="peers-wide"),
        pytest.param((80, 24), ("c",), False, id="peers-narrow"),
    ],
)
def test_it_looks_as_it_did(snap_compare: Any, size: tuple[int, int], keys: tuple[str, ...], ascii_only: bool) -> None:
    app = app_on(troubled(), ascii_only=ascii_only)
    assert snap_compare(app, terminal_size=size, run_before=pressing(*keys))
