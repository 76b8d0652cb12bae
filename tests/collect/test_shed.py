"""Connections that have shed what they began with do all that others do."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from operator import is_
from typing import TYPE_CHECKING, Any, cast

import asyncssh

from stethoscope.collect.shed import shed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

Pair = tuple[asyncssh.SSHClientConnection, "asyncssh.SSHClientChannel[bytes]", "Heard"]
REKEY_BYTES = 20_000


class Heard(asyncssh.SSHClientSession[bytes]):
    """What came in on one channel."""

    def __init__(self) -> None:
        self.data = b""
        self.more = asyncio.Event()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self.data += data
        self.more.set()

    async def until(self, size: int) -> bytes:
        """Return what came, once it is so much."""
        while len(self.data) < size:
            self.more.clear()
            await self.more.wait()
        return self.data


async def echo(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Send back what comes in, or say what was asked for."""
    if process.command != "echo":
        process.stdout.write(f"{process.command}".encode())
        process.exit(0)
        return
    while data := await process.stdin.read(4096):
        process.stdout.write(data)
    process.exit(0)


@asynccontextmanager
async def server() -> AsyncIterator[tuple[int, asyncssh.SSHKey]]:
    """Run a server that sends back what it gets; yield its port and its key."""
    key = asyncssh.generate_private_key("ssh-ed25519")

    class Open(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return False

    listener = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[key], server_factory=Open, process_factory=echo, encoding=None
    )
    try:
        yield listener.get_port(), key.convert_to_public()
    finally:
        listener.close()
        await listener.wait_closed()


async def connected(port: int, key: asyncssh.SSHKey, user: str) -> Pair:
    """Return a connection with a channel that echoes, and what it hears, shed."""
    connection = await asyncssh.connect(
        "127.0.0.1", port, username=user, known_hosts=([key], [], []), config=None, agent_path=None, client_keys=None,
        rekey_bytes=REKEY_BYTES, keepalive_interval=15,
    )  # fmt: skip
    channel, heard = await connection.create_session(Heard, "echo", encoding=None)
    shed(connection, channel)
    connection.set_keepalive(0)
    return connection, channel, cast("Heard", heard)


async def test_lines_go_on_over_other_exchanges_of_keys() -> None:
    async with server() as (port, key):
        pairs = [await connected(port, key, "one"), await connected(port, key, "other")]
        for number, (connection, channel, heard) in enumerate(pairs):
            sent = b""
            first = own(connection, "_send_encryption")
            for line in (f"{number} {at} ".encode() * 1000 for at in range(20)):
                channel.write(line)
                sent += line
                assert await heard.until(len(sent)) == sent
            assert own(connection, "_send_encryption") is not first, "the keys were exchanged again"
        for connection, _, _ in pairs:
            connection.close()
            async with asyncio.timeout(10):
                await connection.wait_closed()


async def test_a_connection_keeps_what_is_its_own() -> None:
    async with server() as (port, key):
        pairs = [await connected(port, key, user) for user in ("one", "one", "other")]
        names = [connection.get_extra_info("username") for connection, _, _ in pairs]
        ports = {connection.get_extra_info("sockname")[1] for connection, _, _ in pairs}
        assert names == ["one", "one", "other"]
        assert len(ports) == len(pairs)
        assert [own(connection, "_username") for connection, _, _ in pairs] == names
        for connection, _, _ in pairs:
            result = await connection.run("a command", encoding=None)
            assert (result.stdout, result.exit_status) == (b"a command", 0)
            assert isinstance(connection, asyncssh.SSHClientConnection)
            connection.abort()
            await connection.wait_closed()


async def test_what_is_alike_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is common is what the first connection of the process said: here it is one of these.
    monkeypatch.setattr("stethoscope.collect.shed._lean", {})
    monkeypatch.setattr("stethoscope.collect.shed._alike", {})
    async with server() as (port, key):
        pairs = [await connected(port, key, "one") for _ in range(2)]
        one, other = (vars(connection) for connection, _, _ in pairs)
        assert len(one) < 60, "a connection of asyncssh has 110 attributes"
        assert "_enc_algs" not in one
        assert "_enc_algs" not in other
        words = ("client_version", "server_version", "send_cipher", "recv_mac", "username")
        mine, others = ([connection.get_extra_info(name) for name in words] for connection, _, _ in pairs)
        assert mine[4] == "one"
        assert mine[1].startswith("SSH-2.0-")
        assert all(map(is_, mine, others))
        for connection, _, _ in pairs:
            connection.abort()


async def test_a_connection_of_another_asyncssh_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.collect.shed._lean", {})
    async with server() as (port, key):
        connection, channel, heard = await connected(port, key, "one")
        vars(connection)["_mac_algs"] = [["no", "name"]]
        shed(connection, channel)
        assert own(connection, "_mac_algs") == [["no", "name"]]
        channel.write(b"a line")
        assert await heard.until(6) == b"a line"
        connection.abort()
        await connection.wait_closed()


def own(one: object, name: str) -> Any:
    """Return an attribute that is not meant for others."""
    return getattr(one, name)
