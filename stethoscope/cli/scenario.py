"""`stethoscope scenario`: check scenarios of the simulated fleet, and begin one from a recording."""

from __future__ import annotations

from pathlib import Path

import click

from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

CHECK_SCHEMA = "stethoscope.scenario_check/1"
_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_HELP)
def command() -> None:
    """Check scenarios of the simulated fleet, or make one from a recorded night."""


@command.command(context_settings=_HELP)
@click.argument("names", metavar="FILE|DIR|NAME...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document ({CHECK_SCHEMA}).")
def check(names: tuple[str, ...], as_json: bool) -> int:
    """Say what is wrong with scenarios, `file:line:column: message`, with the nearest word that is known.

    What a scenario expects is checked as well. Exit status: 0 nothing is wrong, 65 something is.
    """
    from stethoscope.session.drill import scenario_files
    from stethoscope.session.scenario_check import check_scenario

    files = scenario_files([Path(name) for name in names], lambda text: say(f"stethoscope scenario: {text}", err=True))
    checked = [check_scenario(name) for name in files]
    if as_json:
        import msgspec

        document = {"schema": CHECK_SCHEMA, "files": [one.as_json() for one in checked]}
        click.echo(msgspec.json.encode(document).decode())
    else:
        for one in checked:
            for error in one.errors:
                say(str(error))
            for remark in one.remarks:
                say(f"{one.file}: {remark}", err=True)
            if not one.errors:
                say(f"{one.file}: nothing wrong: {one.summary}")
    return EXIT_DATA if any(one.errors for one in checked) else EXIT_HEALTHY


@command.command("from-recording", context_settings=_HELP)
@click.argument("path", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option("--id", "id_", metavar="NAME", help="What the scenario is called. [as its file]")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there. [stdout]")
def from_recording(path: Path, id_: str | None, output: Path | None) -> int:
    """Begin a scenario from a recording: its fleet, jobs, log lines and, as comments, what was found and when.

    What caused it is yours to write: kinds of faults that fit what was found are named in the comments. It can be
    played as it stands, and expects `unknown` until you say what a right diagnosis is.
    """
    from stethoscope.errors import DataError, UsageError
    from stethoscope.paths import is_there
    from stethoscope.session.scenario_from import scenario_from
    from stethoscope.store.tape import open_tape

    if not is_there(path):
        raise DataError("no such file or directory", where=str(path))
    text = scenario_from(open_tape(path), id_ or (output or path).name.partition(".")[0])
    if output is None:
        click.echo(text, nl=False)
        return EXIT_HEALTHY
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"--output: {output} is there already; scenarios are not written over") from None
    except OSError as error:
        raise UsageError(f"--output: {output}: {error.strerror}") from None
    say(
        f"stethoscope scenario: {output} written; say what caused it, then: stethoscope scenario check {output}",
        err=True,
    )
    return EXIT_HEALTHY
