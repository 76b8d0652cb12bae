"""The console: opens the session, pulls its snapshots for the screen in front, and ends cleanly."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual._compositor import CompositorUpdate
from textual.app import App

from stethoscope.clock import SystemClock, hms
from stethoscope.errors import InternalError, StethoscopeError, UsageError, did_you_mean
from stethoscope.ui.bindings import bindings_of, works
from stethoscope.ui.defect import defect
from stethoscope.ui.driver import QuietDriver
from stethoscope.ui.heard import Heard
from stethoscope.ui.keys import EVERYWHERE
from stethoscope.ui.look import Look
from stethoscope.ui.loop import IS_DATA
from stethoscope.ui.paint import Difference, Picture
from stethoscope.ui.present.spans import ASCII, UNICODE
from stethoscope.ui.pulling import PULL_S
from stethoscope.ui.recording import Recording
from stethoscope.ui.screens.fleet import FleetScreen
from stethoscope.ui.theme import NAMES, PALETTES, textual_theme
from stethoscope.ui.typed import Typed
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from textual.binding import BindingType
    from textual.message import Message
    from textual.screen import Screen

    from stethoscope.clock import Clock
    from stethoscope.model.fleet import Node
    from stethoscope.ui.session import OpenSession, SessionLike

_GOODBYE_S = 4.0
_LAST_S = 10.0
"""So long after a signal the process is gone, whatever it waits for."""
_PLAIN = Look()


class StethoscopeApp(Recording):
    """The console on one session."""

    CSS_PATH = "stethoscope.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(EVERYWHERE)

    def __init__(
        self,
        open_session: OpenSession,
        title: str,
        look: Look = _PLAIN,
        *,
        clock: Clock | None = None,
        keeps: bool = False,
        fresh: bool = False,
    ) -> None:
        """Open the session by `open_session` after the first picture, and look as `look` says. With `keeps`
        what is chosen is kept for the next time; `fresh` does not begin with what was kept."""
        super().__init__(driver_class=QuietDriver, ansi_color=True)
        for palette in PALETTES.values():
            self.register_theme(textual_theme(palette))
        self.set_reactive(App.theme, look.theme if look.theme in PALETTES else "dark")
        self.title = title
        self.glyphs = ASCII if look.ascii_only or look.theme == "ascii" else UNICODE
        self._ascii_only = look.ascii_only
        """The terminal, or the user, wants no other characters in any theme."""
        self.theme_name = look.theme
        self.metric = look.metric
        self._look = look
        self.incidents = look.incidents
        self.doing = "starting"
        self.clock = clock or SystemClock()
        self.failure: StethoscopeError | None = None
        self.session: SessionLike | None = None
        self._open_session = open_session
        self._keeps, self._fresh = keeps, fresh
        self._work: asyncio.Task[None] | None = None
        self._leaving = False
        self._picture = Picture()
        self.fleet_screen = FleetScreen(self)
        self._typed = Typed(self, super().on_event)

    def get_default_screen(self) -> Screen[None]:
        """Return the fleet screen: there is no other below it."""
        return self.fleet_screen

    def on_mount(self) -> None:
        """Begin once the first picture stands."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Not one of the loop's, which would wait for a loop that waits for a terminal.
            signal.signal(number, lambda said, _: self._end_for(128 + said, loop))
        self.call_after_refresh(self._begin)
        if self.glyphs is UNICODE and self._driver is not None and not self.is_headless:
            # How wide does this terminal draw a character of ambiguous width? It answers with where its cursor stands
            # after one, or not at all; the first picture covers the character.
            self._driver.write("\x1b[1;1H▲\x1b[6n")

    def _end_for(self, code: int, loop: asyncio.AbstractEventLoop) -> None:
        """End because of a signal, at the latest in a while: a terminal that nobody reads takes no goodbye."""
        last = threading.Timer(_LAST_S, os._exit, (code,))
        last.daemon = True
        last.start()
        loop.call_soon_threadsafe(self.exit, None, code)

    def _begin(self) -> None:
        self._work = asyncio.create_task(self._drive())
        self.set_interval(PULL_S, self._pull_due)

    async def _drive(self) -> None:
        try:
            # What screens need beside the session is loaded while the first picture can already be read. Not in a
            # thread: two threads that import modules which need each other can get the other's half-made one.
            _load()
            session = await self._open_session()
            self._check_metric(session)
            self._take_session(session)
            self.pull_first(session)
            if not gc.isenabled():
                # The start of `ui.run` is over: what it has left is never looked through again.
                gc.freeze()
                gc.enable()
            IS_DATA.set(True)
            await session.run()
        except StethoscopeError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  whatever ends the session is told in one line
            self._fail(defect("the session ended", error))
        else:
            if not self._leaving:
                self._fail(InternalError("the session ended by itself"))

    def _take_session(self, session: SessionLike) -> None:
        from stethoscope.ui.session import ReplayLike

        self.session = session
        self.clock = session.clock
        if isinstance(session, ReplayLike):
            self.replay = session
            self.fleet_screen.draw_frame()
        if self._driver is not None and not self.is_headless:
            self._heard = Heard(self._driver.write, bell=self._look.bell, title=self._look.title)
            # Only a session of now has something new; what a recording brings is not a reason to call anybody.
            subscribe = getattr(session, "subscribe", None)
            if subscribe is not None and self.replay is None:
                heard = self._heard
                subscribe(lambda change: heard.found(change.loud))
        from stethoscope.session.view_state import ViewState

        if self._keeps:
            self.fleet_screen.restore(ViewState(session.snapshot().fleet), fresh=self._fresh)
        else:
            self.fleet_screen.views = ViewState(session.snapshot().fleet)
        self.attend(session)
        self.offer_drafts()

    def _check_metric(self, session: SessionLike) -> None:
        known = session.snapshot().catalogue
        if self.metric is not None and self.metric not in known:
            raise UsageError(f'--metric: no metric is called "{self.metric}"{did_you_mean(self.metric, known)}')

    def _fail(self, error: StethoscopeError) -> None:
        self.failure = error
        self.exit(None, error.exit_code)

    def on_unmount(self) -> None:
        """Let the session end."""
        self._leaving = True
        self.stop_pulling()
        if self._heard is not None:
            self._heard.end()
        if self._work is not None:
            self._work.cancel()

    async def close(self) -> None:
        """End the session and wait until what it started has ended."""
        await self.close_logs()
        work = self._work
        if work is not None and not work.done():
            work.cancel()
            await asyncio.wait([work], timeout=_GOODBYE_S)

    def open_node(self, name: str) -> None:
        """Show the node screen of `name`."""
        from stethoscope.ui.screens.node import NodeScreen

        self.push_screen(NodeScreen(self, name))
        self.call_after_refresh(self.pull)

    def open_drift(self) -> None:
        """Show which nodes differ in versions and settings."""
        from stethoscope.ui.screens.drift import DriftScreen

        self.push_screen(DriftScreen(self))
        self.call_after_refresh(self.pull)

    def open_heat(self) -> None:
        """Show one metric of every node over the last minutes."""
        from stethoscope.ui.screens.heat import HeatScreen

        self.push_screen(HeatScreen(self))
        self.call_after_refresh(self.pull)

    def open_findings(self, words: str = "") -> None:
        """Show the night's list, or what of it fits `words`."""
        from stethoscope.ui.screens.findings import FindingsScreen

        self.push_screen(FindingsScreen(self, words))
        self.call_after_refresh(self.pull)

    def open_finding(self, id_: str) -> None:
        """Show the card of a finding."""
        from stethoscope.ui.screens.finding import FindingScreen

        self.push_screen(FindingScreen(self, id_))
        self.call_after_refresh(self.pull)

    def retry_node(self, node: Node) -> None:
        """Try the link to a node now, when it waits for its next attempt."""
        if self.session is None or self.replay is not None:
            self.tell("a recording has no links to try")
        elif node.link.next_try is None:
            self.tell(f"{node.name}: the link is {node.link.state.value}, there is nothing to try")
        else:
            self.session.retry(node.name)
            self.tell(f"{node.name}: trying again")

    def choose(self, what: str, choices: Sequence[tuple[str, str, str]], chosen: Callable[[str], object]) -> None:
        """Ask for one of `choices` (title, explanation, id) and call `chosen` with its id."""
        from stethoscope.ui.screens.finder import FinderScreen

        def take(answer: str | None) -> None:
            if answer is not None:
                chosen(answer)

        self.push_screen(FinderScreen(self, what, choices), take)

    # ---- what the keys do

    def action_clear_mark(self) -> None:
        """Forget the mark."""
        if self.session is not None:
            self.tell("no mark is set" if self.session.mark is None else "the mark is forgotten")
            self.session.clear_mark()
            self.pull()

    def action_set_mark(self) -> None:
        """Set the mark: from now on counters also say what they counted since then."""
        if self.session is not None:
            mark = self.session.set_mark()
            self.tell(f"mark set at {hms(mark.wall)} UTC: counters say what they counted since then")
            self.pull()

    def action_next_theme(self) -> None:
        """Draw in the next theme."""
        self.set_look(NAMES[(NAMES.index(self.theme_name) + 1) % len(NAMES)])
        self.tell(f"theme: {self.theme_name}")

    def set_look(self, name: str) -> None:
        """Draw every screen in the theme of that name."""
        self.theme_name = name
        self.theme = name if name in PALETTES else "dark"
        wanted = ASCII if self._ascii_only or name == "ascii" else UNICODE
        if self.glyphs is not wanted:
            self.glyphs = wanted
            self.fleet_screen.change_glyphs()
        self._picture.forget()
        from stethoscope.ui.widgets.blocks import BlocksView

        for screen in self.screen_stack:
            for view in (*screen.query(RowsView), *screen.query(BlocksView)):
                view.forget()
            for lines in screen.query(Lines):
                lines.refresh()
            # A screen that is held takes no new data: as for a new size, it draws what it has.
            screen.post_message(events.Resize(screen.size, screen.size))
            screen.refresh()
        self.pull()

    def action_help(self) -> None:
        """Show all keys and signs."""
        from stethoscope.ui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self))

    def action_command_palette(self) -> None:
        """Find an action, a metric or a node by name."""
        from stethoscope.ui.screens.finder import FinderScreen, everything

        if not isinstance(self.screen, FinderScreen):
            choices, run = everything(self)
            self.choose("find", choices, run)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of a replay do nothing where there is none."""
        return works(action, parameters, replay=self.replay is not None)

    async def action_back(self) -> None:
        """Go back."""
        screen = self.screen
        if screen is self.fleet_screen:
            if not self.fleet_screen.drop_filter():
                self.fleet_screen.action_back()
        elif (own := getattr(screen, "action_back", None)) is not None:
            # A screen may have something to clear first.
            await own()
        else:
            self.pop_screen()

    # ---- the terminal

    async def _post_message(self, message: Message) -> bool:
        return self.give_key(message) if isinstance(message, events.Key) else await super()._post_message(message)

    def give_key(self, key: events.Key) -> bool:
        """Take `key` from the terminal; False when it is not taken at all."""
        try:
            if not self.away and self._typed.take_at_once(key):
                return True
        except Exception as error:  # noqa: BLE001  told as one that a key meets on its usual way
            self._handle_exception(error)
            return True
        return self.post_message(key)

    async def on_event(self, event: events.Event) -> None:
        """Let keys wait for the effect of those before them."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self._typed.take(event)
        else:
            await super().on_event(event)

    def on_resize(self, event: events.Resize) -> None:
        """Draw everything again: the terminal may have moved what was there."""
        self._picture.forget()

    def on_cursor_position(self, event: events.CursorPosition) -> None:
        """Take the terminal's answer about the width of characters."""
        if event.x > 1 and self.glyphs is UNICODE:
            self.glyphs = ASCII
            self._ascii_only = True
            self.fleet_screen.change_glyphs()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        # Everything that Textual wants to draw goes out as its difference to what the terminal shows.
        # Textual asks an update for its bytes and nothing else, although its signature says less.
        drawn: Any = renderable if not self.away else None
        if isinstance(drawn, CompositorUpdate):
            drawn = Difference(drawn, self._picture)
        elif drawn is not None:
            self._picture.forget()
        super()._display(screen, drawn)

    def _fatal_error(self) -> None:
        # A person gets one line, never a traceback with the values of variables in it.
        self.failure = defect("the console failed", self._exception, place=True)
        self._close_messages_no_wait()


def _load() -> None:
    import stethoscope.session.open
    import stethoscope.ui.present.cursor
    import stethoscope.ui.present.lines  # noqa: F401
