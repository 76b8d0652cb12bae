"""The terminal's mouse: clicks, the wheel and drags are told, every mere movement is not."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver


class QuietDriver(LinuxDriver):
    """Textual's driver, which asks for movements too: over a slow line they are most of what is sent."""

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
