"""The drift screen driven by keys, and the keys of the mark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.model.fleet import PartAge
from stethoscope.model.frame import LinkState
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.look import Look
from stethoscope.ui.screens import drift
from stethoscope.ui.screens.drift import DriftScreen
from stethoscope.ui.screens.finder import FinderScreen
from stethoscope.ui.screens.node import NodeScreen
from tests.builders import MONO, fleet
from tests.ui.consoles import StillSession
from tests.ui.scenes import EVIL
from tests.ui.test_console import line, ready, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.fleet import FleetSnapshot

USUAL = {"driver_version": "550.54.15", "kernel": "5.15.0-1049-nvidia", "cpu_governor": "performance", "product": "X"}


def drifted(nodes: int = 24, **others: Mapping[str, str]) -> FleetSnapshot:
    """Return a fleet whose nodes tell USUAL, but for `others`: gpu_003={...}."""
    snapshot = fleet(nodes, links={"gpu-011": LinkState.REFUSED}, waiting=["gpu-011"], name="prod-a")
    parts = {group: PartAge(MONO, 300.0) for group in ("identity", "tuning", "gpu")}
    told = [
        replace(node, words={**USUAL, **others.get(node.name.replace("-", "_"), {})}, parts=parts)
        if node.frames
        else node
        for node in snapshot.nodes
    ]
    return replace(snapshot, nodes=tuple(told))


OLD = {"driver_version": "535.161.08"}
POWER = {"cpu_governor": "powersave"}


def app_on(snapshot: FleetSnapshot, look: Look | None = None) -> StethoscopeApp:
    session = StillSession(snapshot)

    async def open_session() -> StillSession:
        return session

    return StethoscopeApp(open_session, "test", look or Look())


async def test_who_differs_is_shown_first_and_enter_goes_there() -> None:
    async with app_on(drifted(gpu_003=OLD, gpu_007=OLD, gpu_005=POWER)).run_test(size=(80, 40)) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        await pilot.pause(0.1)
        assert isinstance(app.screen, DriftScreen)
        assert line(app, "top").startswith(" prod-a  drift  23 of 24 nodes told · 2 differ")
        assert visible(app)[:4] == [
            "• driver                 550.54.15           most: 21 nodes",
            "                         535.161.08          gpu-[003,007]",
            "• CPU governor           performance         most: 22 nodes",
            "                         powersave           gpu-005",
        ]
        assert "? untold                 refused             gpu-011" in visible(app)
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, FinderScreen), "the first line of an item leads to those who differ in it"
        assert [name for _, _, name in app.screen.found] == ["gpu-003", "gpu-007"]
        await pilot.press("escape")
        await pilot.press("down", "down", "down", "enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("escape")
        await pilot.press("up", "up", "enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, FinderScreen)
        assert [name for _, _, name in app.screen.found] == ["gpu-003", "gpu-007"]
        await pilot.press("down", "enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("escape", "escape")
        assert app.screen is app.fleet_screen


async def test_a_large_fleet_is_compared_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "MANY_NODES", 8)
    async with app_on(drifted(gpu_003=OLD)).run_test(size=(80, 40)) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        assert isinstance(app.screen, DriftScreen)
        for _ in range(3000):
            app.pull()
            await pilot.pause(0.01)
            if visible(app)[:1] != [""] and visible(app):
                break
        assert visible(app)[:2] == [
            "• driver                 550.54.15           most: 22 nodes",
            "                         535.161.08          gpu-003",
        ]


async def test_the_cursor_stays_on_its_line_when_others_come() -> None:
    async with app_on(drifted(gpu_005=POWER)).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        await pilot.pause(0.1)
        await pilot.press("down")
        assert isinstance(app.session, StillSession)
        app.session.now = drifted(gpu_005=POWER, gpu_003=OLD)
        app.session.clock.advance(5)
        app.pull()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, NodeScreen)
        assert "gpu-005" in line(app, "top")


async def test_the_cursor_moves_and_the_lines_only_where_they_must() -> None:
    async with app_on(drifted(gpu_003=OLD, gpu_005=POWER)).run_test(size=(80, 16)) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        await pilot.pause(0.1)
        top = visible(app)
        await pilot.press("down", "down")
        assert visible(app) == top
        await pilot.press("pagedown")
        assert visible(app) != top
        assert "of" in line(app, "rule-bottom")
        await pilot.press("pageup", "pageup", "k")
        assert visible(app) == top


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 12)])
async def test_it_fits_the_terminal(size: tuple[int, int]) -> None:
    words = {"driver_version": "x" * 300, "cmdline": " ".join(f"option{number}=1" for number in range(99))}
    async with app_on(drifted(gpu_003=words, gpu_004=words)).run_test(size=size) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        await pilot.pause(0.1)
        for key in ("pagedown", "pagedown", "pageup", "down", "up", "G"):
            await pilot.press(key)
        assert isinstance(app.screen, DriftScreen)
        assert all(len(row) <= size[0] for row in (*visible(app), line(app, "top")))


async def test_ascii_draws_nothing_else() -> None:
    async with app_on(drifted(gpu_003=OLD), Look(ascii_only=True)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        await pilot.pause(0.1)
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert text.isascii()
        assert "o driver" in text


async def test_evil_words_end_at_the_screen() -> None:
    words = {f"gpu_{number + 1:03}": {"driver_version": text} for number, text in enumerate(EVIL)}
    async with app_on(drifted(len(EVIL) + 12, **words)).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await pilot.press("D")
        await pilot.pause(0.1)
        text = "".join(strip.text for strip in app.screen._compositor.render_strips())
        assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in text)


async def test_the_mark_is_set_and_forgotten_by_keys_on_every_screen() -> None:
    async with app_on(drifted()).run_test(size=(100, 30), notifications=True) as pilot:
        app = await ready(pilot)
        assert isinstance(app.session, StillSession)
        for keys in ((), ("enter",), ("escape", "D")):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            await pilot.press("M")
            assert app.session.mark is not None
            await pilot.press("U")
            assert app.session.mark is None
