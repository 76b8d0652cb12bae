"""`stethoscope triage`: what is wrong, why, and what to do; asked step by step, or with --auto not at all."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_URGENT, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.verdict import Diagnosis, Scene
    from stethoscope.session.session import Session
    from stethoscope.session.triage import Witness
    from stethoscope.specs.playbook import Playbooks


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--auto", is_flag=True, help="Ask nothing: take every answer that the facts give.")
@click.option("--job", metavar="ID", help="About this job alone.")
@click.option("--about", metavar="PLACE", help="About a node or a device of it: gpu-007, gpu-007/ib/mlx5_3.")
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.triage/1).")
@click.option("--watch", metavar="TIME", default="20s", show_default=True, help="How long a fleet is watched first.")
@click.option("--no-measure", is_flag=True, help="Run nothing on nodes but the stream probe.")
@playbooks_option
def command(
    source: SourceOptions,
    auto: bool,
    job: str | None,
    about: str | None,
    at: str | None,
    as_json: bool,
    watch: str,
    no_measure: bool,
    playbooks: tuple[str, ...],
) -> int:
    """Say what is wrong, to whom, why that is believed, what would settle it, and what is safe to do now.

    Watches the fleet for a while and leads from question to question to the verdict; enter takes the proposed answer.
    With --auto it asks nothing, runs the measurements that would settle it, and answers. With --replay from what a
    recording holds. Exit status: 0 healthy, 1 something to be planned (P2), 2 something urgent (P0, P1), 69 when no
    node was reached.
    """
    if not auto:
        if as_json:
            raise UsageError("--json is the answer of --auto: say it too")
        from stethoscope.cli.triage_ask import need_terminal

        need_terminal()
    if job is not None and about is not None:
        raise UsageError("--job and --about: say one of them")
    focus = f"job/{job}" if job is not None else about or ""
    recording, directories = source.recording(), directories_of(playbooks)
    if recording is None and at is not None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    watch_s = _seconds(watch)
    if not auto:
        if recording is not None:
            found, status = _ask_back(recording, at, directories, focus)
        else:
            found, status = _ask(with_keys(source), directories, focus, watch_s, measures=not no_measure)
        return status if status is not None else EXIT_HEALTHY if found is None else exit_code(found)
    if recording is not None:
        found = _look_back(recording, at, directories, focus)
    else:
        found = _look(with_keys(source), directories, focus, watch_s, measures=not no_measure)
    if as_json:
        import msgspec

        say(msgspec.json.encode(found.as_json()).decode())
    else:
        for line in lines_of(found):
            say(line)
    return exit_code(found)


def _seconds(watch: str) -> float:
    from stethoscope.specs.duration import duration_s

    try:
        return duration_s(watch)
    except ValueError as error:
        raise UsageError(f"--watch: {error}") from None


def _look_back(recording: Path, at: str | None, directories: list[Path], focus: str) -> Diagnosis:
    from stethoscope.analysis.triage import diagnose
    from stethoscope.specs.playbook import load_playbooks

    books = load_playbooks(*directories)
    return diagnose(_moment(recording, at, directories, focus), books)


def _ask_back(
    recording: Path, at: str | None, directories: list[Path], focus: str
) -> tuple[Diagnosis | None, int | None]:
    from stethoscope.cli.triage_ask import ask_about_recording
    from stethoscope.specs.playbook import load_playbooks

    books = load_playbooks(*directories)
    return ask_about_recording(_moment(recording, at, directories, focus), books, str(recording.resolve()))


def _moment(recording: Path, at: str | None, directories: list[Path], focus: str) -> Scene:
    from stethoscope.session.open import session_maker
    from stethoscope.session.replay import parse_at
    from stethoscope.session.triage import scene_of_recording
    from stethoscope.store.tape import open_tape

    tape = open_tape(recording)
    moment = tape.end if at is None else parse_at(at, tape)
    return scene_of_recording(tape, session_maker(*directories, remember=False), moment, focus=focus)


def _watched(source: SourceOptions, directories: list[Path], *, measures: bool) -> tuple[Session, Witness, Playbooks]:
    from stethoscope.clock import SystemClock
    from stethoscope.session.open import open_session
    from stethoscope.session.triage import Witness
    from stethoscope.specs.playbook import load_playbooks

    clock, books = SystemClock(), load_playbooks(*directories)
    nodes = open_source(source, clock)
    witness = Witness(clock.wall())
    session = open_session(nodes, clock, *directories, taps=(witness,), kept=not source.demo)
    if not measures:
        session.ondemand.forbid("--no-measure: nothing is run on nodes but the stream probe")
    return session, witness, books


def _ask(
    source: SourceOptions, directories: list[Path], focus: str, watch_s: float, *, measures: bool
) -> tuple[Diagnosis | None, int | None]:
    from stethoscope.cli.triage_ask import ask_about_fleet

    session, witness, books = _watched(source, directories, measures=measures)
    return ask_about_fleet(session, witness, books, focus, watch_s, keeps=not source.demo)


def _look(source: SourceOptions, directories: list[Path], focus: str, watch_s: float, *, measures: bool) -> Diagnosis:
    import asyncio

    from stethoscope.errors import UnreachableError
    from stethoscope.session.triage import triage_live

    session, witness, books = _watched(source, directories, measures=measures)
    narrate = sys.stderr.isatty()
    found = asyncio.run(
        triage_live(session, witness, books, focus=focus, watch_s=watch_s, on_progress=_narrate if narrate else None)
    )
    if narrate:
        click.echo("\r\x1b[K", err=True, nl=False)
    if not any(node.frames for node in session.snapshot().nodes):
        raise UnreachableError("no node was reached")
    return found


def _narrate(text: str) -> None:
    click.echo(f"\r\x1b[K{text}", err=True, nl=False)


def exit_code(found: Diagnosis) -> int:
    """Return the exit status that a diagnosis stands for."""
    severity = found.verdict.severity.value
    if severity in ("P0", "P1"):
        return EXIT_URGENT
    return EXIT_PLANNED if severity == "P2" else EXIT_HEALTHY


def lines_of(found: Diagnosis) -> list[str]:
    """Return a diagnosis as lines for people."""
    verdict = found.verdict
    head = f"{verdict.severity.value}  " if verdict.severity.value.startswith("P") else ""
    lines = [f"{head}{verdict.root_cause} ({verdict.confidence:.0%} sure)", f"    {verdict.summary}"]
    if verdict.places:
        lines.append(f"    culprit: {', '.join(verdict.places)}")
    lines.append(f"    scope {found.scope}, layer {found.layer}")
    for title, facts in (("because", verdict.supports), ("against it", verdict.contradicts)):
        if facts:
            lines += ["", f"{title}:"]
            for fact in facts:
                value = "" if fact.value is None else f": {fact.value}"
                expected = f" (expected {fact.expected})" if fact.expected else ""
                lines.append(f"  {fact.fact}{value}{expected}{f' at {fact.where}' if fact.where else ''}")
    if verdict.rules_out:
        lines += ["", "not:", *(f"  {cause}: {because}" for cause, because in verdict.rules_out)]
    if found.alternatives:
        lines += ["", "or else:"]
        lines += [f"  {one.root_cause} ({one.confidence:.0%}): {one.summary}" for one in found.alternatives]
    if found.also:
        lines += ["", "also:", *(f"  {one.severity.value} {one.root_cause}: {one.summary}" for one in found.also)]
    if found.wanted:
        lines += ["", "what would settle it:"]
        lines += [f"  {one.place}: {one.command or one.probe} - {one.settles}" for one in found.wanted]
    if found.actions:
        lines += ["", "now:", *(f"  {action}" for action in found.actions)]
    if found.path:
        lines += ["", "the way there:", *(f"  {step.question} {step.answer}" for step in found.path)]
    return lines
