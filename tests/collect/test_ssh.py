"""A fleet over SSH against real OpenSSH servers."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from stethoscope.clock import SystemClock
from stethoscope.collect.program import Program, probe_program
from stethoscope.collect.ssh import SshSource
from stethoscope.model import wire
from stethoscope.model.frame import LinkState
from stethoscope.specs.fleet import Fleet, FleetNode
from tests import needs
from tests.collect.player import player, running
from tests.collect.sshd import USER, Sshd, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

CLOCK = SystemClock()


def source(fleet: Fleet, what: str = "-", **options: object) -> SshSource:
    return SshSource(fleet, CLOCK, **{"program": player(what), "ssh_config": "none", **options})  # type: ignore[arg-type]


async def test_streams_lines_that_the_wire_reads(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1"))) as watcher:
        link = await watcher.live("n1")
        await watcher.until(lambda: len(watcher.frames.get("n1", [])) >= 4)
    assert link.verified
    assert link.attempts == 1
    assert watcher.states("n1") == [
        LinkState.WAITING,
        LinkState.CONNECTING,
        LinkState.STARTING,
        LinkState.LIVE,
        LinkState.STOPPED,
    ]
    messages = [wire.decode(frame.raw) for frame in watcher.frames["n1"]]
    assert [type(message).__name__ for message in messages[:3]] == ["Hello", "Full", "Delta"]
    assert [message.seq for message in messages] == list(range(len(messages)))
    assert type(messages[-1]).__name__ == "Bye", "its input was closed, and it had the time to say so"


async def test_the_real_probe_runs_over_a_real_server(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1"), program=probe_program())) as watcher:
        await watcher.live("n1")
        await watcher.until(lambda: len(watcher.frames["n1"]) >= 4)
    messages = [wire.decode(frame.raw) for frame in watcher.frames["n1"]]
    assert type(messages[0]).__name__ == "Hello"
    assert any(type(message).__name__ == "Full" for message in messages)


async def test_a_probe_may_use_sudo_where_the_fleet_file_says_so(sshd: Sshd) -> None:
    full = wire.encode(wire.Full(seq=0, mono=0.0, wall=0.0)).decode()
    event = wire.encode(wire.Event(seq=1, mono=0.0, wall=0.0, source="probe", text="GOT")).decode()
    before, after = event.split("GOT")
    told = Program(
        lambda nonce, _t: (
            f"echo '{wire.sentinel(nonce)}'; echo '{full}'; read -r line; echo '{before}'\"$line\"'{after}'; cat"
        ),
        lambda: b"",
        lambda sudo: b"with sudo\n" if sudo else b"without\n",
    )
    for allowed, words in ((True, b'"with sudo"'), (False, b'"without"')):
        async with running(source(sshd.fleet("n1", sudo=allowed), program=told)) as watcher:
            await watcher.until(lambda: len(watcher.frames.get("n1", [])) == 2)
        assert words in watcher.frames["n1"][1].raw


async def test_ask_full_reaches_the_probe(sshd: Sshd) -> None:
    fleet = source(sshd.fleet("n1", tick_s=30.0))
    async with running(fleet) as watcher:
        await watcher.live("n1")
        fleet.ask_full("n1")
        await watcher.until(lambda: len(watcher.frames["n1"]) == 3)
    full = wire.decode(watcher.frames["n1"][2].raw)
    assert isinstance(full, wire.Full)
    assert full.node == {"load_1m": 2.0}


async def test_a_changed_host_key_is_refused_and_not_tried_again_soon(sshd: Sshd) -> None:
    other = sshd.new_key("other").with_suffix(".pub").read_text().split()
    sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {other[0]} {other[1]}\n")
    before = sshd.known_hosts.read_text()
    for accept_new in (False, True):
        async with running(source(sshd.fleet("n1"), accept_new=accept_new)) as watcher:
            link = await watcher.state("n1", LinkState.HOST_KEY_CHANGED)
            assert f'ssh-keygen -R "[127.0.0.1]:{sshd.port}" -f "{sshd.known_hosts}"' in link.detail
            assert link.next_try is not None
            assert link.next_try - time.time() > 500
        assert sshd.known_hosts.read_text() == before


async def test_a_host_key_of_another_kind_than_the_recorded_one_is_no_new_key(sshd: Sshd) -> None:
    other = sshd.new_key("other", "ecdsa").with_suffix(".pub").read_text().split()
    sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {other[0]} {other[1]}\n")
    async with running(source(sshd.fleet("n1"), accept_new=True)) as watcher:
        link = await watcher.state("n1", LinkState.HOST_KEY_CHANGED)
    assert "ssh-keygen" in link.detail
    assert len(sshd.known_hosts.read_text().splitlines()) == 1


async def test_an_unknown_host_key_is_refused_until_it_is_accepted(sshd: Sshd) -> None:
    known = sshd.directory / "new" / "known_hosts"
    async with running(source(sshd.fleet("n1", known_hosts=str(known)))) as watcher:
        link = await watcher.state("n1", LinkState.HOST_KEY_UNKNOWN)
    assert "--accept-new" in link.detail
    assert not known.exists()

    async with running(source(sshd.fleet("n1", known_hosts=str(known)), accept_new=True)) as watcher:
        link = await watcher.live("n1")
    assert "new host key accepted" in link.detail
    assert known.stat().st_mode & 0o777 == 0o600
    host_key = sshd.host_key.with_suffix(".pub").read_text().split()
    assert known.read_text() == f"[127.0.0.1]:{sshd.port} {host_key[0]} {host_key[1]}\n"

    async with running(source(sshd.fleet("n1", known_hosts=str(known)))) as watcher:
        assert (await watcher.live("n1")).detail == ""


async def test_many_connections_to_one_new_host_record_its_key_once(sshd: Sshd) -> None:
    known = sshd.directory / "new" / "known_hosts"
    names = [f"n{number}" for number in range(20)]
    async with running(source(sshd.fleet(*names, known_hosts=str(known)), accept_new=True)) as watcher:
        for name in names:
            assert (await watcher.live(name)).verified
    host_key = sshd.host_key.with_suffix(".pub").read_text().split()
    assert known.read_text() == f"[127.0.0.1]:{sshd.port} {host_key[0]} {host_key[1]}\n"


def test_of_two_new_keys_of_one_host_at_once_only_the_first_is_accepted(tmp_path: Path) -> None:
    from stethoscope.collect.owner import Owner
    from stethoscope.collect.target import Targets

    target = Targets("none").node(FleetNode("n1", known_hosts=str(tmp_path / "known")))
    first, second = Owner(target, accept_new=True), Owner(target, accept_new=True)
    keys = [asyncssh.generate_private_key("ssh-ed25519").convert_to_public() for _ in range(2)]
    assert first.validate_host_public_key("n1", "", 22, keys[0])
    assert not second.validate_host_public_key("n1", "", 22, keys[1])
    assert second.failure is not None
    assert second.failure.state is LinkState.HOST_KEY_CHANGED
    assert second.validate_host_public_key("n1", "", 22, keys[0])
    assert len((tmp_path / "known").read_text().splitlines()) == 1


async def test_a_hashed_entry_is_found(sshd: Sshd) -> None:
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(sshd.known_hosts)], check=True, capture_output=True)
    assert sshd.known_hosts.read_text().startswith("|1|")
    async with running(source(sshd.fleet("n1"))) as watcher:
        assert (await watcher.live("n1")).verified


async def test_a_host_certificate_is_trusted_through_its_authority(sshds: Callable[..., Sshd]) -> None:
    sshd = sshds()
    authority = sshd.new_key("ca")
    public = sshd.host_key.with_suffix(".pub")
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", "node", "-h", "-n", "n1,127.0.0.1", str(public)], check=True
    )
    certified = sshds(extra=f"HostKey {sshd.host_key}\nHostCertificate {sshd.directory / 'host-cert.pub'}")
    key = authority.with_suffix(".pub").read_text().split()
    certified.known_hosts.write_text(f"@cert-authority * {key[0]} {key[1]}\n")
    async with running(source(certified.fleet("n1"))) as watcher:
        assert (await watcher.live("n1")).verified


async def test_a_revoked_key_is_refused(sshd: Sshd) -> None:
    key = sshd.host_key.with_suffix(".pub").read_text().split()
    with sshd.known_hosts.open("a") as file:
        file.write(f"@revoked * {key[0]} {key[1]}\n")
    async with running(source(sshd.fleet("n1"))) as watcher:
        link = await watcher.state("n1", LinkState.HOST_KEY_CHANGED)
    assert "@revoked" in link.detail


async def test_an_authority_says_nothing_about_a_plain_key(sshd: Sshd) -> None:
    authority = sshd.new_key("ca").with_suffix(".pub").read_text().split()
    sshd.known_hosts.write_text(f"@cert-authority * {authority[0]} {authority[1]}\n")
    async with running(source(sshd.fleet("n1"))) as watcher:
        await watcher.state("n1", LinkState.HOST_KEY_UNKNOWN)


async def test_a_refused_key_is_tried_once(sshd: Sshd) -> None:
    stranger = sshd.new_key("stranger")
    async with running(source(sshd.fleet("n1", identity_file=str(stranger)))) as watcher:
        link = await watcher.state("n1", LinkState.AUTH_REFUSED)
        assert link.next_try is not None
        assert link.next_try - time.time() > 500
    assert link.detail == f"user {USER}: 1 key offered, none accepted; the server takes publickey"
    assert sshd.log.read_text().count("Connection from") <= 2 + 1, "once, beside the look whether the server is up"


async def test_a_key_that_is_not_there_is_named(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1", identity_file="/nowhere/id"))) as watcher:
        link = await watcher.state("n1", LinkState.AUTH_REFUSED)
    assert "no key was offered" in link.detail
    assert "/nowhere/id: No such file or directory" in link.detail


async def test_a_key_in_the_agent_is_used(sshd: Sshd) -> None:
    needs.tool("ssh-agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(sshd.directory / "agent")], stdout=subprocess.DEVNULL)
    try:
        environment = {**os.environ, "SSH_AUTH_SOCK": str(sshd.directory / "agent")}
        while not (sshd.directory / "agent").exists():
            await asyncio.sleep(0.01)
        subprocess.run(["ssh-add", "-q", str(sshd.identity)], env=environment, check=True)
        sshd.config.write_text(f"IdentityAgent {sshd.directory / 'agent'}\n")
        async with running(source(sshd.fleet("n1", identity_file=None), ssh_config=str(sshd.config))) as watcher:
            await watcher.live("n1")
    finally:
        agent.kill()
        agent.wait()


async def test_nobody_listens(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1", port=free_port()))) as watcher:
        link = await watcher.state("n1", LinkState.REFUSED)
        assert "is sshd running?" in link.detail
        again = await watcher.state("n1", LinkState.CONNECTING)
    assert again.attempts == 2


async def test_a_name_without_an_address() -> None:
    fleet = Fleet("test", (FleetNode("no-such-host.invalid"),))
    async with running(source(fleet)) as watcher:
        link = await watcher.state("no-such-host.invalid", LinkState.UNREACHABLE)
    assert link.detail.startswith("no address for no-such-host.invalid")


async def test_a_server_that_accepts_and_says_nothing(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    from stethoscope.collect import dial

    monkeypatch.setattr(dial, "BANNER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with running(source(sshd.fleet("n1", port=mute.getsockname()[1]))) as watcher:
            link = await watcher.state("n1", LinkState.UNREACHABLE)
    assert "no SSH answer" in link.detail


async def test_something_that_is_not_ssh(sshd: Sshd) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad \x1b[31mRequest\r\n\r\n" * 2000)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, running(source(sshd.fleet("n1", port=server.sockets[0].getsockname()[1]))) as watcher:
        link = await watcher.state("n1", LinkState.ERROR, LinkState.CLOSED)
    assert "\x1b" not in link.detail


async def test_login_noise_is_skipped_and_kept_as_a_note(sshds: Callable[..., Sshd]) -> None:
    noisy = sshds(
        force="printf 'Welcome \\033]0;owned\\007\\033[31mto\\033[0m n1\\nstethoscope.probe/1 guess\\nno newline'; "
        'exec sh -c "$SSH_ORIGINAL_COMMAND"'
    )
    fleet = source(noisy.fleet("n1"))
    async with running(fleet) as watcher:
        await watcher.live("n1")
        assert fleet.note("n1") == "Welcome to n1 stethoscope.probe/1 guess no newline"
    assert isinstance(wire.decode(watcher.frames["n1"][0].raw), wire.Hello)


async def test_a_command_that_ends_at_once_tells_why(sshds: Callable[..., Sshd]) -> None:
    strict = sshds(force="printf 'This account is \\033[5mnot available\\n' >&2; exit 3")
    async with running(source(strict.fleet("n1"))) as watcher:
        link = await watcher.state("n1", LinkState.CLOSED)
    assert link.detail == "the probe ended with exit status 3: This account is not available"


async def test_no_python(sshd: Sshd) -> None:
    told = Program(lambda nonce, _tick_s: f"echo {wire.sentinel(nonce)} no-python; exit 127", lambda: b"")
    async with running(source(sshd.fleet("n1"), program=told)) as watcher:
        link = await watcher.state("n1", LinkState.NO_PYTHON)
    assert link.next_try is not None
    assert link.next_try - time.time() > 500


async def test_a_killed_session_comes_back(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1"))) as watcher:
        await watcher.live("n1")
        for pid in sshd.sessions():
            os.kill(pid, signal.SIGKILL)
        link = await watcher.state("n1", LinkState.CLOSED)
        assert link.detail.startswith("connection lost")
        assert (await watcher.live("n1")).attempts == 2


async def test_a_probe_that_never_starts(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    from stethoscope.collect import link as link_module

    monkeypatch.setattr(link_module, "SENTINEL_S", 0.5)
    async with running(source(sshd.fleet("n1"), "m")) as watcher:
        link = await watcher.state("n1", LinkState.PROTOCOL)
    assert link.detail == "the probe did not start within 0.5 s"


async def test_hello_alone_is_not_live(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    from stethoscope.collect import link as link_module

    monkeypatch.setattr(link_module, "FIRST_FULL_S", 0.5)
    async with running(source(sshd.fleet("n1"), "s")) as watcher:
        await watcher.state("n1", LinkState.SILENT)
    assert LinkState.LIVE not in watcher.states("n1")
    assert len(watcher.frames["n1"]) == 1


async def test_silence_is_seen_and_ends(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1"), "q")) as watcher:
        link = await watcher.state("n1", LinkState.SILENT)
        assert link.detail.startswith("no line since ")
        assert (await watcher.live("n1")).attempts == 1


async def test_an_endless_line_and_a_flood_are_cut(sshds: Callable[..., Sshd]) -> None:
    server = sshds()
    for what in ("l", "f"):
        async with running(source(server.fleet("n1"), what)) as watcher:
            link = await watcher.state("n1", LinkState.FLOODING)
            assert link.next_try is not None
            assert link.next_try - time.time() > 500
        assert sum(len(frame.raw) for frame in watcher.frames["n1"]) < 12 * 2**20


async def test_jump_hosts_share_one_connection(sshd: Sshd) -> None:
    sshd.trust("jump")
    jump = f"{USER}@127.0.0.1:{sshd.port}"
    sshd.config.write_text(f"Host 127.0.0.1\n  IdentityFile {sshd.identity}\n  UserKnownHostsFile {sshd.known_hosts}\n")
    fleet = sshd.fleet("n1", "n2", "n3", jump=jump)
    before = sshd.log.read_text().count("Accepted publickey")
    async with running(source(fleet, ssh_config=str(sshd.config))) as watcher:
        for name in ("n1", "n2", "n3"):
            assert (await watcher.live(name)).verified
    assert sshd.log.read_text().count("Accepted publickey") - before == 4


async def test_a_jump_host_that_is_down_is_named(sshd: Sshd) -> None:
    fleet = sshd.fleet("n1", jump=f"127.0.0.1:{free_port()}")
    async with running(source(fleet)) as watcher:
        link = await watcher.state("n1", LinkState.REFUSED)
    assert link.detail.startswith("jump host 127.0.0.1:")


async def test_a_jump_host_for_all_hosts_is_not_its_own(sshd: Sshd) -> None:
    sshd.config.write_text(
        f"Host *\n  ProxyJump {USER}@127.0.0.1:{sshd.port}\n  IdentityFile {sshd.identity}\n"
        f"  UserKnownHostsFile {sshd.known_hosts}\n"
    )
    async with running(source(sshd.fleet("n1"), ssh_config=str(sshd.config))) as watcher:
        await watcher.live("n1")


async def test_jump_hosts_in_a_circle_are_an_error(sshd: Sshd) -> None:
    sshd.config.write_text("Host n1\n  ProxyJump a\nHost a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    async with running(source(sshd.fleet("n1"), ssh_config=str(sshd.config))) as watcher:
        link = await watcher.state("n1", LinkState.ERROR)
    assert "lead back to a" in link.detail


async def test_the_configuration_of_ssh_is_honoured(sshd: Sshd) -> None:
    sshd.config.write_text(
        textwrap.dedent(f"""\
        Include {sshd.directory}/more_*
        Host alias-*
          Port {sshd.port}
          User {USER}
          IdentityFile {sshd.identity}
          IdentitiesOnly yes
          UserKnownHostsFile {sshd.known_hosts}
        Host alias-jumped
          ProxyJump alias-1
        """)
    )
    (sshd.directory / "more_names").write_text("Host alias-1 alias-jumped\n  HostName 127.0.0.1\n")
    fleet = Fleet("test", (FleetNode("alias-1", tick_s=0.2), FleetNode("alias-jumped", tick_s=0.2)))
    async with running(source(fleet, ssh_config=str(sshd.config))) as watcher:
        assert (await watcher.live("alias-1")).verified
        assert (await watcher.live("alias-jumped")).verified


async def test_checks_turned_off_in_the_configuration_show(sshd: Sshd) -> None:
    for line in ("UserKnownHostsFile none", "StrictHostKeyChecking no"):
        sshd.config.write_text(f"Host *\n  {line}\n  GlobalKnownHostsFile /nowhere\n")
        fleet = sshd.fleet("n1", known_hosts=None)
        async with running(source(fleet, ssh_config=str(sshd.config))) as watcher:
            assert not (await watcher.live("n1")).verified, line


async def test_a_broken_configuration_is_told_with_its_line(sshd: Sshd) -> None:
    sshd.config.write_text("Host *\n  Port many\n")
    async with running(source(sshd.fleet("n1"), ssh_config=str(sshd.config))) as watcher:
        link = await watcher.state("n1", LinkState.ERROR)
    assert "line 2" in link.detail


async def test_live_nodes_keep_their_rhythm_beside_dead_ones(sshd: Sshd) -> None:
    live = tuple(sshd.node(f"live-{number}") for number in range(4))
    closed = free_port()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        dead = tuple(sshd.node(f"dead-{number}", port=(closed, port)[number % 2]) for number in range(20))
        async with running(source(Fleet("test", dead + live))) as watcher:
            for node in live:
                await watcher.live(node.name)
            await watcher.until(lambda: all(len(watcher.frames[node.name]) >= 15 for node in live))
    for node in live:
        times = [frame.received_mono for frame in watcher.frames[node.name][2:15]]
        assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 0.2 + 0.6


async def test_settled_is_told_once_and_a_person_can_ask_for_another_try(sshd: Sshd) -> None:
    settled: list[bool] = []
    nodes = (sshd.node("n1"), sshd.node("n2", known_hosts="/nowhere"))
    fleet = source(Fleet("test", nodes), on_settled=lambda: settled.append(True))
    async with running(fleet) as watcher:
        await watcher.live("n1")
        await watcher.state("n2", LinkState.HOST_KEY_UNKNOWN)
        fleet.retry("n2")
        await watcher.until(lambda: watcher.states("n2").count(LinkState.HOST_KEY_UNKNOWN) == 2)
        await watcher.until(lambda: len(watcher.frames["n1"]) > 8)
    assert settled == [True]


async def test_nothing_runs_on_the_node_after_the_end(sshd: Sshd) -> None:
    async with running(source(sshd.fleet("n1", "n2"), program=probe_program())) as watcher:
        await watcher.live("n1")
        await watcher.live("n2")
        assert len(sshd.commands()) >= 2
    assert await gone(sshd, 3.0)


async def test_nothing_runs_on_the_node_after_kill_9_of_the_console(sshd: Sshd) -> None:
    script = textwrap.dedent(f"""\
        import asyncio, sys
        from stethoscope.clock import SystemClock
        from stethoscope.collect.ssh import SshSource
        from stethoscope.specs.fleet import Fleet, FleetNode
        class Sink:
            def on_frame(self, frame): print("frame", flush=True)
            def on_link(self, node, link): print(link, flush=True)
        node = FleetNode("n1", "127.0.0.1", {sshd.port}, {USER!r}, None, {str(sshd.identity)!r},
                         {str(sshd.known_hosts)!r}, tick_s=0.5)
        asyncio.run(SshSource(Fleet("test", (node,)), SystemClock(), ssh_config="none").run(Sink()))
        """)
    console = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert console.stdout is not None
    seen = []
    async with asyncio.timeout(20):
        while seen.count(b"frame\n") < 3:
            line = await console.stdout.readline()
            assert line, seen
            seen.append(line)
    assert sshd.commands()
    console.kill()
    await console.wait()
    assert await gone(sshd, 3.0)


async def gone(sshd: Sshd, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while sshd.commands() and time.monotonic() < until:
        await asyncio.sleep(0.05)
    return not sshd.commands()
