"""The open logs of the console, made when the first one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stethoscope.ui.replaying import ReplayActions

if TYPE_CHECKING:
    from stethoscope.session.logbook import LogBook, OpenLog
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.session import SessionLike


class LogActions(ReplayActions):
    """An app that reads logs."""

    session: SessionLike | None = None
    _book: LogBook | None = None

    def open_logs(self, node: str = "") -> None:
        """Show the logs screen; for `node` after asking which of its logs."""
        if self.session is None:
            self.tell("the session is not open yet")
            return
        from stethoscope.session.logbook import LogBook
        from stethoscope.ui.screens.logs import LogsScreen
        from stethoscope.ui.screens.open_log import ask_which

        console, session = cast("StethoscopeApp", self), self.session
        if self._book is None:
            source, scheduler = getattr(session, "source", None), getattr(session, "scheduler", None)
            self._book = LogBook(source, scheduler, session.clock)
        book, screen = self._book, LogsScreen(console, self._book)

        def show() -> None:
            self.push_screen(screen)
            self.call_after_refresh(console.pull)

        if not node:
            show()
            return

        def take(log: OpenLog) -> None:
            screen.shown_log = log
            show()

        ask_which(console, book, session.snapshot(), take, node)

    async def close_logs(self) -> None:
        """Read no log any more."""
        if self._book is not None:
            await self._book.close()
