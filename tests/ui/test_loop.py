"""The console's event loop: keys come before everything that waits, and few sockets are read at once."""

from __future__ import annotations

import asyncio
import socket
import threading

from stethoscope.ui.loop import IS_DATA, MOST, MOST_DATA, call_first, new_loop


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
