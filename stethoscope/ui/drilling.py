"""What the keys of a drill do, on every screen: who is trained answers, who trains lets faults come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from textual.app import App

from stethoscope.errors import StethoscopeError
from stethoscope.ui.keys import DRILL, keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp

Choice = tuple[str, str, str]
"""Title, explanation, id."""
_SURPRISE: Choice = ("surprise me", "the seed of this drill chooses", "")
_WHEN: tuple[Choice, ...] = (
    ("now", "", "0"),
    ("in half a minute", "time to hand over the keyboard", "30"),
    ("in 1 to 3 minutes", "nobody knows when exactly", "?"),
)
_BLAMES_NOBODY = ("healthy", "unknown")


class DrillLike(Protocol):
    """Somebody's training; `stethoscope.session.training.Training` is one."""

    def kinds(self) -> Sequence[Choice]:
        """Return what can go wrong."""

    def places(self, kind: str) -> Sequence[str]:
        """Return where a kind can come."""

    async def begin(self, kind: str, place: str, wait_s: float) -> None:
        """Let a fault come; what is empty is chosen by a seed."""

    def causes(self) -> Sequence[Choice]:
        """Return the root causes that can be answered."""

    def suspects(self, snapshot: FleetSnapshot) -> Sequence[Choice]:
        """Return the places that can be answered, likely ones first."""

    def reply(self, cause: str, place: str) -> None:
        """Take an answer."""

    async def finish(self) -> Sequence[str]:
        """End the drill and return its score."""


class DrillActions(App[None]):
    """An app in which somebody may be trained."""

    drill: DrillLike | None = None

    def begin_drill(self, drill: DrillLike) -> None:
        """Bind the keys of a drill: elsewhere they do nothing."""
        self.drill = drill
        for key in keys_of(DRILL):
            if DRILL in key.where:
                for name in key.keys:
                    self.bind(name, key.action, description=key.short, show=False)

    def action_answer_drill(self) -> None:
        """Ask for the root cause, then for the place."""
        console, drill = cast("StethoscopeApp", self), self.drill
        if drill is None or console.session is None:
            return
        session = console.session

        def with_cause(cause: str) -> None:
            if cause in _BLAMES_NOBODY:
                drill.reply(cause, "")
                console.tell(f"taken: {cause}; E ends the drill")
            else:
                console.choose("where", drill.suspects(session.snapshot()), lambda place: with_place(cause, place))

        def with_place(cause: str, place: str) -> None:
            drill.reply(cause, place)
            console.tell(f"taken: {cause} at {place}; E ends the drill", seconds=6)

        console.choose("root cause", drill.causes(), with_cause)

    async def action_end_drill(self) -> None:
        """Show the score."""
        if self.drill is None:
            return
        from stethoscope.ui.screens.drill import DrillScreen

        console = cast("StethoscopeApp", self)
        lines = await self.drill.finish()
        # What was said of the last answer would stand over the score.
        console.clear_notifications()
        if isinstance(console.screen, DrillScreen):
            console.pop_screen()
        console.push_screen(DrillScreen(console, lines))

    def action_train(self) -> None:
        """Ask what goes wrong, where, and when; nothing on the screen tells of it afterwards."""
        console, drill = cast("StethoscopeApp", self), self.drill
        if drill is None or console.session is None:
            return

        def with_kind(kind: str) -> None:
            if not kind:
                console.choose("when", _WHEN, lambda when: begin("", "", when))
                return
            places = [_SURPRISE, *((place, "", place) for place in drill.places(kind))]
            console.choose("where", places, lambda place: with_place(kind, place))

        def with_place(kind: str, place: str) -> None:
            console.choose("when", _WHEN, lambda when: begin(kind, place, when))

        def begin(kind: str, place: str, when: str) -> None:
            from secrets import randbelow  # not needed by a start

            wait_s = 60 + randbelow(120) if when == "?" else int(when)
            self._beginning = asyncio.create_task(self._let_come(kind, place, wait_s))

        console.choose("what goes wrong", [_SURPRISE, *drill.kinds()], with_kind)

    _beginning: asyncio.Task[None] | None = None

    async def _let_come(self, kind: str, place: str, wait_s: float) -> None:
        if self.drill is None:
            return
        try:
            await self.drill.begin(kind, place, wait_s)
        except StethoscopeError as error:
            cast("StethoscopeApp", self).tell(str(error), seconds=10)
