"""The options that say which nodes a verb looks at, the same for every verb, and the source they mean."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.completion import groups, nodes
from stethoscope.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from asyncssh import SSHKey

    from stethoscope.clock import Clock
    from stethoscope.collect.commands import Commands
    from stethoscope.collect.local import LocalSource
    from stethoscope.collect.ssh import SshSource
    from stethoscope.session.resolve import Asked
    from stethoscope.specs.fleet import Fleet, FleetNode


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the command line says about the nodes and how to reach them."""

    hosts: str | None = None
    fleet: str | None = None
    user: str | None = None
    port: int | None = None
    identity: str | None = None
    known_hosts: str | None = None
    accept_new: bool = False
    interval: str | None = None
    ssh_config: str | None = None
    group: str | None = None
    slurm_job: str | None = None
    partition: str | None = None
    slurm_via: str | None = None
    replay: str | None = None
    bundle: str | None = None
    """What triage has frozen; beside nodes or a recording, where it is to be written."""
    demo: bool = False
    """The fleet of `fleet` is simulated, for as long as the verb runs."""
    read_only: bool = False
    unlocked: Mapping[Path, SSHKey] | None = None
    """Keys whose passphrase was asked for; no option."""
    frozen: Path | None = None
    """The bundle of which `replay` is the recording; no option."""

    def recording(self, *, writes_bundle: bool = False) -> Path | None:
        """Return the recording that --replay names, or that is in a bundle, None without; UsageError beside any other
        option of a source, DataError (exit 65) when there is no such file. `writes_bundle`: the verb writes one."""
        if self.bundle is not None and not writes_bundle:
            raise UsageError("--bundle beside nodes or a recording: `stethoscope triage` alone writes one")
        if self.replay is None:
            return None
        for name in self.__dataclass_fields__:
            if name not in ("replay", "bundle", "frozen") and getattr(self, name) not in (None, False):
                raise UsageError(f"--replay and --{name.replace('_', '-')}: a recording has its own nodes, give one")
        from stethoscope.paths import is_there

        path = Path(self.replay)
        if not is_there(path):
            raise DataError("no such file or directory", where=self.replay)
        return path

    @property
    def names_nodes(self) -> bool:
        """Tell whether nodes are named; this machine is meant where none are."""
        names = (self.hosts, self.fleet, self.group, self.slurm_job, self.partition)
        return any(name is not None for name in names)


_DEMO_START = "6m"
"""Simulated time at which there is something to find."""
_OPTIONS = (
    click.option("--hosts", metavar="SET", shell_complete=nodes, help="Nodes to watch, such as 'gpu[001-064],login1'."),
    click.option("--fleet", metavar="FILE", help="Fleet file that lists the nodes."),
    click.option(
        "--group",
        metavar="NAME",
        shell_complete=groups,
        help="Group of the fleet file, or of ClusterShell; --hosts @NAME is alike.",
    ),
    click.option("--slurm-job", metavar="ID", help="Nodes of a Slurm job."),
    click.option("--partition", metavar="NAME", help="Nodes of a Slurm partition."),
    click.option("--slurm-via", metavar="HOST", help="Run Slurm's commands there, as user@host:port."),
    click.option("--replay", metavar="FILE|DIR", help="A recording, instead of nodes."),
    click.option("--bundle", metavar="FILE", help="What triage has frozen into a file, instead of nodes."),
    click.option("--demo", is_flag=True, help="The simulated fleet, with its faults, instead of nodes."),
    click.option("--user", metavar="NAME", help="User to log in as."),
    click.option("--port", metavar="N", type=click.IntRange(1, 65535), help="SSH port of the nodes."),
    click.option("--identity", metavar="FILE", help="Private key to offer first."),
    click.option("--known-hosts", metavar="FILE", help="Host keys to trust, instead of ~/.ssh/known_hosts."),
    click.option("--accept-new", is_flag=True, help="Record unknown host keys; a changed one is still refused."),
    click.option("--interval", metavar="TIME", help="Time between two frames of a node: 2s, 500ms. [2s; 5s above 256]"),
    click.option("--ssh-config", metavar="FILE", help="SSH client configuration, instead of the usual files."),
    click.option("--read-only", is_flag=True, help="Run nothing on nodes but the stream probe; Slurm is not asked."),
)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the source; it gets them as one argument, `source`."""

    @functools.wraps(function)
    def with_source(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in SourceOptions.__dataclass_fields__ if name in options}
        source = SourceOptions(**given)
        named = source.names_nodes or source.demo or source.replay is not None
        if source.bundle is not None and not named:
            return _on_bundle(lambda frozen: function(*args, source=frozen, **options), source)
        if source.demo:
            return _on_demo(lambda demo: function(*args, source=demo, **options), source)
        return function(*args, source=source, **options)

    decorated: Callable[..., Any] = with_source
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _on_bundle(run: Callable[[SourceOptions], Any], source: SourceOptions) -> Any:
    """Run a verb on the recording in a bundle, which is unpacked for as long as it runs."""
    from stethoscope.paths import is_there
    from stethoscope.store.bundle import Bundle, remove_directory, unpack_directory

    path = Path(str(source.bundle))
    if not is_there(path):
        raise DataError("no such file; to write a bundle, name its nodes too", where=str(path))
    bundle, directory = Bundle(path), unpack_directory()
    try:
        recording = directory / "recording.sthr"
        if recording.name not in bundle.members:
            shown = f"tar xOf {path.name} verdict.md.zst | zstd -d"
            raise DataError(f"frozen without a recording (--no-record); its verdict: {shown}", where=str(path))
        bundle.extract(recording.name, recording)
        return run(replace(source, replay=str(recording), bundle=None, frozen=path))
    finally:
        bundle.close()
        remove_directory(directory)


def _on_demo(run: Callable[[SourceOptions], Any], source: SourceOptions) -> Any:
    """Run a verb on a simulated fleet, which ends with it."""
    import asyncio

    from stethoscope.session.demo import DemoFleet

    if source.names_nodes or source.replay is not None:
        raise UsageError("--demo is a fleet of its own: name no other nodes beside it")
    with DemoFleet(scenario=None, start_at=_DEMO_START, speed=1.0) as fleet:
        asyncio.run(fleet.serving())
        return run(replace(source, fleet=str(fleet.fleet_file)))


def open_source(
    options: SourceOptions,
    clock: Clock,
    *,
    on_settled: Callable[[], None] | None = None,
    narrow: Callable[[Fleet], Fleet] = lambda fleet: fleet,
) -> SshSource | LocalSource:
    """Return the source that the options mean, not yet running: a fleet over SSH, or this machine when none is named.

    Raises UsageError (exit 64) for options that do not fit together, DataError (65) for a fleet file that is broken or
    names no node. `on_settled` is called once, when every node has been live or has failed for the first time; `narrow`
    leaves out nodes that need not be asked.
    """
    from stethoscope.specs.fleet import TICK_S, parse_interval

    try:
        tick_s = None if options.interval is None else parse_interval(options.interval)
    except ValueError as error:
        raise UsageError(f"--interval: {error}") from None
    if options.replay is not None:
        raise UsageError("--replay: this verb needs nodes, not a recording")
    if options.bundle is not None:
        raise UsageError("--bundle beside nodes: `stethoscope triage` alone writes one")
    if not options.names_nodes:
        _only_for_ssh(options)
        from stethoscope.collect.local import LocalSource

        return LocalSource(clock, tick_s=tick_s or TICK_S, on_settled=on_settled, commands=commands_of(options))
    from stethoscope.session.resolve import ssh_source

    return ssh_source(asked(options), clock, lambda node: adapted(node, options, tick_s), on_settled, narrow)


def asked(options: SourceOptions) -> Asked:
    """Return what the options say about which nodes there are and what may be run there."""
    from stethoscope.session.resolve import Asked

    given = {name: getattr(options, name) for name in Asked.__dataclass_fields__ if name != "commands"}
    return Asked(**given, commands=commands_of(options))


def commands_of(options: SourceOptions) -> Commands:
    """Return what runs commands as the options allow, with the user's journal."""
    from stethoscope.session.resolve import journaled

    return journaled(read_only=options.read_only)


def with_keys(options: SourceOptions) -> SourceOptions:
    """Return the options with the keys that have a passphrase, which is asked for here, once for all nodes.

    Nothing is asked without a terminal, or when the agent has the key. UsageError after three wrong passphrases,
    DataError for a broken fleet file.
    """
    if not (options.names_nodes and options.replay is None and sys.stdin.isatty() and sys.stderr.isatty()):
        return options
    from stethoscope.collect.unlock import locked_keys, may_need, unlock

    if not may_need(options.identity, _fleet_texts(options), options.ssh_config):
        return options
    import getpass

    paths = locked_keys([adapted(node, options) for node in _named_nodes(options)], options.ssh_config)
    if not paths:
        return options
    keys = unlock(paths, lambda prompt: getpass.getpass(prompt, sys.stderr), lambda text: click.echo(text, err=True))
    return replace(options, unlocked=keys)


def _fleet_texts(options: SourceOptions) -> list[str]:
    if options.fleet is None:
        return []
    try:
        return [Path(options.fleet).read_text(errors="replace")]
    except OSError:
        return []


def _named_nodes(options: SourceOptions) -> list[FleetNode]:
    """Return the nodes as far as they are known without asking Slurm, with the host that Slurm is asked on."""
    from stethoscope.session.resolve import resolve
    from stethoscope.specs.fleet import FleetNode, login_node, read_fleet

    if options.slurm_job is None and options.partition is None:
        fleet = resolve(asked(options))
        nodes, login = list(fleet.nodes), fleet.slurm.node if fleet.slurm is not None else None
    else:
        # Which nodes they are says Slurm, later; what the configuration says of any node holds for them as well.
        file = read_fleet(options.fleet) if options.fleet is not None else None
        nodes = list(file.nodes) if file is not None else [FleetNode("node")]
        login = file.slurm.node if file is not None and file.slurm is not None else None
    if options.slurm_via not in (None, "local"):
        login = login_node(str(options.slurm_via))
    return [*nodes, *([login] if login is not None else [])]


def adapted(node: FleetNode, options: SourceOptions, tick_s: float | None = None) -> FleetNode:
    """Return the node with what the command line says in place of what its file says."""
    said = {
        "user": options.user,
        "port": options.port,
        "identity_file": options.identity,
        "known_hosts": options.known_hosts,
        "tick_s": tick_s,
    }
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return replace(node, **changes) if changes else node


def _only_for_ssh(options: SourceOptions) -> None:
    given = {
        "--user": options.user,
        "--port": options.port,
        "--identity": options.identity,
        "--known-hosts": options.known_hosts,
        "--accept-new": options.accept_new or None,
        "--ssh-config": options.ssh_config,
        "--slurm-via": options.slurm_via,
    }
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is about SSH: say which nodes with --hosts or --fleet")
