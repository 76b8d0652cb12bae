"""`stethoscope triage` without --auto: asks in a plain terminal about a fleet or a recording, and keeps the answers."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from stethoscope.cli.interview import Interview, TypedLines, can_overwrite, summary_of
from stethoscope.cli.say import say
from stethoscope.clock import SystemClock, iso
from stethoscope.errors import UsageError
from stethoscope.session.asking import RecordedMoment, WatchedFleet
from stethoscope.session.guided import Answers, keep_place, said_by_place
from stethoscope.session.view_state import ViewState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from stethoscope.analysis.triage_ask import Asked
    from stethoscope.model.verdict import Diagnosis, Scene
    from stethoscope.session.asking import Subject
    from stethoscope.session.session import Session
    from stethoscope.session.triage import Witness
    from stethoscope.specs.playbook import Playbooks

    Remember = Callable[[Diagnosis, Scene], Diagnosis]
    """Adds what of the past looks like it."""

INTERRUPTED = 130


def need_terminal() -> None:
    """Raise UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("questions need a terminal to be answered at: --auto takes every answer that the facts give")


class Talk:
    """One interview with what is kept of it."""

    def __init__(self, subject: Subject, books: Playbooks, memory: ViewState | None, place: str) -> None:
        """Ask about `subject`; answers are kept in `memory`, None for nowhere, under `place`."""
        clock = SystemClock()
        self._memory = memory
        self._place = place
        self._kept = said_by_place(memory.load_triage()) if memory is not None else {}
        self._trouble = ""
        self._answers = Answers(self._kept.get(place, {}), clock.wall())
        self.interview = Interview(subject, books, self._answers, self._keep, clock.wall, TypedLines())

    def _keep(self) -> None:
        if self._memory is None:
            return
        try:
            self._memory.save_triage(keep_place(self._kept, self._place, self._answers.to_keep()))
        except OSError as error:
            self._trouble = f"the answers cannot be kept: {self._memory.triage_path}: {error.strerror or error}"

    def say_how_to_go_on(self) -> None:
        """Say what is kept of the answers, and what is known so far."""
        for line in summary_of(self.interview.asked):
            say(f" {line}", err=True)
        if self._trouble:
            say(f" {self._trouble}", err=True)
        elif self._memory is None:
            say(" left; of a demo no answers are kept", err=True)
        elif self._answers.given:
            say(" left; your answers are kept for 4 h: the same command goes on with them", err=True)
        else:
            say(" left before the first answer: the same command begins anew", err=True)


class Ended(NamedTuple):
    """How an interview ended."""

    scene: Scene | None
    asked: Asked | None
    is_over: bool
    """There is a verdict."""
    status: int | None = None
    """Exit status of who was interrupted."""


def ask_about_recording(scene: Scene, books: Playbooks, name: str, remember: Remember) -> Ended:
    """Ask about one moment of the recording of that name."""
    memory = ViewState(f"recording {name}")
    talk = Talk(RecordedMoment(scene), books, memory, f"{scene.focus} at {iso(scene.now_s)}".strip())
    return _run(talk, talk.interview.run, remember)


def ask_about_fleet(
    session: Session,
    witness: Witness,
    books: Playbooks,
    focus: str,
    watch_s: float,
    remember: Remember,
    *,
    keeps: bool,
) -> Ended:
    """Watch a fleet and ask about it. UnreachableError when no node was reached."""
    subject = WatchedFleet(session, witness, focus)
    memory = ViewState(session.snapshot().fleet) if keeps else None
    talk = Talk(subject, books, memory, focus)

    async def run() -> bool:
        try:
            try:
                await subject.begin(watch_s, _progress(watch_s))
            finally:
                if can_overwrite():
                    click.echo("\r\x1b[K", err=True, nl=False)
            return await talk.interview.run()
        finally:
            await subject.end()

    return _run(talk, run, remember)


def _run(talk: Talk, run: Callable[[], Coroutine[Any, Any, bool]], remember: Remember) -> Ended:
    is_over, status, interview = False, None, talk.interview
    try:
        is_over = asyncio.run(run())
    except KeyboardInterrupt:
        say("", err=True)
        status = INTERRUPTED
    if is_over:
        if interview.asked is not None and interview.scene is not None:
            found = remember(interview.asked.found, interview.scene)
            interview.asked = replace(interview.asked, found=found)
        interview.print_verdict()
    else:
        talk.say_how_to_go_on()
    return Ended(interview.scene, interview.asked, is_over, status)


def _progress(watch_s: float) -> Callable[[str], None]:
    if can_overwrite():
        return lambda text: click.echo(f"\r\x1b[K {text}", err=True, nl=False)
    say(f" watching the fleet for {watch_s:.0f} s before the first question", err=True)
    return lambda text: None
