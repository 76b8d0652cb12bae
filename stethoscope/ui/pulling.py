"""When the screen in front is given a new snapshot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stethoscope.clock import SystemClock
from stethoscope.ui.reading import LogActions

if TYPE_CHECKING:
    from stethoscope.clock import Clock
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.heard import Heard
    from stethoscope.ui.screens.fleet import FleetScreen
    from stethoscope.ui.session import SessionLike

PULL_S = 0.25
"""The screen in front looks for a new snapshot this often."""
MANY_NODES, MOST_NODES = 256, 1024
"""Above so many nodes it looks half as often, above the others as often as the rules do, but each second where a
finding is new or a link has changed: there is more to look at, and each node sends every five seconds."""
_CALM, _BESIDE, _NEWS = 16, 8, 4
"""Of so many looks one is taken then; _BESIDE where another screen than the fleet is in front: a node, or a probe that
runs, says seconds."""
_FIRST_LOOKS = 4
"""So many looks the first picture of many nodes waits for one that has said something: drawing the others would only
keep that one waiting."""

_BREATH_S = 0.004
"""A key that came while a snapshot of a large fleet is made is painted in about so long, between two steps of that."""
_ANSWER_S = 0.02
"""After so long the first nodes have been called and will answer in a moment: time to load what draws them."""


class Pulling(LogActions):
    """An app that pulls snapshots for its screens."""

    fleet_screen: FleetScreen
    clock: Clock = SystemClock()
    away = False
    """Another program has the terminal: nothing is drawn."""
    _heard: Heard | None = None
    _looks = 0
    _every = 1
    """Of so many looks one is taken."""
    _is_news = False
    """Something happened since the last pull that should not wait long."""
    _first: asyncio.Task[None] | None = None

    def pull_first(self, session: SessionLike) -> None:
        """Draw the first node's data as soon as there is any, and what happens later without a long wait."""
        subscribe = getattr(session, "subscribe", None)
        if subscribe is not None:
            subscribe(self._note_news)
        # A recording has its data from the beginning.
        heard: asyncio.Event | None = getattr(session, "heard", None)
        if heard is not None:
            self._looks = 0
            self._first = asyncio.create_task(self._pull_when(heard))

    def _note_news(self, _: object) -> None:
        self._is_news = True

    async def _pull_when(self, heard: asyncio.Event) -> None:
        await asyncio.sleep(_ANSWER_S)
        _load()
        await heard.wait()
        self.call_later(self.pull)

    def stop_pulling(self) -> None:
        """Wait for no first node any more."""
        if self._first is not None:
            self._first.cancel()

    async def _pull_due(self) -> None:
        """Pull as often as the size of the fleet asks for; keys do not wait for what takes longest of it."""
        self._looks += 1
        is_fleet = self._is_fleet_in_front()
        every = min(self._every, _NEWS if self._is_news else _CALM if is_fleet else _BESIDE)
        if self._looks % every or self._is_first_near():
            if not self._looks % _NEWS:
                self._tick()
            return
        snapshot = None
        if self.session is not None and is_fleet:
            if self._every > _BESIDE:
                for _ in getattr(self.session, "prepare", tuple)():
                    await asyncio.sleep(_BREATH_S)
            snapshot = self.session.snapshot()
            await self.fleet_screen.prepare(snapshot, self.clock.monotonic())
        self.pull(snapshot)

    def _tick(self) -> None:
        """Let the clock go on between two pulls."""
        if self.session is not None and self._is_fleet_in_front():
            self.fleet_screen.show_clock(self.clock.wall())

    def _is_fleet_in_front(self) -> bool:
        return bool(self.screen_stack) and self.screen is self.fleet_screen and not self.away

    def _is_first_near(self) -> bool:
        if self.session is None or self._first is None or self._first.done() or self._looks > _FIRST_LOOKS:
            return False
        return len(self.session.snapshot().nodes) > MANY_NODES

    def pull(self, snapshot: FleetSnapshot | None = None) -> None:
        """Give the newest snapshot, or this one, to the screen in front."""
        if not self.is_running or not self.screen_stack or self.away:
            return
        screen = self.screen
        if self.session is None:
            if screen is self.fleet_screen:
                self.fleet_screen.draw_frame()
            return
        show = getattr(screen, "show_snapshot", None)
        if show is None:
            return
        for notice in self.session.take_notices():
            self.tell(notice, seconds=15)
        snapshot = snapshot or self.session.snapshot()
        many = len(snapshot.nodes)
        self._every = 1 if many <= MANY_NODES else 2 if many <= MOST_NODES else _CALM
        self._is_news = False
        show(snapshot, self.clock.monotonic(), self.clock.wall())
        if self._heard is not None and not self.away:
            self._heard.show(snapshot)


def _load() -> None:
    import stethoscope.ui.present.grid
    import stethoscope.ui.present.layout
    import stethoscope.ui.present.legend
    import stethoscope.ui.present.node.trend  # noqa: F401
