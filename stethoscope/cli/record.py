"""`stethoscope record`: record a fleet without a screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stethoscope.cli.recording import file_recorder, ring_limits, ring_recorder
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import DataError, UsageError

if TYPE_CHECKING:
    from stethoscope.session.recorder import Recorder
    from stethoscope.session.session import Session

LOG_S = 60.0
"""Seconds between two lines of the log."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--output", metavar="FILE", help="Record into one new file, instead of the ring of the last hours.")
@click.option("--duration", metavar="TIME", help="End after this time, such as 30m.")
@click.option("--daemon", is_flag=True, help="For service managers: a line of log a minute; SIGHUP opens a new file.")
@click.option("--keep-time", metavar="TIME", default="24h", show_default=True, help="Time that the ring keeps.")
@click.option("--keep-size", metavar="SIZE", default="2G", show_default=True, help="Size that the ring keeps.")
def command(
    source: SourceOptions, output: str | None, duration: str | None, daemon: bool, keep_time: str, keep_size: str
) -> int:
    """Record everything that the nodes send, without a screen, until interrupted.

    Without --output the last hours are kept in $XDG_STATE_HOME/stethoscope/recordings. `stethoscope replay` shows it.
    """
    import asyncio

    from stethoscope.clock import SystemClock
    from stethoscope.session.session import Session
    from stethoscope.specs.duration import duration_s
    from stethoscope.specs.metric import load_catalogue

    if source.replay is not None:
        raise UsageError("--replay is a recording already")
    try:
        seconds = None if duration is None else duration_s(duration)
    except ValueError as error:
        raise UsageError(f"--duration: {error}") from None
    limits = ring_limits(keep_time, keep_size)
    clock = SystemClock()
    opened = open_source(with_keys(source), clock)
    if output is not None:
        recorder = file_recorder(opened, clock, output, "--output")
    else:
        recorder = ring_recorder(opened, clock, limits)
    session = Session(opened, load_catalogue(), clock, taps=(recorder,))
    _say(f"recording {len(opened.nodes):,} node{'s' * (len(opened.nodes) != 1)} into {recorder.outlet.name}")
    asyncio.run(_record(session, recorder, seconds, daemon=daemon))
    counts = recorder.counts
    _say(f"recorded {counts.lines:,} lines, {counts.written:,} bytes in {recorder.outlet.name}")
    if recorder.failure is not None:
        raise DataError(recorder.failure)
    return 0


async def _record(session: Session, recorder: Recorder, duration_s: float | None, *, daemon: bool) -> None:
    """Run `session` until the time is over, a signal comes, or the recorder fails."""
    import asyncio
    import signal

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    def turn() -> None:
        recorder.reopen()
        # A file that stands for itself begins with all values.
        session.source.ask_full()

    loop.add_signal_handler(signal.SIGHUP, turn if daemon else ended.set)
    running = asyncio.create_task(session.run())
    started = logged = session.clock.monotonic()
    try:
        while not (ended.is_set() or running.done() or recorder.failure is not None):
            now = session.clock.monotonic()
            left_s = 0.5 if duration_s is None else min(0.5, started + duration_s - now)
            if left_s <= 0:
                break
            for notice in session.take_notices():
                if notice != recorder.failure:
                    _say(notice)
            if daemon and now - logged >= LOG_S:
                logged = now
                _say(_status(session, recorder))
            elif not daemon and sys.stderr.isatty():
                click.echo(f"\r\x1b[K{_status(session, recorder)}", err=True, nl=False)
            waiting = asyncio.create_task(ended.wait())
            await asyncio.wait({running, waiting}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if running.done():
            running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if not daemon and sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)


def _status(session: Session, recorder: Recorder) -> str:
    nodes = session.snapshot().nodes
    live = sum(node.link.state.is_live for node in nodes)
    counts = recorder.counts
    dropped = f", {counts.dropped:,} dropped" if counts.dropped else ""
    return f"{live:,} of {len(nodes):,} nodes live, {counts.lines:,} lines, {counts.written:,} bytes{dropped}"


def _say(text: str) -> None:
    say(f"stethoscope record: {text}", err=True)
