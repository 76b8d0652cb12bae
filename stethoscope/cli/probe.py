"""`stethoscope probe`: what can be asked of a node on demand, what that would run, and running it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stethoscope.cli.completion import nodes, probes
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import (
    EXIT_HEALTHY,
    EXIT_PLANNED,
    EXIT_UNREACHABLE,
    EXIT_URGENT,
    UsageError,
    did_you_mean,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.session.probe_run import ProbeRun
    from stethoscope.specs.probes import OnDemand
    from stethoscope.ui.present.spans import Row

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_HELP)
def command() -> None:
    """Ask nodes what the stream probe does not: `list` shows the probes, `show` what one runs, `run` runs it."""


@command.command("list", context_settings=_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.probe_list/1).")
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def list_(as_json: bool, ascii_only: bool) -> int:
    """Show every probe: what it is, what it looks at, what it costs."""
    from stethoscope.ui.present.probe import list_rows, probe_json
    from stethoscope.ui.present.spans import UNICODE

    probes = _probes()
    if as_json:
        _print_json({"schema": "stethoscope.probe_list/1", "probes": [probe_json(probe) for probe in probes.values()]})
    else:
        cells = _width() if sys.stdout.isatty() else 10_000
        _print(list_rows(probes.values(), UNICODE, cells), ascii_only=ascii_only)
    return EXIT_HEALTHY


@command.command("show", context_settings=_HELP)
@click.argument("probe_id", metavar="ID", shell_complete=probes)
@click.option("--script", "whole", is_flag=True, help="Print all that is sent to sh, byte for byte, and nothing else.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def show(probe_id: str, whole: bool, ascii_only: bool) -> int:
    """Show what a probe tells, costs and runs."""
    from stethoscope.collect.ondemand import about, commands_of, script
    from stethoscope.ui.present.probe import probe_rows
    from stethoscope.ui.present.spans import UNICODE

    probe = _probe(probe_id)
    if whole:
        click.echo(script(probe.id), nl=False)
        return EXIT_HEALTHY
    _print(probe_rows(probe, commands_of(probe.id), about(probe.id), _width(), UNICODE), ascii_only=ascii_only)
    return EXIT_HEALTHY


@command.command("run", context_settings=_HELP)
@click.argument("probe_id", metavar="ID", shell_complete=probes)
@source_options
@click.option(
    "--on",
    "places",
    multiple=True,
    metavar="PLACE",
    shell_complete=nodes,
    help="Nodes or a device: 'gpu-[001-004]', gpu-007/gpu/3.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be run and what forbids it, and run nothing.")
@click.option("--force", is_flag=True, help="Run it although a GPU is busy; the journal says so.")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for slow nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.probe_run/1).")
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def run(
    probe_id: str,
    source: SourceOptions,
    places: tuple[str, ...],
    dry_run: bool,
    force: bool,
    timeout: str,
    as_json: bool,
    ascii_only: bool,
) -> int:
    """Run a probe on nodes or devices; without --on on all nodes of the source, device by device.

    Exit status: 0 every run answered and found nothing wrong, 1 a run gave no answer or a warning, 2 something is
    critical, 69 when no node was reached.
    """
    if source.replay is not None:
        raise UsageError("a recording runs nothing: name nodes, not --replay")
    probe = _probe(probe_id)
    result = _run(probe, with_keys(source), places, timeout, dry_run=dry_run, force=force)
    from stethoscope.ui.present.probe import preview_rows, run_json, run_rows
    from stethoscope.ui.present.spans import UNICODE

    if as_json:
        _print_json(run_json(result, dry_run=dry_run))
    elif dry_run:
        _print(preview_rows(result.preview, _width(), UNICODE), ascii_only=ascii_only)
    else:
        _print(run_rows(result, _width(), UNICODE), ascii_only=ascii_only)
    if not force and any(step.refusal is not None and step.refusal.can_force for step in result.preview.steps):
        click.echo("note: --force runs what is refused because a GPU is busy or a tool is stuck", err=True)
    return exit_code(result, dry_run=dry_run)


def exit_code(result: ProbeRun, *, dry_run: bool = False) -> int:
    """Return the exit status that a run stands for."""
    if not result.reached:
        return EXIT_UNREACHABLE
    if dry_run:
        return EXIT_PLANNED if any(step.refusal for step in result.preview.steps) else EXIT_HEALTHY
    levels = {item.level for one in result.results for item in one.items}
    if "critical" in levels:
        return EXIT_URGENT
    wrong = "warning" in levels or any(one.remarks or not one.answered for one in result.results)
    return EXIT_PLANNED if wrong else EXIT_HEALTHY


def _run(
    probe: OnDemand, source: SourceOptions, texts: tuple[str, ...], timeout: str, *, dry_run: bool, force: bool
) -> ProbeRun:
    import asyncio

    from stethoscope.clock import SystemClock
    from stethoscope.model import ids
    from stethoscope.session.open import open_session
    from stethoscope.session.probe_run import places_of, run_probe
    from stethoscope.specs.duration import duration_s

    try:
        timeout_s = duration_s(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    clock = SystemClock()
    opened = open_source(source, clock)
    places = places_of(texts, [node.name for node in opened.nodes])
    opened.narrow({ids.node_of(place) for place in places})
    session = open_session(opened, clock, single_look=True, kept=False)
    narrate = sys.stderr.isatty()
    asked = run_probe(
        session,
        probe.id,
        places,
        force=force,
        dry_run=dry_run,
        timeout_s=timeout_s,
        on_progress=_narrate if narrate else None,
    )
    try:
        result = asyncio.run(asked)
    finally:
        if narrate:
            click.echo("\r\x1b[K", err=True, nl=False)
    for notice in session.take_notices():
        click.echo(f"note: {notice}", err=True)
    return result


def _narrate(words: str) -> None:
    click.echo(f"\r\x1b[K{words}", err=True, nl=False)


def _probes() -> dict[str, OnDemand]:
    from stethoscope.specs.probes import load_manifest

    return {probe.id: probe for probe in load_manifest().ondemand}


def _probe(name: str) -> OnDemand:
    probes = _probes()
    if name not in probes:
        raise UsageError(f'no probe is called "{name}"{did_you_mean(name, probes)}')
    return probes[name]


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((120, 24)).columns


def _print(rows: Iterable[Row], *, ascii_only: bool) -> None:
    from stethoscope.ui.present.spans import plain, to_ascii

    ascii_only = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
    for row in rows:
        text = plain(row).rstrip()
        say(to_ascii(text) if ascii_only else text)


def _print_json(document: object) -> None:
    import json

    click.echo(json.dumps(document, ensure_ascii=False))
