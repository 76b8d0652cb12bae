"""Where a connection to a node goes: the fleet file, the command line and the SSH configuration taken together."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass

from stethoscope.collect.hostkeys import SSH_PORT, HostKeys, KnownHosts
from stethoscope.collect.link import LinkFailure, clean_error
from stethoscope.collect.sshconfig import ConfigFiles, NodeConfig
from stethoscope.model.frame import LinkState
from stethoscope.specs.fleet import FleetNode

_TOKEN = re.compile(r"%(.)")
_PLAIN = re.compile(r"[A-Za-z0-9_.:@\[\]%+][A-Za-z0-9_.:@\[\]%+-]*")
"""What goes into a command that a shell reads: nothing that means something to it, and no option."""


@dataclass(slots=True)
class Target:
    """Where one connection goes, all sources of settings taken together."""

    config: NodeConfig
    name: str
    host: str
    port: int
    user: str
    identity_file: str | None
    jump: str | None
    known: KnownHosts | None
    """None when the user's configuration turned the check of host keys off."""
    names: tuple[str, ...]
    """Under which known_hosts may have the node; new keys go under the first."""
    strict: str
    """`StrictHostKeyChecking`, in lower case."""
    proxy_command: str | None = None
    """`ProxyCommand`, its tokens not filled in."""

    @property
    def where(self) -> str:
        """Return the place for people."""
        if self.port == SSH_PORT:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def proxy_arguments(self) -> list[str] | None:
        """Return the program that connects to the node, as ssh would run it, None without one; LinkFailure when what
        goes into the command could be taken for a part of it."""
        if self.proxy_command is None:
            return None
        values = {"%": "%", "h": self.host, "n": self.name, "p": str(self.port), "r": self.user}
        for letter in _TOKEN.findall(self.proxy_command):
            if letter not in values:
                raise LinkFailure(LinkState.ERROR, f"SSH configuration: ProxyCommand: %{letter} is not known here")
            if not _PLAIN.fullmatch(values[letter]):
                raise LinkFailure(LinkState.ERROR, f'"{values[letter]}" cannot go into a ProxyCommand')
        command = _TOKEN.sub(lambda found: values[found[1]], self.proxy_command)
        return [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {command}"]


class Targets:
    """Finds the target of any node; every file is read once."""

    def __init__(self, ssh_config: str | None = None) -> None:
        """Use the usual SSH configuration files, or the one given, as `ssh -F` does."""
        self._configs = ConfigFiles(ssh_config)
        self._host_keys = HostKeys()

    async def find(self, node: FleetNode) -> Target:
        """Return what `node` does, while the loop goes on: a `Match exec` runs a program for each node."""
        return await asyncio.to_thread(self.node, node) if self._configs.runs_programs else self.node(node)

    def node(self, node: FleetNode) -> Target:
        """Return where the connection to `node` goes; LinkFailure when the configuration cannot be read."""
        try:
            config = self._configs.evaluate(node.name, node.user, node.port)
        except (OSError, ValueError) as error:
            raise LinkFailure(LinkState.ERROR, f"SSH configuration: {clean_error(error)}") from None
        if node.address is not None:
            config.put("Hostname", node.address)
        host = (config.text("Hostname") or node.name).removeprefix("[").removesuffix("]")
        alias = config.text("HostKeyAlias")
        strict = (config.text("StrictHostKeyChecking") or "ask").lower()
        user_files = [node.known_hosts] if node.known_hosts is not None else config.texts("UserKnownHostsFile")
        known = None
        if user_files != []:
            known = self._host_keys.files(user_files, config.texts("GlobalKnownHostsFile"))
        port = config.get("Port", SSH_PORT)
        return Target(
            config=config,
            name=node.name,
            host=host,
            port=port if isinstance(port, int) else SSH_PORT,
            user=config.text("User") or self._configs.local_user,
            identity_file=node.identity_file,
            jump=node.jump if node.jump is not None else config.text("ProxyJump"),
            known=known,
            names=(alias,) if alias else (host, node.name) if node.address is not None else (host,),
            strict=strict,
            # A fleet file that says how the node is reached, be it directly, goes before the SSH configuration.
            proxy_command=config.text("ProxyCommand") if node.jump is None else None,
        )

    def hop(self, text: str, before: str) -> Target:
        """Return where the connection to a jump host goes; `before` are the jump hosts in front of it, if given."""
        user, host, port = parse_hop(text)
        target = self.node(FleetNode(host, user=user, port=port, jump=before or None))
        if target.jump is not None and parse_hop(target.jump.rpartition(",")[2])[1] == host:
            # `ProxyJump` for all hosts covers the jump host too, and is not meant for it.
            target.jump = None
        return target


def hosts_of(jump: str) -> str:
    """Return the hosts of a chain of jump hosts as people call them, without user and port; empty for none."""
    try:
        return ",".join(parse_hop(text)[1] for text in jump.split(",")) if jump else ""
    except LinkFailure:
        return jump


def parse_hop(text: str) -> tuple[str | None, str, int | None]:
    """Return user, host and port of a jump host as `ssh -J` takes it; LinkFailure when it is none."""
    user, at, place = text.strip().removeprefix("ssh://").rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = place, ""
    host = host.removeprefix("[").removesuffix("]")
    if not host or (port and not port.isdigit()):
        raise LinkFailure(LinkState.ERROR, f'"{text}" is not a jump host: write user@host:port')
    return (user if at else None), host, int(port) if port else None
