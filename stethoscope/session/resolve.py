"""Which fleet the command line means: a set of hosts, a fleet file, groups, a job's or a partition's nodes."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stethoscope.collect.command import LocalRunner, SshRunner
from stethoscope.collect.commands import SLURM, AllowedRunner, Commands
from stethoscope.collect.groups import clustershell_group, split_set
from stethoscope.collect.slurm import LiveSlurm, Slurm
from stethoscope.errors import UsageError, did_you_mean
from stethoscope.specs.fleet import Fleet, FleetNode, SlurmLogin, default_tick_s, login_node, read_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from asyncssh import SSHKey

    from stethoscope.clock import Clock
    from stethoscope.collect.ssh import SshSource
    from stethoscope.parse.slurm import SlurmNode


@dataclass(frozen=True, slots=True)
class Asked:
    """What names the nodes; at most one of job, partition, group, hosts, beside a fleet file for its groups."""

    hosts: str | None = None
    fleet: str | None = None
    group: str | None = None
    slurm_job: str | None = None
    partition: str | None = None
    slurm_via: str | None = None
    accept_new: bool = False
    ssh_config: str | None = None
    unlocked: Mapping[Path, SSHKey] | None = None
    """Keys whose passphrase is known."""
    commands: Commands = field(default_factory=Commands)
    """What everything is run through."""


def journaled(*, read_only: bool = False) -> Commands:
    """Return what runs commands and writes them into the user's journal."""
    from stethoscope.clock import SystemClock
    from stethoscope.collect.journal import Journal
    from stethoscope.paths import state_dir

    return Commands(Journal(state_dir() / "journal", SystemClock()), read_only=read_only)


def resolve(
    asked: Asked,
    adapt: Callable[[FleetNode], FleetNode] = lambda node: node,
    read: Callable[[str], Fleet] = read_fleet,
) -> Fleet:
    """Return the fleet that is meant, with where its Slurm is; `adapt` applies the command line's settings to a node,
    `read` reads the fleet file.

    UsageError for what does not fit together or does not exist, DataError for a broken fleet file, UnreachableError
    when Slurm must be asked and does not answer. Runs an event loop of its own.
    """
    named = [name for name in ("hosts", "group", "slurm_job", "partition") if getattr(asked, name) is not None]
    if len(named) > 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in named)
        raise UsageError(f"{options} both say which nodes to watch: give one")
    with_groups = asked.hosts is not None and "@" in asked.hosts
    if asked.hosts is not None and asked.fleet is not None and not with_groups:
        raise UsageError("--hosts and --fleet both say which nodes to watch: give one, or groups as @name")
    file = read(asked.fleet) if asked.fleet is not None else None
    login = _login(asked, file)
    if asked.slurm_job is not None or asked.partition is not None:
        fleet = asyncio.run(_from_slurm(asked, login or SlurmLogin(), file, adapt))
    elif asked.group is not None or with_groups:
        text = asked.hosts if asked.group is None else ",".join(f"@{name}" for name in split_set(asked.group))
        fleet = _from_groups(text or "", file)
    elif asked.hosts is not None:
        fleet = Fleet.from_hosts(asked.hosts)
    elif file is not None:
        fleet = file
    else:
        raise UsageError("no nodes are named")
    return replace(fleet, nodes=tuple(adapt(node) for node in fleet.nodes), slurm=login)


def _login(asked: Asked, file: Fleet | None) -> SlurmLogin | None:
    """Return where Slurm's commands run: where the command line says, where the file says, or here if they are here."""
    if asked.slurm_via is not None:
        return SlurmLogin() if asked.slurm_via == "local" else SlurmLogin(login_node(asked.slurm_via))
    if file is not None and (file.slurm is not None or file.simulated):
        return file.slurm
    return SlurmLogin() if shutil.which("scontrol") else None


def open_slurm(login: SlurmLogin, asked: Asked, adapt: Callable[[FleetNode], FleetNode] = lambda node: node) -> Slurm:
    """Return Slurm at `login`, reached as the nodes are."""
    if login.node is None:
        return Slurm(AllowedRunner(LocalRunner(), asked.commands, SLURM))
    node = replace(adapt(FleetNode(login.node.name)), name=login.node.name)
    said = ("address", "user", "jump", "identity_file", "known_hosts")
    changes = {name: getattr(login.node, name) for name in said if getattr(login.node, name) is not None}
    # `--port` is that of the nodes.
    node = replace(node, port=login.node.port, **changes)
    runner = SshRunner(node, accept_new=asked.accept_new, ssh_config=asked.ssh_config, unlocked=asked.unlocked)
    return Slurm(AllowedRunner(runner, asked.commands, SLURM))


def ssh_source(
    asked: Asked,
    clock: Clock,
    adapt: Callable[[FleetNode], FleetNode] = lambda node: node,
    on_settled: Callable[[], None] | None = None,
    narrow: Callable[[Fleet], Fleet] = lambda fleet: fleet,
) -> SshSource:
    """Return the source of the fleet that is meant, with its scheduler, not yet running; raises as `resolve` does.
    `narrow` leaves out nodes that need not be asked."""
    from stethoscope.collect.libraries import look_ahead
    from stethoscope.collect.ssh import SshSource
    from stethoscope.specs.fleet_kept import kept_fleet

    fleet = narrow(resolve(asked, adapt, kept_fleet))
    look_ahead()
    return SshSource(
        fleet,
        clock,
        accept_new=asked.accept_new,
        ssh_config=asked.ssh_config,
        on_settled=on_settled,
        scheduler=live_slurm(fleet, asked, adapt),
        commands=asked.commands,
        unlocked=asked.unlocked,
    )


COMPARED_WITH = 32
"""Other nodes that one node is compared with: enough to say what is usual."""


def with_peers(fleet: Fleet, name: str, most: int = COMPARED_WITH) -> Fleet:
    """Return `fleet` with the node of that name and no more than `most` others, those that are most like it as far as
    the fleet says; UsageError when there is none of that name."""
    wanted = next((node for node in fleet.nodes if node.name == name), None)
    if wanted is None:
        raise UsageError(f'no node is called "{name}"{did_you_mean(name, [node.name for node in fleet.nodes])}')
    at = fleet.nodes.index(wanted)
    near = sorted(
        (node.expected_gpus != wanted.expected_gpus, node.pod != wanted.pod, abs(index - at), index)
        for index, node in enumerate(fleet.nodes)
        if index != at
    )
    chosen = {at, *(index for *_, index in near[:most])}
    return replace(fleet, nodes=tuple(node for index, node in enumerate(fleet.nodes) if index in chosen))


def live_slurm(fleet: Fleet, asked: Asked, adapt: Callable[[FleetNode], FleetNode]) -> LiveSlurm | None:
    """Return what reads Slurm while the console runs, None where nothing says that there is one, or nothing may be
    run."""
    if fleet.slurm is None or asked.commands.read_only:
        return None
    return LiveSlurm(open_slurm(fleet.slurm, asked, adapt), [(node.name, node.address) for node in fleet.nodes])


async def _from_slurm(
    asked: Asked, login: SlurmLogin, file: Fleet | None, adapt: Callable[[FleetNode], FleetNode]
) -> Fleet:
    slurm = open_slurm(login, asked, adapt)
    try:
        if asked.slurm_job is not None:
            job, names = await slurm.job_nodes(asked.slurm_job)
            title = f"job {asked.slurm_job}" + (f" {job.name}" if job.name else "")
        else:
            title = f"partition {asked.partition}"
            names = await slurm.partition_nodes(asked.partition or "")
        known = {node.name: node for node in (await slurm.nodes(names)).nodes}
    finally:
        await slurm.close()
    nodes = fleet_nodes(names, known, file)
    if file is None:
        return Fleet(name=title, nodes=nodes, slurm=login)
    return replace(file, name=title, nodes=nodes, slurm=login)


def fleet_nodes(names: Sequence[str], known: dict[str, SlurmNode], file: Fleet | None = None) -> tuple[FleetNode, ...]:
    """Return nodes that Slurm names: as the fleet file has them, else with address and GPUs as Slurm has them."""
    described = {node.name: node for node in file.nodes} if file is not None else {}
    tick_s = default_tick_s(len(names))
    nodes = []
    for name in names:
        if name in described:
            nodes.append(described[name])
            continue
        node = known.get(name)
        address = node.address if node is not None and node.address not in ("", name) else None
        gpus = node.gpus if node is not None and node.gpus else None
        nodes.append(FleetNode(name, address=address, tick_s=tick_s, expected_gpus=gpus))
    return tuple(nodes)


def _from_groups(text: str, file: Fleet | None) -> Fleet:
    """Return the nodes of a set with groups: `@name` is one of the file, else of ClusterShell's sources."""
    names: dict[str, None] = {}
    for part in split_set(text):
        if part.startswith("@"):
            names.update(dict.fromkeys(_group(part[1:], file)))
        else:
            names.update(dict.fromkeys(node.name for node in Fleet.from_hosts(part).nodes))
    if not names:
        raise UsageError(f'"{text}" names no node')
    described = {node.name: node for node in file.nodes} if file is not None else {}
    plain = {node.name: node for node in Fleet.from_hosts(",".join(names)).nodes}
    base = file or Fleet(name=text, nodes=())
    title = text if file is None else f"{file.name} {text}"
    nodes = tuple(described.get(name) or plain[name] for name in names)
    return replace(base, name=title, nodes=nodes, groups=base.groups)


def _group(name: str, file: Fleet | None) -> Sequence[str]:
    if file is not None and name in file.groups:
        return file.groups[name]
    try:
        return clustershell_group(name)
    except UsageError as error:
        if file is None or not file.groups:
            raise
        raise UsageError(f"{error} (nor is it a group of the fleet file{did_you_mean(name, file.groups)})") from None
