"""This machine as a source of frames: the same probe, as a child process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.collect import ondemand
from stethoscope.collect.commands import STREAM, Commands
from stethoscope.collect.fanout import Fanout
from stethoscope.collect.link import Ending, LinkFailure, NodeLink, Running, clean_error
from stethoscope.collect.program import Program, probe_program
from stethoscope.model.frame import LinkState
from stethoscope.specs.fleet import TICK_S, FleetNode
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from stethoscope.clock import Clock
    from stethoscope.collect.command import Answer
    from stethoscope.collect.source import Sink


class _Child(asyncio.SubprocessProtocol):
    """The pipes of the probe's process."""

    def __init__(self, link: NodeLink) -> None:
        self._link = link
        self.transport: asyncio.SubprocessTransport | None = None
        self.end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._link.receive(data)
        else:
            self._link.receive_stderr(data)

    def connection_lost(self, exc: Exception | None) -> None:
        code = self.transport.get_returncode() if self.transport is not None else None
        if not self.end.done():
            self.end.set_result(Ending(code) if code is None or code >= 0 else Ending(signal=_signal_name(-code)))


class _LocalProbe:
    """The probe's process."""

    verified = True
    remark = ""

    def __init__(self, child: _Child, transport: asyncio.SubprocessTransport) -> None:
        self._child = child
        self._transport = transport
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin

    def write(self, data: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def ended(self) -> Ending:
        return await asyncio.shield(self._child.end)

    async def run_script(self, line: str, text: str, limit_s: float) -> Answer:
        return await ondemand.run_here(line, text, limit_s)

    async def stop(self) -> None:
        self._stdin.close()
        await asyncio.shield(self._child.end)

    def abort(self) -> None:
        # The probe ends when its input does; SIGTERM is for one that cannot read. Its driver child is never killed.
        self._stdin.close()
        with suppress(ProcessLookupError):
            self._transport.terminate()


class LocalDialer:
    """Starts the probe on this machine."""

    def __init__(self, program: Program, commands: Commands | None = None) -> None:
        """Start `program` when asked to, through `commands`."""
        self._program = program
        self._commands = commands or Commands()

    async def dial(self, link: NodeLink, nonce: str) -> Running:
        """Start the probe as a child process that no signal of this terminal reaches."""
        text = f"stream probe, every {link.node.tick_s:g} s"
        return await self._commands.run(link.node.name, STREAM, text, lambda: self._start(link, nonce))

    async def _start(self, link: NodeLink, nonce: str) -> Running:
        python = Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{python}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        loop = asyncio.get_running_loop()
        payload = await asyncio.to_thread(self._program.load)
        link.watch, link.watch_shell = self._program.watch(False), self._program.watch_shell(False)
        try:
            transport, child = await loop.subprocess_exec(
                lambda: _Child(link),
                "/bin/sh",
                "-c",
                self._program.command(nonce, link.node.tick_s),
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise LinkFailure(LinkState.ERROR, f"the probe cannot be started: {clean_error(error)}") from None
        probe = _LocalProbe(child, transport)
        probe.write(payload)
        return probe

    def forget_failures(self) -> None:
        """Nothing is shared."""

    async def close(self) -> None:
        """Nothing is shared."""


class LocalSource:
    """Streams the probe of this machine."""

    simulated = False

    def __init__(
        self,
        clock: Clock,
        *,
        tick_s: float = TICK_S,
        program: Program | None = None,
        on_settled: Callable[[], None] | None = None,
        commands: Commands | None = None,
    ) -> None:
        """Prepare for this machine under its host name; `run` starts the probe, through `commands`."""
        name = clean(socket.gethostname(), 255) or "localhost"
        self.fleet = name
        self.nodes: tuple[FleetNode, ...] = (FleetNode(name, tick_s=tick_s),)
        self.commands = commands or Commands()
        self.read_only = self.commands.read_only
        self._program = program
        self._fanout = Fanout(self.nodes, clock, on_settled=on_settled)

    def narrow(self, names: Collection[str]) -> None:
        """There is one node; as with SshSource."""

    async def run(self, sink: Sink) -> None:
        """Run the probe, start it again when it ends, until cancelled; then end it."""
        await self._fanout.run(sink, LocalDialer(self._program or probe_program(), self.commands))

    def take_notices(self) -> list[str]:
        """Return what people should know about what was run, once."""
        return self.commands.take_notices()

    def ask_full(self, node: str | None = None) -> None:
        """Ask for a frame with every value."""
        self._fanout.ask_full(node)

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        """Run a script beside the probe of `node`; CommandError when there is no link to it or it cannot be run."""
        return await self._fanout.run_script(node, line, text, limit_s)

    def retry(self, node: str | None = None) -> None:
        """Start the probe at once, if it waits for its next attempt."""
        self._fanout.retry(node)

    def note(self, node: str) -> str:
        """Return what was printed before the probe spoke."""
        return self._fanout.note(node)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)
