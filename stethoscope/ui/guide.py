"""One guided triage: asks beside the event loop while its screen is in front, and remembers what a person said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stethoscope.errors import StethoscopeError
from stethoscope.session.guided import Answers, step_of
from stethoscope.ui.defect import defect
from stethoscope.ui.present.triage import around_of
from stethoscope.ui.present.unconfirmed import unconfirmed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.analysis.triage_ask import Asked, AskStep
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Scene, Wanted
    from stethoscope.session.attending import Attending
    from stethoscope.session.ondemand import OnDemandRuns
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.triage import Around

ASK_S = 3.0
"""How often it is asked anew, as data come, ..."""
_REST = 5.0
"""... and at the most: so many times as long as the last answer took."""
CALM_S = 15.0
"""How often where nothing has happened since: the whole fleet is gone through each time."""
WATCHED_S = 60.0
"""Before so long most rules have not had the time that they need."""


class Guide:
    """The questions about one focus, and the answers to them."""

    def __init__(self, console: StethoscopeApp, attending: Attending, focus: str, said: Mapping[str, Any]) -> None:
        """Ask about `focus`; `said` is what was kept, as `to_keep` wrote it."""
        self._owner = console
        self._attending = attending
        self.focus = focus
        self.asked: Asked | None = None
        self.scene: Scene | None = None
        """What it was asked from."""
        self.trouble = ""
        """Why nothing can be asked."""
        self._said = Answers(said, console.clock.wall())
        self.told = self._said.resumed()
        self._doubt = ""
        """What speaks against that nothing is wrong."""
        self._task: asyncio.Task[None] | None = None
        self._asked_mono: float | None = None
        self._is_due = True
        self._every_s = ASK_S
        self._news: tuple[object, ...] = ()
        """As it was when it was asked last."""
        self._listener: Callable[[], None] = lambda: None

    @property
    def runs(self) -> OnDemandRuns | None:
        """Return what can measure, None before there is a session and in a recording."""
        return getattr(self._owner.session, "ondemand", None) if self._owner.replay is None else None

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` when there is a new answer: the screen in front."""
        self._listener = listener

    def tend(self, snapshot: FleetSnapshot) -> None:
        """Ask when that is due and nothing is being asked; called while a screen of this triage is in front."""
        if self._task is not None and not self._task.done():
            return
        mono = snapshot.mono
        waited_s = None if self._asked_mono is None else mono - self._asked_mono
        if not self._is_due and waited_s is not None and 0 <= waited_s < self._every_s:
            return
        session = self._owner.session
        if session is None:
            return
        results = self.runs.results if self.runs is not None else {}
        news = self._attending.news(snapshot, session.night.entries, results)
        if not self._is_due and waited_s is not None and 0 <= waited_s < CALM_S and news == self._news:
            return
        self._news = news
        self._is_due, self._asked_mono, started = False, mono, self._owner.clock.monotonic()
        moment = self._attending.moment(snapshot, session.night.entries, results, self.focus)
        answers = self._said.given

        async def work() -> None:
            def answer() -> tuple[Scene, Asked, str]:
                scene, asked = self._attending.answer(moment, answers)
                return scene, asked, unconfirmed(asked.found.verdict, moment.snapshot, self.focus)

            try:
                scene, asked, self._doubt = await asyncio.to_thread(answer)
            except StethoscopeError as error:
                self.trouble = str(error)
            except Exception as error:  # noqa: BLE001  a defect of the diagnosis must not end the console
                self.trouble = str(defect("the diagnosis failed", error))
            else:
                self.trouble = ""
                self._every_s = max(ASK_S, _REST * (self._owner.clock.monotonic() - started))
                if not self._is_due:
                    # Else somebody has said something since, and is asked again in a moment.
                    self.scene, self.asked = scene, asked
            self._listener()

        self._task = asyncio.create_task(work())

    def aim(self, wanted: Wanted, place: str) -> None:
        """Remember that what is measured at `place` answers what was wanted."""
        self._attending.aim(wanted.probe, place, wanted.place)

    # ---- what a person says

    @property
    def step(self) -> AskStep | None:
        """Return the step that is to be answered."""
        return step_of(self.asked)

    def accept(self) -> None:
        """Take the proposed answer: the way stays as it is, and goes on at once."""
        if self.asked is not None:
            self.asked = self._said.accept(self.asked, self._owner.clock.wall())
            self._changed()

    def choose(self, answer: str) -> None:
        """Answer otherwise than was proposed."""
        if self.asked is not None:
            self._said.choose(self.asked, answer, self._owner.clock.wall())
            self._changed()

    def skip(self) -> None:
        """Leave the step without an answer."""
        if self.asked is not None:
            self._said.skip(self.asked, self._owner.clock.wall())
            self._changed()

    def back(self) -> bool:
        """Take back the last answer on this way; False when there is none."""
        if not self._said.back(self.asked):
            return False
        self._changed()
        return True

    def _changed(self) -> None:
        self.told = ""
        self._is_due = True
        self._owner.keep_triage(self.focus, self._said.to_keep())

    # ---- what it is shown with

    def around(self, snapshot: FleetSnapshot, now: float) -> Around:
        """Return what a step and a card are shown with."""
        why_not = "a recording runs nothing" if self._owner.replay is not None else ""
        told = [words for words in (self.told, self._doubt) if words]
        watched_s = self._attending.watched_s(snapshot)
        if watched_s < WATCHED_S:
            told.append(f"watched for {watched_s:.0f} s only: what takes longer to show is not here yet")
        mono = self._owner.clock.monotonic()
        return around_of(snapshot, now, self.runs, mono, why_not=why_not, told=tuple(told))
