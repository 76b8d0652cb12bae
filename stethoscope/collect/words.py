"""What went wrong with a connection, as the state of a link and words a person can act on."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import asyncssh

from stethoscope.collect.link import LinkFailure, clean_error
from stethoscope.model.frame import LinkState

_REASONS = {
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
    errno.EHOSTDOWN: "the host is down",
    errno.ECONNRESET: "connection reset",
    errno.ETIMEDOUT: "no answer",
}


def not_connected(error: OSError, where: str) -> LinkFailure:
    """Return what it means that a TCP connection to `where` failed."""
    if isinstance(error, ConnectionRefusedError):
        return LinkFailure(LinkState.REFUSED, f"{where} refuses connections: is sshd running?")
    if isinstance(error, socket.gaierror):
        return LinkFailure(LinkState.UNREACHABLE, f"no address for {where}: {error.strerror or error}")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return LinkFailure(LinkState.ERROR, "too many open files here: raise the limit with `ulimit -n`")
    reason = _REASONS.get(error.errno or 0) or error.strerror or clean_error(error)
    return LinkFailure(LinkState.UNREACHABLE, f"{where}: {reason}")


def not_logged_in(error: Exception, where: str, *, is_open: bool = True) -> LinkFailure:
    """Return what it means that an SSH connection to `where` did not come to a login; it `is_open` when at least the
    way to the node was there."""
    if isinstance(error, asyncssh.ChannelOpenError):
        if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            return LinkFailure(
                LinkState.UNREACHABLE,
                f"{where}: the jump host forbids forwarding (AllowTcpForwarding or PermitOpen in its sshd_config)",
            )
        # The jump host could not connect to the node.
        text = clean_error(error)
        state = LinkState.REFUSED if "refused" in text.lower() else LinkState.UNREACHABLE
        return LinkFailure(state, f"{where}: {text} (from the jump host)")
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and "revoked" in str(error):
        return LinkFailure(LinkState.HOST_KEY_CHANGED, f"{where} shows a key that is marked @revoked: do not trust it")
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return LinkFailure(LinkState.HOST_KEY_UNKNOWN, clean_error(error))
    if isinstance(error, asyncssh.ProtocolNotSupported | asyncssh.ProtocolError):
        return LinkFailure(LinkState.ERROR, f"{where} does not speak SSH as expected: {clean_error(error)}")
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return LinkFailure(LinkState.ERROR, f"no common algorithm with {where}: {clean_error(error)}")
    if isinstance(error, asyncssh.DisconnectError) and "too many auth" in str(error).lower():
        return LinkFailure(
            LinkState.AUTH_REFUSED,
            f"{where}: too many keys were offered; name one with IdentityFile and IdentitiesOnly",
        )
    if isinstance(error, asyncssh.ConnectionLost | ConnectionError | BrokenPipeError | EOFError):
        return LinkFailure(LinkState.CLOSED, f"{where} closed the connection before the login: {clean_error(error)}")
    if isinstance(error, TimeoutError) and not is_open:
        return LinkFailure(LinkState.UNREACHABLE, f"{where}: no answer (from the jump host)")
    if isinstance(error, TimeoutError):
        return LinkFailure(LinkState.UNREACHABLE, f"{where}: no login within the time limit")
    if isinstance(error, OSError):
        return not_connected(error, where)
    if isinstance(error, asyncssh.Error):
        return LinkFailure(LinkState.CLOSED, f"{where}: {clean_error(error)}")
    return LinkFailure(LinkState.ERROR, f"{type(error).__name__}: {clean_error(error)}")


def login_refused(user: str, offered: int, methods: list[str], remarks: list[str]) -> LinkFailure:
    """Return what it means that the server takes none of the keys: who asked, with what, and what would be taken."""
    keys = "no key was offered" if not offered else f"{offered} key{'s' if offered > 1 else ''} offered, none accepted"
    takes = f"; the server takes {', '.join(methods)}" if methods else ""
    extra = f" ({'; '.join(remarks)})" if remarks else ""
    if "keyboard-interactive" in methods or "password" in methods:
        extra += "; for a password or a token, log in with `ssh -fNM` and a ControlPath first, it is shared then"
    return LinkFailure(LinkState.AUTH_REFUSED, f"user {user}: {keys}{takes}{extra}")


def key_changed(name: str, path: Path, shown: str) -> LinkFailure:
    """Return what it means that a node shows another host key than the one recorded under `name`."""
    file = "" if path == Path("~/.ssh/known_hosts").expanduser() else f' -f "{path}"'
    return LinkFailure(
        LinkState.HOST_KEY_CHANGED,
        f'if the node was reinstalled, remove the old key with: ssh-keygen -R "{name}"{file} (it shows {shown})',
    )


def key_unknown(name: str, shown: str) -> LinkFailure:
    """Return what it means that no host key is recorded for a node."""
    return LinkFailure(
        LinkState.HOST_KEY_UNKNOWN,
        f"no key is recorded for {name}, it shows {shown}: --accept-new to trust it, or ssh-keyscan",
    )
