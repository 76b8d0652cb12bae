"""One SSH connection to a node, and the probe on it. The only module that talks to asyncssh's connections."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import asyncssh

from stethoscope.collect import jump, ondemand, words
from stethoscope.collect.commands import STREAM, Commands
from stethoscope.collect.jump import Jumps, Opened, Via, turn
from stethoscope.collect.keys import KeyRing
from stethoscope.collect.link import Ending, LinkFailure, NodeLink, Running, clean_error
from stethoscope.collect.owner import CIPHERS, KEX, Options, Owner, drop_mute
from stethoscope.collect.proxy import Proxies
from stethoscope.collect.resolve import Resolver
from stethoscope.collect.shed import shed
from stethoscope.collect.target import Target, Targets, hosts_of
from stethoscope.model.frame import LinkState
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stethoscope.collect.command import Answer
    from stethoscope.collect.keys import Keys
    from stethoscope.collect.program import Program
    from stethoscope.specs.fleet import FleetNode

BANNER_S = 8.0
"""An SSH server says its version at once; what accepts connections and stays mute so long is hung."""
LOGIN_S = 30.0
"""Longest wait for key exchange and login; PAM with a directory service behind it takes its time."""
TUNNEL_S = 6.0
"""Longest wait for a jump host to connect to a node."""
KEEPALIVE_S = 15.0
"""So often a connection is asked whether it is alive, until there is a probe on it that speaks more often."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How a node is reached: through a jump host, by a program, or directly."""

    tunnel: asyncssh.SSHClientConnection | None = None
    arguments: list[str] | None = None
    gate: asyncio.Semaphore | None = None
    """Bounds the handshakes that go the same way."""
    hold_s: float = 0.0
    """So long may one hold its place without an answer of the node."""
    mute_s: float = 0.0
    """So long may the node be mute once there is a way to it."""
    verified: bool = True
    """The host keys on the way were checked."""


class _ProbeSession(asyncssh.SSHClientSession[bytes]):
    """The channel of one probe: what comes in goes on at once, without a reader in between."""

    def __init__(self, link: NodeLink) -> None:
        self._link = link
        self._exit_status: int | None = None
        self._signal = ""
        self.end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is None:
            self._link.receive(data)
        else:
            self._link.receive_stderr(data)

    def exit_status_received(self, status: int) -> None:
        self._exit_status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._signal = clean(signal, 20)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.end.done():
            error = "" if exc is None else f"connection lost: {clean_error(exc)}"
            self.end.set_result(Ending(self._exit_status, self._signal, error))


class _SshProbe:
    """A probe that runs at the other end of a connection."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        channel: asyncssh.SSHClientChannel[bytes],
        session: _ProbeSession,
        owner: Owner,
        *,
        verified: bool,
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._session = session
        self.verified = verified
        self.remark = owner.remark

    def write(self, data: bytes) -> None:
        with suppress(OSError, asyncssh.Error):
            self._channel.write(data)

    async def ended(self) -> Ending:
        ending = await asyncio.shield(self._session.end)
        self._connection.close()
        return ending

    async def run_script(self, line: str, text: str, limit_s: float) -> Answer:
        return await ondemand.run_over(self._connection, line, text, limit_s)

    async def stop(self) -> None:
        with suppress(OSError, asyncssh.Error):
            self._channel.write_eof()
        await asyncio.shield(self._session.end)
        self._connection.close()
        await self._connection.wait_closed()

    def abort(self) -> None:
        self._connection.abort()


class SshDialer:
    """Connects to nodes as `ssh` would, sharing what can be shared: files, keys, the agent, jump hosts."""

    def __init__(
        self,
        program: Program,
        *,
        accept_new: bool = False,
        ssh_config: str | None = None,
        commands: Commands | None = None,
        unlocked: Mapping[Path, asyncssh.SSHKey] | None = None,
    ) -> None:
        """Start `program` on each node; `ssh_config` replaces the usual configuration files, as `ssh -F` does.

        `commands` is what the probe is started through; `unlocked` are keys whose passphrase is known.
        """
        self._program = program
        self._commands = commands or Commands()
        self._accept_new = accept_new
        self._targets = Targets(ssh_config)
        self._keys = KeyRing(unlocked)
        self._resolver = Resolver()
        self._proxies = Proxies(ssh_config)
        self._jumps = Jumps(self._connect_hop)
        self._payload: asyncio.Task[bytes] | None = None

    async def dial(self, link: NodeLink, nonce: str) -> Running:
        """Connect to the link's node and start the probe there."""
        node = cast("FleetNode", link.node)
        if self._payload is None:
            # Made beside the first connection, once: the first time it takes a while.
            self._payload = asyncio.create_task(asyncio.to_thread(self._program.load))
        target = await self._targets.find(node)
        link.via = hosts_of(target.jump or "")
        connection, owner, verified = await self._connect(target, ())
        try:
            return await self._commands.run(
                node.name,
                STREAM,
                f"stream probe, every {node.tick_s:g} s",
                lambda: self._start(connection, owner, link, nonce, verified=verified),
            )
        except BaseException:
            connection.abort()
            raise

    async def connect(self, node: FleetNode) -> asyncssh.SSHClientConnection:
        """Return a connection to `node` with its login done, for commands of another kind; LinkFailure when there is
        none."""
        connection, _, _ = await self._connect(await self._targets.find(node), ())
        return connection

    async def close(self) -> None:
        """Close the jump hosts' connections and the agent's, and end all proxy commands."""
        self._jumps.close()
        await self._keys.close()
        await self._proxies.close()

    def forget_failures(self) -> None:
        """Try jump hosts again that refused: a person asked."""
        self._jumps.forget_failures()

    async def _start(
        self, connection: asyncssh.SSHClientConnection, owner: Owner, link: NodeLink, nonce: str, *, verified: bool
    ) -> Running:
        command = self._program.command(nonce, link.node.tick_s)
        assert self._payload is not None
        payload = await asyncio.shield(self._payload)
        sudo = cast("FleetNode", link.node).sudo
        link.watch, link.watch_shell = self._program.watch(sudo), self._program.watch_shell(sudo)
        try:
            async with asyncio.timeout(LOGIN_S):
                channel, session = await connection.create_session(
                    lambda: _ProbeSession(link),
                    command,
                    encoding=None,
                    request_pty=False,
                    x11_forwarding=False,
                )
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise LinkFailure(LinkState.CLOSED, f"the server started no command: {clean_error(error)}") from None
        with suppress(OSError, asyncssh.Error):
            channel.write(payload)
        shed(connection, channel)
        if link.node.tick_s < KEEPALIVE_S:
            # Its lines keep the connection alive, and `NodeLink.check` ends it when they stay away.
            connection.set_keepalive(0)
        return _SshProbe(connection, channel, cast("_ProbeSession", session), owner, verified=verified)

    async def _connect(self, target: Target, via: Via) -> tuple[asyncssh.SSHClientConnection, Owner, bool]:
        """Return a connection with its login done, and whether every host key on the way was checked."""
        way = await self._way(target, via)
        keys = await self._keys.keys(target.config, target.identity_file)
        owner = Owner(target, accept_new=self._accept_new or target.strict == "accept-new")
        if way.gate is None:
            connection = await self._log_in(target, way, owner, keys)
        else:
            async with turn(way.gate, lambda: owner.is_open, way.hold_s):
                connection = await self._log_in(target, way, owner, keys)
        if owner.failure is not None:
            connection.abort()
            raise owner.failure
        return connection, owner, owner.verified and way.verified

    async def _way(self, target: Target, via: Via) -> _Way:
        """Return how the node is reached: directly, by a program, or through a jump host."""
        if target.jump:
            before, _, last = target.jump.rpartition(",")
            ride = await self._proxies.ride(self._targets.hop(last, before), target.host, target.port)
            if ride is not None:
                return _Way(arguments=ride, gate=self._proxies.gate, hold_s=jump.HOLD_S, mute_s=BANNER_S)
            tunnel, verified = await self._jumps.connection(target.jump, via)
            gate = self._jumps.gate(target.jump)
            return _Way(tunnel=tunnel, gate=gate, hold_s=jump.HOLD_S, mute_s=BANNER_S, verified=verified)
        arguments = target.proxy_arguments()
        if arguments is None:
            return _Way(mute_s=BANNER_S)
        # What a proxy command does before it connects may take its time.
        return _Way(arguments=arguments, gate=self._proxies.gate, hold_s=jump.PROXY_HOLD_S, mute_s=LOGIN_S)

    async def _log_in(self, target: Target, way: _Way, owner: Owner, keys: Keys) -> asyncssh.SSHClientConnection:
        sock = proxy = None
        if way.arguments is not None:
            proxy = owner.proxy = self._proxies.start(way.arguments)
            sock = proxy.sock
        elif way.tunnel is None:
            family = target.config.get("AddressFamily", socket.AF_UNSPEC)
            sock = await self._resolver.connect(target.host, target.port, family if isinstance(family, int) else 0)
        options: dict[str, Any] = {}
        if target.config.get("Ciphers") is None:
            options["encryption_algs"] = CIPHERS
        if target.config.get("KexAlgorithms") is None:
            options["kex_algs"] = KEX
        if target.config.get("HostKeyAlgorithms") is None:
            options["server_host_key_algs"] = owner.host_key_algorithms()
        loop = asyncio.get_running_loop()
        mute = loop.call_later(way.mute_s, drop_mute, owner, target.where, way.mute_s)
        try:
            async with asyncio.timeout(LOGIN_S if way.tunnel is None else TUNNEL_S) as limit:
                owner.on_open = lambda: limit.reschedule(loop.time() + LOGIN_S)
                return await asyncssh.connect(
                    target.name,
                    target.port,
                    options=Options(target.config),
                    config=None,
                    sock=sock,
                    tunnel=way.tunnel,
                    proxy_command=None,
                    client_factory=lambda: owner,
                    username=target.user,
                    known_hosts=owner.look_up if target.known is not None else None,
                    client_keys=keys.pairs or None,
                    client_certs=[],
                    agent_path=None,
                    agent_forwarding=False,
                    canonicalize_hostname=False,
                    agent_identities=None,
                    x509_trusted_certs=None,
                    x509_trusted_cert_paths=[],
                    compression_algs=["none"],
                    keepalive_interval=KEEPALIVE_S,
                    connect_timeout=None,
                    login_timeout=LOGIN_S,
                    **options,
                )
        except asyncssh.PermissionDenied:
            methods = list(dict.fromkeys(owner.methods))
            raise words.login_refused(target.user, len(keys.pairs), methods, keys.remarks) from None
        except (asyncssh.Error, OSError, TimeoutError, ValueError, EOFError) as error:
            failure = owner.failure or words.not_logged_in(error, target.where, is_open=owner.connection is not None)
            if proxy is not None and proxy.said:
                failure = LinkFailure(failure.state, f"{failure.detail} (its proxy command: {proxy.said})")
            raise failure from None
        finally:
            mute.cancel()
            if sock is not None and owner.connection is None:
                sock.close()
            if proxy is not None and owner.connection is None:
                proxy.close()

    async def _connect_hop(self, text: str, before: str, via: Via) -> Opened:
        connection, _, verified = await self._connect(self._targets.hop(text, before), via)
        return connection, verified
