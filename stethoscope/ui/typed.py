"""Keys that are typed faster than screens come: each has its effect before the next one is given to anybody.

Without this, all keys of one burst go to the screen that was in front when they arrived: behind a key that opens a
list, what is typed to find something in it would be lost, and `enter` would take whatever stands first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from textual.app import ScreenStackError

from stethoscope.ui.screens.at_once import AtOnceScreen, TypedIntoScreen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual import events
    from textual.app import App
    from textual.message_pump import MessagePump

_ROUNDS = 3
"""A key goes from the widget over the screen to the console, and what that posts may go the same way once more."""
_PASS_S, _FOCUS_S, _LOOK_S = 0.3, 1.0, 0.01
_MOST = 1000
"""Keys that wait at the most; a terminal into which a file is pasted has more than anybody typed."""


class Typed:
    """Gives keys on, one after the other."""

    def __init__(self, app: App[None], give: Callable[[events.Key], Awaitable[None]]) -> None:
        """Give every key by `give`, and wait for its effect on the screens of `app`."""
        self._app = app
        self._give = give
        self._waiting: deque[events.Key] = deque()
        self._settling: asyncio.Task[None] | None = None
        self._coming = 0
        """Keys that are on their way to `take`."""

    def take_at_once(self, key: events.Key) -> bool:
        """Let `key` have its effect before it begins its way through the queues; False when it has to go there, for
        what it does or because of those before it."""
        screen = self._app.screen if self._app.screen_stack else None
        if self._settling is None and not self._coming and isinstance(screen, AtOnceScreen | TypedIntoScreen):
            with self._app._context(), screen._context():
                if screen.take_typed(key) if isinstance(screen, TypedIntoScreen) else screen.take_at_once(key.key):
                    return True
        self._coming += 1
        return False

    async def take(self, key: events.Key) -> None:
        """Give `key` at once, or after those that wait."""
        self._coming = max(0, self._coming - 1)
        if self._settling is None:
            self._settling = asyncio.current_task()
            await self._give(key)
            self._settling = asyncio.create_task(self._give_rest())
        elif len(self._waiting) < _MOST:
            self._waiting.append(key)

    async def _give_rest(self) -> None:
        try:
            # Without a screen the console is ending, and nobody is there for what is left.
            with suppress(ScreenStackError):
                await self._settled()
                while self._waiting:
                    await self._give(self._waiting.popleft())
                    await self._settled()
        finally:
            self._waiting.clear()
            self._settling = None

    async def _settled(self) -> None:
        """Wait until the last key went all its way, and the screen that it opened takes keys."""
        for _ in range(_ROUNDS):
            for pump in (self._app.focused, self._app.screen, self._app):
                if pump is not None:
                    await _passed(pump)
        for _ in range(int(_FOCUS_S / _LOOK_S)):
            screen = self._app.screen
            if screen.focused is not None or not screen.AUTO_FOCUS:
                return
            await asyncio.sleep(_LOOK_S)


async def _passed(pump: MessagePump) -> None:
    """Wait until everything that was posted to `pump` so far is done."""
    done = asyncio.Event()
    if pump.call_later(done.set):
        with suppress(TimeoutError):
            async with asyncio.timeout(_PASS_S):
                await done.wait()
