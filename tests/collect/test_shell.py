"""Nodes without Python behind a real server: every login shell falls back to the probe in sh."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import SystemClock
from stethoscope.collect import payload, shell
from stethoscope.collect.local import LocalSource
from stethoscope.collect.program import Program
from stethoscope.collect.ssh import SshSource
from stethoscope.model import wire
from stethoscope.model.frame import LinkState
from stethoscope.parse.stream import parse
from tests import needs
from tests.collect.player import running
from tests.probe.fake_smi import FakeSmi
from tests.probe.running import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.collect.sshd import Sshd

CLOCK = SystemClock()


def without_python(nonce: str, tick_s: float) -> str:
    """Return the real command line on a machine where nothing is called as Pythons are."""
    command = payload.command(nonce, tick_s)
    for name in ("python3", "platform-python"):
        command = command.replace(name, "no-such-" + name)
    return command


PROGRAM = Program(without_python, payload.payload)


def source(server: Sshd, **settings: object) -> SshSource:
    return SshSource(server.fleet("n1", **settings), CLOCK, program=PROGRAM, ssh_config="none")


@pytest.mark.parametrize("login", ["sh", "dash", "bash", "tcsh", "fish", "mksh"])
async def test_every_login_shell_falls_back_to_sh(login: str, sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    program = needs.tool(login)
    smi = FakeSmi(tmp_path / "smi")
    server = sshds(
        force=f'exec {program} -c "$SSH_ORIGINAL_COMMAND"', environment={"PATH": f"{smi.directory}:/usr/bin:/bin"}
    )
    async with running(source(server)) as watcher:
        link = await watcher.live("n1")
        assert link.detail == "no Python, using sh"
        await watcher.until(lambda: len(watcher.frames["n1"]) >= 8)
        assert server.commands()
    messages = [parse(frame.raw) for frame in watcher.frames["n1"]]
    assert isinstance(messages[0], wire.Hello)
    fulls = [message for message in messages if isinstance(message, wire.Full)]
    assert [message.seq for message in messages] == list(range(len(messages)))
    assert len(fulls[-1].gpus) == 8
    assert fulls[-1].gpu["gpu_sm_clock"] == [1980] * 8
    assert wait_for(lambda: not server.commands(), 2)


async def test_what_is_read_rarely_comes_behind_the_first_frame(sshd: Sshd) -> None:
    told = Program(without_python, payload.payload, payload.watch_line, shell.watch_line)
    async with running(SshSource(sshd.fleet("n1"), CLOCK, program=told, ssh_config="none")) as watcher:
        await watcher.live("n1")

        def parts() -> dict[str, wire.Part]:
            messages = [parse(frame.raw) for frame in watcher.frames["n1"]]
            return {message.name: message for message in messages if isinstance(message, wire.Part)}

        await watcher.until(lambda: "smart" in parts())
        assert parts()["identity"].files["/proc/version"].startswith("Linux version ")
    assert wait_for(lambda: not sshd.commands(), 3)


async def test_a_frame_is_sent_when_asked_for(sshd: Sshd) -> None:
    fleet = source(sshd, tick_s=30.0)
    async with running(fleet) as watcher:
        await watcher.live("n1")
        await asyncio.sleep(0.2)
        seen = len(watcher.frames["n1"])
        fleet.ask_full("n1")
        await watcher.until(lambda: len(watcher.frames["n1"]) > seen)


async def test_a_cut_connection_leaves_nothing_on_the_node(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    smi = FakeSmi(tmp_path / "smi")
    server = sshds(environment={"PATH": f"{smi.directory}:/usr/bin:/bin"})
    async with running(source(server, tick_s=5.0)) as watcher:
        await watcher.live("n1")
        await watcher.until(lambda: len(smi.calls) == 2)
        started = server.commands()
        for pid in server.sessions():
            os.kill(pid, signal.SIGKILL)
        await watcher.state("n1", LinkState.CLOSED)
        deadline = time.monotonic() + 2
        while left := [pid for pid in started if is_running(pid)]:
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.02)


async def test_without_tools_there_is_nothing_to_be_done(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    server = sshds(
        force=f'PATH={tmp_path / "bin"}; export PATH; eval "${{SSH_ORIGINAL_COMMAND#exec }}"',
    )
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    async with running(source(server)) as watcher:
        link = await watcher.state("n1", LinkState.NO_PYTHON)
    assert "no Python 3.6 or newer" in link.detail


async def test_this_machine_falls_back_as_well() -> None:
    local = LocalSource(CLOCK, tick_s=0.2, program=PROGRAM)
    async with running(local) as watcher:
        assert (await watcher.live(local.nodes[0].name)).detail == "no Python, using sh"


def test_the_script_is_sent_whole() -> None:
    length, _, script = shell.payload().partition(b"\n")
    assert int(length) == len(script)
    assert script.isascii()
    assert b"<<" not in script, "some shells keep here-documents in files"
    assert not [line for line in script.split(b"\n") if line.startswith((b"#", b" ")) or not line]
    assert len(script) < 12_000


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not only waits to be taken note of."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
