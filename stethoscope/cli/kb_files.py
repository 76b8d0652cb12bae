"""`stethoscope kb export` and `import`: one file for the morning; and what others wrote down elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.kb_shared import (
    EVERY,
    HELP,
    found,
    incidents_option,
    json_option,
    library,
    meanings,
    print_json,
    tell_query,
)
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY, DataError, UsageError, did_you_mean

if TYPE_CHECKING:
    from stethoscope.model.incident import Incident
    from stethoscope.session.incident_import import Taken
    from stethoscope.session.incidents import Library

_SUFFIXES = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}


@click.command(context_settings={**HELP, "ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="ID...|QUERY...", type=click.UNPROCESSED)
@click.option("--format", "form", type=click.Choice(("md", "html", "json")), help="[that of FILE's name, else md]")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where to write it. [standard output]")
@incidents_option
def export(words: tuple[str, ...], form: str | None, output: str, incidents: str | None) -> int:
    """Write incidents into one file: timeline, evidence, cause, fix, prevention.

    HTML needs nothing beside itself and runs nothing. JSON is stethoscope.kb.export/1.
    """
    from stethoscope.clock import SystemClock

    books = library(incidents)
    chosen = _chosen(books, words)
    if not chosen:
        raise UsageError(f"nothing fits {' '.join(words)}")
    form = form or _SUFFIXES.get(Path(output).suffix.lower(), "md")
    text = _written(chosen, form, SystemClock().wall())
    if output == "-":
        click.echo(text.encode("utf-8", "replace"), nl=False)
        return EXIT_HEALTHY
    try:
        Path(output).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(error.strerror or str(error), where=output) from error
    say(f"{len(chosen)} incidents in {output}" if len(chosen) > 1 else f"{chosen[0].id} in {output}", err=True)
    return EXIT_HEALTHY


def _chosen(books: Library, words: tuple[str, ...]) -> list[Incident]:
    """Return the incidents that are named by their ids, else those that fit a query, the latest first."""
    if not any(":" in word or " " in word for word in words):
        try:
            return [found(books, word) for word in words]
        except UsageError:
            # A word of a query is no id; one that looks like an id is not searched for.
            if any(word.upper().startswith("INC-") for word in words):
                raise
    answer = books.search(" ".join(words), EVERY)
    tell_query(answer)
    fits = [hit.incident for hit in answer.hits]
    # A well-known kind is no part of a report of nights, unless nothing else was asked for.
    nights = [one for one in fits if not one.is_reference] or fits
    return sorted(nights, key=lambda one: (-(one.at or 0.0), one.id))


def _written(chosen: list[Incident], form: str, now: float) -> str:
    if form == "json":
        import msgspec

        from stethoscope.ui.present.incident_json import incident_json

        document = {"schema": "stethoscope.kb.export/1", "incidents": [incident_json(one) for one in chosen]}
        return msgspec.json.encode(document).decode() + "\n"
    from stethoscope.ui.present.incident_report import report_html, report_md

    return (report_html if form == "html" else report_md)(chosen, meanings(), now)


@click.command("import", context_settings=HELP)
@click.argument("paths", nargs=-1, required=True, metavar="FILE.csv|FILE.md|DIR...")
@click.option("--dry-run", is_flag=True, help="Say what would be recorded, and record nothing.")
@click.option(
    "--column", "columns", metavar="FIELD=NAME", multiple=True, help="Which column is what: began='Opened on'."
)
@click.option("--day-first/--month-first", "day_first", default=None, help="What 3/4/2026 means.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Zone of times that name none.")
@click.option("--fleet", metavar="NAME", default="", help="Fleet of incidents that name none.")
@json_option("import")
@incidents_option
def import_(
    paths: tuple[str, ...],
    dry_run: bool,
    columns: tuple[str, ...],
    day_first: bool | None,
    tz: str,
    fleet: str,
    as_json: bool,
    incidents: str | None,
) -> int:
    """Record what was written down elsewhere: tables (CSV), post-mortems (Markdown), incidents of another directory.

    What is understood becomes fields; all else stands in the text. A second time nothing is recorded twice. Exit
    status: 65 when a file could not be read.
    """
    from stethoscope.cli.decode import zone_of
    from stethoscope.clock import SystemClock
    from stethoscope.session.incident_import import import_paths
    from stethoscope.specs.incident_import import Options

    # One that is not there yet is made by the import: a dry run of it finds nothing there.
    books = library(incidents, writes=True)
    options = Options(
        now=SystemClock().wall(),
        zone=zone_of(tz),
        day_first=day_first,
        fleet=fleet,
        root_causes=frozenset(meanings()),
        columns=_columns(columns),
    )
    taken = import_paths(books, [Path(path) for path in paths], options, dry_run=dry_run)
    if as_json:
        print_json("import", {"dry_run": dry_run, "incidents": [_taken_json(one) for one in taken]})
    else:
        _tell(taken, dry_run=dry_run)
    return EXIT_DATA if any(one.fault for one in taken) else EXIT_HEALTHY


def _tell(taken: list[Taken], *, dry_run: bool) -> None:
    for one in taken:
        if one.fault:
            say(f"fault  {one.fault}", err=True)
            continue
        say(f"{one.how:<5}  {one.id}  {one.title}  ({one.where})")
        for note in one.notes:
            say(f"       {note}")
    new = sum(one.how == "new" for one in taken)
    here = sum(one.how == "here" for one in taken)
    faults = sum(bool(one.fault) for one in taken)
    words = [f"{new:,} new{', none recorded: --dry-run' if dry_run else ' recorded'}", f"{here:,} here already"]
    say(", ".join([*words, *([f"{faults} not read"] if faults else [])]), err=True)


def _taken_json(one: Taken) -> dict[str, Any]:
    return {
        "how": one.how,
        "id": one.id or None,
        "title": one.title or None,
        "where": one.where,
        "notes": list(one.notes),
        "fault": one.fault or None,
    }


def _columns(columns: tuple[str, ...]) -> dict[str, str]:
    from stethoscope.specs.incident_columns import FIELDS

    found: dict[str, str] = {}
    for text in columns:
        field, equals, name = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f'--column: "{text}" is not FIELD=NAME, such as began="Opened on"')
        if field not in FIELDS:
            raise UsageError(
                f'--column: no field "{field}"{did_you_mean(field, FIELDS)}; there are {", ".join(FIELDS)}'
            )
        found[field] = name
    return found
