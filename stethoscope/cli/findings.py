"""`stethoscope findings`: what is wrong, and the night's list: since when, how often, who has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from stethoscope.cli.findings_select import Selection, check_rule, selection_options
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_UNREACHABLE, EXIT_URGENT, DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.model.night import Entry
    from stethoscope.session.night import NightKeeper
    from stethoscope.ui.present.spans import Glyphs, Row

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(invoke_without_command=True, context_settings=_HELP)
@source_options
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@click.option("--follow", is_flag=True, help="Stay, and print a line for each that comes, changes or clears.")
@click.option("--night", is_flag=True, help="Print the list kept on this machine; no node is asked.")
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON (stethoscope.findings/1); one a line with --follow.")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for slow nodes.")
@playbooks_option
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
@click.pass_context
def command(
    ctx: click.Context,
    source: SourceOptions,
    at: str | None,
    follow: bool,
    night: bool,
    selection: Selection,
    as_json: bool,
    timeout: str,
    playbooks: tuple[str, ...],
    ascii_only: bool,
) -> int | None:
    """Look at every node twice and print what is wrong, with evidence; with --replay, what was wrong at a time.

    Exit status: 0 nothing, 1 findings of P2, 2 findings of P0 or P1, 69 when no node was reached. What somebody has
    acknowledged or snoozed counts all the same.
    """
    if ctx.invoked_subcommand is not None:
        return None
    if at is not None and source.replay is None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    if follow and (night or source.replay is not None):
        raise UsageError("--follow needs nodes: it tells what comes")
    if night and source.replay is not None:
        raise UsageError("--night and --replay: a recording keeps no list")
    if night:
        return _print_night(source, selection, as_json=as_json, ascii_only=ascii_only)
    check_rule(selection.rule, directories_of(playbooks))
    if follow:
        from stethoscope.cli.findings_follow import follow_findings

        return follow_findings(
            with_keys(source), directories_of(playbooks), selection, as_json=as_json, ascii_only=ascii_only
        )
    return _look(source, at, selection, timeout, playbooks, as_json=as_json, ascii_only=ascii_only)


def _look(
    source: SourceOptions,
    at: str | None,
    selection: Selection,
    timeout: str,
    playbooks: tuple[str, ...],
    *,
    as_json: bool,
    ascii_only: bool,
) -> int:
    from stethoscope.cli.check import look, look_back, print_rows

    recording, directories = source.recording(), directories_of(playbooks)
    if recording is not None:
        result = look_back(recording, at, directories)
    else:
        result = look(with_keys(source), timeout, directories)

    from stethoscope.ui.present.finding_report import entries_of, report_json, report_rows, sum_row

    snapshot, now = result.snapshot, result.snapshot.wall
    if result.reached and selection.nodes is not None and not selection.nodes & set(snapshot.by_name):
        raise UsageError(f"--node: none of these nodes is in {snapshot.fleet}")
    here = entries_of(snapshot)
    there = {entry.id for entry in here}
    # What is kept of before is told only where somebody asks for the past.
    past = [entry for entry in snapshot.night.values() if entry.id not in there and not entry.is_active]
    chosen = selection.of([*here, *past], now)
    if as_json:
        _print_json(report_json(chosen, snapshot.fleet, now, "look" if recording is None else "recording"))
    else:
        reached = f"{len(result.reached):,} of {len(snapshot.nodes):,} nodes"
        fleet = f"simulated {snapshot.fleet}" if snapshot.simulated else snapshot.fleet
        print_rows(
            lambda glyphs: [
                *report_rows(chosen, now, glyphs, snapshot.catalogue, snapshot, result.history),
                sum_row(chosen, fleet, now, glyphs, extra=(reached,)),
            ],
            ascii_only=ascii_only,
        )
    return exit_code(chosen) if result.reached else EXIT_UNREACHABLE


def _print_night(source: SourceOptions, selection: Selection, *, as_json: bool, ascii_only: bool) -> int:
    from stethoscope.cli.check import print_rows
    from stethoscope.clock import SystemClock
    from stethoscope.session.kept import kept_list, kept_lists
    from stethoscope.ui.present.finding_report import report_json

    clock = SystemClock()
    now = clock.wall()
    if source.names_nodes:
        fleet = open_source(source, clock).fleet
        lists = {fleet: kept_list(fleet, now)}
    else:
        lists = kept_lists(now)
    check_rule(
        selection.rule, (), (entry.finding.rule for keeper in lists.values() for entry in keeper.entries.values())
    )
    every: list[Entry] = []
    for fleet, keeper in lists.items():
        chosen = selection.of(keeper.entries.values(), now, every=True)
        every += chosen
        if as_json:
            _print_json(report_json(chosen, fleet, now, "night"))
        else:
            print_rows(_night_rows(chosen, fleet, now), ascii_only=ascii_only)
    if not lists:
        say("no list is kept on this machine: a console, or findings --follow, keeps one", err=True)
    return exit_code(every)


def _night_rows(chosen: list[Entry], fleet: str, now: float) -> Callable[[Glyphs], list[Row]]:
    from stethoscope.specs.metric import load_catalogue
    from stethoscope.ui.present.finding_report import report_rows, sum_row

    catalogue = load_catalogue()
    return lambda glyphs: [*report_rows(chosen, now, glyphs, catalogue), sum_row(chosen, fleet, now, glyphs)]


def _print_json(document: object) -> None:
    import msgspec

    click.echo(msgspec.json.encode(document).decode())


def exit_code(entries: Iterable[Entry]) -> int:
    """Return the exit status that active findings stand for."""
    from stethoscope.model.finding import Severity

    severities = {entry.finding.severity for entry in entries if entry.is_active}
    if severities & {Severity.P0, Severity.P1}:
        return EXIT_URGENT
    return EXIT_PLANNED if Severity.P2 in severities else EXIT_HEALTHY


# ---- what is said about one, from the shell

_OF = click.option("--of", "fleet", metavar="FLEET", help="Fleet whose list is meant, where several have such a one.")


@command.command("ack", context_settings=_HELP)
@click.argument("id_", metavar="ID")
@_OF
@click.option("--undo", is_flag=True, help="Let it be loud again.")
def acknowledge(id_: str, fleet: str | None, undo: bool) -> int:
    """Say that somebody has seen a finding: it is quiet until it gets worse.

    ID is its id, or a part of it that no other has. Consoles on the fleet hear of it within a second or two.
    """
    found = _found(id_, fleet)
    found.keeper.acknowledge(found.entry.id, found.now, undo=undo)
    return _said(found, "loud again" if undo else "acknowledged")


@command.command("snooze", context_settings=_HELP)
@click.argument("id_", metavar="ID")
@_OF
@click.option("--for", "length", metavar="TIME", help="How long: 30m, 2h. [until it changes]")
@click.option("--undo", is_flag=True, help="Let it be loud again.")
def snooze(id_: str, fleet: str | None, length: str | None, undo: bool) -> int:
    """Keep a finding quiet for a while, or until it changes; it stays in the list."""
    from stethoscope.clock import hms
    from stethoscope.specs.duration import duration_s

    try:
        seconds = None if length is None else duration_s(length)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None
    found = _found(id_, fleet)
    until = None if seconds is None else found.now + seconds
    found.keeper.snooze(found.entry.id, found.now, until, undo=undo)
    words = "snoozed until it changes" if until is None else f"snoozed until {hms(until)} UTC"
    return _said(found, "loud again" if undo else words)


@command.command("note", context_settings=_HELP)
@click.argument("id_", metavar="ID")
@click.argument("words", nargs=-1, required=True)
@_OF
def note(id_: str, words: tuple[str, ...], fleet: str | None) -> int:
    """Write a line about a finding, which stays with it."""
    found = _found(id_, fleet)
    found.keeper.note(found.entry.id, found.now, " ".join(words))
    return _said(found, "noted")


class _Found(NamedTuple):
    """The finding that is meant."""

    fleet: str
    keeper: NightKeeper
    entry: Entry
    now: float


def _found(id_: str, fleet: str | None) -> _Found:
    from stethoscope.clock import SystemClock
    from stethoscope.session.kept import find, kept_lists

    now = SystemClock().wall()
    return _Found(*find(id_, kept_lists(now), fleet), now)


def _said(found: _Found, words: str) -> int:
    found.keeper.stop()
    for notice in found.keeper.take_notices():
        raise DataError(notice)
    say(f"{found.entry.id} ({found.fleet}): {words}")
    return EXIT_HEALTHY
