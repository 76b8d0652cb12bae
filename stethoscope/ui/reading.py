"""The open logs of the console, made when the first one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stethoscope.ui.replaying import ReplayActions

if TYPE_CHECKING:
    from stethoscope.session.logbook import LogBook, OpenLog
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.screens.logs import LogsScreen
    from stethoscope.ui.session import SessionLike


class LogActions(ReplayActions):
    """An app that reads logs."""

    session: SessionLike | None = None
    _book: LogBook | None = None

    def open_logs(self, node: str = "") -> None:
        """Show the logs screen; for `node` after asking which of its logs."""
        opened = self._log_screen()
        if opened is None:
            return
        from stethoscope.ui.screens.open_log import ask_which

        console, session, (book, screen) = cast("StethoscopeApp", self), self.session, opened
        if not node or session is None:
            self._show_logs(screen)
            return

        def take(log: OpenLog) -> None:
            screen.shown_log = log
            self._show_logs(screen)

        ask_which(console, book, session.snapshot(), take, node)

    def open_log_since(self, node: str, since: float) -> None:
        """Show the kernel log of `node` from wall second `since` on; where no node can be asked, those of the fleet."""
        opened = self._log_screen()
        if opened is None:
            return
        book, screen = opened
        if book.why_not_on_nodes:
            console = cast("StethoscopeApp", self)
            console.tell(f"{book.why_not_on_nodes}: these are the kernel logs as they came")
        else:
            screen.shown_log = book.open_kernel(node, since)
        self._show_logs(screen)

    def open_jobs(self, job: str = "") -> None:
        """Show all jobs, or the one of that id."""
        from stethoscope.ui.screens.job import JobScreen

        self.push_screen(JobScreen(cast("StethoscopeApp", self), job))
        self.call_after_refresh(cast("StethoscopeApp", self).pull)

    def open_log_at(self, node: str, path: str, job: str) -> None:
        """Decode the log of `job`, which lies at `path` on `node`."""
        opened = self._log_screen()
        if opened is None:
            return
        book, screen = opened
        if book.why_not_on_nodes:
            cast("StethoscopeApp", self).tell(book.why_not_on_nodes)
            return
        screen.shown_log = book.open_path(node, path, job)
        self._show_logs(screen)

    def _log_screen(self) -> tuple[LogBook, LogsScreen] | None:
        """Return the logs and a screen for them, None before there is a session."""
        if self.session is None:
            self.tell("the session is not open yet")
            return None
        from stethoscope.session.logbook import LogBook
        from stethoscope.ui.screens.logs import LogsScreen

        session = self.session
        if self._book is None:
            source, scheduler = getattr(session, "source", None), getattr(session, "scheduler", None)
            self._book = LogBook(source, scheduler, session.clock)
        return self._book, LogsScreen(cast("StethoscopeApp", self), self._book)

    def _show_logs(self, screen: LogsScreen) -> None:
        self.push_screen(screen)
        self.call_after_refresh(cast("StethoscopeApp", self).pull)

    async def close_logs(self) -> None:
        """Read no log any more."""
        if self._book is not None:
            await self._book.close()
