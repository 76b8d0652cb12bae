"""`stethoscope decode`: what happened first, to whom, how bad it is, and what to check next."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_URGENT, UsageError

if TYPE_CHECKING:
    from stethoscope.model.logs import LogVerdict


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.decode/1).")
@playbooks_option
def command(files: tuple[str, ...], as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Read logs and say what happened first."""
    from stethoscope.clock import SystemClock
    from stethoscope.session.decode import decode

    names = list(files) or ["-"]
    if not files and sys.stdin.isatty():
        raise UsageError("name a log file, or pipe one in: dmesg | stethoscope decode")
    decoded = decode(names, *directories_of(playbooks), clock=SystemClock())
    if as_json:
        import msgspec

        from stethoscope.cli.decode_json import decoded_json

        click.echo(msgspec.json.encode(decoded_json(decoded)).decode())
    return exit_code(decoded.verdict)


def exit_code(verdict: LogVerdict) -> int:
    """Return 0 for nothing wrong, 1 for P2, 2 for P0 and P1."""
    from stethoscope.model.finding import Severity

    if verdict.severity in (Severity.P0, Severity.P1):
        return EXIT_URGENT
    return EXIT_PLANNED if verdict.severity is Severity.P2 else EXIT_HEALTHY
