"""One SSH connection to a node, and the probe on it. The only module that talks to asyncssh's connections."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import asyncssh
from asyncssh.encryption import get_default_encryption_algs
from asyncssh.kex import get_default_kex_algs
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from stethoscope.collect import words
from stethoscope.collect.hostkeys import SSH_PORT, HostKeys, Known, KnownHosts
from stethoscope.collect.keys import KeyRing
from stethoscope.collect.link import Ending, LinkFailure, NodeLink, Running, clean_error
from stethoscope.collect.resolve import Resolver
from stethoscope.collect.sshconfig import ConfigFiles, NodeConfig
from stethoscope.model.frame import LinkState
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.collect.program import Program
    from stethoscope.specs.fleet import FleetNode

BANNER_S = 8.0
"""An SSH server says its version at once; what accepts connections and stays mute so long is hung."""
LOGIN_S = 30.0
"""Longest wait for key exchange and login; PAM with a directory service behind it takes its time."""
KEEPALIVE_S = 15.0
MAX_HOPS = 8
JUMP_PAUSE_S = 5.0
"""A jump host that could not be reached is not tried again for each of the nodes behind it."""


def _first(wanted: Sequence[str], default: Sequence[bytes]) -> list[str]:
    names = [name.decode() for name in default]
    return [name for name in wanted if name in names] + [name for name in names if name not in wanted]


# Measured per connection: GCM needs no separate MAC and a third of the CPU of chacha20 in cipher set-up.
_CIPHERS = _first(("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"), get_default_encryption_algs())
_KEX = _first(("curve25519-sha256", "curve25519-sha256@libssh.org"), get_default_kex_algs())


class _Options(asyncssh.SSHClientConnectionOptions):
    """Base options that carry a configuration evaluated elsewhere; asyncssh prepares its own from them."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.kwargs = {}


@dataclass(slots=True)
class _Target:
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
    strict: str

    @property
    def where(self) -> str:
        """Return the place for people."""
        return self.host if self.port == SSH_PORT else f"{self.host}:{self.port}"


class _Owner(asyncssh.SSHClient):
    """Decides about one host key and remembers what the server wanted."""

    def __init__(self, target: _Target, *, accept_new: bool) -> None:
        self._target = target
        self._accept_new = accept_new
        self._known = Known() if target.known is None else target.known.match(target.names, target.port)
        self.connection: asyncssh.SSHClientConnection | None = None
        self.methods: list[str] = []
        self.failure: LinkFailure | None = None
        self.verified = target.known is not None
        self.remark = ""

    def look_up(self, _host: str, _address: str, _port: int | None) -> tuple[list[asyncssh.SSHKey], ...]:
        """Return the keys that asyncssh may trust without asking."""
        return self._known.keys, self._known.authorities, self._known.revoked

    def host_key_algorithms(self) -> list[str]:
        """Return the algorithms to ask for: of the recorded keys first, and of all others too, so that a key of
        another kind is seen and judged. Certificates only help where an authority is known."""
        known = [name for key in self._known.keys for name in key.sig_algorithms]
        certificates = get_default_certificate_algs() if self._known.authorities else []
        return list(dict.fromkeys(name.decode() for name in (*certificates, *known, *get_default_public_key_algs())))

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        target = self._target
        shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
        if target.strict in ("no", "off"):
            self.verified = False
            return True
        if self._known.by_port and self._known.keys:
            self.failure = words.key_changed(self._known.where, self._known.path, shown)
            return False
        if not self._accept_new or target.known is None:
            self.failure = words.key_unknown(target.names[0], shown)
            return False
        try:
            target.known.add(target.names[0], target.port, key)
        except OSError as error:
            self.failure = words.key_unknown(target.names[0], f"{shown} ({target.known.path}: {error.strerror})")
            return False
        self.remark = f"new host key accepted: {shown}"
        return True

    def public_key_auth_requested(self) -> None:
        self.methods.append("publickey")

    def password_auth_requested(self) -> None:
        self.methods.append("password")

    def kbdint_auth_requested(self) -> None:
        self.methods.append("keyboard-interactive")


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
        owner: _Owner,
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
    ) -> None:
        """Start `program` on each node; `ssh_config` replaces the usual configuration files, as `ssh -F` does."""
        self._program = program
        self._accept_new = accept_new
        self._configs = ConfigFiles(ssh_config)
        self._host_keys = HostKeys()
        self._keys = KeyRing()
        self._resolver = Resolver()
        self._jumps: dict[str, _Jump] = {}
        self._payload: bytes | None = None

    async def dial(self, link: NodeLink, nonce: str) -> Running:
        """Connect to the link's node and start the probe there."""
        node = cast("FleetNode", link.node)
        target = self._target(node)
        connection, owner, verified = await self._connect(target, MAX_HOPS)
        try:
            return await self._start(connection, owner, link, nonce, verified=verified)
        except BaseException:
            connection.abort()
            raise

    async def close(self) -> None:
        """Close the jump hosts' connections and the agent's."""
        for jump in self._jumps.values():
            jump.close()
        await self._keys.close()

    async def _start(
        self, connection: asyncssh.SSHClientConnection, owner: _Owner, link: NodeLink, nonce: str, *, verified: bool
    ) -> Running:
        command = self._program.command(nonce, link.node.tick_s)
        if self._payload is None:
            self._payload = self._program.payload()
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
            channel.write(self._payload)
        return _SshProbe(connection, channel, cast("_ProbeSession", session), owner, verified=verified)

    def _target(self, node: FleetNode) -> _Target:
        try:
            config = self._configs.evaluate(node.name, node.user, node.port)
        except (OSError, ValueError) as error:
            raise LinkFailure(LinkState.ERROR, f"SSH configuration: {clean_error(error)}") from None
        if node.address is not None:
            config.put("Hostname", node.address)
        host = config.text("Hostname") or node.name
        alias = config.text("HostKeyAlias")
        strict = (config.text("StrictHostKeyChecking") or "ask").lower()
        user_files = [node.known_hosts] if node.known_hosts is not None else config.texts("UserKnownHostsFile")
        known = None
        if user_files != []:
            known = self._host_keys.files(user_files, config.texts("GlobalKnownHostsFile"))
        port = config.get("Port", SSH_PORT)
        return _Target(
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
        )

    async def _connect(self, target: _Target, hops: int) -> tuple[asyncssh.SSHClientConnection, _Owner, bool]:
        """Return a connection with its login done, and whether every host key on the way was checked."""
        tunnel, tunnel_verified = await self._tunnel(target, hops)
        keys = await self._keys.keys(target.config, target.identity_file)
        owner = _Owner(target, accept_new=self._accept_new or target.strict == "accept-new")
        sock = None
        if tunnel is None and not target.config.text("ProxyCommand"):
            family = target.config.get("AddressFamily", socket.AF_UNSPEC)
            sock = await self._resolver.connect(target.host, target.port, family if isinstance(family, int) else 0)
        options: dict[str, Any] = {}
        if target.config.get("Ciphers") is None:
            options["encryption_algs"] = _CIPHERS
        if target.config.get("KexAlgorithms") is None:
            options["kex_algs"] = _KEX
        if target.config.get("HostKeyAlgorithms") is None:
            options["server_host_key_algs"] = owner.host_key_algorithms()
        mute = asyncio.get_running_loop().call_later(BANNER_S, _drop_mute, owner, target.where)
        try:
            async with asyncio.timeout(LOGIN_S):
                connection = await asyncssh.connect(
                    target.name,
                    target.port,
                    options=_Options(target.config),
                    config=None,
                    sock=sock,
                    tunnel=tunnel,
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
            raise owner.failure or words.not_logged_in(error, target.where) from None
        finally:
            mute.cancel()
            if sock is not None and owner.connection is None:
                sock.close()
        if owner.failure is not None:
            connection.abort()
            raise owner.failure
        return connection, owner, owner.verified and tunnel_verified

    async def _tunnel(self, target: _Target, hops: int) -> tuple[asyncssh.SSHClientConnection | None, bool]:
        if not target.jump or target.jump == "none":
            return None, True
        if hops == 0:
            raise LinkFailure(LinkState.ERROR, f"more than {MAX_HOPS} jump hosts one behind the other")
        jump = self._jumps.get(target.jump)
        if jump is None:
            jump = self._jumps[target.jump] = _Jump(self, target.jump)
        return await jump.connection(hops - 1)

    async def connect_hop(self, text: str, before: str, hops: int) -> tuple[asyncssh.SSHClientConnection, bool]:
        """Connect to the jump host `text` (`[user@]host[:port]`) through the jump hosts `before`, if any."""
        from stethoscope.specs.fleet import FleetNode

        user, host, port = parse_hop(text)
        target = self._target(FleetNode(host, user=user, port=port, jump=before or None))
        connection, _, verified = await self._connect(target, hops)
        return connection, verified


class _Jump:
    """One chain of jump hosts with one connection for all the nodes behind it."""

    def __init__(self, dialer: SshDialer, text: str) -> None:
        self._dialer = dialer
        self._before, _, self._last = text.rpartition(",")
        self._lock = asyncio.Lock()
        self._open: asyncssh.SSHClientConnection | None = None
        self._verified = True
        self._failure: LinkFailure | None = None
        self._failed_at = 0.0

    async def connection(self, hops: int) -> tuple[asyncssh.SSHClientConnection, bool]:
        """Return the connection, opened if it is not open."""
        async with self._lock:
            if self._open is not None and not self._open.is_closed():
                return self._open, self._verified
            now = asyncio.get_running_loop().time()
            if self._failure is None or now - self._failed_at > JUMP_PAUSE_S:
                self._failure = None
                try:
                    self._open, self._verified = await self._dialer.connect_hop(self._last, self._before, hops)
                except LinkFailure as failure:
                    self._failure = LinkFailure(failure.state, f"jump host {self._last}: {failure.detail}")
                    self._failed_at = asyncio.get_running_loop().time()
                else:
                    return self._open, self._verified
            raise LinkFailure(self._failure.state, self._failure.detail)

    def close(self) -> None:
        if self._open is not None:
            self._open.abort()


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


def _drop_mute(owner: _Owner, where: str) -> None:
    connection = owner.connection
    if connection is not None and not connection.get_extra_info("server_version"):
        owner.failure = LinkFailure(LinkState.UNREACHABLE, f"{where}: connected, but no SSH answer in {BANNER_S:g} s")
        connection.abort()
