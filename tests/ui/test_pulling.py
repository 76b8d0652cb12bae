"""How often the screen in front is given a new snapshot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.pulling import Pulling
from tests.builders import fleet
from tests.ui.consoles import StillSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from stethoscope.model.fleet import FleetSnapshot


class Console:
    session = None
    _looks = 0
    _is_news = False

    def __init__(self, every: int, *, is_fleet: bool = True) -> None:
        self._every = every
        self._is_fleet = is_fleet
        self.said: list[str] = []

    def _is_first_near(self) -> bool:
        return False

    def _is_fleet_in_front(self) -> bool:
        return self._is_fleet

    def _tick(self) -> None:
        self.said.append("clock")

    def pull(self, _: FleetSnapshot | None = None) -> None:
        self._is_news = False
        self.said.append("pull")

    async def looks(self, count: int) -> list[str]:
        self.said.clear()
        for _ in range(count):
            await Pulling._pull_due(cast("Pulling", self))
        return self.said


async def test_a_large_fleet_is_pulled_every_four_seconds_and_its_clock_goes_on() -> None:
    assert await Console(16).looks(32) == [*["clock"] * 3, "pull"] * 2


async def test_what_stands_before_a_large_fleet_is_pulled_every_two_seconds() -> None:
    assert await Console(16, is_fleet=False).looks(16) == ["clock", "pull"] * 2
    assert await Console(2, is_fleet=False).looks(4) == ["pull"] * 2


async def test_news_of_a_large_fleet_wait_a_second_at_most() -> None:
    console = Console(16)
    await console.looks(3)
    Pulling._note_news(cast("Pulling", console), None)
    assert await console.looks(1) == ["pull"]
    assert await console.looks(12) == ["clock", "clock", "pull"]


async def test_a_key_comes_between_the_steps_of_a_snapshot_of_a_large_fleet() -> None:
    said: list[str] = []

    class Session(StillSession):
        def prepare(self) -> Iterator[None]:
            for step in ("read", "fold", "picture"):
                said.append(step)
                asyncio.get_running_loop().call_soon(said.append, "key")
                yield

        def snapshot(self) -> FleetSnapshot:
            said.append("snapshot")
            return self.now

    class Fleet:
        async def prepare(self, *_: object) -> None:
            said.append("levels")

    console = Console(16)
    console.session = Session(fleet(3))  # type: ignore[assignment]
    console.fleet_screen = Fleet()  # type: ignore[attr-defined]
    console.clock = console.session.clock  # type: ignore[attr-defined]
    await console.looks(16)
    assert said == ["read", "key", "fold", "key", "picture", "key", "snapshot", "levels"]
    said.clear()
    console._every = 2
    await console.looks(2)
    assert said == ["snapshot", "levels"]


async def test_a_small_fleet_is_pulled_at_each_look() -> None:
    assert await Console(1).looks(3) == ["pull"] * 3


async def test_who_comes_back_to_the_fleet_sees_what_is_so_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.ui.app.PULL_S", 3600.0)
    session = StillSession(fleet(3))

    async def open_session() -> StillSession:
        return session

    app = StethoscopeApp(open_session, "test")
    async with app.run_test(size=(80, 24)) as pilot:
        while app.session is None:
            await pilot.pause(0.01)
        app.pull()
        await pilot.press("question_mark")
        await pilot.pause()
        assert app.screen is not app.fleet_screen
        session.now = fleet(5)
        await pilot.press("escape")
        while app.screen is not app.fleet_screen:
            await pilot.pause(0.01)
        await pilot.pause()
        assert app.fleet_screen.grid is not None
        assert len(app.fleet_screen.grid.snapshot.nodes) == 5


async def test_the_first_data_is_drawn_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.ui.app.PULL_S", 3600.0)
    session, opened = StillSession(fleet(3)), asyncio.Event()
    session.heard = asyncio.Event()  # type: ignore[attr-defined]

    async def open_session() -> StillSession:
        opened.set()
        return session

    app = StethoscopeApp(open_session, "test")
    async with app.run_test(size=(80, 24)) as pilot:
        await opened.wait()
        await pilot.pause(0.1)
        assert app.fleet_screen.grid is None
        session.heard.set()  # type: ignore[attr-defined]
        while app.fleet_screen.grid is None:
            await pilot.pause(0.01)
        assert app.fleet_screen.grid.lines
