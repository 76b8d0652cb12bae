"""What a fleet is, as text and as JSON: its groups, racks, pods and leaves, what is expected, and who says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model.ids import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.specs.fleet import Fleet, FleetNode

SCHEMA = "stethoscope.fleet.show/1"
SETTINGS = (
    "address", "port", "user", "jump", "identity_file", "known_hosts", "rack", "pod", "tick_s", "expected_gpus",
    "expected_ib_ports", "expected_ib_gbps", "sudo", "job_logs",
)  # fmt: skip
_FEW = 8
"""A setting with more values than this is summed up."""
_OWN = frozenset({"address", "rack", "pod"})
"""Settings that have lines of their own, or differ from node to node by nature."""


def fleet_lines(fleet: Fleet, origins: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the description as lines of text; `origins` is node -> setting -> who says so."""
    nodes = fleet.nodes
    head = f"{fleet.name} · {len(nodes):,} node{'s' if len(nodes) != 1 else ''}  {fold(node.name for node in nodes)}"
    lines = [head + (" · simulated" if fleet.simulated else "")]
    for title, places in (
        ("group", {name: list(members) for name, members in fleet.groups.items()}),
        ("rack", _by(nodes, "rack")),
        ("pod", _by(nodes, "pod")),
    ):
        lines += [f"  {title:<8}{name:<20}{len(names):>6,}  {fold(names)}" for name, names in places.items() if name]
    lines += [f"  {'leaf':<8}{leaf:<20}{ports:>6,}  {words}" for leaf, ports, words in _leaves(nodes)]
    for setting in SETTINGS:
        lines += _setting_lines(nodes, setting, origins)
    if fleet.slurm is not None:
        login = fleet.slurm.node
        where = "this machine" if login is None else login.name + (f" ({login.address})" if login.address else "")
        lines.append(f"  {'slurm':<18}{where}")
    return lines


def _setting_lines(nodes: Iterable[FleetNode], setting: str, origins: Mapping[str, Mapping[str, str]]) -> list[str]:
    said: dict[tuple[Any, str], list[str]] = {}
    for node in nodes:
        value = getattr(node, setting)
        origin = origins.get(node.name, {}).get(setting, "")
        origin = "hosts" if origin.startswith("hosts.") else origin
        if value in (None, "", False, ()) and not origin:
            continue
        said.setdefault((value, origin), []).append(node.name)
    name = setting.removesuffix("_s")
    if setting in _OWN or len(said) > _FEW:
        # A value for each node, or one that the lines of racks and pods show: who says so is what is left to say.
        by_origin: dict[str, list[str]] = {}
        for (_, origin), names in said.items():
            by_origin.setdefault(origin.partition(".")[0], []).extend(names)
        return [
            f"  {name:<18}{'of ' + format(len(names), ',') + ' nodes':<24}from {origin or 'default'}"
            for origin, names in by_origin.items()
        ]
    return [
        f"  {name:<18}{_shown(value):<22}  from {origin or 'default'}  {fold(names)}"
        for (value, origin), names in said.items()
    ]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "allowed" if value else "not allowed"
    return f"{value:g}" if isinstance(value, float) else str(value) if value != "" else "none"


def _by(nodes: Iterable[FleetNode], what: str) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for node in nodes:
        places.setdefault(getattr(node, what), []).append(node.name)
    return places


def _leaves(nodes: Iterable[FleetNode]) -> list[tuple[str, int, str]]:
    """Return leaf, number of ports, and which: rails and nodes."""
    found: dict[str, tuple[dict[str, None], dict[str, None], list[str]]] = {}
    for node in nodes:
        for port in node.ports:
            rails, devices, names = found.setdefault(port.leaf, ({}, {}, []))
            if port.rail:
                rails.setdefault(port.rail)
            devices.setdefault(port.device)
            names.append(node.name)
    return [
        (
            leaf or "(none)",
            len(names),
            f"{'rail ' + ','.join(rails) + '  ' if rails else ''}{fold(devices)} of {fold(dict.fromkeys(names))}",
        )
        for leaf, (rails, devices, names) in sorted(found.items())
    ]


def fleet_json(fleet: Fleet, origins: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the description in the form of `stethoscope.fleet.show/1`."""
    login = fleet.slurm.node if fleet.slurm is not None else None
    return {
        "schema": SCHEMA,
        "fleet": fleet.name,
        "simulated": fleet.simulated,
        "nodes": [
            {
                "node": node.name,
                **{setting: _plain(getattr(node, setting)) for setting in SETTINGS},
                "ports": [
                    {"device": port.device, "port": port.port, "rail": port.rail or None, "leaf": port.leaf or None}
                    for port in node.ports
                ],
                "origins": dict(origins.get(node.name, {})),
            }
            for node in fleet.nodes
        ],
        "groups": {name: list(members) for name, members in fleet.groups.items()},
        "slurm": None if fleet.slurm is None else {"via": "local" if login is None else login.name},
        "summary": {"nodes": len(fleet.nodes), "folded": fold(node.name for node in fleet.nodes)},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value if value != "" else None
