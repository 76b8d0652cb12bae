"""The command of a person's own shell on a node: the system's ssh, by the way that our link takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.specs.fleet import FleetNode


def ssh_arguments(node: FleetNode, ssh_config: str | None = None) -> list[str]:
    """Return the arguments that open a shell on `node`: what the fleet file and the command line say of it; all else is
    in the same SSH configuration, which ssh reads itself."""
    arguments = ["ssh"]
    if ssh_config is not None:
        arguments += ["-F", ssh_config]
    if node.address is not None:
        arguments += ["-o", f"HostName={node.address}"]
    if node.port is not None:
        arguments += ["-p", str(node.port)]
    if node.user is not None:
        arguments += ["-l", node.user]
    if node.identity_file is not None:
        arguments += ["-i", node.identity_file]
    if node.known_hosts is not None:
        arguments += ["-o", f'UserKnownHostsFile="{node.known_hosts}"']
    if node.jump is not None:
        # An empty text means none, whatever the configuration says.
        arguments += ["-J", node.jump or "none"]
    return [*arguments, "--", node.name]
