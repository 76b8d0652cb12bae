"""`stethoscope check`: look once and say what is wrong, for people and for scripts."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stethoscope.cli.filter import filter_json, filter_option, filter_row, fitting, read_filter
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_UNREACHABLE, EXIT_URGENT, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.check import CheckResult
    from stethoscope.ui.present.spans import Glyphs, Row


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@filter_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.check/1).")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for slow nodes.")
@playbooks_option
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def command(
    source: SourceOptions,
    at: str | None,
    filter_text: str | None,
    as_json: bool,
    timeout: str,
    playbooks: tuple[str, ...],
    ascii_only: bool,
) -> int:
    """Look at every node twice within a few seconds and print what is wrong; with --replay, what was wrong at a time.

    Exit status: 0 nothing, 1 findings of P2, 2 findings of P0 or P1, 69 when no node was reached.
    """
    recording, directories = source.recording(), directories_of(playbooks)
    chosen = read_filter(filter_text, directories)
    if recording is not None:
        result = look_back(recording, at, directories)
    elif at is not None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    else:
        result = look(with_keys(source), timeout, directories)
    nodes, is_reached = len(result.snapshot.nodes), bool(result.reached)
    if chosen is not None:
        result = _told_of(result, fitting(result.snapshot, chosen))
    if as_json:
        import msgspec

        from stethoscope.ui.present.report import report_json

        document = report_json(result)
        if chosen is not None:
            document["filter"] = filter_json(chosen, len(result.snapshot.nodes), nodes)
        click.echo(msgspec.json.encode(document).decode())
    else:
        from stethoscope.ui.present.report import report_rows

        more = [filter_row(chosen, len(result.snapshot.nodes), nodes)] if chosen is not None else []
        print_rows(lambda glyphs: [*more, *report_rows(result, glyphs)], ascii_only=ascii_only)
    return exit_code(result, is_reached=is_reached)


def _told_of(result: CheckResult, snapshot: FleetSnapshot) -> CheckResult:
    """Return what was seen of the nodes of `snapshot`."""
    there = snapshot.by_name
    return replace(
        result,
        snapshot=snapshot,
        reached=tuple(name for name in result.reached if name in there),
        unreached=tuple(name for name in result.unreached if name in there),
        seen_once=tuple(name for name in result.seen_once if name in there),
    )


def look(source: SourceOptions, timeout: str, directories: list[Path], *, one: str = "") -> CheckResult:
    """Look at the nodes of `source` twice and return what was seen; UsageError for a time that is none. With `one` that
    node alone is waited for, and no more of the others are asked than it takes to compare it."""
    import asyncio

    from stethoscope.clock import SystemClock
    from stethoscope.session.check import APART_S, ONE_APART_S, check
    from stethoscope.session.open import open_session
    from stethoscope.session.resolve import with_peers
    from stethoscope.specs.duration import duration_s

    try:
        timeout_s = duration_s(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    clock = SystemClock()
    nodes = open_source(source, clock, narrow=lambda fleet: with_peers(fleet, one) if one else fleet)
    session = open_session(nodes, clock, *directories, single_look=True, kept=not source.demo)
    narrate = sys.stderr.isatty()
    looking = check(
        session,
        timeout_s=timeout_s,
        apart_s=ONE_APART_S if one else APART_S,
        wanted=(one,) if one else (),
        on_progress=(_narrate_one(one) if one else _narrate) if narrate else None,
    )
    result = asyncio.run(looking)
    if narrate:
        click.echo("\r\x1b[K", err=True, nl=False)
    for notice in session.take_notices():
        click.echo(f"note: {notice}", err=True)
    return result


def look_back(recording: Path, at: str | None, directories: list[Path]) -> CheckResult:
    """Return what a recording shows at a time of it, its end when none is given."""
    from stethoscope.session.open import session_maker
    from stethoscope.session.replay import check_recording, parse_at
    from stethoscope.store.tape import open_tape

    tape = open_tape(recording)
    return check_recording(tape, session_maker(*directories), tape.end if at is None else parse_at(at, tape))


def exit_code(result: CheckResult, *, is_reached: bool | None = None) -> int:
    """Return the exit status that a result stands for; `is_reached` tells whether any node was reached, where the
    result does not tell of all."""
    from stethoscope.model.finding import Severity

    if not (result.reached if is_reached is None else is_reached):
        return EXIT_UNREACHABLE
    severities = {finding.severity for finding in result.findings}
    if severities & {Severity.P0, Severity.P1}:
        return EXIT_URGENT
    return EXIT_PLANNED if Severity.P2 in severities else EXIT_HEALTHY


def _narrate(done: int, nodes: int, seconds: float) -> None:
    click.echo(f"\r\x1b[Klooking at {nodes:,} nodes, {done:,} done, {seconds:.0f} s", err=True, nl=False)


def _narrate_one(name: str) -> Callable[[int, int, float], None]:
    def narrate(done: int, nodes: int, seconds: float) -> None:
        others = f", comparing with {nodes - 1:,} others, {done:,} of all done" if nodes > 1 else ""
        click.echo(f"\r\x1b[Klooking at {name}{others}, {seconds:.0f} s", err=True, nl=False)

    return narrate


def print_rows(build: Callable[[Glyphs], list[Row]], *, ascii_only: bool) -> None:
    """Print the rows that `build` makes of the characters which the output can show; coloured on a terminal alone."""
    from stethoscope.ui.present.spans import ASCII, UNICODE, plain, to_ascii

    ascii_only = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
    rows = build(ASCII if ascii_only else UNICODE)
    if sys.stdout.isatty():
        _print_in_colour(rows, ascii_only=ascii_only)
        return
    for row in rows:
        click.echo(to_ascii(plain(row)) if ascii_only else plain(row))


def _print_in_colour(rows: list[Row], *, ascii_only: bool) -> None:
    """Print rows in the colours of the terminal, or in none (NO_COLOR), each cut to its width."""
    from rich.console import Console
    from rich.text import Text

    from stethoscope.ui.present.spans import Tone, cut, plain, row_width, to_ascii

    styles = {
        Tone.CRITICAL: "bold red",
        Tone.WARNING: "yellow",
        Tone.PLANNED: "cyan",
        Tone.NORMAL: "dim",
        Tone.MISSING: "dim",
        Tone.QUIET: "dim",
        Tone.STRONG: "bold",
    }
    console = Console(highlight=False, markup=False, emoji=False)
    for row in rows:
        text = Text(no_wrap=True, end="")
        for span in row:
            text.append(to_ascii(span.text) if ascii_only else span.text, styles.get(span.tone, ""))
        if row_width(row) > console.width:
            shown = cut(to_ascii(plain(row)) if ascii_only else plain(row), console.width, "~" if ascii_only else "…")
            text.truncate(len(shown) - 1)
            text.append(shown[-1])
        console.print(text, soft_wrap=True)
