"""How often the screen in front is given a new snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stethoscope.ui.pulling import Pulling

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot


class Console:
    session = None
    screen_stack: tuple[object, ...] = ()
    _looks = 0
    _is_news = False

    def __init__(self, every: int) -> None:
        self._every = every
        self.said: list[str] = []

    def _is_first_near(self) -> bool:
        return False

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


async def test_a_large_fleet_is_pulled_every_two_seconds_and_its_clock_goes_on() -> None:
    assert await Console(8).looks(16) == ["clock", "pull", "clock", "pull"]


async def test_news_of_a_large_fleet_wait_a_second_at_most() -> None:
    console = Console(8)
    await console.looks(3)
    Pulling._note_news(cast("Pulling", console), None)
    assert await console.looks(1) == ["pull"]
    assert await console.looks(4) == ["pull"]


async def test_a_small_fleet_is_pulled_at_each_look() -> None:
    assert await Console(1).looks(3) == ["pull"] * 3
