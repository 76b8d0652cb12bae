"""`stethoscope watch`: the live console on a fleet, or on this machine when no nodes are named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.source import SourceOptions, open_source, source_options

if TYPE_CHECKING:
    from stethoscope.session.session import Session


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--metric", metavar="ID", help="Metric of the fleet screen to start with.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters alone.")
def command(source: SourceOptions, metric: str | None, ascii_only: bool) -> int:
    """Open the live console: is something wrong, and where?

    Without --hosts or --fleet it watches this machine. `?` shows all keys, `q` quits.
    """
    import asyncio

    from stethoscope.ui.run import run_console

    async def open_session() -> Session:
        return await asyncio.to_thread(_open, source)

    return run_console(open_session, title=_title(source), ascii_only=ascii_only, metric=metric)


def _open(options: SourceOptions) -> Session:
    from stethoscope.clock import SystemClock
    from stethoscope.session.open import open_session

    clock = SystemClock()
    return open_session(open_source(options, clock), clock)


def _title(options: SourceOptions) -> str:
    if options.fleet is not None:
        return Path(options.fleet).stem
    return options.hosts or "this machine"
