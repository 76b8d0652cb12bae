"""The fleet file (`stethoscope.fleet/1`): which nodes there are, how each is reached, and where it stands.

A node takes every setting from the most specific place that gives it: its entry under `hosts`, the last group of the
file that names it, `defaults`. What none gives is left to `~/.ssh/config`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from stethoscope.errors import DataError, UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.model.maintenance import Maintenance  # noqa: TC001  msgspec reads the annotation
from stethoscope.specs.duration import duration_s
from stethoscope.specs.fleet_jobs import FOLLOWED, JobSettings, read_jobs, read_logs
from stethoscope.specs.fleet_maintenance import MaintenanceSettings, read_maintenance
from stethoscope.specs.load import Loaded, Spec, convert, load, refuse_hidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.scheduler import Job

SCHEMA = "stethoscope.fleet/1"
SMALL_FLEET = 256
"""Up to this many nodes the probes tick every TICK_S seconds, above it every LARGE_TICK_S."""
TICK_S = 2.0
LARGE_TICK_S = 5.0
_TICK_RANGE_S = (0.2, 600.0)

MAX_GPUS = 64
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9_])?")
_PLACES = ("n", "rack", "pod")
_PLACEHOLDER = re.compile(r"\{(n|rack|pod)\}")

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


@dataclass(frozen=True, slots=True)
class PortPlace:
    """Where one InfiniBand or RoCE port is plugged in."""

    device: str
    port: int = 1
    rail: str = ""
    leaf: str = ""


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One node as the fleet file knows it; null leaves a setting to the SSH configuration."""

    name: str
    address: str | None = None
    """Host name or address to connect to, when it is not the name."""
    port: int | None = None
    user: str | None = None
    jump: str | None = None
    """Jump hosts, as for `ssh -J`; an empty text means none, whatever the SSH configuration says."""
    identity_file: str | None = None
    known_hosts: str | None = None
    rack: str = ""
    pod: str = ""
    tick_s: float = TICK_S
    expected_gpus: int | None = None
    expected_ib_ports: int | None = None
    expected_ib_gbps: float | None = None
    """Signalling rate that every InfiniBand port should have."""
    ports: tuple[PortPlace, ...] = ()
    """Where the adapters' ports are plugged in, as far as the file says."""
    sudo: bool = False
    """Whether `sudo -n` may be used for what needs root."""
    job_logs: tuple[str, ...] = ()
    """Paths of job logs, with the letters of `sbatch --output` (%j, %N ...)."""
    maintenance: tuple[Maintenance, ...] = ()

    @property
    def leaves(self) -> tuple[tuple[str, str], ...]:
        """Return the leaf switch of each port that one is known of."""
        return tuple((ids.port_name(place.device, place.port), place.leaf) for place in self.ports if place.leaf)


@dataclass(frozen=True, slots=True)
class SlurmLogin:
    """Where Slurm's commands run: on the machine `node`, or here when it is None."""

    node: FleetNode | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes of a fleet in the order of its file, and the names of its groups."""

    name: str
    nodes: tuple[FleetNode, ...]
    simulated: bool = False
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slurm: SlurmLogin | None = None
    jobs: tuple[Job, ...] = ()
    follow_jobs: int = FOLLOWED
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """Node -> setting -> the part of the file that gives it: `defaults`, `groups.rack-01`, `hosts.gpu-007`."""

    @classmethod
    def from_hosts(cls, text: str) -> Fleet:
        """Return the fleet that a node set such as `gpu[001-064]` names; UsageError when it names none."""
        names = list(dict.fromkeys(ids.expand(text)))
        for name in names:
            if not _NAME.fullmatch(name):
                raise UsageError(f'"{name}" is not a host name{_name_hint(name)}')
        return cls(name=text, nodes=tuple(FleetNode(name, tick_s=default_tick_s(len(names))) for name in names))


class PortSettings(Spec, frozen=True, kw_only=True):
    """Where a port, or every port of a set such as `mlx5_[0-7]`, is plugged in; `{n}` stands for the device's number,
    `{rack}` and `{pod}` for the node's."""

    rail: str | int | None = None
    leaf: str | None = None


class SlurmSettings(Spec, frozen=True, kw_only=True):
    """Where Slurm's commands run; `via: local` is this machine."""

    via: str
    address: str | None = None
    port: Port | None = None
    user: str | None = None
    jump: str | None = None
    identity_file: str | None = None
    known_hosts: str | None = None


class Settings(Spec, frozen=True, kw_only=True):
    """What can be said of one node, of a group, or of all."""

    address: str | None = None
    port: Port | None = None
    user: str | None = None
    jump: str | None = None
    identity_file: str | None = None
    known_hosts: str | None = None
    rack: str | int | None = None
    pod: str | int | None = None
    interval: str | int | float | None = None
    gpus: Annotated[int, msgspec.Meta(ge=0, le=MAX_GPUS)] | None = None
    ib_ports: Annotated[int, msgspec.Meta(ge=0, le=64)] | None = None
    ib_gbps: Annotated[float, msgspec.Meta(gt=0, le=6400)] | None = None
    ports: dict[str, PortSettings] | None = None
    sudo: str | bool | None = None
    job_logs: str | list[str] | None = None


class Defaults(Settings, frozen=True, kw_only=True):
    """Settings of every node that says nothing else."""


class Group(Settings, frozen=True, kw_only=True):
    """Settings of the nodes of a set."""

    nodes: str | list[str]


class FleetFile(Spec, frozen=True, kw_only=True):
    """The file as it stands."""

    schema: str
    name: str | None = None
    simulated: bool = False
    defaults: Defaults = Defaults()
    groups: dict[str, Group] = msgspec.field(default_factory=dict)
    hosts: dict[str, Settings | None] = msgspec.field(default_factory=dict)
    slurm: SlurmSettings | None = None
    jobs: list[JobSettings] = msgspec.field(default_factory=list)
    maintenance: list[MaintenanceSettings] = msgspec.field(default_factory=list)
    follow_jobs: Annotated[int, msgspec.Meta(ge=0, le=64)] = FOLLOWED


def default_tick_s(nodes: int) -> float:
    """Return the seconds between two frames of a node in a fleet of so many nodes."""
    return TICK_S if nodes <= SMALL_FLEET else LARGE_TICK_S


def read_fleet(path: str | Path) -> Fleet:
    """Return the fleet of the file at `path`; DataError says where it is broken or that it names no node."""
    return fleet_of(load(path))


def fleet_of(loaded: Loaded) -> Fleet:
    """Return the fleet of a file that was read; raises as `read_fleet` does."""
    if not isinstance(loaded.data, dict) or "schema" not in loaded.data:
        raise DataError(f"not a fleet file: it does not begin with `schema: {SCHEMA}`", where=loaded.name)
    refuse_hidden(loaded, loaded.data)
    schema = loaded.data["schema"]
    if schema != SCHEMA:
        raise loaded.error(f"the schema is {schema!r}; this program reads {SCHEMA}", "schema")
    return _fleet(loaded, convert(loaded, FleetFile))


def _fleet(loaded: Loaded, file: FleetFile) -> Fleet:
    directory = Path(loaded.name).parent
    defaults = _said(loaded, directory, file.defaults, "defaults")
    from_defaults = dict.fromkeys(defaults, "defaults")
    said: dict[str, dict[str, Any]] = {}
    origins: dict[str, dict[str, str]] = {}
    groups: dict[str, tuple[str, ...]] = {}

    def take(nodes: Iterable[str], settings: dict[str, Any], origin: str) -> None:
        for node in nodes:
            known = said.setdefault(node, dict(defaults))
            ports = {**known.get("ports", {}), **settings.get("ports", {})}
            known.update(settings)
            if ports:
                known["ports"] = ports
            origins.setdefault(node, dict(from_defaults)).update(dict.fromkeys(settings, origin))

    for name, group in file.groups.items():
        members = _members(loaded, group.nodes, "groups", name, "nodes")
        groups[name] = tuple(members)
        take(members, _said(loaded, directory, group, "groups", name), f"groups.{name}")
    for name, host in file.hosts.items():
        settings = _said(loaded, directory, host, "hosts", name) if host is not None else {}
        members = _members(loaded, name, "hosts", name) if "[" in name else _checked(loaded, [name], "hosts", name)
        take(members, settings, f"hosts.{name}")
    if not said:
        raise DataError("names no node: it needs `groups` with `nodes`, or `hosts`", where=loaded.name)
    if len(said) > ids.MAX_NODES:
        raise DataError(f"names {len(said):,} nodes; the limit is {ids.MAX_NODES:,}", where=loaded.name)
    for node, windows in read_maintenance(loaded, file.maintenance, said, groups).items():
        said[node]["maintenance"] = windows
    tick_s = default_tick_s(len(said))
    return Fleet(
        name=file.name or Path(loaded.name).stem,
        nodes=tuple(_node(name, {"tick_s": tick_s, **settings}) for name, settings in said.items()),
        simulated=file.simulated,
        groups=groups,
        slurm=None if file.slurm is None else _slurm(loaded, directory, file.slurm),
        jobs=read_jobs(loaded, file.jobs, said),
        follow_jobs=file.follow_jobs,
        origins=origins,
    )


def _node(name: str, settings: dict[str, Any]) -> FleetNode:
    ports = settings.pop("ports", None)
    if ports:
        words = {"rack": settings.get("rack", ""), "pod": settings.get("pod", "")}
        settings["ports"] = tuple(
            PortPlace(device, port, _filled(rail, device, words), _filled(leaf, device, words))
            for (device, port), (rail, leaf) in ports.items()
        )
    return FleetNode(name, **settings)


def _filled(text: str, device: str, words: Mapping[str, str]) -> str:
    number = re.search(r"(\d+)\D*$", device)
    return _PLACEHOLDER.sub(lambda match: (number[1] if number else "") if match[1] == "n" else words[match[1]], text)


def _slurm(loaded: Loaded, directory: Path, slurm: SlurmSettings) -> SlurmLogin:
    said = _said(loaded, directory, slurm, "slurm")
    if slurm.via == "local":
        for key in said:
            raise loaded.error(f"`via: local` runs Slurm's commands here; {key} has no meaning", "slurm", key)
        return SlurmLogin()
    try:
        return SlurmLogin(replace(login_node(slurm.via), **said))
    except UsageError as error:
        raise loaded.error(str(error), "slurm", "via") from None


def login_node(via: str) -> FleetNode:
    """Return the machine of `user@host:port` (user and port may lack); UsageError when it is none."""
    user, at, place = via.rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or ":" in host or not port.isdigit():
        host, port = place, ""
    if not _NAME.fullmatch(host) or (at and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\$?", user)):
        raise UsageError(f'"{via}" is not a machine: write user@host:port')
    if port and not 1 <= int(port) <= 65535:
        raise UsageError(f"{port} is not a port")
    return FleetNode(host, user=user if at else None, port=int(port) if port else None)


def _members(loaded: Loaded, nodes: str | list[str], *path: str) -> list[str]:
    try:
        expanded = ids.expand(nodes if isinstance(nodes, str) else ",".join(nodes))
    except UsageError as error:
        raise loaded.error(str(error), *path) from None
    return _checked(loaded, dict.fromkeys(expanded), *path)


def _checked(loaded: Loaded, names: Iterable[str], *path: str) -> list[str]:
    names = list(names)
    for name in names:
        if not _NAME.fullmatch(name):
            raise loaded.error(f'"{name}" is not a host name{_name_hint(name)}', *path)
    return names


def is_host_name(text: str) -> bool:
    """Tell whether this can be the name of a node."""
    return _NAME.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """Tell whether this can be told to SSH, and to people, as an address, a user or a jump host."""
    return re.search(r"^-|[\s\x00-\x1f\x7f]", text) is None


def _name_hint(name: str) -> str:
    if "@" in name:
        return "; give the user apart"
    return did_you_mean(name, [re.sub(r"[^A-Za-z0-9._:-]", "-", name).strip("-.")])


def _said(loaded: Loaded, directory: Path, settings: Settings | SlurmSettings, *path: str) -> dict[str, Any]:
    """Return the settings that are given there, as arguments of FleetNode."""
    said: dict[str, Any] = {}
    for key in ("address", "port", "user", "jump"):
        value = getattr(settings, key)
        if value is not None:
            said[key] = value
    for key in ("address", "user", "jump"):
        # They become parts of what is told to SSH and to people: an option or a blank in them is never meant.
        if key in said and not is_address(said[key]):
            raise loaded.error(f"{key} cannot begin with a dash or have blanks", *path, key)
    for key in ("identity_file", "known_hosts"):
        value = getattr(settings, key)
        if value is not None:
            said[key] = str(directory / Path(value).expanduser())
    if isinstance(settings, SlurmSettings):
        return said
    for key in ("rack", "pod"):
        value = getattr(settings, key)
        if value is not None:
            said[key] = str(value)
    for key in ("gpus", "ib_ports", "ib_gbps"):
        value = getattr(settings, key)
        if value is not None:
            said[f"expected_{key}"] = value
    if settings.ports is not None:
        said["ports"] = _ports(loaded, settings.ports, *path, "ports")
    if settings.sudo is not None:
        if settings.sudo not in ("-n", True, False):
            raise loaded.error("sudo is `-n` (allowed, never with a password) or false", *path, "sudo")
        said["sudo"] = settings.sudo is not False
    if settings.job_logs is not None:
        said["job_logs"] = read_logs(loaded, settings.job_logs, *path, "job_logs")
    if settings.interval is not None:
        try:
            said["tick_s"] = parse_interval(settings.interval)
        except ValueError as error:
            raise loaded.error(str(error), *path, "interval") from None
    return said


def _ports(loaded: Loaded, ports: dict[str, PortSettings], *path: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Return (device, port) -> rail and leaf as they are written, sets of devices taken apart."""
    said: dict[tuple[str, int], tuple[str, str]] = {}
    for key, place in ports.items():
        devices, _, number = key.partition(":")
        if (number and number not in ("1", "2")) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_,\[\]-]*", devices):
            raise loaded.error(f'"{key}" is not a port: write mlx5_0, mlx5_[0-7] or mlx5_0:2', *path, key)
        rail, leaf = "" if place.rail is None else str(place.rail), place.leaf or ""
        for what, text in (("rail", rail), ("leaf", leaf)):
            for word in re.findall(r"\{([^{}]*)\}", text):
                if word not in _PLACES:
                    raise loaded.error(f'nothing is called "{word}"{did_you_mean(word, _PLACES)}', *path, key, what)
        try:
            names = ids.expand(devices)
        except UsageError as error:
            raise loaded.error(str(error), *path, key) from None
        for name in names:
            said[name, int(number or 1)] = (rail, leaf)
    return said


def parse_interval(value: str | float) -> float:
    """Return the seconds of `2`, `2s`, `500ms` or `1m`; ValueError for anything else or out of 0.2 s to 10 m."""
    seconds = duration_s(value)
    if not _TICK_RANGE_S[0] <= seconds <= _TICK_RANGE_S[1]:
        raise ValueError("an interval is from {:g} s to {:g} s, not {:g} s".format(*_TICK_RANGE_S, seconds))
    return seconds
