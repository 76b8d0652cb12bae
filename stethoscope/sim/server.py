"""A real SSH server for every node of the twin, on loopback, each with its own host key.

A node that is down (without power, panicked or hung alike) still completes TCP connects, because the kernel of this
machine does, but no banner follows: a console sees a connect time-out. Its established connections fall silent without
a FIN; after a panic they break.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncssh

from stethoscope.errors import UsageError
from stethoscope.sim.logs import EVERY_S, SharedLogs
from stethoscope.sim.readings import Readings
from stethoscope.sim.session import NodeSession

if TYPE_CHECKING:
    from stethoscope.clock import Clock
    from stethoscope.sim.lines import Said
    from stethoscope.sim.twin import Twin

SLOT_S = 0.25
"""The twin moves, and frames go out, at most this often; a frame's clocks tell when its values were true."""
BACKLOG = 64
USER = "sim"
DOOR: dict[str, Any] = {
    "password_auth": False,
    "kbdint_auth": False,
    "host_based_auth": False,
    "gss_host": None,
    "allow_pty": False,
    "line_editor": False,
    "encoding": None,
    "login_timeout": 30,
}
"""How every server of the fleet lets people in: with the key of the run, and in no other way."""


@dataclass(slots=True)
class Node:
    """One node's server: where it listens and who is connected."""

    index: int
    name: str
    address: str
    port: int
    key: asyncssh.SSHKey
    listener: socket.socket
    options: asyncssh.SSHServerConnectionOptions
    link: str = "up"
    connections: set[asyncssh.SSHServerConnection] = field(default_factory=set)
    sessions: set[NodeSession] = field(default_factory=set)
    kernel_log: deque[Said] = field(default_factory=lambda: deque(maxlen=200))
    """Its last lines, for a probe that starts later."""
    files: dict[str, bytearray] = field(default_factory=dict)
    """What lies on the file system that all nodes share."""

    @property
    def is_speaking(self) -> bool:
        """Tell whether the node sends anything."""
        return self.link == "up"

    @property
    def is_down(self) -> bool:
        """Tell whether the node cannot be reached, not only that nothing comes from it."""
        return self.link not in ("up", "silent", "no python")


class FleetServer:
    """Serves a twin in real time: `start_at_s` when it starts, `speed` scenario seconds a second from then on."""

    def __init__(self, twin: Twin, clock: Clock, *, start_at_s: float = 0.0, speed: float = 1.0) -> None:
        """Bring the twin to its start; nothing listens yet."""
        self.twin = twin
        self.nodes: list[Node] = []
        self.client_key = asyncssh.generate_private_key("ssh-ed25519", "stethoscope-sim")
        self._clock = clock
        self._start_at_s = start_at_s
        self._speed = speed
        self._started = clock.monotonic()
        twin.wall_at_0 = clock.wall() - start_at_s
        self._logs = SharedLogs(twin)
        self._early: list[Said] = []
        while twin.t_s < start_at_s:
            # In the steps in which jobs print.
            said = twin.advance_to(min(start_at_s, twin.t_s + EVERY_S))
            self._logs.take(said)
            self._early += said
        self._readings: Readings | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int | None = None) -> None:
        """Listen for every node, on `port` (or a free one) of an address of its own, or, where the system has one
        loopback address only, on ports of their own; UsageError when that cannot be."""
        keys = asyncssh.import_authorized_keys(self.client_key.export_public_key().decode())
        for index, (address, number, listener) in enumerate(_listen(len(self.twin.layout.nodes), port)):
            key = asyncssh.generate_private_key("ssh-ed25519")
            node = Node(
                index, self.twin.layout.nodes[index], address, number, key, listener, self._options(index, key, keys)
            )
            node.files = self._logs.files
            self.nodes.append(node)
            asyncio.get_running_loop().add_reader(listener, self._accept, node)
        # The nodes' wall clocks are right now, and stay right while the twin runs at speed 1.
        self._started = self._clock.monotonic()
        self.twin.wall_at_0 = self._clock.wall() - self._start_at_s
        self._tell(self._early, is_logged=True)
        self._tell(self._move())
        self._keep(asyncio.create_task(self._play()))

    def _options(
        self, index: int, key: asyncssh.SSHKey, keys: asyncssh.SSHAuthorizedKeys
    ) -> asyncssh.SSHServerConnectionOptions:
        return asyncssh.SSHServerConnectionOptions(
            server_factory=lambda: _Door(self, index),
            server_host_keys=[key],
            authorized_client_keys=keys,
            compression_algs=["none"],
            **DOOR,
        )

    async def close(self) -> None:
        """Stop listening and break every connection."""
        loop = asyncio.get_running_loop()
        for task in self._tasks:
            task.cancel()
        for node in self.nodes:
            if node.listener.fileno() >= 0:
                loop.remove_reader(node.listener)
            node.listener.close()
            for connection in tuple(node.connections):
                connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def readings(self) -> Readings:
        """Return the readings of this slot, worked out when first asked for."""
        if self._readings is None or self._readings.t_s != self.twin.t_s:
            self._readings = Readings(self.twin)
        return self._readings

    def _now_s(self) -> float:
        return self._start_at_s + (self._clock.monotonic() - self._started) * self._speed

    def _accept(self, node: Node) -> None:
        # Whoever waits is taken at once: a fleet's console comes in one wave.
        for _ in range(BACKLOG):
            try:
                accepted, _ = node.listener.accept()
            except OSError:
                return
            accepted.setblocking(False)
            self._keep(asyncio.create_task(self._welcome(node, accepted)))

    async def _welcome(self, node: Node, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
            await asyncssh.run_server(accepted, config=None, options=node.options)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SLOT_S)
            said = self._move()
            self._tell(said)
            now = loop.time()
            for node in self.nodes:
                if node.is_speaking:
                    for session in tuple(node.sessions):
                        session.tick(now)

    def _move(self) -> list[Said]:
        said = self.twin.advance_to(max(self.twin.t_s, self._now_s()))
        for node in self.nodes:
            link = self.twin.link(node.index)
            if link != node.link:
                self._relink(node, link)
        return said

    def _tell(self, said: list[Said], *, is_logged: bool = False) -> None:
        if not is_logged:
            self._logs.take(said)
        names = {node.name: node for node in self.nodes} if said else {}
        for line in said:
            node = names.get(line.node)
            if node is not None and node.is_speaking and line.sink == "kernel":
                node.kernel_log.append(line)
                for session in tuple(node.sessions):
                    session.tell(line)

    def _relink(self, node: Node, link: str) -> None:
        """Let a node go silent, break, or come back."""
        loop = asyncio.get_running_loop()
        was_down, node.link = node.is_down, link
        if node.is_down and not was_down:
            loop.remove_reader(node.listener)
            if link == "refused":
                node.listener.close()
            for connection in tuple(node.connections):
                if link in ("panic", "refused"):
                    connection.abort()
                else:
                    _mute(connection)
        elif was_down and not node.is_down:
            node.kernel_log.clear()
            # The node of before does not know its old connections, and those that wait came in vain.
            for connection in tuple(node.connections):
                connection.abort()
            if node.listener.fileno() < 0:
                node.listener = _socket(node.address, node.port)[2]
            with contextlib.suppress(OSError):
                while True:
                    node.listener.accept()[0].close()
            loop.add_reader(node.listener, self._accept, node)
        elif link == "no python":
            for connection in tuple(node.connections):
                connection.abort()


class _Door(asyncssh.SSHServer):
    """One connection to one node."""

    def __init__(self, fleet: FleetServer, index: int) -> None:
        self._fleet = fleet
        self._node = fleet.nodes[index]
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._node.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._node.connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def session_requested(self) -> NodeSession:
        return NodeSession(self._fleet.twin, self._node, self._fleet.readings)


def _mute(connection: asyncssh.SSHServerConnection) -> None:
    """Stop reading from a connection for good: nothing is answered, and no FIN is sent."""
    transport = connection._transport
    if isinstance(transport, asyncio.ReadTransport):
        transport.pause_reading()


def _listen(count: int, port: int | None) -> list[tuple[str, int, socket.socket]]:
    """Return listening sockets: one port on addresses of 127/8, else one address and a port each."""
    for base in range(71, 81):
        try:
            return _on_own_addresses([f"127.{base}.{n // 250}.{n % 250 + 1}" for n in range(count)], port)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return _on_own_ports(count, port)
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"cannot listen for {count} nodes: {error.strerror}") from error
    raise UsageError(f"cannot listen for {count} nodes: the port is in use")


def _on_own_addresses(addresses: list[str], port: int | None) -> list[tuple[str, int, socket.socket]]:
    sockets: list[tuple[str, int, socket.socket]] = []
    try:
        for address in addresses:
            sockets.append(_socket(address, port or 0))
            port = sockets[0][1]
    except OSError:
        for _, _, listener in sockets:
            listener.close()
        raise
    return sockets


def _on_own_ports(count: int, port: int | None) -> list[tuple[str, int, socket.socket]]:
    sockets: list[tuple[str, int, socket.socket]] = []
    try:
        for number in range(count):
            sockets.append(_socket("127.0.0.1", port + number if port else 0))  # noqa: PERF401 - what is open is closed
    except (OSError, OverflowError) as error:
        for _, _, listener in sockets:
            listener.close()
        raise UsageError(f"cannot listen for {count} nodes on 127.0.0.1: {error}") from error
    return sockets


def _socket(address: str, port: int) -> tuple[str, int, socket.socket]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return address, listener.getsockname()[1], listener


def quiet_logs() -> None:
    """Keep asyncssh's own narration off stderr."""
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
