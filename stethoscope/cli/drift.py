"""`stethoscope drift`: which nodes differ from the others in versions and settings."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stethoscope.cli.check import print_rows
from stethoscope.cli.filter import filter_json, filter_option, filter_row, fitting, read_filter
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_UNREACHABLE, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.session.drift import DriftResult


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@filter_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.drift/1).")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for slow nodes.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def command(
    source: SourceOptions, at: str | None, filter_text: str | None, as_json: bool, timeout: str, ascii_only: bool
) -> int:
    """Compare versions and settings of nodes with the same GPUs and product, and print who differs from most.

    Exit status: 0 nothing differs, 1 something does, 69 when no node was reached.
    """
    recording, chosen = source.recording(), read_filter(filter_text, [])
    if recording is not None:
        result = _look_back(recording, at)
    elif at is not None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    else:
        result = _look(with_keys(source), timeout)
    table, snapshot, nodes = result.table, result.snapshot, len(result.snapshot.nodes)
    if chosen is not None:
        from stethoscope.analysis.drift import drift

        snapshot = fitting(snapshot, chosen)
        table = drift(snapshot)
    if as_json:
        import msgspec

        from stethoscope.ui.present.drift import drift_json

        document = drift_json(table, snapshot, result.seconds)
        if chosen is not None:
            document["filter"] = filter_json(chosen, len(snapshot.nodes), nodes)
        click.echo(msgspec.json.encode(document).decode())
    else:
        from stethoscope.ui.present.drift import drift_report

        # A pipe or a file gets whole lines.
        cells = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        more = [filter_row(chosen, len(snapshot.nodes), nodes)] if chosen is not None else []
        print_rows(
            lambda glyphs: [*more, *drift_report(table, snapshot, result.seconds, glyphs, cells)], ascii_only=ascii_only
        )
    return exit_code(replace(result, table=table))


def exit_code(result: DriftResult) -> int:
    """Return the exit status that a result stands for: what differs is to be planned, and seldom urgent."""
    if not result.is_reached:
        return EXIT_UNREACHABLE
    return EXIT_PLANNED if result.table.differing else EXIT_HEALTHY


def _look(source: SourceOptions, timeout: str) -> DriftResult:
    import asyncio

    from stethoscope.clock import SystemClock
    from stethoscope.session.drift import look_for_drift
    from stethoscope.session.open import open_session
    from stethoscope.specs.duration import duration_s

    try:
        timeout_s = duration_s(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    clock = SystemClock()
    session = open_session(open_source(source, clock), clock, single_look=True, kept=False)
    narrate = sys.stderr.isatty()
    result = asyncio.run(look_for_drift(session, timeout_s=timeout_s, on_progress=_narrate if narrate else None))
    if narrate:
        click.echo("\r\x1b[K", err=True, nl=False)
    for notice in session.take_notices():
        click.echo(f"note: {notice}", err=True)
    return result


def _look_back(recording: Path, at: str | None) -> DriftResult:
    from stethoscope.session.drift import drift_of_recording
    from stethoscope.session.open import session_maker
    from stethoscope.session.replay import parse_at
    from stethoscope.store.tape import open_tape

    tape = open_tape(recording)
    return drift_of_recording(tape, session_maker(), tape.end if at is None else parse_at(at, tape))


def _narrate(done: int, nodes: int, seconds: float) -> None:
    click.echo(f"\r\x1b[Kasking {nodes:,} nodes, {done:,} told, {seconds:.0f} s", err=True, nl=False)
