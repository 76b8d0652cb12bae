"""One guided triage: asks beside the event loop while its screen is in front, and remembers what a person said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.triage_ask import ACCEPTED, CHOSEN, SKIPPED, Answer
from stethoscope.clock import hms
from stethoscope.errors import StethoscopeError
from stethoscope.ui.defect import defect
from stethoscope.ui.present.probe import cost
from stethoscope.ui.present.triage import Around

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.analysis.triage_ask import Asked, AskStep
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Wanted
    from stethoscope.session.attending import Attending
    from stethoscope.session.ondemand import OnDemandRuns
    from stethoscope.ui.app import StethoscopeApp

ASK_S = 3.0
"""How often it is asked anew, as data come, ..."""
_REST = 5.0
"""... and at the most: so many times as long as the last answer took."""
REMEMBERED_S = 4 * 3600.0
"""For so long what a person said stands for the same trouble."""
WATCHED_S = 60.0
"""Before so long most rules have not had the time that they need."""
_MOST, _LONGEST = 200, 400


@dataclass(slots=True)
class Said:
    """What a person said to a step, and when."""

    answer: Answer
    at: float
    """Wall seconds."""


class Guide:
    """The questions about one focus, and the answers to them."""

    def __init__(self, console: StethoscopeApp, attending: Attending, focus: str, said: Mapping[str, Any]) -> None:
        """Ask about `focus`; `said` is what was kept, as `to_keep` wrote it."""
        self._owner = console
        self._attending = attending
        self.focus = focus
        self.asked: Asked | None = None
        self.trouble = ""
        """Why nothing can be asked."""
        self.told = ""
        self._said = read_said(said, console.clock.wall())
        if self._said:
            first = min(one.at for one in self._said.values())
            self.told = f"resumed with your answers since {hms(first)} UTC; b takes them back one by one"
        self._order = sorted(self._said, key=lambda key: self._said[key].at)
        self._task: asyncio.Task[None] | None = None
        self._asked_mono: float | None = None
        self._is_due = True
        self._every_s = ASK_S
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
        self._is_due, self._asked_mono, started = False, mono, self._owner.clock.monotonic()
        results = self.runs.results if self.runs is not None else {}
        moment = self._attending.moment(snapshot, session.night.entries, results, self.focus)
        answers = {key: one.answer for key, one in self._said.items()}

        async def work() -> None:
            try:
                _, asked = await asyncio.to_thread(self._attending.answer, moment, answers)
            except StethoscopeError as error:
                self.trouble = str(error)
            except Exception as error:  # noqa: BLE001  a defect of the diagnosis must not end the console
                self.trouble = str(defect("the diagnosis failed", error))
            else:
                self.trouble = ""
                self._every_s = max(ASK_S, _REST * (self._owner.clock.monotonic() - started))
                if not self._is_due:
                    # Else somebody has said something since, and is asked again in a moment.
                    self.asked = asked
            self._listener()

        self._task = asyncio.create_task(work())

    def aim(self, wanted: Wanted, place: str) -> None:
        """Remember that what is measured at `place` answers what was wanted."""
        self._attending.aim(wanted.probe, place, wanted.place)

    # ---- what a person says

    @property
    def step(self) -> AskStep | None:
        """Return the step that is to be answered."""
        asked = self.asked
        return asked.steps[asked.at] if asked is not None and asked.at < len(asked.steps) else None

    def accept(self) -> None:
        """Take the proposed answer: the way stays as it is, and goes on at once."""
        asked, step = self.asked, self.step
        if asked is None or step is None:
            return
        self._say(step, Answer(step.proposed, ACCEPTED))
        steps = (*asked.steps[: asked.at], replace(step, how=ACCEPTED), *asked.steps[asked.at + 1 :])
        self.asked = replace(asked, steps=steps)

    def choose(self, answer: str) -> None:
        """Answer otherwise than was proposed."""
        step = self.step
        if step is not None:
            self._say(step, Answer(answer, ACCEPTED if answer == step.proposed else CHOSEN))

    def skip(self) -> None:
        """Leave the step without an answer."""
        step = self.step
        if step is not None:
            self._say(step, Answer(step.proposed, SKIPPED))

    def back(self) -> bool:
        """Take back the last answer on this way; False when there is none."""
        asked = self.asked
        here = {(asked.flow, step.id) for step in asked.steps if step.how} if asked is not None else set()
        last = next((key for key in reversed(self._order) if key in here), None)
        if last is None:
            return False
        self._order.remove(last)
        del self._said[last]
        self.told = ""
        self._changed()
        return True

    def _say(self, step: AskStep, answer: Answer) -> None:
        assert self.asked is not None
        key = (self.asked.flow, step.id)
        self._said[key] = Said(answer, self._owner.clock.wall())
        self._order = [one for one in self._order if one != key] + [key]
        self.told = ""
        self._changed()

    def _changed(self) -> None:
        self._is_due = True
        self._owner.keep_triage(self.focus, self.to_keep())

    def to_keep(self) -> dict[str, Any]:
        """Return what a person said, as it is kept."""
        return {
            "said": [
                {"flow": key[0], "step": key[1], "answer": one.answer.answer, "how": one.answer.how, "at": one.at}
                for key, one in self._said.items()
            ]
        }

    # ---- what it is shown with

    def around(self, snapshot: FleetSnapshot, now: float) -> Around:
        """Return what a step and a card are shown with."""
        runs = self.runs
        costs: dict[str, str] = {}
        why_not = "a recording runs nothing" if self._owner.replay is not None else ""
        running: tuple[str, ...] = ()
        measured: tuple[str, ...] = ()
        if runs is not None:
            why_not = runs.why_not
            try:
                costs = {probe.id: cost(probe) for probe in runs.probes.values()}
            except StethoscopeError as error:
                why_not = str(error)
            running = tuple(batch.progress(self._owner.clock.monotonic()) for batch in runs.batches)
            last = sorted(runs.results.values(), key=lambda result: -result.at)[:3]
            measured = tuple(
                f"measured {result.probe} at {result.aim.place or result.aim.node}: {result.status.value}, "
                f"{max(0.0, now - result.at):.0f} s ago"
                for result in last
                if now - result.at < ASK_S * 100
            )
        told = [self.told] if self.told else []
        watched_s = self._attending.watched_s(snapshot)
        if watched_s < WATCHED_S:
            told.append(f"watched for {watched_s:.0f} s only: what takes longer to show is not here yet")
        return Around(snapshot.catalogue, now, costs, why_not, running, measured, tuple(told))


def read_said(kept: Mapping[str, Any], now: float) -> dict[tuple[str, str], Said]:
    """Return what was kept of a person's answers; what is too old, or not as it should be, is left out."""
    found: dict[tuple[str, str], Said] = {}
    said = kept.get("said")
    for one in said[:_MOST] if isinstance(said, list) else ():
        if not isinstance(one, dict):
            continue
        texts = [one.get(name) for name in ("flow", "step", "answer", "how")]
        at = one.get("at")
        if not isinstance(at, (int, float)) or not 0 <= now - at < REMEMBERED_S:
            continue
        if all(isinstance(text, str) and text.isprintable() and len(text) < _LONGEST for text in texts):
            flow, step, answer, how = (str(text) for text in texts)
            if how in (ACCEPTED, CHOSEN, SKIPPED):
                found[flow, step] = Said(Answer(answer, how), float(at))
    return found
