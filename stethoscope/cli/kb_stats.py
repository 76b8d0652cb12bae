"""`stethoscope kb stats` and `reindex`: what incidents add up to; their index is made anew."""

from __future__ import annotations

import click

from stethoscope.cli.kb_shared import (
    HELP,
    ascii_option,
    fitting,
    incidents_option,
    json_option,
    library,
    moment,
    print_json,
    print_rows,
    tell_none,
    tell_troubles,
)
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_HEALTHY

_STEPS = ("day", "week", "month", "quarter", "year")


@click.command(
    context_settings={**HELP, "ignore_unknown_options": True},
    short_help="Draw how many, of what, how long, what repeats.",
)
@click.argument("words", nargs=-1, metavar="[QUERY]...", type=click.UNPROCESSED)
@click.option("--by", type=click.Choice(_STEPS), help="Length of a period. [what fits]")
@click.option("--since", metavar="TIME", help="Only what was later: 90d, 2026-01-01.")
@click.option("--all", "everything", is_flag=True, help="Every cause, part and place, not the first 15.")
@json_option("stats")
@ascii_option
@incidents_option
def stats(
    words: tuple[str, ...],
    by: str | None,
    since: str | None,
    everything: bool,
    as_json: bool,
    ascii_only: bool,
    incidents: str | None,
) -> int:
    """Draw how many incidents there were, of what, how long they took, and what keeps coming back.

    Of all, or of those that fit a query as of `kb search`. Well-known kinds are never counted.
    """
    from stethoscope.analysis.incident_stats import stats as stats_of
    from stethoscope.clock import SystemClock

    books = library(incidents)
    first = moment("--since", since, SystemClock().wall())
    every = fitting(books, words, books.all())
    if first is not None:
        every = [one for one in every if one.at is not None and one.at >= first]
    summed = stats_of(every, step=by or "")
    lemons = books.lemons()
    if as_json:
        from stethoscope.ui.present.incident_json import lemon_json

        print_json("stats", {**summed.as_json(), "lemons": [lemon_json(lemon) for lemon in lemons]})
        return EXIT_HEALTHY
    from stethoscope.ui.present.incident_chart import stats_rows

    most = 0 if everything else 15
    print_rows(lambda glyphs, cells: stats_rows(summed, cells, glyphs, most, lemons), ascii_only=ascii_only)
    if not every and not words and first is None:
        tell_none(books)
    tell_troubles(books)
    return EXIT_HEALTHY


@click.command(context_settings=HELP)
@json_option("reindex")
@incidents_option
def reindex(as_json: bool, incidents: str | None) -> int:
    """Read every file again and make the index anew; nothing is only in the index."""
    books = library(incidents)
    books.rebuild()
    number = len(books.all())
    if as_json:
        from stethoscope.ui.present.incident_json import trouble_json

        troubles = [trouble_json(trouble) for trouble in books.troubles]
        print_json("reindex", {"incidents": number, "directory": str(books.directory), "troubles": troubles})
        return EXIT_HEALTHY
    say(f"{number:,} incidents of {books.directory}" if number != 1 else f"1 incident of {books.directory}")
    tell_troubles(books)
    return EXIT_HEALTHY
