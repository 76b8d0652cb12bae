"""`stethoscope findings --follow`: a line for each finding that comes, changes or clears, until interrupted."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from stethoscope.cli.source import SourceOptions, open_source

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.cli.findings_select import Selection
    from stethoscope.session.session import Session

_LOOK_S = 0.5


def follow_findings(
    source: SourceOptions, directories: list[Path], selection: Selection, *, as_json: bool, ascii_only: bool
) -> int:
    """Print what happens until the user ends it, or who reads it does; return the exit status of what is active."""
    from stethoscope.cli.findings import exit_code
    from stethoscope.clock import SystemClock
    from stethoscope.session.open import open_session

    clock = SystemClock()
    session = open_session(open_source(source, clock), clock, *directories, kept=not source.demo)
    ascii_only = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
    if sys.stderr.isatty():
        click.echo("following; ctrl+c ends", err=True)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(_follow(session, selection, as_json=as_json, ascii_only=ascii_only))
    now = clock.wall()
    return exit_code(selection.of(session.night.entries.values(), now))


async def _follow(session: Session, selection: Selection, *, as_json: bool, ascii_only: bool) -> None:
    running = asyncio.create_task(session.run())
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=_LOOK_S)
            _print_told(session, selection, as_json=as_json, ascii_only=ascii_only)
            for notice in session.take_notices():
                click.echo(f"note: {notice}", err=True)
        # Raises what ended the source, if it was an error.
        running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _print_told(session: Session, selection: Selection, *, as_json: bool, ascii_only: bool) -> None:
    import msgspec

    from stethoscope.ui.present.finding_report import event_json, event_row
    from stethoscope.ui.present.spans import ASCII, UNICODE, plain, to_ascii

    now, fleet = session.clock.wall(), session.source.fleet
    for word, entry in session.night.take_told():
        if not selection.takes(entry, now, every=True):
            continue
        if as_json:
            line = msgspec.json.encode(event_json(word, entry, fleet, now)).decode()
        else:
            row = plain(event_row(word, entry, now, ASCII if ascii_only else UNICODE))
            line = to_ascii(row) if ascii_only else row
        click.echo(line)
    sys.stdout.flush()
