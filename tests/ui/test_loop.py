"""The console's event loop: keys come before everything that waits, and few sockets are read at once."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from time import monotonic, sleep

import pytest

from stethoscope.ui import loop as loop_module
from stethoscope.ui.loop import IS_DATA, MOST, MOST_DATA, READ_BYTES, call_first, new_loop

PAUSE_S = 0.4


def test_a_key_comes_before_all_that_waits() -> None:
    said: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(100):
            loop.call_soon(said.append, f"{number}")
        thread = threading.Thread(target=call_first, args=(loop, lambda: said.append("key")))
        thread.start()
        thread.join()
        await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    assert said[0] == "key"
    assert said[1:] == [f"{number}" for number in range(100)]


def test_a_loop_that_sleeps_is_woken() -> None:
    async def main() -> None:
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        timer = threading.Timer(0.05, call_first, (loop, came.set))
        timer.start()
        async with asyncio.timeout(5):
            await came.wait()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_another_loop_takes_keys_as_well() -> None:
    async def main() -> None:
        came = asyncio.Event()
        call_first(asyncio.get_running_loop(), came.set)
        async with asyncio.timeout(5):
            await came.wait()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())


def test_all_sockets_are_read_though_few_at_once() -> None:
    pairs = [socket.socketpair() for _ in range(5 * MOST)]

    async def main() -> list[bytes]:
        loop = asyncio.get_running_loop()
        for ours, theirs in pairs:
            ours.setblocking(False)
            theirs.send(b"line")
        async with asyncio.timeout(5):
            return await asyncio.gather(*(loop.sock_recv(ours, 10) for ours, _ in pairs))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == [b"line"] * len(pairs)
    for pair in pairs:
        for one in pair:
            one.close()


def test_what_is_drawn_comes_before_most_of_the_data_and_data_in_its_order() -> None:
    said: list[str] = []

    async def data() -> None:
        loop = asyncio.get_running_loop()
        IS_DATA.set(True)
        for number in range(100):
            loop.call_soon(said.append, f"{number}")
        await asyncio.sleep(0)

    async def drawn() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        said.append("drawn")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(data())
            group.create_task(drawn())
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    assert said.index("drawn") <= 4 * MOST_DATA
    said.remove("drawn")
    assert said == [f"{number}" for number in range(100)]


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MANY_FILES", 4)
    monkeypatch.setattr(loop_module, "CALM_AFTER_S", -1.0)
    monkeypatch.setattr(loop_module, "PAUSE_S", PAUSE_S)


@pytest.mark.skipif(sys.platform != "linux", reason="only with epoll")
@pytest.mark.usefixtures("calm")
def test_old_sockets_of_a_large_fleet_are_read_together_and_new_ones_and_keys_at_once() -> None:
    pairs = [socket.socketpair() for _ in range(5 * MOST)]
    came: list[tuple[int, bytes, float]] = []

    def read(number: int, ours: socket.socket) -> None:
        came.append((number, ours.recv(10), monotonic()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number, (ours, theirs) in enumerate(pairs):
            ours.setblocking(False)
            loop.add_reader(ours.fileno(), read, number, ours)
            theirs.send(b"first")
        while len(came) < len(pairs):
            await asyncio.sleep(0)
        await asyncio.sleep(2 * PAUSE_S)
        came.clear()
        # All of them are calm by now. A key does not wait for their next turn, ...
        pressed = monotonic()
        key = asyncio.Event()
        call_first(loop, key.set)
        await key.wait()
        assert monotonic() - pressed < PAUSE_S / 2
        # ... and what has come by then is read in a row.
        for _, theirs in pairs:
            theirs.send(b"second")
        async with asyncio.timeout(5):
            while len(came) < len(pairs):
                await asyncio.sleep(PAUSE_S / 10)
        assert sorted(number for number, _, _ in came) == [*range(len(pairs))]
        assert {data for _, data, _ in came} == {b"second"}
        # One that is to be written, or is let go, is as before.
        ours, theirs = pairs[0]
        writable = asyncio.Event()
        loop.add_writer(ours.fileno(), writable.set)
        async with asyncio.timeout(5):
            await writable.wait()
        loop.remove_writer(ours.fileno())
        for ours, _ in pairs[1:]:
            assert loop.remove_reader(ours.fileno())
            ours.close()
        came.clear()
        theirs.send(b"third")
        async with asyncio.timeout(5):
            while not came:
                await asyncio.sleep(PAUSE_S / 10)
        assert [(number, data) for number, data, _ in came] == [(0, b"third")]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    for pair in pairs:
        for one in pair:
            one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only with epoll")
@pytest.mark.usefixtures("calm")
def test_timers_keep_their_time_beside_calm_sockets() -> None:
    pairs = [socket.socketpair() for _ in range(2 * MOST)]

    async def main() -> float:
        loop = asyncio.get_running_loop()
        for ours, theirs in pairs:
            loop.add_reader(ours.fileno(), ours.recv, 10)
            theirs.send(b"line")
        await asyncio.sleep(2 * PAUSE_S)
        before = monotonic()
        await asyncio.sleep(PAUSE_S / 5)
        took = monotonic() - before
        await asyncio.sleep(3 * PAUSE_S)
        for ours, _ in pairs:
            loop.remove_reader(ours.fileno())
        return took

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert PAUSE_S / 5 <= runner.run(main()) < PAUSE_S
    for pair in pairs:
        for one in pair:
            one.close()


def test_what_is_longer_than_one_read_comes_whole() -> None:
    sent = bytes(range(256)) * (READ_BYTES // 64)

    async def main() -> bytes:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        with theirs:
            sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, sent))
            came = await reader.readexactly(len(sent))
            await sending
        writer.close()
        await writer.wait_closed()
        return came

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == sent


@pytest.mark.skipif(sys.platform != "linux", reason="only with epoll")
@pytest.mark.usefixtures("calm")
def test_what_follows_from_a_key_comes_before_calm_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "PATIENCE_S", 5.0)
    pairs = [socket.socketpair() for _ in range(2 * MOST)]
    said: list[str] = []

    def read(ours: socket.socket) -> None:
        ours.recv(10)
        said.append("line")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for ours, theirs in pairs:
            loop.add_reader(ours.fileno(), read, ours)
            theirs.send(b"first")
        await asyncio.sleep(2 * PAUSE_S)
        assert len(said) == len(pairs)
        said.clear()
        sleep(PAUSE_S)
        for _, theirs in pairs:
            theirs.send(b"second")
        for _ in range(8):
            await asyncio.sleep(0)
        said.append("drawn")
        await asyncio.sleep(2 * PAUSE_S)
        for ours, _ in pairs:
            loop.remove_reader(ours.fileno())

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    assert said == ["drawn", *["line"] * len(pairs)]
    for pair in pairs:
        for one in pair:
            one.close()
