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


def write(server: FleetServer, path: Path, private: Path) -> None:
    """Write key and known hosts into the directory `private`, then the fleet file, in one step: it is whole when it
    appears, and the fleet serves by then."""
    key, known = private / "client_key", private / "known_hosts"
    write_private(key, server.client_key.export_private_key("openssh"))
    hosts = (f"{_host(n.address, n.port)} {n.key.export_public_key().decode().strip()}\n" for n in server.nodes)
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
        lines.append(f'  {rack}: {{nodes: "{nodes}", rack: {rack}, pod: {fleet.pod(inside[0].index)}}}')
    lines.append("hosts:")
    lines.extend(f"  {node.name}: {{address: {node.address}, port: {node.port}}}" for node in server.nodes)
    write_private(path, ("\n".join(lines) + "\n").encode())


def _host(address: str, port: int) -> str:
    return address if port == 22 else f"[{address}]:{port}"
