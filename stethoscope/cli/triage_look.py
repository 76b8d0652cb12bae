"""What `stethoscope triage` looks at: a fleet that is watched, a moment of a recording, or what a bundle holds; and the
bundle that is made of it."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, open_source
from stethoscope.errors import DataError, UnreachableError, UsageError
from stethoscope.session.focus import check_focus
from stethoscope.specs.playbook import load_playbooks

if TYPE_CHECKING:
    from stethoscope.analysis.triage_ask import Asked
    from stethoscope.cli.triage_ask import Ended, Remember
    from stethoscope.model.verdict import Diagnosis, Scene
    from stethoscope.session.session import Session
    from stethoscope.session.triage import Witness
    from stethoscope.specs.playbook import Playbooks
    from stethoscope.store.tape import Tape


@dataclass(frozen=True, slots=True)
class Looking:
    """How it is looked, as the command line says it."""

    source: SourceOptions
    directories: list[Path]
    focus: str
    at: str | None
    watch_s: float
    measures: bool
    remember: Remember
    """Adds what of the past looks like it to what is told."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    found: Diagnosis | None
    """None for who left before anything was known."""
    status: int | None = None
    """Exit status of who was interrupted."""
    prints: bool = False
    """Nothing was printed yet."""
    scene: Scene | None = None
    """What was known then, where nothing was printed yet."""


def triage(looking: Looking, *, auto: bool) -> Outcome:
    """Look, answer or ask, and write the bundle that is wanted."""
    source, books = looking.source, load_playbooks(*looking.directories)
    into = bundle_path(source)
    with ExitStack() as stack:
        if source.replay is not None:
            tape, moment, scene = recorded(looking)
            check_focus(scene, looking.focus)
            outcome, seen = _recorded_answer(looking, scene, books, auto=auto)
        else:
            place = None
            if into is not None:
                directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="stethoscope-triage-"))
                place = Path(directory) / "watched.sthr"
            outcome, seen = _live_answer(looking, books, place, auto=auto)
            if seen is None or place is None:
                return outcome
            from stethoscope.store.tape import open_tape

            tape = open_tape(place)
            moment = tape.at_wall(seen[0].now_s)
        if into is not None and seen is not None:
            _freeze(into, tape, moment, seen, books)
    return outcome


_Seen = tuple["Scene", "Diagnosis", "Asked | None"]
"""What was known, what was found, and what a person was asked, None for nobody."""


def bundle_path(source: SourceOptions) -> Path | None:
    """Return where a bundle is to be written, None for nowhere; UsageError where there is something already."""
    if source.bundle is None:
        return None
    path = Path(source.bundle)
    if path.exists():
        raise UsageError(f"--bundle: {path} is there already; bundles are not written over")
    return path


# ---- what was recorded


def recorded(looking: Looking) -> tuple[Tape, float, Scene]:
    """Return a tape, the second of it that is asked about, and all that is known there."""
    from stethoscope.session.freeze import thaw
    from stethoscope.session.open import session_maker
    from stethoscope.session.replay import parse_at
    from stethoscope.session.triage import scene_of_recording
    from stethoscope.store.bundle import Bundle
    from stethoscope.store.tape import open_tape

    source, at = looking.source, looking.at
    tape, make = open_tape(Path(str(source.replay))), session_maker(*looking.directories, remember=False)
    if source.frozen is not None:
        if at is not None:
            raise UsageError("--at: a bundle holds one moment")
        bundle = Bundle(source.frozen)
        try:
            scene = thaw(bundle, tape, make)
        finally:
            bundle.close()
        return tape, tape.end, replace(scene, focus=looking.focus or scene.focus)
    moment = tape.end if at is None else parse_at(at, tape)
    return tape, moment, scene_of_recording(tape, make, moment, focus=looking.focus)


def _recorded_answer(looking: Looking, scene: Scene, books: Playbooks, *, auto: bool) -> tuple[Outcome, _Seen | None]:
    if auto:
        from stethoscope.analysis.triage import diagnose

        found = diagnose(scene, books)
        return Outcome(found, prints=True, scene=scene), (scene, found, None)
    from stethoscope.cli.triage_ask import ask_about_recording

    source = looking.source
    name = str((source.frozen or Path(str(source.replay))).resolve())
    return _ended(ask_about_recording(scene, books, name, looking.remember))


# ---- what is watched


def _live_answer(looking: Looking, books: Playbooks, place: Path | None, *, auto: bool) -> tuple[Outcome, _Seen | None]:
    session, witness = _session(looking, place)
    if auto:
        scene, found = _unattended(session, witness, books, looking)
        check_focus(scene, looking.focus)
        return Outcome(found, prints=True, scene=scene), (scene, found, None)
    from stethoscope.cli.triage_ask import ask_about_fleet

    keeps, remember = not looking.source.demo, looking.remember
    return _ended(ask_about_fleet(session, witness, books, looking.focus, looking.watch_s, remember, keeps=keeps))


def _ended(ended: Ended) -> tuple[Outcome, _Seen | None]:
    asked, scene = ended.asked, ended.scene
    if asked is None:
        return Outcome(None, ended.status), None
    seen = (scene, asked.found, asked) if ended.is_over and scene is not None else None
    return Outcome(asked.found, ended.status), seen


def _session(looking: Looking, place: Path | None) -> tuple[Session, Witness]:
    from stethoscope.cli.recording import file_recorder
    from stethoscope.clock import SystemClock
    from stethoscope.session.open import open_session
    from stethoscope.session.triage import Witness

    source, clock = looking.source, SystemClock()
    nodes = open_source(replace(source, bundle=None), clock)
    witness = Witness(clock.wall())
    recorders = (file_recorder(nodes, clock, str(place), "--bundle"),) if place is not None else ()
    taps = (witness, *recorders)
    session = open_session(nodes, clock, *looking.directories, taps=taps, kept=not source.demo)
    if not looking.measures:
        session.ondemand.forbid("--no-measure: nothing is run on nodes but the stream probe")
    return session, witness


def _unattended(session: Session, witness: Witness, books: Playbooks, looking: Looking) -> tuple[Scene, Diagnosis]:
    import asyncio

    from stethoscope.session.triage import triage_live

    narrate = sys.stderr.isatty()
    looked = asyncio.run(
        triage_live(
            session,
            witness,
            books,
            focus=looking.focus,
            watch_s=looking.watch_s,
            on_progress=_narrate if narrate else None,
        )
    )
    if narrate:
        click.echo("\r\x1b[K", err=True, nl=False)
    if not any(node.frames for node in session.snapshot().nodes):
        raise UnreachableError("no node was reached")
    return looked


def _narrate(text: str) -> None:
    click.echo(f"\r\x1b[K{text}", err=True, nl=False)


# ---- the bundle


def _freeze(into: Path, tape: Tape, moment: float, seen: _Seen, books: Playbooks) -> None:
    from stethoscope.analysis.triage_ask import ask
    from stethoscope.session.freeze import freeze
    from stethoscope.ui.present.spans import UNICODE
    from stethoscope.ui.present.triage import around_of
    from stethoscope.ui.present.verdict import verdict_markdown

    scene, found, asked = seen
    around = around_of(scene.snapshot, scene.now_s, None, 0.0, why_not="a bundle runs nothing")
    asked = asked or replace(ask(scene, books, {}), found=found)
    card = verdict_markdown(asked, scene.snapshot.fleet, around, UNICODE)
    try:
        written = freeze(into, tape, moment, scene, found, card)
    except FileExistsError:
        raise UsageError(f"--bundle: {into} is there already; bundles are not written over") from None
    except OSError as error:
        raise DataError(f"the bundle cannot be written: {error.strerror or error}", where=str(into)) from None
    say(f"stethoscope triage: {into}: {written.size:,} bytes, {written.records:,} recorded lines", err=True)
