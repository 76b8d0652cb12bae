"""The login node of a simulated fleet: an SSH server that answers Slurm's commands from the twin, and runs no probe."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from typing import TYPE_CHECKING

import asyncssh

from stethoscope.sim import slurm
from stethoscope.sim.server import DOOR

if TYPE_CHECKING:
    from stethoscope.sim.server import FleetServer
    from stethoscope.sim.twin import Twin

_ADDRESS = "127.0.0.1"


class LoginServer:
    """Listens on a free port of loopback, with a host key of its own; the fleet's client key opens it."""

    name = "login"

    def __init__(self, fleet: FleetServer) -> None:
        """Answer from the twin of `fleet`; nothing listens yet."""
        self.address = _ADDRESS
        self.port = 0
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self._fleet = fleet
        self._server: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()

    async def start(self) -> None:
        """Listen."""
        keys = asyncssh.import_authorized_keys(self._fleet.client_key.export_public_key().decode())
        self._server = await asyncssh.create_server(
            lambda: _Door(self._fleet.twin, self._connections),
            self.address,
            0,
            config=None,
            server_host_keys=[self.key],
            authorized_client_keys=keys,
            **DOOR,
        )
        self.port = self._server.get_port()

    async def close(self) -> None:
        """Stop listening and break every connection."""
        if self._server is not None:
            self._server.close()
            for connection in tuple(self._connections):
                connection.abort()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(2):
                    await self._server.wait_closed()


class _Door(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, twin: Twin, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._twin = twin
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def session_requested(self) -> _Command:
        return _Command(self._twin)


class _Command(asyncssh.SSHServerSession[bytes]):
    """One command."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._command = ""

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def session_started(self) -> None:
        if self._channel is None:
            return
        try:
            words = shlex.split(self._command)
        except ValueError:
            words = []
        # `env NAME=value ... command` as a login node's env runs it.
        if words[:1] == ["env"]:
            words = words[1:]
            while words and "=" in words[0]:
                words = words[1:]
        if words[:1] in (["scontrol"], ["squeue"]):
            status, out, err = slurm.answer(self._twin, words)
        else:
            status, out, err = 127, "", f"env: '{words[0] if words else ''}': No such file or directory\n"
        self._channel.write(out.encode())
        self._channel.write_stderr(err.encode())
        self._channel.exit(status)
