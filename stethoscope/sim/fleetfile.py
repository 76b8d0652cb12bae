"""The files that let a console reach a simulated fleet: fleet file, client key and known hosts."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError
from stethoscope.model.ids import fold
from stethoscope.paths import write_private
from stethoscope.sim.server import USER

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.sim.login import LoginServer
    from stethoscope.sim.server import FleetServer

_MARK = "simulated: true"


def make_room(path: Path) -> None:
    """Remove the fleet file of an earlier simulated fleet; UsageError when something else stands at `path`."""
    try:
        old = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if _MARK not in old.splitlines():
        raise UsageError(f"{path} exists and is not the file of a simulated fleet; it is left alone")
    path.unlink()


def write(server: FleetServer, path: Path, private: Path, login: LoginServer | None = None) -> None:
    """Write key and known hosts into the directory `private`, then the fleet file, in one step: it is whole when it
    appears, and the fleet serves by then. With `login` the file names it as the place of Slurm's commands."""
    key, known = private / "client_key", private / "known_hosts"
    write_private(key, server.client_key.export_private_key("openssh"))
    keys = [(node.address, node.port, node.key) for node in server.nodes]
    if login is not None:
        keys.append((login.address, login.port, login.key))
    hosts = (f"{_host(host, port)} {host_key.export_public_key().decode().strip()}\n" for host, port, host_key in keys)
    write_private(known, "".join(hosts).encode())
    fleet = server.twin.layout.fleet
    lines = [
        "schema: stethoscope.fleet/1",
        f'name: "{server.twin.scenario.id}"',
        _MARK,
        f'defaults: {{user: {USER}, port: {server.nodes[0].port}, identity_file: "{key}", known_hosts: "{known}", '
        f"interval: 2s, gpus: {fleet.gpus_per_node}}}",
        "groups:",
    ]
    for rack, members in groupby(server.nodes, key=lambda node: fleet.rack(node.index)):
        inside = list(members)
        nodes = fold(node.name for node in inside)
        first = inside[0].index
        ports = ", ".join(
            f"mlx5_{port}: {{rail: {port}, leaf: {fleet.leaf(first, port)}}}" for port in range(fleet.ib_ports_per_node)
        )
        lines.append(f'  {rack}: {{nodes: "{nodes}", rack: {rack}, pod: {fleet.pod(first)}, ports: {{{ports}}}}}')
    if login is not None:
        lines.append(
            f"slurm: {{via: {login.name}, address: {login.address}, port: {login.port}, user: {USER}, "
            f'identity_file: "{key}", known_hosts: "{known}"}}'
        )
    lines.append("hosts:")
    lines.extend(f"  {node.name}: {{address: {node.address}, port: {node.port}}}" for node in server.nodes)
    write_private(path, ("\n".join(lines) + "\n").encode())


def _host(address: str, port: int) -> str:
    return address if port == 22 else f"[{address}]:{port}"
