"""The zoo: each sick node runs beside four healthy ones, which keep their rhythm, and nothing grows or stays."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncssh
import pytest

from stethoscope.analysis.fold import FleetState
from stethoscope.clock import SystemClock
from stethoscope.collect import dial, link, resolve, stream
from stethoscope.collect.payload import command as probe_command
from stethoscope.collect.payload import payload as probe_payload
from stethoscope.collect.program import Program
from stethoscope.collect.ssh import SshSource
from stethoscope.model import wire
from stethoscope.model.frame import LinkState
from stethoscope.parse.stream import parse
from stethoscope.specs.fleet import Fleet, FleetNode
from stethoscope.specs.metric import load_catalogue
from tests import needs
from tests.collect import hostile
from tests.collect.player import Watcher, running
from tests.collect.sshd import free_port
from tests.collect.test_ways import full_listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.collect.hostile import Process
    from tests.collect.sshd import Sshd

CLOCK = SystemClock()
TICK_S = 0.2
PROGRAM = Program(lambda nonce, tick_s: f"probe {nonce} {tick_s}", lambda: b"payload")
FLOOD = "the probe sent more than 2 MiB/s or 3,000 lines/s, or a line of more than 1 MiB"
LATE_S = 0.75
"""A healthy line may be this much late: the tests share two cores, and the sick one is played in this process too."""


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every time-out short."""
    monkeypatch.setattr(dial, "BANNER_S", 0.5)
    monkeypatch.setattr(dial, "LOGIN_S", 1.5)
    monkeypatch.setattr(resolve, "TCP_S", 0.5)
    monkeypatch.setattr(link, "SENTINEL_S", 0.8)
    monkeypatch.setattr(link, "FIRST_FULL_S", 0.8)
    monkeypatch.setattr(stream, "RATE_WINDOW_S", 1.0)


class Zoo:
    """A hostile server with four healthy nodes and one sick one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.client = asyncssh.generate_private_key("ssh-ed25519")
        self.server = hostile.Hostile(self.client)
        self.known = directory / "known_hosts"
        self.identity = directory / "id"

    async def start(self) -> None:
        await self.server.start()
        self.client.write_private_key(self.identity)
        self.identity.chmod(0o600)
        self.trust(self.server.key)

    def trust(self, key: asyncssh.SSHKey, *, more: str = "", path: Path | None = None) -> Path:
        public = " ".join(key.export_public_key().decode().split()[:2])
        path = path or self.known
        path.write_text(f"[127.0.0.1]:{self.server.port} {public}\n{more}")
        return path

    def node(self, name: str, **settings: object) -> FleetNode:
        given: dict[str, object] = {
            "address": "127.0.0.1",
            "port": self.server.port,
            "user": "healthy",
            "identity_file": str(self.identity),
            "known_hosts": str(self.known),
            "tick_s": TICK_S,
            **settings,
        }
        return FleetNode(name, **given)  # type: ignore[arg-type]

    def acts(self, act: Callable[[Process, str], Awaitable[None]]) -> FleetNode:
        """Return the sick node, whose command does `act`."""
        self.server.acts["sick"] = act
        return self.node("sick", user="sick")


@contextlib.asynccontextmanager
async def zoo(directory: Path) -> AsyncIterator[Zoo]:
    made = Zoo(directory)
    await made.start()
    try:
        yield made
    finally:
        await made.server.close()


@dataclass
class Case:
    """One way to be sick, and what its row says."""

    make: Callable[[Zoo, contextlib.AsyncExitStack], Awaitable[FleetNode]]
    state: LinkState
    detail: str
    """Exactly; `{port}` stands for the node's, `...` for anything at the end."""
    patient: bool = False
    """The next attempt is in minutes."""


def played(act: Callable[[Process, str], Awaitable[None]]) -> Callable[..., Awaitable[FleetNode]]:
    async def make(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
        return zoo.acts(act)

    return make


def raw(handle: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[FleetNode]]:
    async def make(zoo: Zoo, stack: contextlib.AsyncExitStack) -> FleetNode:
        return zoo.node("sick", port=await stack.enter_async_context(hostile.tcp(handle)))

    return make


async def unknown_key(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
    return zoo.node("sick", known_hosts=str(zoo.directory / "none"))


async def changed_key(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
    other = asyncssh.generate_private_key("ssh-ed25519")
    return zoo.node("sick", known_hosts=str(zoo.trust(other, path=zoo.directory / "old")))


async def revoked_key(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
    public = " ".join(zoo.server.key.export_public_key().decode().split()[:2])
    path = zoo.trust(zoo.server.key, more=f"@revoked * {public}\n", path=zoo.directory / "revoked")
    return zoo.node("sick", known_hosts=str(path))


async def refused_key(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
    stranger = zoo.directory / "stranger"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(stranger)
    return zoo.node("sick", user="sick", identity_file=str(stranger))


async def wrong_user(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
    return zoo.node("sick", user="nobody")


async def unreachable(zoo: Zoo, stack: contextlib.AsyncExitStack) -> FleetNode:
    return zoo.node("sick", port=stack.enter_context(full_listener()))


async def nobody_listens(zoo: Zoo, _stack: contextlib.AsyncExitStack) -> FleetNode:
    return zoo.node("sick", port=free_port())


async def ends_at_once(process: Process, _nonce: str) -> None:
    process.stderr.write(b"This account is \x1b[5mnot available\n")
    process.exit(1)


async def slow(process: Process, _nonce: str) -> None:
    await hostile.hold(process)


async def hello_alone(process: Process, nonce: str) -> None:
    process.stdout.write(wire.sentinel(nonce).encode() + b"\n" + wire.encode(wire.Hello(seq=0, mono=1.0, wall=1.0)))
    process.stdout.write(b"\n")
    await hostile.hold(process)


async def noisy(process: Process, nonce: str) -> None:
    process.stdout.write(
        b"\x1b]0;owned\x07\x1b[2J\x1b[31mWelcome\x1b[0m\r\n"
        b'{"t":"full","seq":1,"mono":1,"wa\nstethoscope.probe/1 guess\n\xff\xfe\x00no newline'
    )
    await hostile.healthy(process, nonce)


async def dies_in_a_frame(process: Process, nonce: str) -> None:
    hostile.start(process, nonce)
    process.stdout.write(b'{"t":"delta","seq":2,"mono":1.0,"wall":1.0,"node":{"load1":')
    await process.stdout.drain()
    await asyncio.sleep(0.3)
    process.channel.get_connection().abort()


async def stalls(process: Process, nonce: str) -> None:
    process.stdout.write(wire.sentinel(nonce).encode() + b"\n" + hostile.FULL_30_KB[:30_000])
    await hostile.hold(process)


async def endless_line(process: Process, nonce: str) -> None:
    hostile.start(process, nonce)
    await hostile.pour(process, b"x" * 65_536, 50_000_000)


async def binary(process: Process, nonce: str) -> None:
    hostile.start(process, nonce)
    await hostile.pour(process, os.urandom(65_536), 50_000_000)


async def flood(process: Process, nonce: str) -> None:
    hostile.start(process, nonce)
    line = wire.encode(wire.Delta(seq=2, mono=1.0, wall=1.0)) + b"\n"
    await hostile.pour(process, line * 500, 500_000_000)


async def junk_before(process: Process, _nonce: str) -> None:
    await hostile.pour(process, os.urandom(65_536), 50_000_000)


async def complaints(process: Process, nonce: str) -> None:
    hostile.start(process, nonce)
    await hostile.pour(process, b"Traceback\x1b[2J\n" * 4000, 50_000_000, stderr=True)


async def without_anything(process: Process, nonce: str) -> None:
    process.stdout.write(wire.sentinel(nonce).encode() + b" no-python\n")
    process.exit(127)


USER_REFUSED = "user {user}: 1 key offered, none accepted; the server takes publickey"
CASES = {
    "unknown host key": Case(
        unknown_key, LinkState.HOST_KEY_UNKNOWN, "no key is recorded for 127.0.0.1, it shows ssh-ed25519 ...", True
    ),
    "changed host key": Case(
        changed_key,
        LinkState.HOST_KEY_CHANGED,
        "if the node was reinstalled, remove the old key with: ssh-keygen -R ...",
        True,
    ),
    "revoked host key": Case(
        revoked_key,
        LinkState.HOST_KEY_CHANGED,
        "127.0.0.1:{port} shows a key that is marked @revoked: do not trust it",
        True,
    ),
    "refused key": Case(refused_key, LinkState.AUTH_REFUSED, USER_REFUSED.format(user="sick"), True),
    "wrong user": Case(wrong_user, LinkState.AUTH_REFUSED, USER_REFUSED.format(user="nobody"), True),
    "unreachable": Case(unreachable, LinkState.UNREACHABLE, "127.0.0.1:{port}: no answer in 0 s"),
    "nobody listens": Case(nobody_listens, LinkState.REFUSED, "127.0.0.1:{port} refuses connections: is sshd running?"),
    "accepted but silent": Case(
        raw(hostile.says_nothing), LinkState.UNREACHABLE, "127.0.0.1:{port}: connected, but no SSH answer in 0.5 s"
    ),
    "banner byte by byte": Case(
        raw(hostile.byte_by_byte), LinkState.UNREACHABLE, "127.0.0.1:{port}: connected, but no SSH answer in 0.5 s"
    ),
    "closed at once": Case(
        raw(hostile.closes), LinkState.CLOSED, "127.0.0.1:{port} closed the connection before the login: ..."
    ),
    "command that ends at once": Case(
        played(ends_at_once), LinkState.CLOSED, "the probe ended with exit status 1: This account is not available"
    ),
    "slow command": Case(played(slow), LinkState.PROTOCOL, "the probe did not start within 0.8 s"),
    "hello and no values": Case(
        played(hello_alone), LinkState.SILENT, "the probe started, but sent no values within 0.8 s"
    ),
    "died in a frame": Case(played(dies_in_a_frame), LinkState.CLOSED, "connection lost: ..."),
    "stall after 30 kB": Case(played(stalls), LinkState.SILENT, "the probe started, but sent no values within 0.8 s"),
    "50 MB line": Case(played(endless_line), LinkState.FLOODING, FLOOD, True),
    "binary junk": Case(played(binary), LinkState.FLOODING, FLOOD, True),
    "endless flood": Case(played(flood), LinkState.FLOODING, FLOOD, True),
    "junk before the probe": Case(
        played(junk_before), LinkState.PROTOCOL, "endless output instead of the probe...", True
    ),
    "megabytes of stderr": Case(played(complaints), LinkState.FLOODING, FLOOD, True),
    "no Python and no tools": Case(
        played(without_anything),
        LinkState.NO_PYTHON,
        "no Python 3.6 or newer found on the node, and not the tools that the probe in sh needs",
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_sick_node_costs_only_itself(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    async with contextlib.AsyncExitStack() as stack:
        animals = await stack.enter_async_context(zoo(tmp_path))
        sick = await case.make(animals, stack)
        healthy = [animals.node(f"healthy-{number}") for number in range(4)]
        fleet = Fleet("zoo", (sick, *healthy))
        gc.collect()
        before = _memory_kb()
        async with running(SshSource(fleet, CLOCK, program=PROGRAM, ssh_config="none")) as watcher:
            for node in healthy:
                await watcher.live(node.name)
            found = await watcher.state("sick", case.state)
            begun = time.monotonic()
            detail = case.detail.replace("{port}", str(sick.port))
            if detail.endswith("..."):
                assert found.detail.startswith(detail.removesuffix("..."))
            else:
                assert found.detail == detail
            assert found.detail.isprintable()
            assert found.next_try is not None
            assert (found.next_try - CLOCK.wall() > 500) is case.patient
            assert found.attempts == 1
            seen = {node.name: len(watcher.frames[node.name]) for node in healthy}
            await watcher.until(lambda: all(len(watcher.frames[name]) >= many + 4 for name, many in seen.items()))
            if case.patient:
                assert watcher.links["sick"][-1].attempts == 1, "tried once"
            _keep_rhythm(watcher, [node.name for node in healthy], until=begun + 0.8)
        grown = _memory_kb() - before
        assert grown < 60_000, f"{grown} kB"
        async with asyncio.timeout(3):
            while animals.server.running:
                await asyncio.sleep(0.02)
    if case.patient and case.state is LinkState.AUTH_REFUSED:
        assert animals.server.logins.count(sick.user or "") == 1


def _memory_kb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def _keep_rhythm(watcher: Watcher, names: list[str], until: float) -> None:
    for name in names:
        times = [frame.received_mono for frame in watcher.frames[name] if frame.received_mono < until]
        ages = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert max(ages) < TICK_S + LATE_S, (name, max(ages))


# ---- those that live, but not as others do


async def test_login_noise_with_escape_codes_and_half_json_is_no_line_of_the_probe(tmp_path: Path) -> None:
    async with zoo(tmp_path) as animals:
        source = SshSource(Fleet("zoo", (animals.acts(noisy),)), CLOCK, program=PROGRAM, ssh_config="none")
        async with running(source) as watcher:
            assert (await watcher.live("sick")).detail == ""
            note = source.note("sick")
    assert note == 'Welcome {"t":"full","seq":1,"mono":1,"wa stethoscope.probe/1 guess \ufffd\ufffdno newline'
    kinds = [type(wire.decode(frame.raw)).__name__ for frame in watcher.frames["sick"]]
    assert kinds[:2] == ["Hello", "Full"]


async def test_a_clock_that_is_an_hour_off_is_an_offset_and_no_age(tmp_path: Path) -> None:
    async def late(process: Process, nonce: str) -> None:
        hostile.start(process, nonce, off_s=CLOCK.wall() - 1000.0 + 3600.0)
        await hostile.hold(process)

    async with zoo(tmp_path) as animals:
        node = animals.acts(late)
        state = FleetState(load_catalogue(), [node], "zoo")
        async with running(SshSource(Fleet("zoo", (node,)), CLOCK, program=PROGRAM, ssh_config="none")) as watcher:
            await watcher.live("sick")
            for frame in watcher.frames["sick"]:
                state.apply(frame, parse(frame.raw))
            now = CLOCK.monotonic()
            seen = state.snapshot(CLOCK.wall(), now).node("sick")
    assert seen.clock_offset_s == pytest.approx(3600, abs=2)
    age_s = seen.age_s(now)
    assert age_s is not None
    assert age_s < 2


async def test_a_node_that_was_started_anew_says_so_for_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "REBOOTED_S", 0.6)
    boots = itertools.count(1)

    async def reboots(process: Process, nonce: str) -> None:
        boot = next(boots)
        # The first end is that of the probe alone.
        hostile.start(process, nonce, boot_id=f"boot-{max(1, boot - 1)}")
        if boot < 3:
            await asyncio.sleep(0.1)
            process.channel.get_connection().abort()
            return
        await hostile.tick(process)

    async with zoo(tmp_path) as animals:
        node = animals.acts(reboots)
        async with running(SshSource(Fleet("zoo", (node,)), CLOCK, program=PROGRAM, ssh_config="none")) as watcher:
            await watcher.until(
                lambda: any(link.detail == "back after reboot" for link in watcher.links.get("sick", []))
            )
            assert watcher.links["sick"][-1].attempts == 3
            await watcher.until(lambda: watcher.links["sick"][-1].detail == "")
    said = [(found.attempts, found.detail) for found in watcher.links["sick"] if found.state is LinkState.LIVE]
    assert said == [(1, ""), (2, ""), (3, "back after reboot"), (3, "")]


async def test_few_file_descriptors_are_told_and_cost_only_the_last_nodes(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = _FEW.format(root=str(tmp_path))
    (tmp_path / "few.py").write_text(script)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "few.py")], capture_output=True, text=True, timeout=40, check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    assert ran.returncode == 0, ran.stderr
    live, words = ran.stdout.splitlines()
    assert int(live) >= 80
    assert words == "too many open files here: raise the limit with `ulimit -n`"


# Server and client share the process, so that each link costs two descriptors of the 256.
_FEW = """
import asyncio, collections, pathlib, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from stethoscope.collect.ssh import SshSource
from stethoscope.model.frame import LinkState
from stethoscope.specs.fleet import Fleet
from tests.collect.player import running
from tests.collect.test_hostile import CLOCK, PROGRAM, zoo

async def main():
    async with zoo(pathlib.Path("{root}")) as animals:
        nodes = tuple(animals.node(f"n{{number:03}}") for number in range(160))
        async with running(SshSource(Fleet("zoo", nodes), CLOCK, program=PROGRAM, ssh_config="none")) as watcher:
            def states():
                return collections.Counter(links[-1].state for links in watcher.links.values())
            await watcher.until(lambda: states()[LinkState.ERROR] and states()[LinkState.LIVE] >= 80, 30)
            print(states()[LinkState.LIVE])
            print(next(l[-1].detail for l in watcher.links.values() if l[-1].state is LinkState.ERROR))

asyncio.run(main())
"""


@pytest.mark.parametrize("shell", ["tcsh", "fish"])
async def test_only_a_platform_python_behind_a_strange_login_shell(
    shell: str, sshds: Callable[..., Sshd], tmp_path: Path
) -> None:
    program = needs.tool(shell)
    platform = tmp_path / "platform-python"
    platform.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    platform.chmod(0o755)

    def command(nonce: str, tick_s: float) -> str:
        text = probe_command(nonce, tick_s).replace("/usr/libexec/platform-python", str(platform))
        return text.replace("python3", "no-such-python3")

    server = sshds(force=f'exec {program} -c "$SSH_ORIGINAL_COMMAND"')
    fleet = server.fleet("n1")
    async with running(SshSource(fleet, CLOCK, program=Program(command, probe_payload), ssh_config="none")) as watcher:
        assert (await watcher.live("n1")).detail == ""
    hello = wire.decode(watcher.frames["n1"][0].raw)
    assert isinstance(hello, wire.Hello)
    assert hello.python.startswith("3.")
