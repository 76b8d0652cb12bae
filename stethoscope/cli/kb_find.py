"""`stethoscope kb show`, `list`, `search`: what happened before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stethoscope.cli.kb_shared import (
    HELP,
    WHOLE,
    ascii_option,
    fitting,
    found,
    identity_argument,
    incidents_option,
    json_option,
    library,
    meanings,
    print_json,
    print_rows,
    tell_none,
    tell_query,
    tell_troubles,
)
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

if TYPE_CHECKING:
    from stethoscope.session.incidents import Library

STATES = ("open", "mitigated", "resolved", "reference")
_LIMIT = 50
# A word with a minus in front is one that must not be there, and no option.
_QUERY = {**HELP, "ignore_unknown_options": True}


@click.command(context_settings=HELP)
@identity_argument
@click.option("--raw", is_flag=True, help="Print the file as it is.")
@json_option("show")
@ascii_option
@incidents_option
def show(identity: str, raw: bool, as_json: bool, ascii_only: bool, incidents: str | None) -> int:
    """Show one incident: times, evidence, cause, fix. A part of its id that no other has is enough."""
    books = library(incidents)
    one = found(books, identity)
    path = books.path(one.id)
    if raw:
        say(path.read_text(encoding="utf-8", errors="replace").removesuffix("\n"))
        return EXIT_HEALTHY
    linked = [(other.id, link.how) for other in books.all(references=True) for link in other.links if link.to == one.id]
    if as_json:
        from stethoscope.ui.present.incident_json import incident_json

        back = [{"id": other, "how": how} for other, how in linked]
        print_json("show", {"incident": incident_json(one), "file": str(path), "linked_from": back})
        return EXIT_HEALTHY
    from stethoscope.ui.present.incident_text import incident_rows

    print_rows(lambda glyphs, cells: incident_rows(one, cells, glyphs, meanings(), linked), ascii_only=ascii_only)
    return EXIT_HEALTHY


@click.command("list", context_settings=_QUERY)
@click.argument("words", nargs=-1, metavar="[QUERY]...", type=click.UNPROCESSED)
@click.option("--status", type=click.Choice(STATES), help="Those alone that are so far.")
@click.option("--references", is_flag=True, help="Also the well-known kinds that came with the program.")
@click.option("--troubles", is_flag=True, help="List the files that are broken or odd; exit status 65 when some are.")
@click.option("--drafts", is_flag=True, help="List what was begun and not recorded; kb add --draft KEY goes on.")
@click.option("--limit", type=click.IntRange(0), default=_LIMIT, show_default=True, help="At most so many; 0: all.")
@json_option("list")
@ascii_option
@incidents_option
def list_(
    words: tuple[str, ...],
    status: str | None,
    references: bool,
    troubles: bool,
    drafts: bool,
    limit: int,
    as_json: bool,
    ascii_only: bool,
    incidents: str | None,
) -> int:
    """List incidents, the latest first: all, or those that fit a query as of `kb search`."""
    books = library(incidents)
    if troubles:
        return _list_troubles(books, as_json=as_json, ascii_only=ascii_only)
    if drafts:
        return _list_drafts(books, as_json=as_json, ascii_only=ascii_only)
    every = fitting(books, words, books.all(references=references or status == "reference"))
    if status is not None:
        every = [one for one in every if one.status.value == status]
    shown = every[:limit] if limit else every
    if as_json:
        from stethoscope.ui.present.incident_json import incident_json, trouble_json

        document = {
            "incidents": [incident_json(one, body=False) for one in shown],
            "total": len(every),
            "troubles": [trouble_json(trouble) for trouble in books.troubles],
        }
        print_json("list", document)
        return EXIT_HEALTHY
    from stethoscope.ui.present.incident_table import list_rows

    print_rows(lambda glyphs, cells: list_rows(shown, cells, glyphs), ascii_only=ascii_only, piped=WHOLE)
    if not every:
        tell_none(books) if not words and status is None else say("none is so", err=True)
    elif len(shown) < len(every):
        say(f"{len(shown)} of {len(every):,}, the latest; --limit 0 lists all", err=True)
    tell_troubles(books)
    return EXIT_HEALTHY


def _list_troubles(books: Library, *, as_json: bool, ascii_only: bool) -> int:
    troubles = books.troubles
    if as_json:
        from stethoscope.ui.present.incident_json import trouble_json

        print_json("list", {"incidents": [], "total": 0, "troubles": [trouble_json(one) for one in troubles]})
    else:
        from stethoscope.ui.present.incident_table import trouble_rows

        print_rows(lambda _, cells: trouble_rows(troubles, cells), ascii_only=ascii_only)
        if not troubles:
            say("every file is in order", err=True)
    return EXIT_DATA if troubles else EXIT_HEALTHY


def _list_drafts(books: Library, *, as_json: bool, ascii_only: bool) -> int:
    from stethoscope.cli.kb_editor import kept_edits

    drafts, edits = books.drafts(), kept_edits()
    if as_json:
        from stethoscope.clock import iso
        from stethoscope.ui.present.incident_json import incident_json

        listed = [{"key": one.key, "saved": iso(one.saved), "incident": incident_json(one.incident)} for one in drafts]
        kept = [{"file": str(path)} for path in edits]
        print_json("list", {"incidents": [], "total": 0, "troubles": [], "drafts": listed, "edits": kept})
        return EXIT_HEALTHY
    from stethoscope.ui.present.incident_table import draft_rows

    rows = [(one.key, one.saved, one.incident.title) for one in drafts]
    print_rows(lambda glyphs, cells: draft_rows(rows, cells, glyphs), ascii_only=ascii_only)
    for path in edits:
        verb = "add" if path.name.startswith("add-") else "edit"
        say(f"an edit of `kb {verb}` that was cut short: {path}")
    if not drafts and not edits:
        say("nothing was begun and not recorded", err=True)
    return EXIT_HEALTHY


@click.command(context_settings=_QUERY)
@click.argument("words", nargs=-1, required=True, metavar="QUERY...", type=click.UNPROCESSED)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
@json_option("search")
@ascii_option
@incidents_option
def search(words: tuple[str, ...], limit: int, as_json: bool, ascii_only: bool, incidents: str | None) -> int:
    """Search incidents and well-known kinds, best first, in any language.

    \b
    QUERY is of words (all must be there), and may have
      "a phrase"   -without   one OR other   begin*
      xid:79  node:gpu-014  gpu:3  leaf:leaf-01  rack:r3  job:4242  rule:ib_*
      cause:ib_link_fault  component:optic  status:open  severity:P0  tag:x
      after:2026-03  after:7d  before:2026-04-01  is:reference  author:kim
    """
    text = " ".join(words)
    books = library(incidents)
    answer = books.search(text, limit)
    if as_json:
        from stethoscope.ui.present.incident_json import hit_json

        document = {
            "query": text,
            "hits": [hit_json(hit) for hit in answer.hits],
            "total": answer.total,
            "suggestion": answer.suggestion or None,
            "notes": list(answer.notes),
            "seconds": round(answer.seconds, 4),
        }
        print_json("search", document)
        return EXIT_HEALTHY
    from stethoscope.ui.present.incident_table import hit_rows

    print_rows(lambda glyphs, cells: hit_rows(answer.hits, cells, glyphs), ascii_only=ascii_only, piped=WHOLE)
    tell_query(answer)
    if not answer.total:
        say("nothing is known of this", err=True)
    elif len(answer.hits) < answer.total:
        say(f"the best {len(answer.hits)} of {answer.total:,}", err=True)
    tell_troubles(books)
    return EXIT_HEALTHY
