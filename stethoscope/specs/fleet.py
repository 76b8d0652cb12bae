"""The fleet file (`stethoscope.fleet/1`): which nodes there are, how each is reached, and where it stands.

A node takes every setting from the most specific place that gives it: its entry under `hosts`, the last group of the
file that names it, `defaults`. What none gives is left to `~/.ssh/config`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from stethoscope.errors import DataError, UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.specs.load import Loaded, Spec, convert, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = "stethoscope.fleet/1"
SMALL_FLEET = 256
"""Up to this many nodes the probes tick every TICK_S seconds, above it every LARGE_TICK_S."""
TICK_S = 2.0
LARGE_TICK_S = 5.0
_TICK_RANGE_S = (0.2, 600.0)

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9_])?")
_INTERVAL = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0}

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


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


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes of a fleet in the order of its file, and the names of its groups."""

    name: str
    nodes: tuple[FleetNode, ...]
    simulated: bool = False
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_hosts(cls, text: str) -> Fleet:
        """Return the fleet that a node set such as `gpu[001-064]` names; UsageError when it names none."""
        names = list(dict.fromkeys(ids.expand(text)))
        for name in names:
            if not _NAME.fullmatch(name):
                raise UsageError(f'"{name}" is not a host name{_name_hint(name)}')
        return cls(name=text, nodes=tuple(FleetNode(name, tick_s=default_tick_s(len(names))) for name in names))


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
    gpus: Annotated[int, msgspec.Meta(ge=0, le=64)] | None = None


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


def default_tick_s(nodes: int) -> float:
    """Return the seconds between two frames of a node in a fleet of so many nodes."""
    return TICK_S if nodes <= SMALL_FLEET else LARGE_TICK_S


def read_fleet(path: str | Path) -> Fleet:
    """Return the fleet of the file at `path`; DataError says where it is broken or that it names no node."""
    loaded = load(path)
    if not isinstance(loaded.data, dict) or "schema" not in loaded.data:
        raise DataError(f"not a fleet file: it does not begin with `schema: {SCHEMA}`", where=loaded.name)
    schema = loaded.data["schema"]
    if schema != SCHEMA:
        raise loaded.error(f"the schema is {schema!r}; this program reads {SCHEMA}", "schema")
    return _fleet(loaded, convert(loaded, FleetFile))


def _fleet(loaded: Loaded, file: FleetFile) -> Fleet:
    directory = Path(loaded.name).parent
    defaults = _said(loaded, directory, file.defaults, "defaults")
    said: dict[str, dict[str, Any]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for name, group in file.groups.items():
        settings = _said(loaded, directory, group, "groups", name)
        members = _members(loaded, group.nodes, "groups", name, "nodes")
        groups[name] = tuple(members)
        for node in members:
            said.setdefault(node, dict(defaults)).update(settings)
    for name, host in file.hosts.items():
        settings = _said(loaded, directory, host, "hosts", name) if host is not None else {}
        for node in _members(loaded, name, "hosts", name) if "[" in name else _checked(loaded, [name], "hosts", name):
            said.setdefault(node, dict(defaults)).update(settings)
    if not said:
        raise DataError("names no node: it needs `groups` with `nodes`, or `hosts`", where=loaded.name)
    if len(said) > ids.MAX_NODES:
        raise DataError(f"names {len(said):,} nodes; the limit is {ids.MAX_NODES:,}", where=loaded.name)
    tick_s = default_tick_s(len(said))
    return Fleet(
        name=file.name or Path(loaded.name).stem,
        nodes=tuple(FleetNode(name, **{"tick_s": tick_s, **settings}) for name, settings in said.items()),
        simulated=file.simulated,
        groups=groups,
    )


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


def _name_hint(name: str) -> str:
    if "@" in name:
        return "; give the user apart"
    return did_you_mean(name, [re.sub(r"[^A-Za-z0-9._:-]", "-", name).strip("-.")])


def _said(loaded: Loaded, directory: Path, settings: Settings, *path: str) -> dict[str, Any]:
    """Return the settings that are given there, as arguments of FleetNode."""
    said: dict[str, Any] = {}
    for key in ("address", "port", "user", "jump"):
        value = getattr(settings, key)
        if value is not None:
            said[key] = value
    for key in ("address", "user", "jump"):
        # They become parts of what is told to SSH and to people: an option or a blank in them is never meant.
        if key in said and re.search(r"^-|[\s\x00-\x1f\x7f]", said[key]):
            raise loaded.error(f"{key} cannot begin with a dash or have blanks", *path, key)
    for key in ("identity_file", "known_hosts"):
        value = getattr(settings, key)
        if value is not None:
            said[key] = str(directory / Path(value).expanduser())
    for key in ("rack", "pod"):
        value = getattr(settings, key)
        if value is not None:
            said[key] = str(value)
    if settings.gpus is not None:
        said["expected_gpus"] = settings.gpus
    if settings.interval is not None:
        try:
            said["tick_s"] = parse_interval(settings.interval)
        except ValueError as error:
            raise loaded.error(str(error), *path, "interval") from None
    return said


def parse_interval(value: str | float) -> float:
    """Return the seconds of `2`, `2s`, `500ms` or `1m`; ValueError for anything else or out of 0.2 s to 10 m."""
    match = _INTERVAL.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f'"{value}" is not an interval such as 2s, 500ms or 1m')
    seconds = float(match[1]) * _UNIT_S[match[2] or "s"]
    low, high = _TICK_RANGE_S
    if not low <= seconds <= high:
        raise ValueError(f"an interval is from {low:g} s to {high:g} s, not {seconds:g} s")
    return seconds
