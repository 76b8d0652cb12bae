"""What the verbs of `stethoscope kb` share: where the incidents are, which one is meant, how an answer is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.say import say
from stethoscope.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.model.incident import Incident, Search
    from stethoscope.session.incidents import Library
    from stethoscope.ui.present.spans import Glyphs, Row

HELP = {"help_option_names": ["-h", "--help"]}
WHOLE = 10**4
"""Cells of a row that is read by a program: nothing of it is cut."""
EVERY = 10**9
"""As many as there are."""

incidents_option = click.option(
    "--incidents", metavar="DIR", help="Where the incidents are. [incidents: of the settings, else the user's data]"
)
ascii_option = click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")


def json_option(verb: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the option `--json` of a verb, which names its schema."""
    text = f"Print one JSON document (stethoscope.kb.{verb}/1)."
    return click.option("--json", "as_json", is_flag=True, help=text)


def library(incidents: str | None, *, writes: bool = False) -> Library:
    """Return the incidents that are meant; UsageError for a directory that is said and not there, unless it is going to
    be written to."""
    from stethoscope.paths import is_directory, is_there
    from stethoscope.session.incidents import Library, incidents_dir

    directory = incidents_dir(incidents)
    if is_there(directory) and not is_directory(directory):
        raise UsageError(f"{directory} is not a directory")
    if not is_there(directory) and not writes and _is_typed("incidents"):
        raise UsageError(f"--incidents: {directory} is not there")
    return Library(directory)


def _is_typed(name: str) -> bool:
    """Tell whether an option stands on the command line: a wrong word there would look like an empty library."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def found(library: Library, identity: str) -> Incident:
    """Return the incident that is meant; UsageError for one that is not there, DataError for one whose file is broken,
    with its fault."""
    try:
        return library.get(identity)
    except DataError as error:
        for trouble in library.troubles:
            name = trouble.path.rsplit("/", 1)[-1].removesuffix(".md")
            if identity and (name.startswith(identity) or name.endswith(identity)):
                where = f"{library.directory / trouble.path}{f':{trouble.line}' if trouble.line else ''}"
                raise DataError(f"{trouble.message}; `stethoscope kb edit {name}` mends it", where=where) from None
        raise UsageError(str(error)) from None


def changeable(library: Library, identity: str) -> Incident:
    """Return an incident that is going to be changed; UsageError for one that came with the program."""
    one = found(library, identity)
    if not library.path(one.id).is_relative_to(library.directory):
        raise UsageError(f"{one.id} came with the program and stays as it is")
    return one


def identities(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[object]:
    """Return the incidents whose ids begin or end with what was begun, with their titles, for the shell."""
    from click.shell_completion import CompletionItem

    from stethoscope.errors import StethoscopeError

    try:
        every = library(ctx.params.get("incidents")).all(references=True)
    except (StethoscopeError, OSError):
        # A shell that completes has nowhere to say why.
        return []
    return [CompletionItem(one.id, help=one.title) for one in every if one.id.startswith(begun) or begun in one.id[-5:]]


identity_argument = click.argument("identity", metavar="ID", shell_complete=identities)


def meanings() -> dict[str, str]:
    """Return the root causes that are known, with what they mean."""
    from stethoscope.specs.root_cause import load_root_causes

    return {name: cause.meaning for name, cause in load_root_causes().items()}


def print_json(verb: str, document: dict[str, Any]) -> None:
    """Print the answer of a verb as one JSON document."""
    import msgspec

    text = msgspec.json.encode({"schema": f"stethoscope.kb.{verb}/1", **document}).decode()
    # The text of an incident is clean; what the shell says of the output is not known here.
    click.echo(text.encode("utf-8", "replace"))


def print_rows(build: Callable[[Glyphs, int], Iterable[Row]], *, ascii_only: bool = False, piped: int = 80) -> None:
    """Print rows as wide as the terminal, of `piped` cells where there is none."""
    import os
    import sys

    from stethoscope.cli.paint import print_rows

    narrow = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    print_rows(lambda glyphs, cells, _: build(glyphs, piped if narrow else cells), ascii_only=ascii_only)


def given(option: str, name: str) -> str:
    """Return the text of the file `name` (- is stdin) that an option says; UsageError for one that cannot be read."""
    import sys
    from pathlib import Path

    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{option}: {name}: {error.strerror or error}") from None
    return raw.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def tell_query(answer: Search) -> None:
    """Say what of a query was not understood, and what finds more."""
    for note in answer.notes:
        say(note, err=True)
    if answer.suggestion:
        say(f"did you mean: {answer.suggestion}", err=True)


def fitting(library: Library, words: tuple[str, ...], every: list[Incident]) -> list[Incident]:
    """Return those of `every` that fit a query, all without one; what of it was not understood is said."""
    if not words:
        return every
    answer = library.search(" ".join(words), EVERY)
    tell_query(answer)
    fits = {hit.incident.id for hit in answer.hits}
    return [one for one in every if one.id in fits]


def tell_none(library: Library) -> None:
    """Say that there is no incident yet, how there would be one, and where those of the simulated fleet are."""
    from stethoscope.paths import is_directory, state_dir

    say(f"no incident is in {library.directory}: `i` in the console, or `kb add`, records one", err=True)
    demo = state_dir() / "demo-incidents"
    if is_directory(demo) and demo != library.directory:
        say(f"those of the simulated fleet are in {demo}: --incidents {demo}", err=True)


def tell_troubles(library: Library) -> None:
    """Say that some files could not be read, where that is so."""
    broken = len({trouble.path for trouble in library.troubles})
    if broken:
        files = "1 file is" if broken == 1 else f"{broken} files are"
        say(f"{files} broken or odd: `stethoscope kb list --troubles` says what", err=True)


def moment(option: str, text: str | None, now: float) -> float | None:
    """Return the wall seconds of a time in an option; UsageError for what is none."""
    from stethoscope.specs.moment import moment_of

    if text is None:
        return None
    try:
        return moment_of(text, now)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
