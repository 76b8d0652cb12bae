"""This machine as a source."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from typing import TYPE_CHECKING

from stethoscope.clock import SystemClock
from stethoscope.collect.local import LocalSource
from stethoscope.collect.program import Program, probe_program
from stethoscope.model import wire
from stethoscope.model.frame import LinkState
from tests.collect.player import player, running
from tests.collect.sshd import children_of

if TYPE_CHECKING:
    from stethoscope.collect.source import Source

HOST = socket.gethostname()


def local(program: Program) -> LocalSource:
    return LocalSource(SystemClock(), tick_s=0.2, program=program)


async def test_the_probe_of_this_machine() -> None:
    source: Source = local(probe_program())
    async with running(source) as watcher:
        await watcher.live(HOST)
        await watcher.until(lambda: len(watcher.frames[HOST]) >= 4)
    messages = [wire.decode(frame.raw) for frame in watcher.frames[HOST]]
    assert isinstance(messages[0], wire.Hello)
    assert messages[0].host == HOST
    await ended()


async def test_what_is_read_rarely_comes_after_the_first_full_frame() -> None:
    async with running(local(probe_program())) as watcher:
        await watcher.live(HOST)
        await watcher.until(lambda: any(b'"part"' in frame.raw[:64] for frame in watcher.frames[HOST]))
    messages = [wire.decode(frame.raw) for frame in watcher.frames[HOST]]
    kinds = [type(message).__name__ for message in messages]
    assert kinds.index("Full") < kinds.index("Part")
    assert [message.seq for message in messages] == list(range(len(messages)))
    await ended()


async def test_control_lines_reach_it_and_its_end_is_clean() -> None:
    source = local(player())
    async with running(source) as watcher:
        await watcher.live(HOST)
        before = len(watcher.frames[HOST])
        source.ask_full()
        await watcher.until(
            lambda: any(isinstance(wire.decode(f.raw), wire.Full) for f in watcher.frames[HOST][before:])
        )
    assert isinstance(wire.decode(watcher.frames[HOST][-1].raw), wire.Bye)
    assert watcher.states(HOST)[-1] is LinkState.STOPPED
    await ended()


async def test_a_killed_probe_starts_again() -> None:
    async with running(local(player())) as watcher:
        await watcher.live(HOST)
        hello = wire.decode(watcher.frames[HOST][0].raw)
        assert isinstance(hello, wire.Hello)
        os.kill(hello.pid, signal.SIGKILL)
        link = await watcher.state(HOST, LinkState.CLOSED)
        assert link.detail == "ended by signal KILL"
        assert (await watcher.live(HOST)).attempts == 2


async def test_a_probe_that_fails_tells_why() -> None:
    async with running(local(Program(lambda _n, _t: "echo oh no >&2; exit 4", lambda: b""))) as watcher:
        link = await watcher.state(HOST, LinkState.CLOSED)
    assert link.detail == "the probe ended with exit status 4: oh no"


async def test_a_probe_that_ignores_the_end_of_its_input_is_told_again() -> None:
    stubborn = Program(lambda nonce, _t: f"echo {wire.sentinel(nonce)}; exec sleep 100", lambda: b"")
    start = time.monotonic()
    async with running(local(stubborn)) as watcher:
        await watcher.state(HOST, LinkState.STARTING)
    assert time.monotonic() - start < 4
    await ended()


async def ended() -> None:
    """Wait until no child of this process is left."""
    async with asyncio.timeout(3):
        while children_of(os.getpid()):
            await asyncio.sleep(0.02)
