"""`stethoscope lint`: check the data files and let them test themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

if TYPE_CHECKING:
    from stethoscope.session.lint import LintResult


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@playbooks_option
def command(playbooks: tuple[str, ...]) -> int:
    """Check metrics, root causes, rules and scenarios, and run the tests that rules carry.

    Prints one line for each error, `file:line:column: message`. Exit status: 0 nothing is wrong, 65 something is.
    """
    from stethoscope.session.lint import lint

    result = lint(*directories(playbooks))
    for error in result.errors:
        say(str(error))
    click.echo(_sum(result), err=bool(result.errors))
    return EXIT_DATA if result.errors else EXIT_HEALTHY


def _sum(result: LintResult) -> str:
    counts = ", ".join(f"{count:,} {what if count != 1 else what[:-1]}" for what, count in result.counts.items())
    errors = len(result.errors)
    return f"{counts}: {'nothing wrong' if not errors else f'{errors} error' + 's' * (errors > 1)}"
