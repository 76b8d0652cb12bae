"""What thousands of connections need not keep, each for itself, once their logins are done.

asyncssh keeps some 30 KB of Python objects for a connection. A third of that tells how it began, and half of what is
left is the same for all servers of one kind: a hundred settings, each under its name.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import suppress
from sys import intern
from typing import TYPE_CHECKING, Any

from asyncssh.logging import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    import asyncssh

_ALIKE = frozenset((
    # Of a connection.
    "_client_host_keys", "_client_keys", "_cmp_algs", "_enc_algs", "_extensions_to_send", "_kex_algs", "_mac_algs",
    "_preferred_auth", "_revoked_host_keys", "_server_host_key_algs", "_server_sig_algs", "_sig_algs",
    "_trusted_ca_keys", "_trusted_host_key_algs", "_x509_revoked_certs", "_x509_revoked_subjects",
    "_x509_trusted_cert_paths", "_x509_trusted_subjects", "_auth_methods",
    # Of its options.
    "canonicalize_permitted_cnames", "client_host_keypairs", "client_keys", "compression_algs", "encryption_algs",
    "kex_algs", "kwargs", "mac_algs", "send_env", "server_host_key_algs", "signature_algs", "x509_trusted_cert_paths",
    # Of its channel.
    "_env",
))  # fmt: skip
"""Attributes that are alike where servers are alike, and are read but not changed."""
_ALIKE_EXTRA = frozenset((
    "client_version", "server_version", "username", "send_cipher", "send_mac", "send_compression", "recv_cipher",
    "recv_mac", "recv_compression",
))  # fmt: skip
"""What asyncssh tells of a connection in words that are those of others."""
_MOVING = frozenset((
    "_inpbuf", "_packet", "_pktlen", "_recv_seq", "_send_seq", "_recv_handler", "_rekey_bytes_sent", "_rekey_time",
    "_keepalive_interval", "_keepalive_timer", "_recv_window", "_send_window", "_recv_paused", "_send_buf_len",
))  # fmt: skip
"""Attributes that change with every line or will soon: each has its own."""
_PLAIN = (type(None), bool, int, float, str, bytes)
_alike: dict[tuple[object, ...], object] = {}
"""Lists, sets and dictionaries that are shared, by what is in them."""
_MOST_ALIKE = 4096
_lean: dict[type, type] = {}
"""By class, one of the same name whose attributes are those of the first that has shed."""


def shed(connection: asyncssh.SSHClientConnection, channel: asyncssh.SSHClientChannel[bytes]) -> None:
    """Let go of what asyncssh keeps of how a connection began, and share with the others what they say too: nothing
    reads the one again, another exchange of keys makes its own, and what changes then is its own again."""
    if getattr(connection, "_kex", None) is not None:
        return
    options = getattr(connection, "_options", None)
    waiter = getattr(connection, "_waiter", None)
    nothings: tuple[tuple[object, str, object], ...] = (
        (connection, "_client_kexinit", b""),
        (connection, "_server_kexinit", b""),
        (connection, "_agent", None),
        (connection, "_protocol_factory", None),
        (connection, "_known_hosts", None),
        (connection, "_waiter", waiter if waiter is not None and not waiter.done() else None),
        (channel, "_command", None),
        *((options, name, None) for name in ("config", "known_hosts", "protocol_factory", "waiter")),
        (options, "client_keys", []),
        (options, "kwargs", {}),
    )
    for one, name, nothing in nothings:
        if hasattr(one, name):
            setattr(one, name, nothing)
    for closing in (connection, channel):
        event = getattr(closing, "_close_event", None)
        waiters = getattr(event, "_waiters", None)
        if isinstance(event, asyncio.Event) and isinstance(waiters, deque) and not waiters:
            # Room for sixty-four waiters, of which there is one at the end.
            vars(event)["_waiters"] = []
        if hasattr(closing, "_logger"):
            # Its own only says the number of the connection before what nobody asks for.
            vars(closing)["_logger"] = logger
    extra = getattr(connection, "_extra", None)
    if isinstance(extra, dict):
        extra.update(
            (name, intern(extra[name])) for name in _ALIKE_EXTRA.intersection(extra) if type(extra[name]) is str
        )
    key = getattr(connection, "_server_host_key", None)
    for trusted in getattr(connection, "_trusted_host_keys", None) or ():
        if trusted == key:
            vars(connection)["_server_host_key"] = trusted
    for whole in (connection, channel, options):
        # Objects of another asyncssh that cannot be made less stay as they are: a link is worth more than its memory.
        with suppress(AttributeError, TypeError):
            _slim(whole)


def _slim(one: Any) -> None:
    """Leave to an object only what differs from others of its class: what they have in common is its class's."""
    try:
        own: dict[str, object] = vars(one)
    except TypeError:
        return
    for name in _ALIKE.intersection(own):
        own[name] = _shared(own[name])
    kind = type(one)
    lean = _lean.get(kind)
    if lean is None:
        common = {name: value for name, value in own.items() if name not in _MOVING and _is_common(name, value)}
        lean = _lean[kind] = type(kind.__name__, (kind,), common)
    common = vars(lean)  # type: ignore[assignment]
    left = {name: value for name, value in own.items() if name not in common or not _is_same(common[name], value)}
    one.__class__ = lean
    one.__dict__ = left


def _is_common(name: str, value: object) -> bool:
    return isinstance(value, _PLAIN) or name in _ALIKE or name in ("_logger", "_loop")


def _is_same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, _PLAIN) and one == other)


def _shared(value: object) -> object:
    """Return the list, set or dictionary that another connection has, if that says the same."""
    if len(_alike) >= _MOST_ALIKE:
        _alike.clear()
    key: Iterable[object]
    if isinstance(value, dict):
        key = ("ordered" if isinstance(value, OrderedDict) else "dict", *value.items())
    elif isinstance(value, list):
        key = ("list", *value)
    elif isinstance(value, set):
        key = ("set", frozenset(value))
    else:
        return value
    return _alike.setdefault(tuple(key), value)
