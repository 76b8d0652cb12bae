"""The client's side of one SSH connection: what is proposed, which host key is right, what the server wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncssh
from asyncssh.encryption import get_default_encryption_algs
from asyncssh.kex import get_default_kex_algs
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from stethoscope.collect import words
from stethoscope.collect.hostkeys import Known
from stethoscope.collect.link import LinkFailure
from stethoscope.model.frame import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.collect.proxy import Proxy
    from stethoscope.collect.sshconfig import NodeConfig
    from stethoscope.collect.target import Target


def _first(wanted: Sequence[str], default: Sequence[bytes]) -> list[str]:
    names = [name.decode() for name in default]
    return [name for name in wanted if name in names] + [name for name in names if name not in wanted]


# Measured per connection: GCM needs no separate MAC and a third of the CPU of chacha20 in cipher set-up.
CIPHERS = _first(("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"), get_default_encryption_algs())
KEX = _first(("curve25519-sha256", "curve25519-sha256@libssh.org"), get_default_kex_algs())


class Options(asyncssh.SSHClientConnectionOptions):
    """Base options that carry a configuration evaluated elsewhere; asyncssh prepares its own from them."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.kwargs = {}


class Owner(asyncssh.SSHClient):
    """Decides about one host key and remembers what the server wanted."""

    def __init__(self, target: Target, *, accept_new: bool) -> None:
        # Not the target itself: what its configuration says of anything else is of no use behind the login.
        self._names, self._port, self._strict = target.names, target.port, target.strict
        self._host_keys = target.known
        self._accept_new = accept_new
        self._known = Known() if target.known is None else target.known.match(target.names, target.port)
        self.connection: asyncssh.SSHClientConnection | None = None
        self.methods: list[str] = []
        self.failure: LinkFailure | None = None
        self.verified = target.known is not None
        self.remark = ""
        self.proxy: Proxy | None = None
        self.on_open: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether there is a way to the node: a program's is only known by an answer."""
        if self.connection is None:
            return False
        return self.proxy is None or bool(self.connection.get_extra_info("server_version"))

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
        if self.on_open is not None:
            self.on_open()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.proxy is not None:
            self.proxy.close()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
        if self._strict in ("no", "off"):
            self.verified = False
            return True
        if self._host_keys is not None:
            # Another connection may have recorded a key of this node since this one was begun.
            self._known = self._host_keys.match(self._names, self._port)
            if self._known.by_port and key in self._known.keys:
                return True
        if self._known.by_port and self._known.keys:
            self.failure = words.key_changed(self._known.where, self._known.path, shown)
            return False
        if not self._accept_new or self._host_keys is None:
            self.failure = words.key_unknown(self._names[0], shown)
            return False
        try:
            self._host_keys.add(self._names[0], self._port, key)
        except OSError as error:
            self.failure = words.key_unknown(self._names[0], f"{shown} ({self._host_keys.path}: {error.strerror})")
            return False
        self.remark = f"new host key accepted: {shown}"
        return True

    def public_key_auth_requested(self) -> None:
        self.methods.append("publickey")

    def password_auth_requested(self) -> None:
        self.methods.append("password")

    def kbdint_auth_requested(self) -> None:
        self.methods.append("keyboard-interactive")


def drop_mute(owner: Owner, where: str, mute_s: float) -> None:
    """Break a connection whose server has said no version by now, `mute_s` after it was begun."""
    connection = owner.connection
    if connection is not None and not connection.get_extra_info("server_version"):
        owner.failure = LinkFailure(LinkState.UNREACHABLE, f"{where}: connected, but no SSH answer in {mute_s:g} s")
        connection.abort()
