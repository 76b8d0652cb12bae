"""One command with its answer, here or on another machine over SSH: argument lists in, bounded bytes out."""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stethoscope.collect.program import probe_program
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from asyncssh import SSHKey

    from stethoscope.specs.fleet import FleetNode

OUTPUT_LIMIT = 64 * 1024 * 1024
"""More output than this is not an answer: a node record has 2 KB, a job with its options 3 KB."""
STDERR_LIMIT = 8192
NOT_FOUND = 127
END_S = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said; `status` is None when a signal ended it."""

    status: int | None
    stdout: bytes
    stderr: str
    late: bool = False
    """It did not end in its time, and `stdout` is what it had said by then."""
    cut: bool = False
    """It said more than was taken."""
    held: bool = False
    """It ended, and something that it started still has its output open."""


class CommandError(Exception):
    """The command could not be run, or not to its end; the text is for people and cleaned."""

    def __init__(self, message: str) -> None:
        """Keep the words."""
        super().__init__(clean(message, 400))


class Runner(Protocol):
    """Runs commands on one machine."""

    where: str
    """The machine for people."""

    async def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        """Run `arguments` without input for at most `limit_s`; CommandError when that cannot be."""

    async def close(self) -> None:
        """Let go of the machine."""


class LocalRunner:
    """Runs commands on this machine."""

    where = "this machine"

    async def close(self) -> None:
        """Nothing is kept open."""

    async def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        """Run `arguments` without a shell."""
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Answer(NOT_FOUND, b"", f"{arguments[0]}: not found")
        except OSError as error:
            raise CommandError(f"{arguments[0]}: {error.strerror}") from None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(limit_s):
                stdout, stderr = await asyncio.gather(
                    _bounded(process.stdout, OUTPUT_LIMIT, keep=False),
                    _bounded(process.stderr, STDERR_LIMIT, keep=True),
                )
                status = await process.wait()
        except TimeoutError:
            raise CommandError(f"no answer in {limit_s:g} s") from None
        finally:
            if process.returncode is None:
                await end_process(process)
        return Answer(status if status >= 0 else None, stdout, clean(stderr, STDERR_LIMIT))


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kill a command with all that it started, and wait for it: that ends only once its output was read to the end."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(65_536):
                    pass
            await process.wait()


async def _bounded(stream: asyncio.StreamReader, limit: int, *, keep: bool) -> bytes:
    """Return what a stream says; of more than `limit` bytes the first ones (`keep`), or CommandError."""
    data = bytearray()
    while block := await stream.read(65_536):
        data += block
        if len(data) > limit:
            if not keep:
                raise CommandError(f"more than {limit // 2**20} MiB of output")
            del data[limit:]
    return bytes(data)


class SshRunner:
    """Runs commands on another machine, on one connection that is kept."""

    def __init__(
        self,
        node: FleetNode,
        *,
        accept_new: bool = False,
        ssh_config: str | None = None,
        unlocked: Mapping[Path, SSHKey] | None = None,
    ) -> None:
        """Connect at the first command; `unlocked` are keys whose passphrase is known."""
        self.where = node.name
        self._node = node
        self._accept_new = accept_new
        self._ssh_config = ssh_config
        self._unlocked = unlocked
        self._dialer: Any = None
        self._connection: Any = None

    async def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        """Run `arguments` there, each quoted for its login shell."""
        # The import takes a fifth of a second, and only fleets with a login node need it here.
        import asyncssh

        link = importlib.import_module("stethoscope.collect.link")
        try:
            async with asyncio.timeout(limit_s):
                connection = await self._connected()
                channel, session = await connection.create_session(
                    lambda: collecting(asyncssh, OUTPUT_LIMIT), shlex.join(arguments), encoding=None, request_pty=False
                )
                try:
                    channel.write_eof()
                    await session.ended
                finally:
                    channel.abort()
        except link.LinkFailure as failure:
            raise CommandError(f"{self.where}: {failure.state.value}: {failure.detail}") from None
        except TimeoutError:
            raise CommandError(f"{self.where}: no answer in {limit_s:g} s") from None
        except (OSError, asyncssh.Error) as error:
            self._drop()
            raise CommandError(f"{self.where}: {link.clean_error(error)}") from None
        if session.flooded:
            raise CommandError(f"{self.where}: more than {OUTPUT_LIMIT // 2**20} MiB of output")
        if session.status is None and connection.is_closed():
            self._drop()
            raise CommandError(f"{self.where}: the connection was lost")
        return Answer(session.status, bytes(session.stdout), clean(bytes(session.stderr), STDERR_LIMIT))

    async def close(self) -> None:
        """Close the connection."""
        self._drop()
        if self._dialer is not None:
            await self._dialer.close()
            self._dialer = None

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            if self._dialer is None:
                dial = importlib.import_module("stethoscope.collect.dial")
                self._dialer = dial.SshDialer(
                    probe_program(),
                    accept_new=self._accept_new,
                    ssh_config=self._ssh_config,
                    unlocked=self._unlocked,
                )
            self._connection = await self._dialer.connect(self._node)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def collecting(asyncssh: Any, limit: int) -> Any:
    """Return a new session that collects what one command says, up to `limit` bytes; more is a flood, and ends it."""

    class Collecting(asyncssh.SSHClientSession):  # type: ignore[misc]
        def __init__(self) -> None:
            self.stdout = bytearray()
            self.stderr = bytearray()
            self.status: int | None = None
            self.flooded = False
            self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.exited = asyncio.Event()

        def data_received(self, data: bytes, datatype: int | None) -> None:
            if datatype is not None:
                self.stderr += data[: STDERR_LIMIT - len(self.stderr)]
            elif not self.flooded:
                self.stdout += data
                if len(self.stdout) > limit:
                    del self.stdout[limit:]
                    self.flooded = True
                    self._end()

        def exit_status_received(self, status: int) -> None:
            self.status = status
            self.exited.set()

        def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
            self.exited.set()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()

        def _end(self) -> None:
            self.exited.set()
            if not self.ended.done():
                self.ended.set_result(None)

    return Collecting()
