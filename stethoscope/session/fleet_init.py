"""Finds out what a fleet is, for a fleet file: from Slurm, groups, an SSH configuration or a list; and the fabric."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.collect.groups import clustershell_group, clustershell_names, split_set
from stethoscope.errors import DataError, UsageError
from stethoscope.model import ids
from stethoscope.parse.ibnet import Fabric, device_name, named, read_fabric, read_guids
from stethoscope.parse.slurm_topology import Topology, read_topology
from stethoscope.session.resolve import Asked, open_slurm
from stethoscope.specs.fleet import MAX_GPUS, Fleet, SlurmLogin, fleet_of, is_address, is_host_name, login_node
from stethoscope.specs.fleet_write import Draft, Plan, fleet_text
from stethoscope.specs.load import MAX_BYTES, loads
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.specs.fleet import FleetNode


@dataclass(slots=True)
class Wanted:
    """What `fleet init` is asked to read; exactly one of the first five."""

    from_slurm: bool = False
    from_groups: tuple[str, ...] = ()
    from_ssh_config: str | None = None
    hosts: str | None = None
    list_file: str | None = None
    partition: str | None = None
    topology: str | None = None
    fabric: tuple[str, ...] = ()
    """Outputs of ibnetdiscover or iblinkinfo."""
    guids: str | None = None
    """File that says which GUID is which adapter of which host, for fabrics whose descriptions do not."""
    name: str | None = None
    slurm_via: str | None = None


@dataclass(slots=True)
class Made:
    """The text of a fleet file, the fleet it describes, and what people should know about it."""

    text: str
    fleet: Fleet
    remarks: list[str] = field(default_factory=list)


def make(wanted: Wanted, asked: Asked, adapt: Callable[[FleetNode], FleetNode]) -> Made:
    """Return a fleet file for what is wanted; UsageError, DataError or UnreachableError say what keeps it from that."""
    remarks: list[str] = []
    plan = _plan(wanted, asked, adapt, remarks)
    _fit(plan, remarks)
    if not plan.drafts:
        raise UsageError("that names no node")
    if wanted.topology is not None:
        _stand(plan, read_topology(_read(wanted.topology), wanted.topology), remarks)
    guids = read_guids(_read(wanted.guids)) if wanted.guids is not None else {}
    if wanted.guids is not None and not guids:
        raise DataError("names no GUID: write what `grep . /sys/class/infiniband/*/*_guid` says", where=wanted.guids)
    for path in wanted.fabric:
        fabric = named(read_fabric(_read(path)), guids)
        if not fabric.cables:
            hint = "; its adapters have no host names: give their --guids" if fabric.unnamed else ""
            raise DataError(f"names no cable between a host and a switch{hint}", where=path)
        _plug(plan, fabric, path, remarks)
    text = fleet_text(plan)
    fleet = fleet_of(loads(text, "the fleet file"))
    return Made(text, fleet, remarks)


def _plan(wanted: Wanted, asked: Asked, adapt: Callable[[FleetNode], FleetNode], remarks: list[str]) -> Plan:
    given = [
        name
        for name in ("from_slurm", "from_groups", "from_ssh_config", "hosts", "list_file")
        if getattr(wanted, name) not in (None, False, ())
    ]
    if len(given) != 1:
        raise UsageError("give one of --from-slurm, --from-groups, --from-ssh-config, --hosts and --list")
    if wanted.partition is not None and not wanted.from_slurm:
        raise UsageError("--partition belongs to --from-slurm")
    if wanted.from_slurm:
        return asyncio.run(_from_slurm(wanted, asked, adapt, remarks))
    if wanted.from_groups:
        return _from_groups(wanted)
    if wanted.from_ssh_config is not None:
        names = ssh_config_hosts(Path(wanted.from_ssh_config).expanduser())
        origin = f"from {wanted.from_ssh_config}"
    elif wanted.hosts is not None:
        names, origin = [node.name for node in Fleet.from_hosts(wanted.hosts).nodes], ""
    else:
        names, origin = _listed(wanted.list_file or ""), f"from {wanted.list_file}"
    return Plan(wanted.name or "fleet", [Draft(name) for name in names], origin=origin)


def _fit(plan: Plan, remarks: list[str]) -> None:
    """Leave out what no fleet file can have, whatever the source calls it."""
    odd = [draft.name for draft in plan.drafts if not is_host_name(draft.name)]
    if odd:
        plan.drafts = [draft for draft in plan.drafts if is_host_name(draft.name)]
        remarks.append(f"{len(odd):,} names are none of hosts and left out, such as {clean(odd[0], 60)}")
    for draft in plan.drafts:
        if draft.address is not None and not is_address(draft.address):
            remarks.append(f"{draft.name}: its address {clean(draft.address, 60)} is none; left out")
            draft.address = None
        if draft.gpus is not None and draft.gpus > MAX_GPUS:
            remarks.append(f"{draft.name}: {draft.gpus:,} GPUs are more than a node has; left out")
            draft.gpus = None


async def _from_slurm(
    wanted: Wanted, asked: Asked, adapt: Callable[[FleetNode], FleetNode], remarks: list[str]
) -> Plan:
    via = wanted.slurm_via
    login = SlurmLogin() if via in (None, "local") else SlurmLogin(login_node(via or ""))
    slurm = open_slurm(login, asked, adapt)
    try:
        names = await slurm.partition_nodes(wanted.partition) if wanted.partition is not None else None
        nodes = (await slurm.nodes(names)).nodes
        topology = await slurm.topology() if wanted.topology is None else ""
    finally:
        await slurm.close()
    drafts: list[Draft] = []
    partitions: dict[str, list[str]] = {}
    for node in nodes:
        if "future" in node.states:
            continue
        address = node.address if node.address not in ("", node.name) else None
        drafts.append(Draft(node.name, address=address, gpus=node.gpus or None))
        for partition in node.partitions:
            partitions.setdefault(partition, []).append(node.name)
    without = sum(draft.gpus is None for draft in drafts)
    if 0 < without < len(drafts):
        # Those without GRES are login or CPU nodes: `gpus: 0` says so.
        for draft in drafts:
            draft.gpus = draft.gpus or 0
        remarks.append(f"{without:,} nodes have no GPUs in Slurm; delete their group if they are not to be watched")
    plan = Plan(
        wanted.name or "cluster",
        drafts,
        groups=partitions,
        slurm={"via": via or "local"},
        origin=f"from Slurm {slurm.version}" + (f" on {via}" if via else ""),
    )
    if topology:
        _stand(plan, read_topology(topology, "scontrol show topology"), remarks)
    return plan


def _from_groups(wanted: Wanted) -> Plan:
    groups = {}
    for text in wanted.from_groups:
        for name in split_set(text):
            bare = name.removeprefix("@")
            if bare == "*":
                groups.update({each: clustershell_group(each) for each in clustershell_names()})
            else:
                groups[bare] = clustershell_group(bare)
    names = list(dict.fromkeys(node for members in groups.values() for node in members))
    return Plan(
        wanted.name or "fleet", [Draft(name) for name in names], groups=groups, origin="from ClusterShell's groups"
    )


def ssh_config_hosts(path: Path, seen: set[Path] | None = None) -> list[str]:
    """Return the plain names of the `Host` lines of an SSH configuration and of what it includes, each file once."""
    names: dict[str, None] = {}
    seen = set() if seen is None else seen
    seen.add(path.resolve())
    for line in _read(str(path)).splitlines():
        match = re.match(r"\s*(Host|Include)[ \t=]+(.*)", line, re.IGNORECASE)
        if match is None:
            continue
        words = match[2].partition("#")[0].replace('"', " ").split()
        if match[1].lower() == "host":
            names.update(dict.fromkeys(word for word in words if not re.search(r"[*?!%]", word)))
        else:
            for word in words:
                pattern = Path(word).expanduser()
                base = pattern if pattern.is_absolute() else path.parent / pattern
                for included in sorted(base.parent.glob(base.name)):
                    if included.resolve() not in seen:
                        names.update(dict.fromkeys(ssh_config_hosts(included, seen)))
    return list(names)


def _listed(path: str) -> list[str]:
    """Return the nodes of a file: names and sets, by lines, blanks or commas; `#` begins a comment."""
    names: dict[str, None] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        for word in line.partition("#")[0].split():
            try:
                fleet = Fleet.from_hosts(word.strip(","))
            except UsageError as error:
                raise DataError(str(error), where=f"{path}:{number}") from None
            names.update(dict.fromkeys(node.name for node in fleet.nodes))
    return list(names)


def _stand(plan: Plan, topology: Topology, remarks: list[str]) -> None:
    """Let the lowest switch or block of a node be its rack, and the switch above that its pod, if there are several."""
    above = {topology.above[leaf] for leaf in topology.leaf.values() if leaf in topology.above}
    for draft in plan.drafts:
        draft.rack = topology.leaf.get(draft.name, draft.rack)
        draft.pod = topology.above.get(draft.rack, draft.pod) if len(above) > 1 else draft.pod
    missing = sum(not draft.rack for draft in plan.drafts)
    if missing:
        remarks.append(
            f"{missing:,} nodes are in no {'block' if topology.kind == 'block' else 'switch'} of the topology"
        )


def _plug(plan: Plan, fabric: Fabric, path: str, remarks: list[str]) -> None:
    """Give ports the switch at their other end, and their rail: their place among the cabled adapters of the node."""
    drafts = {draft.name: draft for draft in plan.drafts}
    short = {draft.name.partition(".")[0]: draft for draft in plan.drafts}
    cabled: dict[str, dict[str, str]] = {}
    foreign: set[str] = set()
    nameless: set[str] = set()
    for cable in fabric.cables:
        draft = drafts.get(cable.host) or short.get(cable.host.partition(".")[0])
        if draft is None:
            foreign.add(cable.host)
        elif not cable.device:
            nameless.add(draft.name)
        else:
            device = device_name(cable.device) + (f":{cable.port}" if cable.port > 1 else "")
            # Braces stand for placeholders in a fleet file.
            cabled.setdefault(draft.name, {})[device] = re.sub(r"[{}]", "_", cable.switch)
    for name, devices in cabled.items():
        for rail, device in enumerate(sorted(devices, key=_natural)):
            drafts[name].ports[device] = (str(rail), devices[device])
    bare = [name for name in drafts if name not in cabled]
    if bare:
        remarks.append(f"{path}: no cable of {ids.fold(bare)}")
    if nameless:
        remarks.append(f"{path}: {ids.fold(sorted(nameless))}: descriptions without the adapter's name are left out")
    if fabric.unnamed:
        remarks.append(
            f"{path}: {len(fabric.unnamed):,} ports have no host in their description: give --guids, or start rdma-ndd"
        )
    if foreign:
        remarks.append(f"{path}: {len(foreign):,} hosts there are not of this fleet")
    if fabric.lost:
        remarks.append(f"{path}: {fabric.lost:,} lines could not be read")


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(4 * MAX_BYTES)
    except OSError as error:
        raise DataError(error.strerror or "cannot be read", where=path) from None
    return raw.decode("utf-8", "replace")
