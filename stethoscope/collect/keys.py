"""The user's keys: files are read and decrypted once, the agent is asked once for all nodes."""

from __future__ import annotations

import asyncio
import copy
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
from asyncssh.public_key import load_default_keypairs, load_keypairs

from stethoscope.collect.link import clean_error
from stethoscope.collect.program import USUAL_KEYS
from stethoscope.collect.unlock import is_locked, public_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asyncssh.public_key import SSHKeyPair

    from stethoscope.collect.sshconfig import NodeConfig
    from stethoscope.collect.target import Target

AGENT_LIST_S = 30.0
"""The agent's list of keys is asked for again after so long, so that `ssh-add` helps a running console."""


@dataclass(slots=True)
class Keys:
    """What is offered to one node, in this order, and what could not be."""

    pairs: list[SSHKeyPair] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _FromFile:
    pairs: list[SSHKeyPair] = field(default_factory=list)
    public: list[bytes] = field(default_factory=list)
    remark: str = ""


class KeyRing:
    """Keys for any node, from the files and the agent that its configuration names."""

    def __init__(self, unlocked: Mapping[Path, asyncssh.SSHKey] | None = None) -> None:
        """Read nothing yet; `unlocked` are the keys of files whose passphrase is known."""
        self._unlocked = unlocked or {}
        self._files: dict[tuple[str, ...], _FromFile] = {}
        self._defaults: list[SSHKeyPair] | None = None
        self._agents: dict[str, tuple[float, asyncssh.SSHAgentClient, list[SSHKeyPair]]] = {}
        self._lock = asyncio.Lock()

    async def keys(self, config: NodeConfig, identity_file: str | None) -> Keys:
        """Return the keys for the node of `config`; `identity_file` goes before those of the configuration."""
        async with self._lock:
            return await self._collect(config, identity_file)

    async def _collect(self, config: NodeConfig, identity_file: str | None) -> Keys:
        configured = config.texts("IdentityFile")
        certificates = tuple(config.texts("CertificateFile") or ())
        paths = [*([identity_file] if identity_file else []), *(configured or [])]
        named = [await self._file(path, certificates) for path in paths]
        agent = await self._agent(config)
        if config.get("IdentitiesOnly"):
            allowed = {blob for file in named for blob in file.public}
            agent = [pair for pair in agent if pair.public_data in allowed or pair.key_public_data in allowed]
        offered = [pair for file in named for pair in file.pairs] + agent
        if identity_file is None and configured is None:
            offered += await self._default()
        keys = Keys(remarks=[file.remark for file in named if file.remark])
        seen: set[bytes] = set()
        for pair in offered:
            if pair.public_data not in seen:
                seen.add(pair.public_data)
                # A pair remembers the signature algorithm that was agreed with one server.
                keys.pairs.append(copy.copy(pair))
        return keys

    async def locked(self, target: Target) -> list[Path]:
        """Return the keys of `target` that have a passphrase which must be asked for: named ones, or the usual ones
        where there is nothing else to offer. What the agent has is not among them."""
        configured = target.config.texts("IdentityFile")
        named = [*([target.identity_file] if target.identity_file else []), *(configured or [])]
        async with self._lock:
            agent = await self._agent(target.config)
        held = {pair.key_public_data for pair in agent}
        paths = [Path(path).expanduser() for path in named or USUAL_KEYS]
        locked = [path for path in paths if is_locked(path)]
        if not named and (agent or any(path.exists() for path in paths if path not in locked)):
            return []
        return [path for path in locked if public_part(path) not in held]

    async def close(self) -> None:
        """Let go of the agents."""
        for _, client, _ in self._agents.values():
            client.close()
        self._agents.clear()

    async def _file(self, path: str, certificates: tuple[str, ...]) -> _FromFile:
        key = (path, *certificates)
        if key not in self._files:
            loop = asyncio.get_running_loop()
            self._files[key] = await loop.run_in_executor(None, self._read, path, certificates)
        return self._files[key]

    async def _default(self) -> list[SSHKeyPair]:
        if self._defaults is None:
            loop = asyncio.get_running_loop()
            self._defaults = list(await loop.run_in_executor(None, load_default_keypairs))
            usual = [Path(path).expanduser() for path in USUAL_KEYS]
            self._defaults += [pair for path in usual if path in self._unlocked for pair in self._pairs(path, ())]
        return self._defaults

    def _read(self, path: str, certificates: tuple[str, ...]) -> _FromFile:
        file = Path(path).expanduser()
        return _read(file, certificates, self._pairs(file, certificates) if file in self._unlocked else None)

    def _pairs(self, path: Path, certificates: tuple[str, ...]) -> list[SSHKeyPair]:
        beside = path.with_name(f"{path.name}-cert.pub")
        known = [*certificates, *([str(beside)] if beside.exists() else [])]
        return list(load_keypairs([self._unlocked[path]], None, known))

    async def _agent(self, config: NodeConfig) -> list[SSHKeyPair]:
        path = config.get("IdentityAgent", "SSH_AUTH_SOCK")
        if not isinstance(path, str):
            return []
        if path == "SSH_AUTH_SOCK" or path.startswith("$"):
            path = os.environ.get(path.lstrip("$").strip("{}"), "")
        if not path:
            return []
        path = str(Path(path).expanduser())
        asked, client, pairs = self._agents.get(path) or (None, asyncssh.SSHAgentClient(path), [])
        if asked is None or time.monotonic() - asked > AGENT_LIST_S:
            try:
                pairs = list(await asyncio.wait_for(client.get_keys(), 5.0))
            except (OSError, ValueError, TimeoutError):
                pairs = []
            self._agents[path] = (time.monotonic(), client, pairs)
        return pairs


def _read(path: Path, certificates: tuple[str, ...], unlocked: list[SSHKeyPair] | None) -> _FromFile:
    result = _FromFile()
    try:
        result.pairs = unlocked or list(
            load_keypairs([path], None, list(certificates), skip_public=True, ignore_encrypted=True)
        )
        if not result.pairs and "PRIVATE KEY" in path.read_text(errors="replace"):
            result.remark = f"{path} has a passphrase: ssh-add it"
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else clean_error(error)
        result.remark = f"{path}: {reason}"
    result.public = [blob for pair in result.pairs for blob in (pair.public_data, pair.key_public_data)]
    for public in (path, path.with_name(f"{path.name}.pub")):
        try:
            result.public.append(asyncssh.read_public_key(public).public_data)
        except (OSError, ValueError):
            continue
    if not (result.public or result.remark):
        result.remark = f"{path} holds no key"
    if result.public and not result.pairs and result.remark.endswith("No such file or directory"):
        # Only the public half is here: the agent has the other.
        result.remark = ""
    return result
