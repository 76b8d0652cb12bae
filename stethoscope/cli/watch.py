"""`stethoscope watch`: the live console on a fleet, or on this machine when no nodes are named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.look import look_options
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from stethoscope.session.session import Session
    from stethoscope.ui.look import Look


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--record", metavar="FILE", help="Record into one new file too.")
@click.option("--no-record", is_flag=True, help="Do not keep a recording of the last hours.")
@click.option("--keep-time", metavar="TIME", default="24h", show_default=True, help="Time that it keeps.")
@click.option("--keep-size", metavar="SIZE", default="2G", show_default=True, help="Size that it keeps.")
@playbooks_option
@click.option("--fresh", is_flag=True, help="Do not begin with the view, filter and selection of the last time.")
@look_options
def command(
    source: SourceOptions,
    record: str | None,
    no_record: bool,
    keep_time: str,
    keep_size: str,
    playbooks: tuple[str, ...],
    fresh: bool,
    look: Look,
) -> int:
    """Open the live console: is something wrong, and where?

    Without --hosts or --fleet it watches this machine. `?` shows all keys, `q` quits. What the last hours brought is
    recorded; `stethoscope replay` shows it.
    """
    recording = source.recording()
    if recording is not None:
        if record is not None:
            raise UsageError("--replay is a recording already")
        from stethoscope.cli.replay import run_replay

        return run_replay(recording, look, playbooks=playbooks)
    directories = directories_of(playbooks)
    source = with_keys(source)

    from stethoscope.ui.run import run_console

    async def open_session() -> Session:
        return _open(source, directories, record, no_record, keep_time, keep_size)

    return run_console(open_session, _title(source), look, keeps=True, fresh=fresh, playbooks=directories)


def _open(
    options: SourceOptions,
    directories: list[Path],
    record: str | None,
    no_record: bool,
    keep_time: str,
    keep_size: str,
) -> Session:
    from stethoscope.cli.recording import file_recorder, ring_limits, ring_recorder
    from stethoscope.clock import SystemClock
    from stethoscope.session.open import open_session

    clock, limits = SystemClock(), ring_limits(keep_time, keep_size)
    source = open_source(options, clock)
    taps = [] if no_record else [ring_recorder(source, clock, limits)]
    if record is not None:
        taps.append(file_recorder(source, clock, record, "--record"))
    return open_session(source, clock, *directories, taps=taps, kept=not options.demo)


def _title(options: SourceOptions) -> str:
    if options.fleet is not None:
        return Path(options.fleet).stem
    return options.hosts or "this machine"
