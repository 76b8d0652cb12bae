"""`stethoscope kb edit`, `close`, `link`: what is recorded is changed, and never over somebody else's words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.kb_shared import (
    HELP,
    changeable,
    found,
    given,
    identities,
    identity_argument,
    incidents_option,
    json_option,
    library,
    moment,
    print_json,
)
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY, DataError, UsageError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.incident import Incident
    from stethoscope.session.incidents import Library
    from stethoscope.store.incidents import Version

_BETWEEN = ("same_as", "caused_by", "follows", "related")
_OUTSIDE = ("ticket", "commit", "url")


@click.command(context_settings=HELP)
@identity_argument
@click.option("--file", "name", metavar="FILE", help="Take the text of this file instead of an editor; - is stdin.")
@json_option("edit")
@incidents_option
def edit(identity: str, name: str | None, as_json: bool, incidents: str | None) -> int:
    """Open an incident, also a broken one, in $EDITOR; it is written when it is right and nobody else changed it.

    What somebody else changed meanwhile at other lines is taken in; at the same lines you are shown both.
    """
    books = library(incidents)
    path, version = _file_of(books, identity)
    before = books.files.read(version.path).incident
    if name is not None:
        text = given("--file", name)
        refuse_marks(text, name)
        made: Incident | None = books.save_text(text, version)
    else:
        made = _edited(books, path, version)
    if made is None:
        say("nothing is changed", err=True)
        return EXIT_HEALTHY
    _tell("edit", books, before, made, "written", as_json=as_json)
    return EXIT_HEALTHY


def _file_of(books: Library, identity: str) -> tuple[Path, Version]:
    """Return the file that is meant, also one that is broken, and what it says at this moment."""
    try:
        one = changeable(books, identity)
    except DataError:
        # Its file is broken: that is what an editor is for.
        names = sorted({trouble.path for trouble in books.troubles})
        fits = [name for name in names if identity and identity in name.rsplit("/", 1)[-1]]
        if len(fits) != 1:
            raise
        return books.directory / fits[0], books.files.read(fits[0]).version
    return books.path(one.id), books.reading(one.id).version


def _edited(books: Library, path: Path, version: Version) -> Incident | None:
    from stethoscope.cli.kb_editor import edit_until, is_at_hand, kept_edits, kept_path

    if not is_at_hand():
        raise UsageError("no terminal to open an editor on: give the text with --file")
    base = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    standing = _Standing(books, path, version, base)
    # An edit that was cut short goes on from the text that it began with, or not at all.
    kept = kept_path(f"edit-{path.stem}-{version.digest[:12]}")
    for other in kept_edits(f"{path.stem}-"):
        if not other.name.startswith(kept.stem):
            say(f"an edit of what it said before is kept in {other}: take from it what you need", err=True)
    return edit_until(kept, base, standing.save)


class _Standing:
    """What the file said when it was read last; a change of somebody else moves it on."""

    def __init__(self, books: Library, path: Path, version: Version, base: str) -> None:
        self._books, self._path, self._version, self._base = books, path, version, base

    def save(self, said: str, kept: Path) -> Incident | None:
        """Write what the user said; None when it is what the file says. DataError when it cannot be, or when the user
        has to look at what somebody else wrote: then `kept` has both."""
        from stethoscope.cli.kb_editor import quoted
        from stethoscope.specs.incident import read_incident
        from stethoscope.specs.incident_merge import merged
        from stethoscope.store.incidents import ConflictError

        if said == self._base:
            return None
        said = quoted(said, self._base)
        refuse_marks(said, str(kept))
        read_incident(said, str(kept))
        for _ in range(10):
            try:
                return self._books.save_text(said, self._version)
            except ConflictError as error:
                if error.theirs is None:
                    raise DataError(f"{self._path} is gone: somebody removed or renamed it", where=str(kept)) from None
                theirs = self._path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
                text, conflicts = merged(self._base, said, theirs)
                self._version, self._base = error.theirs.version, theirs
                if conflicts:
                    kept.write_text(text, encoding="utf-8")
                    raise DataError("somebody else changed the same lines: both stand here, marked") from None
                say("somebody else changed it at other lines: both changes are in it", err=True)
                said = text
        raise DataError("others write this file again and again", where=str(self._path))


def refuse_marks(text: str, where: str) -> None:
    """Raise DataError for a text with the marks of a merge that nobody finished."""
    from stethoscope.specs.incident_merge import marked_at

    line = marked_at(text)
    if line is not None:
        raise DataError("a merge is not finished here: choose, and take the marks out", where=f"{where}:{line}:1")


@click.command(context_settings=HELP)
@identity_argument
@click.option("--fixed", metavar="TEXT", help="What fixed it, in your words and language.")
@click.option("--at", metavar="TIME", help="When: 04:30, 2026-03-14T04:30:00Z, 20m ago as 20m. [now]")
@click.option("--mitigated", is_flag=True, help="Work goes on, but what was broken is not whole yet.")
@click.option("--cause", metavar="ID", help="Root cause, where it was not known before.")
@json_option("close")
@incidents_option
def close(
    identity: str,
    fixed: str | None,
    at: str | None,
    mitigated: bool,
    cause: str | None,
    as_json: bool,
    incidents: str | None,
) -> int:
    """Say that an incident is over, and what fixed it."""
    from stethoscope.cli.kb_editor import is_at_hand
    from stethoscope.cli.kb_said import in_order, root_cause
    from stethoscope.clock import SystemClock
    from stethoscope.model.incident import Status

    books = library(incidents)
    one = changeable(books, identity)
    if one.is_reference:
        raise UsageError(f"{one.id} is a reference: there is nothing to close")
    if fixed is None and not one.resolution and not mitigated:
        if not is_at_hand():
            raise UsageError("say what fixed it: --fixed")
        fixed = click.prompt(f"{one.id} {one.title}\nWhat fixed it?", err=True)
    now = SystemClock().wall()
    when = moment("--at", at, now)
    stage, status = ("mitigated", Status.MITIGATED) if mitigated else ("resolved", Status.RESOLVED)
    # Closing again to mend a word does not move the time.
    moved = when if when is not None else now if getattr(one.times, stage) is None else getattr(one.times, stage)
    times = replace(one.times, **{stage: moved})
    if mitigated:
        # What is not whole yet, or no more, is not resolved.
        times = replace(times, resolved=None)
    in_order(times, (stage,) if when is not None else ())
    changes: dict[str, Any] = {"status": status, "times": times}
    if fixed is not None:
        changes["resolution"] = fixed.strip()
    if cause is not None:
        changes["root_cause"] = root_cause(cause)
    made = _changed(books, one, replace(one, **changes))
    from stethoscope.ui.present.incident_text import took_words

    took = ", ".join(took_words(made))
    _tell("close", books, one, made, f"{status.value}{f' ({took})' if took else ''}", as_json=as_json)
    return EXIT_HEALTHY


@click.command(context_settings=HELP)
@identity_argument
@click.argument("how", metavar="HOW")
@click.argument("to", metavar="TO", shell_complete=identities)
@click.option("--undo", is_flag=True, help="Take the link away again.")
@json_option("link")
@incidents_option
def link(identity: str, how: str, to: str, undo: bool, as_json: bool, incidents: str | None) -> int:
    """Say how an incident hangs together with another, or with something outside.

    HOW is same_as, caused_by, follows or related, and TO another incident; or ticket, commit or url, and TO any text.
    """
    from stethoscope.model.incident import Link

    books = library(incidents)
    one = changeable(books, identity)
    if how not in (*_BETWEEN, *_OUTSIDE):
        some = ", ".join((*_BETWEEN, *_OUTSIDE))
        raise UsageError(f'HOW "{how}" is none of {some}{did_you_mean(how, (*_BETWEEN, *_OUTSIDE))}')
    if how in _BETWEEN and not (undo and Link(how, to) in one.links):
        to = found(books, to).id
        if to == one.id:
            raise UsageError(f"{to} cannot be linked with itself")
    wanted = Link(how, to)
    if (wanted in one.links) != undo:
        say(f"{one.id} has no such link" if undo else f"{one.id} {how} {to} already", err=True)
        return EXIT_DATA if undo else EXIT_HEALTHY
    links = tuple(each for each in one.links if each != wanted) if undo else (*one.links, wanted)
    made = _changed(books, one, replace(one, links=links))
    _tell("link", books, one, made, f"{'no longer ' if undo else ''}{how} {to}", as_json=as_json)
    return EXIT_HEALTHY


def _changed(books: Library, one: Incident, wanted: Incident) -> Incident:
    """Write what was changed over what was read."""
    books.save(wanted, books.version(one.id))
    return books.get(one.id)


def _tell(verb: str, books: Library, before: Incident | None, made: Incident, words: str, *, as_json: bool) -> None:
    from stethoscope.cli.kb_add import tell_redacted

    tell_redacted(made.redacted - (before.redacted if before is not None else 0))
    if as_json:
        from stethoscope.ui.present.incident_json import incident_json

        print_json(verb, {"incident": incident_json(made), "file": str(books.path(made.id))})
        return
    say(f"{made.id}: {words}")
