"""What thousands of connections need not keep, each for itself, once their logins are done.

asyncssh keeps some 30 KB of Python objects for a connection. A third of that tells how it began, and is the same for
all servers of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncssh

_ALGORITHMS = (
    "_cmp_algs", "_enc_algs", "_kex_algs", "_mac_algs", "_preferred_auth", "_server_host_key_algs", "_server_sig_algs",
    "_sig_algs",
)  # fmt: skip
_OPTIONS = (
    "compression_algs", "encryption_algs", "kex_algs", "mac_algs", "send_env", "server_host_key_algs", "signature_algs",
)  # fmt: skip
_KEYS = ("_revoked_host_keys", "_trusted_ca_keys", "_x509_revoked_certs")
"""Attributes of asyncssh's connections that are alike where servers are alike, and are read but not changed."""
_alike: dict[tuple[object, ...], object] = {}
"""Such lists and sets, by what is in them."""
_MOST_ALIKE = 4096


def shed(connection: asyncssh.SSHClientConnection, channel: asyncssh.SSHClientChannel[bytes]) -> None:
    """Let go of 10 KB of what asyncssh keeps of how a connection began, and share 6 KB with the others: nothing reads
    it again, another exchange of keys makes its own."""
    if getattr(connection, "_kex", None) is not None:
        return
    options = getattr(connection, "_options", None)
    for one, name, nothing in (
        (connection, "_client_kexinit", b""),
        (connection, "_server_kexinit", b""),
        (channel, "_command", None),
        (options, "kwargs", {}),
        (options, "config", None),
        (options, "waiter", None),
    ):
        if hasattr(one, name):
            setattr(one, name, nothing)
    for one, names in ((connection, (*_ALGORITHMS, *_KEYS)), (options, _OPTIONS)):
        for name in names:
            value = getattr(one, name, None)
            if isinstance(value, list | set) and (value or name in _KEYS):
                setattr(one, name, _shared(value))


def _shared(value: list[object] | set[object]) -> object:
    """Return the list or set that another connection has, if that says the same."""
    if len(_alike) >= _MOST_ALIKE:
        _alike.clear()
    if isinstance(value, list):
        return _alike.setdefault(("list", *value), value)
    return _alike.setdefault(("set", frozenset(value)), value)
