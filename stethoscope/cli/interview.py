"""The questions of the guided triage, line by line in a plain terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from typing import TYPE_CHECKING, Protocol

from stethoscope.analysis.triage_flow import NOT_KNOWN
from stethoscope.cli.paint import print_rows
from stethoscope.cli.say import say
from stethoscope.errors import StethoscopeError
from stethoscope.model.verdict import HEALTHY
from stethoscope.session.asking import questions
from stethoscope.session.guided import node_for, step_of
from stethoscope.text import clean
from stethoscope.ui.present.probe import preview_rows, result_rows
from stethoscope.ui.present.spans import Span, Tone
from stethoscope.ui.present.triage import around_of, step_rows, triage_title
from stethoscope.ui.present.unconfirmed import unconfirmed
from stethoscope.ui.present.verdict import verdict_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from stethoscope.analysis.triage_ask import Asked, AskStep
    from stethoscope.model.verdict import Scene, Wanted
    from stethoscope.session.asking import Subject
    from stethoscope.session.guided import Answers
    from stethoscope.session.ondemand import Batch, OnDemandRuns, Preview
    from stethoscope.specs.playbook import Playbooks
    from stethoscope.ui.present.spans import Glyphs, Row
    from stethoscope.ui.present.triage import Around

_LONGEST = 1000
"""Characters of a line that is read: a word, or a number."""
_PROMPT = "> "
_TOLD_S = 10.0
"""How often a terminal that cannot overwrite a line is told how far a measurement is."""


class Lines(Protocol):
    """Where lines come from."""

    def next(self) -> asyncio.Future[str | None]:
        """Return the next line, without its end, once it comes; None at the end (ctrl-d)."""


class TypedLines:
    """Lines that a person types, read while everything else goes on."""

    def __init__(self) -> None:
        """Read standard input, a terminal: it gives one line at a time."""
        self._file = sys.stdin.fileno()
        self._waiting: asyncio.Future[str | None] | None = None

    def next(self) -> asyncio.Future[str | None]:
        """Return the next line, without its end, once it comes; None at the end (ctrl-d)."""
        if self._waiting is None or self._waiting.done():
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            loop.add_reader(self._file, self._read)
        return self._waiting

    def _read(self) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            # A line that nobody waits for yet stays with the terminal.
            asyncio.get_running_loop().remove_reader(self._file)
            return
        try:
            typed = os.read(self._file, 4096)
        except OSError:
            typed = b""
        asyncio.get_running_loop().remove_reader(self._file)
        waiting.set_result(clean(typed.decode("utf-8", "replace").strip(), _LONGEST) if typed else None)


class Interview:
    """One guided triage at a plain terminal."""

    def __init__(
        self,
        subject: Subject,
        books: Playbooks,
        answers: Answers,
        keep: Callable[[], None],
        wall: Callable[[], float],
        lines: Lines,
    ) -> None:
        """Ask about `subject`; `keep` keeps what was answered, `wall` is the time at which it is, `lines` are typed."""
        self._subject = subject
        self._books = books
        self._answers = answers
        self._keep = keep
        self._wall = wall
        self._aimed: dict[tuple[str, str], str] = {}
        self._lines = lines
        self._told = answers.resumed()
        self.scene: Scene | None = None
        """What was asked about last, and ..."""
        self.asked: Asked | None = None
        """... what was asked."""
        self._last: Around | None = None

    async def run(self) -> bool:
        """Ask until there is a verdict, and return True; False when the person wants to go on another time."""
        while True:
            self.scene, asked = await questions(self._subject, self._books, self._answers.given, self._aimed)
            self.asked = asked
            self._show(asked)
            going = await self._answer(asked)
            if going is not None:
                # The card tells of the nodes as they were then: once they are left, all of them are lost.
                self._last = self._around()
                return going

    async def _answer(self, asked: Asked) -> bool | None:
        """Take one line after the other until one changes something; None to ask anew."""
        step = step_of(asked)
        while True:
            typed = await self._line(_PROMPT)
            if typed is None or typed in ("q", "quit", "exit"):
                return False
            word, _, rest = typed.partition(" ")
            if typed == "":
                return self._accept(asked)
            if word == "v":
                return True
            if word == "m":
                if await self._measure(asked, rest):
                    return None
            elif word == "w":
                self._show(asked, why=True)
            elif word == "b":
                if self._answers.back(asked):
                    self._changed()
                    return None
                _say("this is the first question; q leaves")
            elif word == "s" and step is not None:
                self._answers.skip(asked, self._wall())
                self._changed()
                return None
            elif step is not None and (chosen := answer_meant(typed, step.answers)):
                self._answers.choose(asked, chosen, self._wall())
                self._changed()
                return None
            else:
                _say(f'"{typed[:40]}" is no answer here:')
                self._rows(lambda glyphs, cells: _keys(step, cells))

    def _accept(self, asked: Asked) -> bool | None:
        """Take what is proposed; True when that was the last question."""
        if step_of(asked) is None:
            return True
        self.asked = self._answers.accept(asked, self._wall())
        self._changed()
        return True if step_of(self.asked) is None else None

    def _changed(self) -> None:
        self._told = ""
        self._keep()

    # ---- what is shown

    def _around(self) -> Around:
        subject = self._subject
        why_not = "a recording runs nothing" if subject.runs is None else ""
        snapshot, asked = subject.snapshot, self.asked
        doubt = unconfirmed(asked.found.verdict, snapshot, subject.focus) if asked is not None else ""
        told = tuple(words for words in (self._told, doubt) if words)
        return around_of(snapshot, snapshot.wall, subject.runs, subject.mono, why_not=why_not, told=told)

    def _show(self, asked: Asked, *, why: bool = False) -> None:
        around, step = self._around(), step_of(asked)

        def build(glyphs: Glyphs, cells: int) -> list[Row]:
            return [
                (),
                triage_title(asked, self._subject.focus, around.now, cells),
                *step_rows(asked, around, glyphs, cells, why=why),
                (),
                *_keys(step, cells),
            ]

        self._rows(build)

    def _rows(self, build: Callable[[Glyphs, int], Sequence[Row]]) -> None:
        print_rows(lambda glyphs, cells, _: build(glyphs, min(cells, 120)), err=True)

    def print_verdict(self) -> None:
        """Print the card on standard output."""
        asked, around = self.asked, self._last or self._around()
        if asked is not None:
            if sys.stdout.isatty():
                say("", err=True)
            print_rows(lambda glyphs, cells, _: verdict_rows(asked, around, glyphs, min(cells, 120)))

    async def _line(self, prompt: str) -> str | None:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        typed = await self._lines.next()
        if typed is None:
            say("", err=True)
        return typed

    # ---- measurements

    async def _measure(self, asked: Asked, which: str) -> bool:
        """Choose a measurement, show what it runs, run it; False when nothing ran."""
        runs, step = self._subject.runs, step_of(asked)
        if runs is None or runs.why_not:
            _say(runs.why_not if runs is not None else "a recording runs nothing")
            return False
        wanted = (step.wanted if step is not None else ()) or asked.found.wanted
        here = [one for one in wanted if one.probe in runs.probes]
        if not here:
            by_hand = f": by hand {wanted[0].command or wanted[0].probe} at {wanted[0].place}" if wanted else ""
            _say(f"nothing that runs from here would settle it{by_hand}")
            return False
        chosen: Wanted | None = here[0]
        if len(here) > 1:
            for number, one in enumerate(here, 1):
                _say(f"  {number} {one.probe} at {one.place}: {one.settles}")
            typed = which or await self._line(f"which, 1-{len(here)}? (enter: none) ")
            chosen = here[int(typed) - 1] if typed and typed.isdecimal() and 0 < int(typed) <= len(here) else None
        return chosen is not None and await self._run(runs, chosen)

    async def _run(self, runs: OnDemandRuns, wanted: Wanted) -> bool:
        try:
            preview = runs.preview(wanted.probe, [node_for(wanted, self._subject.snapshot)])
        except StethoscopeError as error:
            _say(str(error))
            return False
        self._rows(lambda glyphs, cells: preview_rows(preview, cells, glyphs))
        refusals = [step.refusal for step in preview.steps if step.refusal is not None]
        is_refused = len(refusals) == len(preview.steps)
        if is_refused and not any(refused.can_force for refused in refusals):
            _say("it is refused: nothing was run")
            return False
        prompt = "refused; type yes to run it anyway: " if is_refused else "run it? y runs it, enter does not: "
        typed = await self._line(prompt)
        if typed not in (("yes",) if is_refused else ("y", "yes")):
            _say("nothing was run")
            return False
        if len(preview.steps) == 1:
            aim = preview.steps[0].aim
            self._aimed[wanted.probe, aim.place or aim.node] = wanted.place
        await self._wait(runs.start(preview, force=is_refused), preview)
        return True

    async def _wait(self, batch: Batch, preview: Preview) -> None:
        """Wait for what runs, or until enter is pressed: what comes later is evidence all the same."""
        assert batch.task is not None
        overwrites = can_overwrite()
        typed: asyncio.Future[Any] = self._lines.next()
        _say("running; enter goes on without waiting")
        told = self._subject.mono
        while not (batch.task.done() or typed.done()):
            await asyncio.wait([batch.task, typed], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            now = self._subject.mono
            if overwrites:
                sys.stderr.write(f"\r\x1b[K{batch.progress(now)}")
                sys.stderr.flush()
            elif now - told >= _TOLD_S:
                told = now
                _say(batch.progress(now))
        if overwrites:
            sys.stderr.write("\r\x1b[K")
        for result in batch.results:
            self._rows(lambda glyphs, cells, result=result: result_rows(result, cells, glyphs, raw=False))  # type: ignore[misc]
        if not batch.done:
            back, all_ = len(batch.results), len(preview.steps)
            _say(f"{back} of {all_} are back: the rest counts once it is there")


def answer_meant(typed: str, answers: Sequence[str]) -> str | None:
    """Return the answer that a number, a word or the beginning of one means; None for none, or more than one."""
    known = list(dict.fromkeys(answers))
    if typed.isdecimal():
        return known[int(typed) - 1] if 0 < int(typed) <= len(known) else None
    if len(typed) < 2:
        # A letter that was meant for another question is no answer.
        return None
    exact = [answer for answer in known if answer.casefold() == typed.casefold()]
    near = exact or [answer for answer in known if answer.casefold().startswith(typed.casefold())]
    return near[0] if len(near) == 1 else None


def can_overwrite() -> bool:
    """Tell whether the terminal of standard error can take back what was written last."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _keys(step: AskStep | None, cells: int) -> list[Row]:
    """Return what may be typed."""
    rows: list[Row] = []
    if step is not None:
        named = [
            f"{number} {answer}{' (enter)' if answer == step.proposed else ''}"
            for number, answer in enumerate(dict.fromkeys(step.answers), 1)
        ]
        rows += [(Span(f" {line}", Tone.STRONG),) for line in _lines_of(named, "   ", cells - 2)]
    accept = "enter verdict" if step is None else "enter go on" if step.proposed == NOT_KNOWN else "enter accept"
    keys = [accept, *(["number or word: another answer"] if step is not None else []), "m measure"]
    keys += [*(["s skip"] if step is not None else []), "b back", "w why", "v verdict now", "q quit"]
    rows += [(Span(f" {line}", Tone.QUIET),) for line in _lines_of(keys, " | ", cells - 2)]
    return rows


def _lines_of(parts: Sequence[str], between: str, cells: int) -> list[str]:
    """Return parts in lines, none of them broken."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(between) + len(part) <= cells:
            lines[-1] += between + part
        else:
            lines.append(part)
    return lines


def _say(text: str) -> None:
    say(f" {text}", err=True)


def summary_of(asked: Asked | None) -> list[str]:
    """Return what is known so far, in a line or two, for who leaves before the verdict."""
    if asked is None or asked.found.verdict.root_cause == HEALTHY:
        return []
    verdict = asked.found.verdict
    text = f"so far: {verdict.root_cause}, sure {verdict.confidence:.2f}: {verdict.summary}"
    return textwrap.wrap(text, 78, break_on_hyphens=False, max_lines=3, placeholder=" ...")
