"""`stethoscope kb learn`: what a night taught, as drafts for the playbooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.kb_shared import HELP, found, identity_argument, incidents_option, json_option, library, print_json
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

if TYPE_CHECKING:
    from stethoscope.errors import DataError
    from stethoscope.session.learn import Draft


@click.command(context_settings=HELP)
@identity_argument
@click.option("--as", "kinds", multiple=True, type=click.Choice(["signature", "rule", "case"]), help="This kind alone.")
@click.option("-o", "--into", metavar="DIR", help="Write them into this directory, a playbooks tree. [printed]")
@json_option("learn")
@incidents_option
@playbooks_option
def learn(
    identity: str,
    kinds: tuple[str, ...],
    into: str | None,
    as_json: bool,
    incidents: str | None,
    playbooks: tuple[str, ...],
) -> int:
    """Draft what the next night should know: a signature, a rule, a case.

    Of what the playbooks do not know yet, or of the kinds that --as says. The drafts are checked as `lint` checks them;
    nothing that is in use is touched. Exit status: 0 drafted, or nothing new; 65 a draft needs a hand first.
    """
    from stethoscope.session.learn import learn as drafts_of
    from stethoscope.session.learn import write_drafts

    one = found(library(incidents), identity)
    learned = drafts_of(one, kinds, *directories_of(playbooks))
    errors = _checked(learned.drafts)
    written = write_drafts(learned.drafts, Path(into)) if into is not None else []
    if as_json:
        drafts = [
            {"kind": draft.kind, "id": draft.id, "path": draft.path, "text": draft.text} for draft in learned.drafts
        ]
        faults = [str(error) for error in errors]
        said = {"id": one.id, "drafts": drafts, "files": list(map(str, written)), "notes": list(learned.notes)}
        print_json("learn", {**said, "errors": faults})
        return EXIT_DATA if errors else EXIT_HEALTHY
    for draft in learned.drafts if into is None else ():
        say(f"# {draft.path}\n{draft.text}")
    for path in written:
        say(str(path))
    for note in learned.notes:
        say(note, err=True)
    for error in errors:
        say(f"look at this: {error}", err=True)
    if written:
        say(f"look them over, then: stethoscope lint --playbooks {into}", err=True)
        if any(draft.kind == "signature" for draft in learned.drafts):
            # By its symptoms it looks like the next night that has the same line.
            names = ", ".join(draft.id for draft in learned.drafts if draft.kind == "signature")
            say(f"and by `kb edit {one.id}` add to its symptoms: {names}", err=True)
    return EXIT_DATA if errors else EXIT_HEALTHY


def _checked(drafts: tuple[Draft, ...]) -> list[DataError]:
    """Return what `lint` says of the drafts, in a directory that is thrown away."""
    import tempfile

    from stethoscope.errors import DataError
    from stethoscope.session.learn import write_drafts
    from stethoscope.session.lint import lint

    if not drafts:
        return []
    with tempfile.TemporaryDirectory(prefix="stethoscope-learn-") as scratch:
        write_drafts(drafts, Path(scratch))
        errors = lint(Path(scratch)).errors
        return [DataError(error.message, where=error.where.removeprefix(f"{scratch}/")) for error in errors]
