"""`stethoscope decode`: what happened first, to whom, how bad it is, and what to check next."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stethoscope.cli.knowledge import knowledge_options
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, source_options
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_UNREACHABLE, EXIT_URGENT, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from stethoscope.model.incident import Match
    from stethoscope.model.logs import LogVerdict
    from stethoscope.parse.kinds import Kind
    from stethoscope.session.decode import Decoded, Wanted
    from stethoscope.session.decode_nodes import NodeLog

_TIME_HELP = "02:14 (the last one), 2026-03-14T02:14:07Z, or 2h before the newest line."


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILE|DIR|'PATTERN'|-]...", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.decode/1).")
@click.option("--all", "every", is_flag=True, help="Show every event instead of each kind once.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is added; a new answer when the verdict changes.")
@click.option("--since", metavar="TIME", help=f"Judge only what is from then on: {_TIME_HELP}")
@click.option("--until", metavar="TIME", help="Judge only what is up to then.")
@click.option(
    "--stacks", is_flag=True, help="Read stacks of many ranks (py-spy dump): who is where. [found by content]"
)
@click.option("--transport", is_flag=True, help="Show the transport of every rank, as NCCL's INFO lines tell it.")
@click.option(
    "--flight-recorder", metavar="DIR", help="Read PyTorch's NCCL flight recorder dumps of all ranks instead."
)
@click.option(
    "--node", metavar="SET", help="Judge only lines of these hosts; without FILE, read the kernel logs of these nodes."
)
@click.option("--tz", metavar="ZONE", help="Zone of stamps and options that name none: Europe/Berlin. [UTC]")
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for slow nodes.")
@knowledge_options
@playbooks_option
@source_options
def command(
    source: SourceOptions,
    files: tuple[str, ...],
    as_json: bool,
    every: bool,
    follow: bool,
    since: str | None,
    until: str | None,
    stacks: bool,
    transport: bool,
    flight_recorder: str | None,
    node: str | None,
    tz: str | None,
    ascii_only: bool,
    timeout: str,
    incidents: str | None,
    no_kb: bool,
    playbooks: tuple[str, ...],
) -> int:
    """Read logs, plain or compressed (gzip, zstd, xz, bzip2), and say what happened first.

    With --node and no FILE, the kernel logs of nodes are read, of the last day or --since; the options of the source
    say how they are reached. FILE - is what is piped in.

    Exit status: 0 nothing is wrong, 1 P2, 2 P0 or P1, 65 nothing could be read.
    """
    if flight_recorder is not None:
        if files or follow or since or until or node:
            raise UsageError("--flight-recorder reads dumps alone: give logs, times and nodes in a run of their own")
        return _flight(
            [flight_recorder], directories_of(playbooks), as_json=as_json, every=every, ascii_only=ascii_only
        )
    on_nodes = not files and (node is not None or source.names_nodes)
    if not files and not on_nodes and sys.stdin.isatty():
        raise UsageError("name a log, a directory or a pattern, or pipe one in: dmesg | stethoscope decode")
    names = list(files) if files or on_nodes else ["-"]
    kind = _kind_of(files) if files and not stacks and not follow else ""
    if kind == "dump":
        return _flight(names, directories_of(playbooks), as_json=as_json, every=every, ascii_only=ascii_only)
    if (stacks and not on_nodes) or kind == "stacks":
        return _stacks(names, directories_of(playbooks), as_json=as_json, every=every, ascii_only=ascii_only)
    zone = zone_of(tz) if tz is not None else None
    wanted = _wanted(since, until, None if on_nodes else node, zone)

    def show(decoded: Decoded) -> None:
        if not no_kb:
            decoded.similar = _alike(decoded, incidents)
        _show(decoded, as_json=as_json, every=every, each_rank=transport, ascii_only=ascii_only)

    directories = directories_of(playbooks)
    from stethoscope.clock import SystemClock

    of_nodes: Sequence[NodeLog] = ()
    if on_nodes:
        if follow:
            raise UsageError("--follow: of nodes, `stethoscope watch` shows the kernel logs as they grow")
        from stethoscope.cli.decode_nodes import read_nodes

        of_nodes = read_nodes(source, node, wanted, timeout)
        if not any(not log.trouble for log in of_nodes):
            for log in of_nodes:
                say(f"stethoscope: {log.node}: {log.trouble}", err=True)
            return EXIT_UNREACHABLE
    if follow:
        from stethoscope.cli.decode_follow import follow_logs
        from stethoscope.session.decode_follow import Followed

        followed = Followed(names, *directories, clock=SystemClock(), zone=zone, wanted=wanted)
        return follow_logs(followed, show, ascii_only=ascii_only, is_quiet=as_json, exit_code=exit_code)
    from stethoscope.session.decode import decode

    clock = SystemClock()
    progress = _Progress(clock.monotonic) if sys.stderr.isatty() else None
    try:
        decoded = decode(
            names, *directories, clock=clock, zone=zone, wanted=wanted, progress=progress, of_nodes=of_nodes
        )
    finally:
        if progress is not None:
            progress.end()
    show(decoded)
    return exit_code(decoded.verdict)


def _alike(decoded: Decoded, incidents: str | None) -> tuple[Match, ...]:
    """Return what of the past looks like what the logs say; nothing does where nothing is wrong."""
    from stethoscope.model.logs import HEALTHY

    if decoded.verdict.root_cause == HEALTHY or not decoded.log.events:
        return ()
    from stethoscope.cli.knowledge import alike
    from stethoscope.session.incident_draft import clues_of, log_said

    return alike(clues_of(log_said(decoded)), incidents)


def _kind_of(files: tuple[str, ...]) -> Kind:
    from stethoscope.session.kinds import kind_of_files

    return kind_of_files(files)


def _stacks(names: list[str], directories: list[Path], *, as_json: bool, every: bool, ascii_only: bool) -> int:
    from stethoscope.cli.decode_stacks import show_stacks
    from stethoscope.clock import SystemClock

    options = {"as_json": as_json, "every": every, "ascii_only": ascii_only}
    return exit_code(show_stacks(names, *directories, clock=SystemClock(), **options))


def _flight(names: list[str], directories: list[Path], *, as_json: bool, every: bool, ascii_only: bool) -> int:
    from stethoscope.cli.decode_flight import show_flight
    from stethoscope.clock import SystemClock

    clock = SystemClock()
    progress = _Progress(clock.monotonic) if sys.stderr.isatty() else None
    try:
        return exit_code(
            show_flight(
                names, *directories, clock=clock, as_json=as_json, every=every, ascii_only=ascii_only, progress=progress
            )
        )
    finally:
        if progress is not None:
            progress.end()


def exit_code(verdict: LogVerdict) -> int:
    """Return 0 for nothing wrong, 1 for P2, 2 for P0 and P1."""
    from stethoscope.model.finding import Severity

    if verdict.severity in (Severity.P0, Severity.P1):
        return EXIT_URGENT
    return EXIT_PLANNED if verdict.severity is Severity.P2 else EXIT_HEALTHY


class _Progress:
    """A line on standard error while long work goes on."""

    LATE_S = 1.0
    EVERY_S = 0.2

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = monotonic()
        self._next = self._started + self.LATE_S
        self._is_shown = False

    def __call__(self, taken: int, total: int) -> None:
        now = self._monotonic()
        if now < self._next:
            return
        from stethoscope.ui.present.decoded_read import bytes_text

        self._next, self._is_shown = now + self.EVERY_S, True
        speed = f"{bytes_text(int(taken / (now - self._started)))}/s"
        share = ""
        if total:
            share = f" of {bytes_text(total)}, {min(taken / total, 1.0):.0%}"
        click.echo(f"\r\x1b[Kreading {bytes_text(taken)}{share}, {speed}", err=True, nl=False)

    def end(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", err=True, nl=False)


def _show(decoded: Decoded, *, as_json: bool, every: bool, each_rank: bool, ascii_only: bool) -> None:
    if as_json:
        import msgspec

        from stethoscope.cli.decode_json import decoded_json

        click.echo(msgspec.json.encode(decoded_json(decoded)).decode())
        return
    from stethoscope.cli.paint import print_rows
    from stethoscope.ui.present.decoded import answer_rows

    print_rows(
        lambda glyphs, cells, is_terminal: answer_rows(
            decoded, glyphs, cells, every=every, is_cut=is_terminal, each_rank=each_rank
        ),
        ascii_only=ascii_only,
    )


def _wanted(since: str | None, until: str | None, node: str | None, zone: tzinfo | None) -> Wanted | None:
    if since is None and until is None and node is None:
        return None
    from stethoscope.clock import SystemClock
    from stethoscope.model import ids
    from stethoscope.session.decode import Wanted

    wanted = Wanted(since, until, zone, frozenset() if node is None else frozenset(ids.expand(node)))
    for name, text in (("--since", since), ("--until", until)):
        try:
            wanted.moment(text, SystemClock().wall())
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    return wanted


def zone_of(name: str) -> tzinfo:
    """Return the zone that `--tz` names; UsageError for one that is none."""
    from datetime import UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f'--tz: no zone is called "{name}"; write Europe/Berlin, America/Los_Angeles, UTC') from None
