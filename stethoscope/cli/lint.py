"""`stethoscope lint`: check the data files and let them test themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.errors import DataError
    from stethoscope.session.lint import LintResult


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.lint/1).")
@playbooks_option
def command(as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Check metrics, root causes, rules, scenarios, probes and your settings, and run the tests that rules carry.

    With --playbooks DIR, what DIR holds is checked: any part of a playbooks tree (rules/, signatures/, metrics.yaml
    ...), or rule files in DIR itself. Prints one line for each error, `file:line:column: message`. Exit status: 0
    nothing is wrong, 65 something is.
    """
    from stethoscope.session.lint import lint

    result = lint(*directories(playbooks))
    settings = [] if playbooks else list(_settings())
    errors = [*result.errors, *settings]
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(replace(result, errors=tuple(errors)).as_json()).decode())
        return EXIT_DATA if errors else EXIT_HEALTHY
    for error in errors:
        say(str(error))
    if result.untested:
        say(f"without tests: {', '.join(result.untested)}", err=True)
    click.echo(_sum(result, len(errors)), err=bool(errors))
    return EXIT_DATA if errors else EXIT_HEALTHY


def _settings() -> Iterator[DataError]:
    """Yield what is wrong with the user's settings: only with all verbs known is a name one that none has."""
    import importlib

    from stethoscope.cli.main import VERBS
    from stethoscope.cli.settings import flags_of
    from stethoscope.errors import DataError
    from stethoscope.specs.config import load_config, unknown_names
    from stethoscope.specs.lemons import limits_of

    try:
        loaded = load_config()
        if loaded is not None:
            flags = {verb: flags_of(importlib.import_module(module).command) for verb, (module, _) in VERBS.items()}
            yield from unknown_names(loaded, flags)
            limits_of(loaded)
    except DataError as error:
        yield error


def _sum(result: LintResult, errors: int) -> str:
    counts = ", ".join(f"{count:,} {what if count != 1 else what[:-1]}" for what, count in result.counts.items())
    return f"{counts}: {'nothing wrong' if not errors else f'{errors} error' + 's' * (errors > 1)}"
