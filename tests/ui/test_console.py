"""The console driven by keys: what the screens then show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError, InternalError, UsageError
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.keys import DRILL, KEYS, footer_of, keys_of, shown
from stethoscope.ui.keys_page import markdown
from stethoscope.ui.look import Look
from stethoscope.ui.present.spans import UNICODE, plain, width
from stethoscope.ui.screens.finder import FinderScreen, everything, matching
from stethoscope.ui.screens.help import HelpScreen, help_rows
from stethoscope.ui.screens.node import NodeScreen
from stethoscope.ui.widgets.rows import Lines, RowsView
from tests.builders import fleet
from tests.ui.consoles import StillSession
from tests.ui.scenes import healthy, troubled
from tests.ui.terminal import ROOT

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from stethoscope.model.fleet import FleetSnapshot


def app_on(snapshot: FleetSnapshot, look: Look | None = None) -> StethoscopeApp:
    session = StillSession(snapshot)

    async def open_session() -> StillSession:
        return session

    return StethoscopeApp(open_session, "test", look or Look())


async def ready(pilot: Pilot[None]) -> StethoscopeApp:
    app = pilot.app
    assert isinstance(app, StethoscopeApp)
    for _ in range(3000):
        if app.fleet_screen.grid is not None:
            break
        await pilot.pause(0.01)
    app.pull()
    await pilot.pause()
    return app


def line(app: StethoscopeApp, name: str) -> str:
    return "\n".join(plain(row) for row in app.screen.query_one(f"#{name}", Lines).rows)


def visible(app: StethoscopeApp) -> list[str]:
    view = app.screen.query_one(RowsView)
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def test_the_fleet_is_shown_worst_first() -> None:
    async with app_on(troubled()).run_test(size=(80, 24), notifications=True, tooltips=True) as pilot:
        app = await ready(pilot)
        assert visible(app)[0] == "✖ gpu-002   ██–█████ ········ gpu/2 fell off the bus (Xid 79)"
        assert "64n 512g · 61 live" in line(app, "top")
        assert line(app, "keys").split() == [
            "enter",
            "node",
            "m",
            "metric",
            "/",
            "filter",
            "t",
            "triage",
            "?",
            "keys",
        ]


async def test_the_cursor_explains_cells_and_stops_at_the_edges() -> None:
    async with app_on(troubled()).run_test(size=(200, 60)) as pilot:
        app = await ready(pilot)
        await pilot.press("down", "down", "down", "right", "right", "right", "right", "right")
        assert line(app, "cursor").startswith(" gpu-011/gpu/4  SM clock 1410 MHz · peers 1980 MHz")
        await pilot.press(*["right"] * 40)
        assert line(app, "cursor").startswith(" gpu-011/ib/mlx5_7")
        await pilot.press("g")
        assert line(app, "cursor").startswith(" gpu-002")
        await pilot.press("G")
        assert "healthy nodes, folded: gpu-[0" in line(app, "cursor")


async def test_enter_opens_the_node_and_escape_goes_back() -> None:
    async with app_on(troubled()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await pilot.press("down", "down", "down", "down", "enter")
        await pilot.pause(0.1)
        app.pull()
        await pilot.pause()
        assert isinstance(app.screen, NodeScreen)
        assert line(app, "top").startswith(" ▲ gpu-007  live")
        assert any("sick link" in row for row in visible(app))
        top = visible(app)
        await pilot.press("pagedown")
        assert visible(app) != top
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert app.screen is app.fleet_screen


async def test_enter_unfolds_the_folded_line() -> None:
    async with app_on(healthy(64)).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        assert visible(app)[-1].endswith("like their peers")
        await pilot.press("G", "enter")
        assert app.fleet_screen.view.line_count() == 64


async def test_metrics_are_chosen_by_key_and_by_name() -> None:
    async with app_on(troubled()).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await pilot.press("]")
        assert line(app, "legend").startswith(" GPU busy %")
        await pilot.press("[")
        assert line(app, "legend").startswith(" SM clock MHz")
        await pilot.press("m")
        await pilot.pause(0.1)
        assert isinstance(app.screen, FinderScreen)
        await pilot.press(*"symbol", "enter")
        await pilot.pause(0.1)
        assert line(app, "legend").startswith(" Symbol errors /s")
        assert any("▲41" in row for row in visible(app))


async def test_the_filter_takes_letters_and_escape_clears_it() -> None:
    async with app_on(troubled()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await pilot.press("/", *"*07", "enter")
        await pilot.pause()
        assert [row.split()[1] for row in visible(app) if row] == ["gpu-007"]
        assert "/*07" in line(app, "legend")
        await pilot.press("escape")
        assert app.fleet_screen.view.line_count() > 1
        await pilot.press("/", *"nothing", "enter")
        assert "no node fits the filter" in line(app, "cursor")


async def test_a_paused_view_stands_still() -> None:
    session = StillSession(healthy(20))

    async def open_session() -> StillSession:
        return session

    async with StethoscopeApp(open_session, "test").run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await pilot.press("p")
        assert "PAUSED" in line(app, "top")
        before = visible(app)
        session.now = troubled(20)
        app.pull()
        await pilot.pause()
        assert visible(app) == before
        await pilot.press("p")
        app.pull()
        await pilot.pause()
        assert "PAUSED" not in line(app, "top")
        assert visible(app) != before


async def test_orders_and_folds_cycle() -> None:
    async with app_on(healthy(64)).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await pilot.press("f")
        assert app.fleet_screen.view.line_count() == 1
        await pilot.press("f")
        assert app.fleet_screen.view.line_count() == 64
        await pilot.press("s", "s")
        assert "lowest first" in line(app, "legend")


async def test_help_shows_every_key_and_sign() -> None:
    async with app_on(healthy(4)).run_test(size=(140, 240)) as pilot:
        app = await ready(pilot)
        await pilot.press("?")
        await pilot.pause(0.1)
        assert isinstance(app.screen, HelpScreen)
        text = "\n".join(visible(app))
        for key in KEYS:
            is_elsewhere = key.replay or DRILL in key.where
            assert shown(key.keys[0]) in text or is_elsewhere
            assert (key.help in text) is not is_elsewhere
        for word in ("warning", "critical", "missing", "stale", "hung", "lost", "planned"):
            assert word in text


async def test_the_palette_finds_nodes_metrics_and_actions() -> None:
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        choices, _ = everything(app)
        titles = [title for title, _, _ in choices]
        here = [key for key in KEYS if "fleet" in key.where or "everywhere" in key.where]
        assert {key.title for key in here if key.palette and not key.replay} - set(titles) == set()
        assert "node: gpu-007" in titles
        assert "metric: GPU temperature" in titles
        await pilot.press("ctrl+p")
        await pilot.pause(0.1)
        await pilot.press(*"node 007", "enter")
        await pilot.pause(0.2)
        assert isinstance(app.screen, NodeScreen)


async def test_the_palette_runs_actions_on_the_screen_below() -> None:
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause(0.1)
        await pilot.press(*"view: pause", "enter")
        await pilot.pause(0.2)
        assert app.fleet_screen.paused


def test_finding_prefers_beginnings_of_words() -> None:
    choices = [("metric: Xid errors", "", "a"), ("node: id-1", "", "b"), ("node: x", "an id", "c")]
    assert [choice[2] for choice in matching(choices, "id")] == ["b", "a", "c"]
    assert matching(choices, "zzz") == []
    assert matching(choices, "") == choices


@pytest.mark.parametrize("error", [DataError("no such fleet", where="fleet.yaml:3:1"), UsageError("which nodes?")])
async def test_a_session_that_cannot_be_opened_ends_the_console_with_its_code(error: DataError | UsageError) -> None:
    async def open_session() -> StillSession:
        raise error

    app = StethoscopeApp(open_session, "test")
    async with app.run_test() as pilot:
        for _ in range(3000):
            if app.failure is not None:
                break
            await pilot.pause(0.01)
    assert app.failure is error
    assert app.return_code == error.exit_code


async def test_a_session_that_dies_is_an_internal_error_in_one_line() -> None:
    class Dying(StillSession):
        async def run(self) -> None:
            raise KeyError("secret\x1b[31m")

    async def open_session() -> StillSession:
        return Dying(healthy(2))

    app = StethoscopeApp(open_session, "test")
    async with app.run_test() as pilot:
        for _ in range(3000):
            if app.failure is not None:
                break
            await pilot.pause(0.01)
    assert isinstance(app.failure, InternalError)
    assert "\x1b" not in str(app.failure)
    assert app.return_code == 70


async def test_an_unknown_metric_is_a_usage_error_with_the_nearest_name() -> None:
    app = app_on(healthy(2), Look(metric="gpu_smclock"))
    async with app.run_test() as pilot:
        for _ in range(3000):
            if app.failure is not None:
                break
            await pilot.pause(0.01)
    assert str(app.failure) == '--metric: no metric is called "gpu_smclock"; did you mean "gpu_sm_clock"?'


async def test_a_small_terminal_says_so() -> None:
    async with app_on(healthy(2)).run_test(size=(30, 8)) as pilot:
        app = await ready(pilot)
        assert "30x8 is too small" in line(app, "small")
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.2)
        app.pull()
        await pilot.pause()
        assert "gpu-001" in "\n".join(visible(app))


async def test_a_machine_without_gpus_shows_its_cpu() -> None:
    async with app_on(fleet(1, gpus=0, ports=0)).run_test(size=(100, 24)) as pilot:
        app = await ready(pilot)
        assert line(app, "legend").startswith(" CPU busy %")
        assert "1 node · 1 live" in line(app, "top")


async def test_ascii_draws_nothing_else() -> None:
    async with app_on(troubled(), Look(ascii_only=True)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        for keys in ((), ("?",), ("escape", "enter"), ("escape", "m"), ("escape", "ctrl+p")):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            app.pull()
            await pilot.pause()
            text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert text.isascii(), [row for row in text.splitlines() if not row.isascii()]


def test_keys_have_one_meaning_on_each_screen() -> None:
    screens = (
        "fleet",
        "node",
        "drift",
        "heat",
        "logs",
        "explained",
        "preview",
        "result",
        "findings",
        "finding",
        "rule",
    )
    for screen in screens:
        names = [name for key in keys_of(screen) for name in key.keys if key.action]
        assert len(names) == len(set(names))
        assert len(footer_of(screen)) <= 6
        assert not {"ctrl+i", "ctrl+m", "ctrl+h", "ctrl+j", "ctrl+b", "ctrl+a"} & set(names)


@pytest.mark.parametrize("cells", [60, 80, 200])
def test_help_fits(cells: int) -> None:
    assert all(width(plain(row)) <= cells for row in help_rows(UNICODE, cells))


def test_the_documentation_of_keys_is_current() -> None:
    assert (ROOT / "docs" / "keys.md").read_text() == markdown(), "python -m stethoscope.ui.keys_page > docs/keys.md"


async def test_help_begins_with_the_keys_of_the_screen_that_was_in_front() -> None:
    async with app_on(troubled()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        for keys, first in (((), "on the fleet"), (("D",), "in the drift table"), (("L",), "on the logs")):
            await pilot.press(*keys, "?")
            await pilot.pause(0.1)
            assert visible(app)[2].strip() == first
            await pilot.press("escape", *(["escape"] if keys else []))
            await pilot.pause(0.1)
