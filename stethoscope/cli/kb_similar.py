"""`stethoscope kb similar`: what of before looks like this, why, and what fixed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stethoscope.cli.kb_shared import (
    HELP,
    ascii_option,
    found,
    identities,
    incidents_option,
    json_option,
    library,
    print_json,
    print_rows,
)
from stethoscope.cli.kb_source import Source, source_options
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_HEALTHY, UsageError

if TYPE_CHECKING:
    from stethoscope.model.incident import Incident


@click.command(context_settings=HELP)
@click.argument("identity", metavar="[ID]", required=False, shell_complete=identities)
@source_options
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True, help="At most so many.")
@json_option("similar")
@ascii_option
@incidents_option
def similar(
    identity: str | None, source: Source, limit: int, as_json: bool, ascii_only: bool, incidents: str | None
) -> int:
    """Say what of the past looks like an incident, a triage, a decoded log or a finding, why, and what fixed it."""
    books = library(incidents)
    if (identity is not None) == source.is_given:
        raise UsageError("say one: an ID, or --triage, --decode, --finding")
    from stethoscope.session.incident_draft import clues_of_incident

    one: Incident | None = None
    if identity is not None:
        one = found(books, identity)
        clues = clues_of_incident(one)
    else:
        clues = source.clues()
    matches = books.similar(clues, limit)
    if as_json:
        document = {"of": one.id if one is not None else None, "similar": [match.as_json() for match in matches]}
        print_json("similar", document)
        return EXIT_HEALTHY
    from stethoscope.ui.present.incident_table import match_rows

    print_rows(lambda glyphs, cells: match_rows(matches, cells, glyphs), ascii_only=ascii_only)
    if not matches:
        say("nothing of before looks like it", err=True)
    return EXIT_HEALTHY
