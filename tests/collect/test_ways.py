"""How nodes are reached: jump hosts, connections that somebody has made, proxy commands, IPv6, agents."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import SystemClock
from stethoscope.collect.ssh import SshSource
from stethoscope.model.frame import LinkState
from stethoscope.specs.fleet import Fleet
from tests import needs
from tests.collect.player import player, running
from tests.collect.sshd import USER, Sshd, children_of, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLOCK = SystemClock()
NARROW = "MaxStartups 10:30:100"


def source(fleet: Fleet, config: Path | str = "none", **options: object) -> SshSource:
    return SshSource(fleet, CLOCK, program=player(), ssh_config=str(config), **options)  # type: ignore[arg-type]


def bastion(sshd: Sshd, target: Sshd, lines: str = "") -> Path:
    """Write an SSH configuration that knows `sshd` as `bastion`; return it."""
    sshd.config.write_text(
        f"Host bastion\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {USER}\n  IdentityFile {sshd.identity}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {sshd.known_hosts}\n  GlobalKnownHostsFile none\n{lines}\n"
        f"Host *\n  UserKnownHostsFile {target.known_hosts}\n"
    )
    return sshd.config


def logins(sshd: Sshd) -> int:
    return sshd.log.read_text().count("Accepted publickey")


# ---- jump hosts


async def test_forty_nodes_behind_a_bastion_that_drops_crowds(sshds: Callable[..., Sshd]) -> None:
    jump, nodes = sshds(), sshds()
    jump.stop()
    jump._lines = [NARROW if line.startswith("MaxStartups") else line for line in jump._lines]
    jump.start()
    names = [f"n{number:02}" for number in range(40)]
    async with running(source(nodes.fleet(*names, jump="bastion"), bastion(jump, nodes))) as watcher:
        for name in names:
            assert (await watcher.live(name)).attempts == 1
    assert logins(jump) == 1
    assert logins(nodes) == 40
    assert "drop connection" not in jump.log.read_text()


async def test_at_most_eight_shake_hands_at_once_through_a_bastion(
    sshds: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    from stethoscope.collect.dial import SshDialer

    now = most = 0
    log_in = SshDialer._log_in

    async def counted(self: SshDialer, target: object, way: object, *rest: object) -> object:
        nonlocal now, most
        through = getattr(way, "tunnel", None) is not None
        now += through
        most = max(most, now)
        try:
            return await log_in(self, target, way, *rest)  # type: ignore[arg-type]
        finally:
            now -= through

    monkeypatch.setattr(SshDialer, "_log_in", counted)
    jump, nodes = sshds(), sshds()
    names = [f"n{number:02}" for number in range(24)]
    async with running(source(nodes.fleet(*names, jump="bastion"), bastion(jump, nodes))) as watcher:
        for name in names:
            await watcher.live(name)
    assert most == 8


async def test_a_bastion_that_forbids_forwarding_is_said_clearly(sshds: Callable[..., Sshd]) -> None:
    jump, nodes = sshds(extra="AllowTcpForwarding no"), sshds()
    async with running(source(nodes.fleet("n1", "n2", jump="bastion"), bastion(jump, nodes))) as watcher:
        for name in ("n1", "n2"):
            link = await watcher.state(name, LinkState.UNREACHABLE)
            assert link.detail == (
                f"127.0.0.1:{nodes.port}: the jump host forbids forwarding (AllowTcpForwarding or PermitOpen in its "
                "sshd_config)"
            )
    assert logins(jump) == 1


async def test_a_bastion_that_breaks_is_logged_in_to_once_more_for_all(sshds: Callable[..., Sshd]) -> None:
    jump, nodes = sshds(), sshds()
    names = [f"n{number}" for number in range(12)]
    async with running(source(nodes.fleet(*names, jump="bastion"), bastion(jump, nodes))) as watcher:
        for name in names:
            await watcher.live(name)
        for pid in jump.sessions():
            os.kill(pid, 9)
        for name in names:
            await watcher.until(lambda name=name: LinkState.CLOSED in watcher.states(name))  # type: ignore[misc]
        for name in names:
            assert (await watcher.live(name)).attempts == 2
    assert logins(jump) == 2


async def test_a_bastion_that_refuses_the_key_is_asked_once_for_all_its_nodes(sshds: Callable[..., Sshd]) -> None:
    jump, nodes = sshds(), sshds()
    jump.authorized.write_text("")
    names = [f"n{number:02}" for number in range(40)]
    before = jump.log.read_text().count("Connection from")
    fleet = source(nodes.fleet(*names, jump="bastion"), bastion(jump, nodes))
    async with running(fleet) as watcher:
        for name in names:
            link = await watcher.state(name, LinkState.AUTH_REFUSED)
            assert link.detail == (
                f"jump host bastion: user {USER}: 1 key offered, none accepted; the server takes publickey"
            )
            assert link.next_try is not None
            assert link.next_try - time.time() > 500
        assert jump.log.read_text().count("Connection from") - before == 1
        fleet.retry("n03")
        await watcher.until(lambda: watcher.states("n03").count(LinkState.AUTH_REFUSED) == 2)
        assert jump.log.read_text().count("Connection from") - before == 2, "a person who asks is heard"


async def test_what_hangs_behind_a_bastion_does_not_hold_up_the_others(
    sshds: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    from stethoscope.collect import dial
    from stethoscope.collect import jump as jump_module

    monkeypatch.setattr(dial, "TUNNEL_S", 8.0)
    monkeypatch.setattr(jump_module, "HOLD_S", 0.1)
    jump, nodes = sshds(), sshds()
    # A full backlog: the kernel answers no more connections.
    with full_listener() as port:
        dead = [nodes.node(f"dead{number:02}", port=port, jump="bastion") for number in range(12)]
        live = [nodes.node(f"live{number}", jump="bastion") for number in range(4)]
        started = time.monotonic()
        async with running(source(Fleet("test", (*dead, *live)), bastion(jump, nodes))) as watcher:
            for node in live:
                await watcher.live(node.name)
            assert time.monotonic() - started < 7.5, "without waiting for the dead"
            link = await watcher.state("dead00", LinkState.UNREACHABLE)
            assert link.detail == f"127.0.0.1:{port}: no answer (from the jump host)"


@contextmanager
def full_listener() -> Iterator[int]:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        yield port
        for filler in fillers:
            filler.close()


# ---- IPv6


async def test_nodes_and_jump_hosts_with_addresses_of_ipv6(sshds: Callable[..., Sshd]) -> None:
    sshd = sshds(extra="ListenAddress ::1")
    key = sshd.host_key.with_suffix(".pub").read_text().split()[:2]
    sshd.known_hosts.write_text(f"[::1]:{sshd.port} {' '.join(key)}\n")
    sshd.config.write_text(f"Host ::1\n  IdentityFile {sshd.identity}\n  UserKnownHostsFile {sshd.known_hosts}\n")
    fleet = Fleet(
        "test",
        (
            sshd.node("six", address="::1"),
            sshd.node("bracketed", address="[::1]"),
            sshd.node("behind", address="::1", jump=f"{USER}@[::1]:{sshd.port}"),
            sshd.node("refused", address="::1", port=(closed := free_port())),
        ),
    )
    async with running(source(fleet, sshd.config)) as watcher:
        for name in ("six", "bracketed", "behind"):
            assert (await watcher.live(name)).verified
        link = await watcher.state("refused", LinkState.REFUSED)
    assert link.detail == f"[::1]:{closed} refuses connections: is sshd running?"


# ---- proxy commands and masters


# Copies between its standard input and output, which are one socket, and the node, until either ends.
RELAY = """
import os, select, socket, sys
node = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    for ready in select.select([0, node], [], [])[0]:
        data = os.read(0, 65536) if ready == 0 else node.recv(65536)
        if not data:
            sys.exit()
        node.sendall(data) if ready == 0 else os.write(1, data)
"""


def children() -> list[int]:
    return children_of(os.getpid())


async def test_a_proxy_command_runs_as_with_ssh_and_ends_with_the_link(sshd: Sshd) -> None:
    ours = set(children())
    (sshd.directory / "relay.py").write_text(RELAY)
    relay = f"{sys.executable} {sshd.directory}/relay.py %h %p"
    sshd.config.write_text(f"Host *\n  ProxyCommand {relay}\n  UserKnownHostsFile {sshd.known_hosts}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with running(source(sshd.fleet("n1", "n2"), sshd.config)) as watcher:
            await watcher.live("n1")
            await watcher.live("n2")
            programs = [pid for pid in children() if pid not in ours and b"relay.py" in _command(pid)]
            assert len(programs) == 2
            os.kill(programs[0], 9)
            await watcher.until(lambda: LinkState.CLOSED in watcher.states("n1") + watcher.states("n2"))
            await watcher.until(lambda: all(watcher.links[name][-1].state is LinkState.LIVE for name in ("n1", "n2")))
    assert not [pid for pid in children() if pid in programs], "neither running nor waited for"
    assert not [pid for pid in children() if pid not in ours and _name(pid).startswith("python")]


async def test_what_a_proxy_command_complains_of_is_told(sshd: Sshd) -> None:
    sshd.config.write_text("Host *\n  ProxyCommand echo 'no \x1b[31mway to' %n >&2\n")
    async with running(source(sshd.fleet("n1"), sshd.config)) as watcher:
        link = await watcher.state("n1", LinkState.CLOSED)
    assert link.detail.endswith("(its proxy command: no way to n1)")


@pytest.mark.parametrize("host", ["$(touch pwned)", "a;b", "-oProxyCommand=x", "a b"])
def test_a_name_that_means_something_to_a_shell_goes_into_no_command(host: str, tmp_path: Path) -> None:
    from stethoscope.collect.link import LinkFailure
    from stethoscope.collect.target import Targets
    from stethoscope.specs.fleet import FleetNode

    config = tmp_path / "config"
    config.write_text("Host *\n  ProxyCommand connect %h\n")
    target = Targets(str(config)).node(FleetNode("n1", address=host))
    with pytest.raises(LinkFailure, match="cannot go into a ProxyCommand"):
        target.proxy_arguments()


def test_of_jump_host_and_proxy_command_the_first_counts(tmp_path: Path) -> None:
    from stethoscope.collect.target import Targets
    from stethoscope.specs.fleet import FleetNode

    config = tmp_path / "config"
    config.write_text("Host a\n  ProxyCommand none\nHost a b\n  ProxyJump x\nHost *\n  ProxyCommand nc %h %p\n")
    targets = Targets(str(config))
    found = [targets.node(FleetNode(name)) for name in ("a", "b", "c")]
    assert [(node.jump, node.proxy_command) for node in found] == [(None, None), ("x", None), (None, "nc %h %p")]
    given = targets.node(FleetNode("c", jump="y"))
    assert (given.jump, given.proxy_command) == ("y", None)


async def test_nodes_ride_on_a_connection_that_somebody_made(sshds: Callable[..., Sshd]) -> None:
    """The bastion takes no key any more once the master stands, as one that wants a token for each login."""
    jump, nodes = sshds(), sshds()
    # The path of a socket may have a hundred letters.
    directory = tempfile.TemporaryDirectory()
    config = bastion(jump, nodes, f"  ControlPath {directory.name}/%C")
    subprocess.run(["ssh", "-F", str(config), "-fNM", "bastion"], check=True, stderr=subprocess.DEVNULL)
    ours = set(children())
    try:
        jump.authorized.write_text("")
        before = jump.log.read_text().count("Connection from")
        names = [f"n{number:02}" for number in range(20)]
        async with running(source(nodes.fleet(*names, jump="bastion"), config)) as watcher:
            for name in names:
                assert (await watcher.live(name)).verified
            riders = [pid for pid in children() if pid not in ours and _name(pid) == "ssh"]
            assert len(riders) == 20
        assert jump.log.read_text().count("Connection from") == before
        assert [pid for pid in children() if pid in riders] == []
    finally:
        subprocess.run(["ssh", "-F", str(config), "-O", "exit", "bastion"], check=True, stderr=subprocess.DEVNULL)
        directory.cleanup()
    async with running(source(nodes.fleet("n1", jump="bastion"), config)) as watcher:
        link = await watcher.state("n1", LinkState.AUTH_REFUSED)
    assert link.detail.startswith(f"jump host bastion: user {USER}: 1 key offered, none accepted")


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


# ---- the agent


async def test_the_agent_of_the_environment_is_used(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    with agent(sshd, monkeypatch):
        subprocess.run(["ssh-add", "-q", str(sshd.identity)], check=True)
        async with running(source(sshd.fleet("n1", "n2", identity_file=None))) as watcher:
            await watcher.live("n1")
            await watcher.live("n2")


@contextmanager
def agent(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    program, path = needs.tool("ssh-agent"), sshd.directory / "agent"
    process = subprocess.Popen([program, "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        yield
    finally:
        process.kill()
        process.wait()


async def test_a_proxy_command_that_hangs_does_not_hold_up_the_others(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stethoscope.collect import dial
    from stethoscope.collect import jump as jump_module

    monkeypatch.setattr(jump_module, "PROXY_HOLD_S", 0.2)
    monkeypatch.setattr(dial, "LOGIN_S", 2.5)
    (sshd.directory / "relay.py").write_text(RELAY)
    relay = f"{sys.executable} {sshd.directory}/relay.py %h %p"
    sshd.config.write_text(
        f"Host dead*\n  ProxyCommand sleep 60\nHost *\n  ProxyCommand {relay}\n"
        f"  UserKnownHostsFile {sshd.known_hosts}\n"
    )
    ours = set(children())
    names = [f"dead{number}" for number in range(10)]
    async with running(source(sshd.fleet(*names, "n1"), sshd.config)) as watcher:
        await watcher.live("n1")
        link = await watcher.state("dead0", LinkState.UNREACHABLE)
        assert link.detail == f"127.0.0.1:{sshd.port}: connected, but no SSH answer in 2.5 s"
    assert not set(children()) - ours - set(sshd.commands()) - set(sshd.sessions())
