"""`stethoscope node`: everything that is known of one node, what is wrong first, as text or JSON."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stethoscope.cli.check import look, look_back
from stethoscope.cli.completion import nodes
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, source_options, with_keys
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_UNREACHABLE, EXIT_URGENT, UsageError, did_you_mean

if TYPE_CHECKING:
    from stethoscope.ui.present.node.view import View


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="NAME", shell_complete=nodes)
@source_options
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.node/1).")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for slow nodes.")
@playbooks_option
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def command(
    name: str,
    source: SourceOptions,
    at: str | None,
    as_json: bool,
    timeout: str,
    playbooks: tuple[str, ...],
    ascii_only: bool,
) -> int:
    """Show every value of one node, what is wrong first, compared with other nodes of the source.

    Without a source NAME is the node to reach, or this machine. Exit status: 0 nothing wrong, 1 something to be planned
    (P2), 2 something urgent (P0, P1), 69 when the node was not reached.
    """
    recording, directories = source.recording(), directories_of(playbooks)
    if recording is not None:
        result = look_back(recording, at, directories)
    elif at is not None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    else:
        # This machine is looked at without ssh, as by `check`.
        named = source if source.names_nodes or name == _this_machine() else replace(source, hosts=name)
        result = look(with_keys(named), timeout, directories, one=name)
    snapshot = result.snapshot
    if name not in snapshot.by_name:
        raise UsageError(f'no node is called "{name}"{did_you_mean(name, snapshot.by_name)}')

    from stethoscope.ui.present.assess import assess
    from stethoscope.ui.present.node.view import View
    from stethoscope.ui.present.spans import ASCII, UNICODE

    ascii_only = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
    glyphs = ASCII if ascii_only else UNICODE
    view = View(assess(snapshot, snapshot.mono), snapshot.node(name), snapshot.wall, 0, glyphs)
    if as_json:
        import msgspec

        from stethoscope.ui.present.node.export import node_json

        say(msgspec.json.encode(node_json(view)).decode())
    else:
        from stethoscope.ui.present.node.page import node_text
        from stethoscope.ui.present.spans import to_ascii

        text = node_text(view).rstrip("\n")
        say(to_ascii(text) if ascii_only else text)
    return _status(view)


def _this_machine() -> str:
    import socket

    return socket.gethostname()


def _status(view: View) -> int:
    from stethoscope.model.finding import Severity
    from stethoscope.ui.present.node.page import node_page
    from stethoscope.ui.present.spans import Level

    if not view.node.frames:
        return EXIT_UNREACHABLE
    severities = {finding.severity for finding in view.assessment.findings.get(view.node.name, ())}
    # What no finding tells of: a value beyond a limit, less than comparable nodes have.
    worst = node_page(view).worst
    if severities & {Severity.P0, Severity.P1} or worst >= Level.LOST:
        return EXIT_URGENT
    return EXIT_PLANNED if Severity.P2 in severities or worst > Level.MISSING else EXIT_HEALTHY
