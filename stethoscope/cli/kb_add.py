"""`stethoscope kb add`: an incident is written down, filled from what is known, by flags, in an editor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stethoscope.cli.kb_said import Said, said_options
from stethoscope.cli.kb_shared import HELP, incidents_option, json_option, library, print_json
from stethoscope.cli.kb_source import Source, source_options
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_HEALTHY, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.model.incident import Incident, Match
    from stethoscope.session.incidents import Library
    from stethoscope.store.drafts import Draft

_TEMPLATE = "## Evidence\n\n\n## What was done\n\n\n## Prevention\n\n"
_HINT = (
    "# Save and leave: it is recorded, with a resolution as resolved.\n# Delete all of this text: nothing is recorded."
)


@click.command(context_settings=HELP)
@source_options
@said_options
@click.option("--draft", metavar="KEY", help="Go on with a draft of `kb list --drafts`.")
@click.option("--no-edit", is_flag=True, help="Record it as it is, without an editor.")
@json_option("add")
@incidents_option
def add(source: Source, said: Said, draft: str | None, no_edit: bool, as_json: bool, incidents: str | None) -> int:
    """Record an incident: from a triage, a decoded log, a finding of tonight, or by hand.

    Everything known is filled in; on a terminal $EDITOR opens it, and all of it deleted records nothing. Secrets in its
    text are taken out.
    """
    from stethoscope.cli.kb_editor import is_at_hand
    from stethoscope.clock import SystemClock
    from stethoscope.session.night import user

    books = library(incidents, writes=True)
    now = SystemClock().wall()
    key = draft if draft is not None else source.key
    drafted = _begun(books, draft) if draft is not None else None
    begun = drafted.incident if drafted is not None else source.draft(now, user())
    if draft is None and not source.is_given and said.tells_when:
        # Whoever says when it was does not say that it was seen just now.
        begun = replace(begun, times=replace(begun.times, detected=None))
    filled = said.into(begun, now)

    def record(incident: Incident) -> Incident:
        return _recorded(books, incident, drafted)

    if no_edit or not is_at_hand():
        if not filled.title:
            raise UsageError("say what happened: --title")
        made: Incident | None = record(filled)
    else:
        made = _edited(books, filled, key, now, record)
    if made is None:
        say("nothing is recorded: the text was empty", err=True)
        raise click.Abort
    if draft is not None:
        books.drop_draft(draft)
    _tell(books, made, as_json=as_json)
    return EXIT_HEALTHY


def _recorded(books: Library, incident: Incident, drafted: Draft | None) -> Incident:
    """Record a new incident, or write the edit of one that a draft is over what that edit began with."""
    if drafted is None or not drafted.expected:
        return books.create(incident)
    from stethoscope.store.incidents import Version

    books.save(incident, Version(books.version(incident.id).path, drafted.expected))
    return books.get(incident.id)


def _begun(books: Library, key: str) -> Draft:
    drafts = {one.key: one for one in books.drafts()}
    if key not in drafts:
        raise UsageError(f'--draft: nothing was begun as "{key}"{did_you_mean(key, drafts)}')
    return drafts[key]


def _edited(
    books: Library, filled: Incident, key: str, now: float, record: Callable[[Incident], Incident]
) -> Incident | None:
    from stethoscope.cli.kb_editor import edit_until, kept_path, quoted
    from stethoscope.clock import iso
    from stethoscope.model.incident import Status
    from stethoscope.specs.incident import incident_text, read_incident

    if not filled.id:
        filled = replace(filled, id=books.files.new_id(iso(filled.at or now)[:10]))
    text = incident_text(filled if filled.body.strip() else replace(filled, body=_TEMPLATE))
    text = text.replace("---\n", f"---\n{_HINT}\n", 1)
    line = 0
    if not filled.resolution:
        # The one line that needs a person stands last, and the cursor with it.
        front, _, body = text.partition("\n---\n")
        front = f"{front}\nresolution: "
        text, line = f"{front}\n---\n{body}", front.count("\n") + 1
    if not filled.title:
        line = text[: text.index("\ntitle:") + 1].count("\n") + 1

    def check(said: str, path: Path) -> Incident:
        from stethoscope.cli.kb_change import refuse_marks
        from stethoscope.errors import DataError

        said = quoted(said)
        refuse_marks(said, str(path))
        made = read_incident(said, str(path))
        if not made.title:
            number = next((n for n, one in enumerate(said.splitlines(), 1) if one.startswith("title")), 1)
            raise DataError("say what happened, in one line", where=f"{path}:{number}:1")
        if made.resolution and not filled.resolution and made.status is filled.status is Status.OPEN:
            made = Said({"fixed": made.resolution}).into(made, now)
            if made.times.detected is not None and now - made.times.detected < 1:
                # That it was seen as it was written down is a guess, by which every repair would take no time.
                made = replace(made, times=replace(made.times, detected=None))
        return record(made)

    return edit_until(kept_path(f"add-{key}"), text, check, line=line)


def _tell(books: Library, made: Incident, *, as_json: bool) -> None:
    from stethoscope.session.incident_draft import clues_of_incident

    matches: list[Match] = books.similar(clues_of_incident(made))
    path = books.path(made.id)
    if as_json:
        from stethoscope.ui.present.incident_json import incident_json

        similar = [match.as_json() for match in matches]
        print_json("add", {"incident": incident_json(made), "file": str(path), "similar": similar})
        return
    say(f"{made.id}  {path}")
    if made.status.value == "resolved" and made.times.resolved is None:
        say(f"when it was over is not known: `kb close {made.id} --at TIME` says it", err=True)
    tell_redacted(made.redacted)
    for match in matches:
        reasons = "; ".join(match.reasons)
        say(f"looks like {match.incident.id} {match.incident.title}: {reasons}", err=True)
    twin = next((match.incident for match in matches if _is_twin(made, match.incident)), None)
    if twin is not None:
        say(f"the same night? `kb link {made.id} same_as {twin.id}` counts both once", err=True)


def _is_twin(made: Incident, other: Incident) -> bool:
    from stethoscope.analysis.incident_lemons import is_one_night

    if other.is_reference or not set(made.places) & set(other.places) or made.at is None or other.at is None:
        return False
    return is_one_night(made, made.at, other, other.at)


def tell_redacted(number: int) -> None:
    """Say that secrets were taken out, where that is so."""
    if number > 0:
        say("1 secret was taken out" if number == 1 else f"{number} secrets were taken out", err=True)
