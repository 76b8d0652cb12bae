"""Servers that break the tools of those who trust them: of TCP, and one of SSH whose commands do as they please."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncssh

from stethoscope.model import wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

Process = asyncssh.SSHServerProcess[bytes]
FULL_30_KB = wire.encode(wire.Full(seq=1, mono=1.0, wall=1.0, notes={"a": "x" * 40_000}))


@contextlib.asynccontextmanager
async def tcp(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """Serve `handle` on a port of loopback; yield it. Its connections are broken at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await handle(reader, writer)
        writer.close()

    server = await asyncio.start_server(kept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def says_nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Accept and stay mute."""
    await asyncio.sleep(60)


async def byte_by_byte(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say something like a version, a letter at a time, that never ends."""
    writer.write(b"SSH-2.0-")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def closes(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Close at once."""


class Hostile:
    """One SSH server; `acts` says what it does for each user name."""

    def __init__(self, client_key: asyncssh.SSHKey) -> None:
        """Let `client_key` in as any user but `nobody`."""
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.acts: dict[str, Callable[[Process, str], Awaitable[None]]] = {}
        self.logins: list[str] = []
        self.running = 0
        self._client_key = client_key.convert_to_public()
        self._server: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self.port = 0

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        outer = self

        class Door(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                outer._connections.add(conn)

            def begin_auth(self, username: str) -> bool:
                outer.logins.append(username)
                return True

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
                return username != "nobody" and key == outer._client_key

        self._server = await asyncssh.create_server(
            Door, "127.0.0.1", 0, server_host_keys=[self.key], process_factory=self._play, encoding=None,
            line_editor=False, config=None,
        )  # fmt: skip
        self.port = self._server.get_port()

    async def close(self) -> None:
        """Break every connection."""
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.abort()

    async def _play(self, process: Process) -> None:
        self.running += 1
        try:
            user = process.get_extra_info("username")
            nonce = (process.command or "").split()[-2]
            with contextlib.suppress(OSError, asyncssh.Error):
                await self.acts.get(user, healthy)(process, nonce)
                if not process.is_closing():
                    process.exit(0)
        finally:
            self.running -= 1


def start(process: Process, nonce: str, boot_id: str = "", off_s: float = 0.0, seq: int = 0) -> None:
    """Say the sentinel, hello and a full frame."""
    hello = wire.Hello(seq=seq, mono=1.0, wall=1000.0 + off_s, boot_id=boot_id)
    full = wire.Full(seq=seq + 1, mono=1.0, wall=1000.0 + off_s, node={"load1": 1.0})
    process.stdout.write(b"%s\n%s\n%s\n" % (wire.sentinel(nonce).encode(), wire.encode(hello), wire.encode(full)))


async def tick(process: Process, every_s: float = 0.2) -> None:
    """Send a line every so often until the input ends."""
    ended = asyncio.create_task(process.stdin.read())
    seq = 2
    while not ended.done() and not process.is_closing():
        process.stdout.write(wire.encode(wire.Delta(seq=seq, mono=1.0 + seq, wall=1000.0)) + b"\n")
        seq += 1
        await asyncio.wait({ended}, timeout=every_s)
    ended.cancel()


async def hold(process: Process) -> None:
    """Do nothing until the input ends or the connection is gone."""
    await process.stdin.read()


async def healthy(process: Process, nonce: str) -> None:
    """Do what a probe does."""
    start(process, nonce)
    await tick(process)


async def pour(process: Process, data: bytes, total: int, *, stderr: bool = False) -> None:
    """Write `data` again and again, as fast as it is taken, up to `total` bytes."""
    writer = process.stderr if stderr else process.stdout
    for _ in range(total // len(data)):
        if process.is_closing():
            return
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0)
