"""Servers and sinks for the tests of what collects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.collect.sshd import Sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def sshds(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Yield a function that starts a server (see Sshd) which ends with the test."""
    servers: list[Sshd] = []

    def start(**options: Any) -> Sshd:
        server = Sshd(tmp_path / f"sshd{len(servers)}", **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def sshd(sshds: Callable[..., Sshd]) -> Sshd:
    """Return one plain server."""
    return sshds()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the client's home be empty: no keys, agent, known_hosts or configuration of the one who runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home
