"""Private keys with a passphrase: which ones a fleet needs, and their decryption, before anything is connected.

Whether a file has a passphrase is read off the file, without asyncssh, so that who has none waits for nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from asyncssh import SSHKey

    from stethoscope.specs.fleet import FleetNode

TRIES = 3
"""So often a passphrase is asked for, as by ssh."""
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----\s*(.*?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"
_IDENTITY = re.compile(r"^\s*identityfile[ \t=]+(.+?)\s*$", re.IGNORECASE | re.MULTILINE)
_INCLUDE = re.compile(r"^\s*include[ \t=]+(.+?)\s*$", re.IGNORECASE | re.MULTILINE)
_MOST_CONFIGS = 64
"""So many files of a configuration are looked at before all of it is read as for a connection."""


def is_locked(path: Path) -> bool:
    """Tell whether the file at `path` is a private key with a passphrase."""
    try:
        content = path.read_bytes()[:100_000]
    except OSError:
        return False
    block = _BLOCK.search(content)
    if block is None:
        return False
    if block[1] != b"OPENSSH ":
        return block[1] == b"ENCRYPTED " or b"ENCRYPTED" in block[2]
    fields = _openssh_fields(block[2])
    return bool(fields) and fields[0] != b"none"


def public_part(path: Path) -> bytes | None:
    """Return the public half that stands unencrypted in a private key of OpenSSH's own form, or beside it."""
    try:
        block = _BLOCK.search(path.read_bytes()[:100_000])
        if block is not None and block[1] == b"OPENSSH ":
            fields = _openssh_fields(block[2])
            return fields[3] if len(fields) > 3 else None
        return base64.b64decode(path.with_name(f"{path.name}.pub").read_bytes().split()[1])
    except (OSError, IndexError, binascii.Error):
        return None


def _openssh_fields(text: bytes) -> list[bytes]:
    """Return cipher, derivation, its options and the first public key; empty for a broken file."""
    try:
        data = base64.b64decode(text)
    except binascii.Error:
        return []
    if not data.startswith(_MAGIC):
        return []
    fields, place = [], len(_MAGIC)
    for number in range(4):
        if number == 3:
            place += 4
        if len(data) < place + 4:
            return []
        (length,) = struct.unpack_from(">I", data, place)
        fields.append(data[place + 4 : place + 4 + length])
        place += 4 + length
    return fields


def may_need(identity: str | None, fleet_texts: Iterable[str], ssh_config: str | None) -> bool:
    """Tell whether any key that could be named has a passphrase; cheap, and right when it says no."""
    if identity is not None and is_locked(Path(identity).expanduser()):
        return True
    named = [found for text in fleet_texts for found in re.findall(r"identity_file:\s*[\"']?([^\s\"',}]+)", text)]
    texts = _config_texts(["~/.ssh/config", "/etc/ssh/ssh_config"] if ssh_config is None else [ssh_config])
    if texts is None:
        return True
    named += [found for text in texts for found in _IDENTITY.findall(text)]
    from stethoscope.collect.program import USUAL_KEYS

    paths = [Path(name.strip('"')).expanduser() for name in dict.fromkeys((*named, *USUAL_KEYS))]
    return any("%" in str(path) or not path.is_absolute() or is_locked(path) for path in paths)


def _config_texts(paths: Sequence[str]) -> list[str] | None:
    """Return the SSH configuration at `paths` with what it includes, as it stands; None when that cannot be told."""
    waiting = [Path(path).expanduser() for path in paths]
    texts: dict[Path, str] = {}
    while waiting:
        path = waiting.pop()
        if path in texts:
            continue
        if len(texts) == _MOST_CONFIGS:
            return None
        try:
            texts[path] = path.read_text(errors="replace")
        except OSError:
            continue
        for words in _INCLUDE.findall(texts[path]):
            if "**" in words or any(sign in words for sign in "%$\"'\\#"):
                return None
            for word in words.split():
                # Which directory a name starts from depends on whose file it is: a look too many does no harm.
                for directory in (Path("~/.ssh").expanduser(), path.parent):
                    waiting += map(Path, glob(str(directory / Path(word).expanduser()), include_hidden=True))
    return list(texts.values())


def locked_keys(nodes: Sequence[FleetNode], ssh_config: str | None) -> list[Path]:
    """Return the keys with a passphrase that the nodes and their jump hosts name, or that are the only ones there are
    where none is named, each once; those that the agent has are left out.

    Runs an event loop of its own. A configuration that cannot be read names none: the links will say so.
    """
    import asyncio

    from stethoscope.collect.keys import KeyRing
    from stethoscope.collect.link import LinkFailure
    from stethoscope.collect.target import Target, Targets

    targets = Targets(ssh_config)
    found: dict[str, Target] = {}
    for node in nodes:
        try:
            target = targets.node(node)
            hops = [targets.hop(text, "") for text in (target.jump or "").split(",") if text]
        except LinkFailure:
            continue
        for one in (*hops, target):
            # Nodes that are configured alike need one look.
            sign = f"{one.identity_file} {one.config.texts('IdentityFile')} {one.config.get('IdentityAgent')}"
            found.setdefault(sign, one)

    async def ask_agents() -> list[Path]:
        ring = KeyRing()
        try:
            return list(dict.fromkeys([path for target in found.values() for path in await ring.locked(target)]))
        finally:
            await ring.close()

    return asyncio.run(ask_agents()) if found else []


def unlock(paths: Iterable[Path], ask: Callable[[str], str], say: Callable[[str], None]) -> dict[Path, SSHKey]:
    """Return the decrypted keys; `ask` gets a prompt and returns a passphrase, an empty one leaves the key out.

    UsageError after TRIES wrong ones.
    """
    import asyncssh

    keys = {}
    for path in paths:
        for tried in range(1, TRIES + 1):
            passphrase = ask(f"passphrase of {path}: ")
            if not passphrase:
                break
            try:
                keys[path] = asyncssh.read_private_key(path, passphrase)
                break
            except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
                if tried == TRIES:
                    raise UsageError(f"{path}: wrong passphrase, {TRIES} times") from None
                say("wrong passphrase")
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}") from None
    return keys
