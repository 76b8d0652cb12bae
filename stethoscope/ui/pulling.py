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
"""Above so many nodes it looks half as often, above the others a quarter as often: there is more to look at, and each
node sends more rarely."""
_FIRST_LOOKS = 4
"""So many looks the first picture of many nodes waits for one that has said something: drawing the others would only
keep that one waiting."""

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
    _first: asyncio.Task[None] | None = None

    def pull_first(self, session: SessionLike) -> None:
        """Draw the first node's data as soon as there is any."""
        # A recording has its data from the beginning.
        heard: asyncio.Event | None = getattr(session, "heard", None)
        if heard is not None:
            self._looks = 0
            self._first = asyncio.create_task(self._pull_when(heard))

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
        if self._looks % self._every or self._is_first_near():
            return
        snapshot = None
        if self.session is not None and self.screen_stack and self.screen is self.fleet_screen and not self.away:
            snapshot = self.session.snapshot()
            await self.fleet_screen.prepare(snapshot, self.clock.monotonic())
        self.pull(snapshot)

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
        self._every = 1 + (len(snapshot.nodes) > MANY_NODES) + 2 * (len(snapshot.nodes) > MOST_NODES)
        show(snapshot, self.clock.monotonic(), self.clock.wall())
        if self._heard is not None and not self.away:
            self._heard.show(snapshot)


def _load() -> None:
    import stethoscope.ui.present.grid
    import stethoscope.ui.present.layout
    import stethoscope.ui.present.legend
    import stethoscope.ui.present.node.trend  # noqa: F401
