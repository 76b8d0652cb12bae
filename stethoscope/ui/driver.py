"""The terminal: its keys come before everything else, and its mouse tells clicks, the wheel and drags."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from textual import events
from textual.drivers.linux_driver import LinuxDriver

from stethoscope.ui.loop import call_first

if TYPE_CHECKING:
    from textual.app import App
    from textual.message import Message


class QuietDriver(LinuxDriver):
    """Textual's driver, which asks for movements too: over a slow line they are most of what is sent."""

    def __init__(
        self, app: App[None], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        """Drive the terminal for `app`."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._keys: deque[events.Key] = deque()

    def send_message(self, message: Message) -> None:
        """Give a message to the console; keys as soon as its loop has done what it is at."""
        if isinstance(message, events.Key):
            self._keys.append(message)
            call_first(self._loop, self._give_keys)
        else:
            super().send_message(message)

    def _give_keys(self) -> None:
        give = getattr(self._app, "give_key", self._app.post_message)
        while self._keys:
            give(self._keys.popleft())

    def _enable_mouse_support(self) -> None:
        super()._enable_mouse_support()
        if self._mouse:
            # The terminal keeps one of these modes: the last one that it is told.
            self.write("\x1b[?1003l\x1b[?1002h")
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1002l")
        super()._disable_mouse_support()
