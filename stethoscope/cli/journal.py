"""`stethoscope journal`: what was run on which node, when, by whom, and how it went."""

from __future__ import annotations

import re

import click

from stethoscope.errors import DataError, UsageError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--since", metavar="TIME", help="From this time on: 2h ago as 2h, or 2026-03-14, 2026-03-14T02:00:00Z.")
@click.option("--node", metavar="SET", help="Only these nodes, such as 'gpu[001-004]'.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.journal/1).")
def command(since: str | None, node: str | None, as_json: bool) -> int:
    """Show the journal: every command that was run on a node or a login host, oldest first."""
    from dataclasses import asdict

    from stethoscope.collect.journal import read_journal
    from stethoscope.paths import state_dir

    names = _names(node)
    directory = state_dir() / "journal"
    try:
        entries = [entry for entry in read_journal(directory, _since(since)) if names is None or entry.node in names]
    except OSError as error:
        raise DataError(error.strerror or str(error), where=str(error.filename)) from None
    if as_json:
        import json

        document = {"schema": "stethoscope.journal/1", "entries": [asdict(entry) for entry in entries]}
        click.echo(json.dumps(document, ensure_ascii=False))
        return 0
    wide = max((len(entry.node) for entry in entries), default=0)
    for entry in entries:
        click.echo(
            f"{entry.at}  {entry.node:{wide}}  {entry.who}  {entry.kind}  {entry.result}  {entry.seconds:.2f} s  "
            f"{entry.command}"
        )
    if not entries:
        click.echo("nothing was run", err=True)
    return 0


def _names(node: str | None) -> frozenset[str] | None:
    if node is None:
        return None
    from stethoscope.model import ids

    return frozenset(ids.expand(node))


def _since(text: str | None) -> str:
    """Return the ISO 8601 time that an option means, an empty text for the beginning."""
    if text is None:
        return ""
    if re.fullmatch(r"\d{4}-\d{2}(-\d{2}(T\d{2}:\d{2}(:\d{2})?Z?)?)?", text):
        return text.removesuffix("Z")
    from stethoscope.clock import SystemClock, iso
    from stethoscope.specs.duration import duration_s

    try:
        return iso(SystemClock().wall() - duration_s(text))
    except ValueError:
        raise UsageError(
            f'--since: "{text}" is neither a span such as 2h nor a time such as 2026-03-14T02:00'
        ) from None
