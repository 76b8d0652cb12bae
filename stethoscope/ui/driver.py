"""The terminal: its keys come before everything else, its mouse tells clicks, the wheel and drags, and when it is gone
the console is, too."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from threading import Thread
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
        self._watcher: Thread | None = None
        self._gone = False

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

    def run_input_thread(self) -> None:
        """Read keys until the console ends, or the terminal is gone."""
        if self._watcher is None:
            self._watcher = Thread(target=self._await_hangup, name="terminal", daemon=True)
            self._watcher.start()
        super().run_input_thread()

    def _await_hangup(self) -> None:
        """Tell the process when the terminal is gone: the kernel says so only to who has it as controlling terminal,
        and what is read from it then is nothing, again and again, as fast as it is asked for."""
        poll = select.poll()
        poll.register(self.fileno, 0)
        if any(said & (select.POLLHUP | select.POLLERR) for _, said in poll.poll()):
            self._gone = True
            self.exit_event.set()
            os.kill(os.getpid(), signal.SIGHUP)

    def write(self, data: str) -> None:
        """Write to the terminal, while there is one: nobody takes what is written to one that is gone."""
        if not self._gone:
            super().write(data)

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
