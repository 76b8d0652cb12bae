"""known_hosts for thousands of nodes: each file is parsed once, read again when somebody changed it, and added to only
when asked for.

Plain entries, patterns, certificate authorities and revoked keys are asyncssh's business; hashed names are matched
here, because trying thousands of them for each of thousands of nodes takes a look-up that is as short as possible.
"""

from __future__ import annotations

import binascii
import fcntl
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from asyncssh.known_hosts import SSHKnownHosts

SSH_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
SYSTEM_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))

Signature = tuple[int, int, int] | None


@dataclass(slots=True)
class Known:
    """What is recorded for one node."""

    keys: list[asyncssh.SSHKey] = field(default_factory=list)
    authorities: list[asyncssh.SSHKey] = field(default_factory=list)
    revoked: list[asyncssh.SSHKey] = field(default_factory=list)
    where: str = ""
    """The name under which a key was found, as `ssh-keygen -R` takes it."""
    path: Path = Path()
    """The file in which it was found."""
    by_port: bool = True
    """False when only an entry without the port was found: it can vouch for a key, not speak against one."""


@dataclass(slots=True, eq=False)
class _Hashed:
    """An entry with the HMAC-SHA1 of its name; the key of the HMAC stands padded, which halves the cost of a try."""

    inner: bytes
    outer: bytes
    digest: bytes
    marker: str
    key: str


class _File:
    """One file, as it was when it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.signature: Signature = None
        self._table: SSHKnownHosts = asyncssh.import_known_hosts("")
        self._hashed: list[_Hashed] = []
        self._names: dict[str, list[_Hashed]] = {}

    def refresh(self) -> None:
        """Read the file, again if it changed."""
        signature = _signature(self.path)
        if signature == self.signature:
            return
        self.signature = signature
        text = self.path.read_text(encoding="utf-8", errors="replace") if signature is not None else ""
        self._hashed, self._names, plain = [], {}, []
        for line in text.splitlines():
            hashed = _hashed(line)
            if hashed is not None:
                self._hashed.append(hashed)
            else:
                plain.append(line)
        self._table = _import(plain)

    def add(self, line: str) -> None:
        """Append a line that was also written to the file."""
        self._table.load(line)
        self.signature = _signature(self.path)

    def collect(self, name: str, known: Known) -> None:
        """Add to `known` what the file says about `name` (`host` or `[host]:port`)."""
        found = self._table.match(name, "", None)
        known.keys += found[0]
        known.authorities += found[1]
        known.revoked += found[2]
        for entry in self._by_hash(name):
            try:
                key = asyncssh.import_public_key(entry.key)
            except asyncssh.KeyImportError:
                continue
            by_marker = {"": known.keys, "@cert-authority": known.authorities, "@revoked": known.revoked}
            by_marker.get(entry.marker, []).append(key)

    def _by_hash(self, name: str) -> list[_Hashed]:
        if not self._hashed and not self._names:
            return []
        if name not in self._names:
            data, sha1 = name.encode(), hashlib.sha1
            found = [
                entry
                for entry in self._hashed
                if sha1(entry.outer + sha1(entry.inner + data).digest()).digest() == entry.digest
            ]
            if found:
                # An entry is the hash of one name: what belongs to this one need not be tried for the next.
                self._hashed = [entry for entry in self._hashed if entry not in found]
            self._names[name] = found
        return self._names[name]


class KnownHosts:
    """The host keys that a user trusts, over several files; new ones go to the first."""

    def __init__(self, files: Sequence[_File]) -> None:
        """Use `files`, the user's first."""
        self._files = files

    def match(self, names: Iterable[str], port: int) -> Known:
        """Return what is recorded for a node that goes by `names`, at `port`."""
        known = Known()
        for file in self._files:
            file.refresh()
        for name in dict.fromkeys(name.lower() for name in names):
            self._collect(entry_name(name, port), known)
        if port != SSH_PORT and not (known.keys or known.authorities):
            for name in dict.fromkeys(name.lower() for name in names):
                self._collect(name, known)
            known.by_port = False
        return known

    def _collect(self, name: str, known: Known) -> None:
        for file in self._files:
            before = len(known.keys)
            file.collect(name, known)
            if len(known.keys) > before and not known.where:
                known.where, known.path = name, file.path

    def add(self, name: str, port: int, key: asyncssh.SSHKey) -> None:
        """Record `key` for a node that has none yet; OSError when the file cannot be written."""
        file = self._files[0]
        line = f"{entry_name(name.lower(), port)} {key.export_public_key().decode().strip()}"
        file.refresh()
        _append(file.path, line)
        file.add(line)

    @property
    def path(self) -> Path:
        """Return the file that new keys go to."""
        return self._files[0].path


class HostKeys:
    """The known_hosts files of all nodes, each parsed once however many nodes use it."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._by_path: dict[Path, _File] = {}
        self._sets: dict[tuple[str, ...], KnownHosts] = {}

    def files(self, user: Sequence[str] | None = None, system: Sequence[str] | None = None) -> KnownHosts:
        """Return the keys of the `user` files and the `system` files; the usual ones where they are not given."""
        paths = (*(USER_FILES if user is None else user), *(SYSTEM_FILES if system is None else system))
        known = self._sets.get(paths)
        if known is None:
            known = self._sets[paths] = KnownHosts([self._file(Path(path).expanduser()) for path in paths])
        return known

    def _file(self, path: Path) -> _File:
        if path not in self._by_path:
            self._by_path[path] = _File(path)
        return self._by_path[path]


def entry_name(host: str, port: int) -> str:
    """Return how known_hosts writes a host: `host`, or `[host]:port` when the port is not 22."""
    return host if port == SSH_PORT else f"[{host}]:{port}"


def _signature(path: Path) -> Signature:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _hashed(line: str) -> _Hashed | None:
    """Return the entry of a line whose name is hashed, None for any other line."""
    if "|1|" not in line:
        return None
    words = line.split(None, 2)
    marker = words.pop(0) if words[0].startswith("@") and len(words) == 3 else ""
    name, key = words[0], " ".join(words[1:])
    try:
        _, version, salt, digest = name.split("|")
        padded = binascii.a2b_base64(salt).ljust(_BLOCK, b"\0")
        entry = _Hashed(padded.translate(_INNER), padded.translate(_OUTER), binascii.a2b_base64(digest), marker, key)
    except (ValueError, binascii.Error):
        return None
    return entry if version == "1" and key and len(padded) == _BLOCK else None


def _import(lines: list[str]) -> SSHKnownHosts:
    """Return the table of `lines`; a broken line costs only itself, as with ssh."""
    try:
        return asyncssh.import_known_hosts("\n".join(lines))
    except ValueError:
        table = asyncssh.import_known_hosts("")
        for line in lines:
            try:
                table.load(line)
            except ValueError:
                continue
        return table


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                line = f"\n{line}"
        file.write(f"{line}\n".encode())
