"""`stethoscope fleet`: write a fleet file from what is known elsewhere, and show what a fleet is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, adapted, asked, open_source, source_options, with_keys
from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.specs.fleet import Fleet, FleetNode

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_HELP)
def command() -> None:
    """Describe the fleet: which nodes, how they are reached, where they stand, what is expected."""


@command.command("init", context_settings=_HELP)
@click.argument("file", required=False)
@click.option("--from-slurm", is_flag=True, help="All nodes that Slurm knows, with GPUs, addresses and topology.")
@click.option("--partition", metavar="NAME", help="With --from-slurm: the nodes of this partition alone.")
@click.option("--topology", metavar="FILE", help="Slurm's topology.conf: switches or blocks become racks and pods.")
@click.option("--from-groups", metavar="NAME", multiple=True, help="Groups of ClusterShell; '*' for all.")
@click.option(
    "--from-ssh-config",
    metavar="FILE",
    is_flag=False,
    flag_value="~/.ssh/config",
    help="Hosts of an SSH configuration.",
)
@click.option("--hosts", metavar="SET", help="Nodes such as 'gpu[001-064]'.")
@click.option("--list", "list_file", metavar="FILE", help="File with names or node sets.")
@click.option("--ibnetdiscover", metavar="FILE", multiple=True, help="Its output: leaf and rail of each port.")
@click.option("--iblinkinfo", metavar="FILE", multiple=True, help="Its output: leaf and rail of each port.")
@click.option("--guids", metavar="FILE", help="Host and adapter of each GUID, where descriptions do not say them.")
@click.option("--slurm-via", metavar="HOST", help="Run Slurm's commands there, as user@host:port.")
@click.option("--user", metavar="NAME", help="User to log in there as.")
@click.option("--identity", metavar="FILE", help="Private key to offer first.")
@click.option("--known-hosts", metavar="FILE", help="Host keys to trust, instead of ~/.ssh/known_hosts.")
@click.option("--accept-new", is_flag=True, help="Record an unknown host key.")
@click.option("--ssh-config", metavar="FILE", help="SSH client configuration, instead of the usual files.")
@click.option("--name", metavar="TEXT", help="Name of the fleet.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def init(
    file: str | None,
    from_slurm: bool,
    partition: str | None,
    topology: str | None,
    from_groups: tuple[str, ...],
    from_ssh_config: str | None,
    hosts: str | None,
    list_file: str | None,
    ibnetdiscover: tuple[str, ...],
    iblinkinfo: tuple[str, ...],
    guids: str | None,
    slurm_via: str | None,
    user: str | None,
    identity: str | None,
    known_hosts: str | None,
    accept_new: bool,
    ssh_config: str | None,
    name: str | None,
    force: bool,
) -> int:
    """Write a fleet file to FILE, to the usual place without it, or to standard output with `-`.

    Its comments say what can be changed. A file that exists is left alone without --force.
    """
    from stethoscope.paths import config_dir, is_there, write_private
    from stethoscope.session.fleet_init import Wanted, make

    path = None if file == "-" else Path(file) if file is not None else config_dir() / "fleet.yaml"
    if path is not None and is_there(path) and not force:
        raise UsageError(f"{path} exists; --force replaces it, `-` prints the new one")
    options = SourceOptions(
        user=user, identity=identity, known_hosts=known_hosts, accept_new=accept_new, ssh_config=ssh_config
    )
    wanted = Wanted(
        from_slurm=from_slurm,
        from_groups=from_groups,
        from_ssh_config=from_ssh_config,
        hosts=hosts,
        list_file=list_file,
        partition=partition,
        topology=topology,
        fabric=(*ibnetdiscover, *iblinkinfo),
        guids=guids,
        name=name,
        slurm_via=slurm_via,
    )
    made = make(wanted, asked(options), lambda node: adapted(node, options))
    if path is None:
        click.echo(made.text, nl=False)
    else:
        try:
            write_private(path, made.text.encode())
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        say(f"{path}: {len(made.fleet.nodes):,} nodes, {len(made.fleet.groups):,} groups", err=True)
    for remark in made.remarks:
        say(f"note: {remark}", err=True)
    return 0


@command.command("show", context_settings=_HELP)
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.fleet.show/1).")
def show(source: SourceOptions, as_json: bool) -> int:
    """Show what the fleet is: nodes, groups, racks, leaves, what is expected, and where each setting comes from.

    Without options it shows the fleet file of the user's configuration. No node is connected to.
    """
    from stethoscope.paths import config_dir, is_there
    from stethoscope.session.resolve import resolve
    from stethoscope.specs.fleet import parse_interval
    from stethoscope.ui.present.fleet_report import fleet_json, fleet_lines

    if not source.names_nodes:
        path = config_dir() / "fleet.yaml"
        if not is_there(path):
            raise UsageError(f"no nodes are named, and there is no {path}: `stethoscope fleet init` writes one")
        source = replace(source, fleet=str(path))
    try:
        tick_s = None if source.interval is None else parse_interval(source.interval)
    except ValueError as error:
        raise UsageError(f"--interval: {error}") from None
    fleet = resolve(asked(source), lambda node: adapted(node, source, tick_s))
    origins = _origins(fleet, source)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(fleet_json(fleet, origins)).decode())
    else:
        for line in fleet_lines(fleet, origins):
            say(line)
    return 0


@command.command("test", context_settings=_HELP)
@source_options
@click.option("--timeout", metavar="TIME", default="60s", show_default=True, help="Longest wait for slow nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.fleet.test/1).")
def test(source: SourceOptions, timeout: str, as_json: bool) -> int:
    """Try every node once and say what works there, and what to do about what does not.

    Exit status: 0 all is fine, 1 something is missing, 69 when no node was reached.
    """
    import asyncio
    import json

    from stethoscope.clock import SystemClock
    from stethoscope.collect.command import SshRunner
    from stethoscope.collect.local import LocalSource
    from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_UNREACHABLE
    from stethoscope.paths import config_dir, is_there
    from stethoscope.session.fleet_test import try_fleet
    from stethoscope.specs.duration import duration_s
    from stethoscope.ui.present.fleet_tried import tried_json, tried_lines

    if not source.names_nodes and is_there(config_dir() / "fleet.yaml"):
        source = replace(source, fleet=str(config_dir() / "fleet.yaml"))
    try:
        limit_s = duration_s(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    options = with_keys(source)
    opened = open_source(options, SystemClock())
    if isinstance(opened, LocalSource):
        raise UsageError("say which nodes to try, with --hosts or --fleet")

    def runner(node: FleetNode) -> SshRunner:
        return SshRunner(node, accept_new=options.accept_new, ssh_config=options.ssh_config, unlocked=options.unlocked)

    result = asyncio.run(try_fleet(opened, runner, limit_s=limit_s))
    for notice in opened.take_notices():
        click.echo(f"note: {notice}", err=True)
    if as_json:
        click.echo(json.dumps(tried_json(result), ensure_ascii=False))
    else:
        click.echo("\n".join(tried_lines(result)))
    if not result.reached:
        return EXIT_UNREACHABLE
    return EXIT_HEALTHY if all(node.is_fine for node in result.nodes) else EXIT_PLANNED


def _origins(fleet: Fleet, options: SourceOptions) -> Mapping[str, Mapping[str, str]]:
    """Return who gives each setting: the part of the file, Slurm, or the command line, which wins."""
    given = {
        "user": options.user,
        "port": options.port,
        "identity_file": options.identity,
        "known_hosts": options.known_hosts,
        "tick_s": options.interval,
    }
    command_line = {setting: "command line" for setting, value in given.items() if value is not None}
    slurm = {}
    if options.slurm_job is not None or options.partition is not None:
        slurm = {"address": "Slurm", "expected_gpus": "Slurm"}
    origins = {}
    for node in fleet.nodes:
        known = fleet.origins.get(node.name)
        if known is None:
            known = {setting: who for setting, who in slurm.items() if getattr(node, setting) is not None}
        origins[node.name] = {**known, **command_line}
    return origins
