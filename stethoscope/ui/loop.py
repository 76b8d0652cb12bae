"""The console's event loop: what a key asks for does not wait behind what hundreds of nodes have sent meanwhile."""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import select
    import selectors
    from collections.abc import Callable, Coroutine, Sequence
    from contextvars import Context

T = TypeVar("T")
IS_DATA: ContextVar[bool] = ContextVar("IS_DATA", default=False)
"""Set where nodes are connected and read: what is called from there comes behind what is drawn."""
MOST_DATA = 8
"""So many steps of connections are taken before the loop looks whether there is something to draw."""
MOST = 4
"""So many sockets are read before the loop looks whether something else is to be done: a node's line costs up to a
millisecond, and after a pause hundreds of nodes have sent one."""
MANY_FILES = 256
"""With more files than these, sockets that are CALM_AFTER_S old ..."""
CALM_AFTER_S = 10.0
PAUSE_S = 0.05
"""... are looked at so often, and not as soon as something comes: nodes send a line every few seconds."""
PATIENCE_S = 0.02
"""So long they wait for the end of what is being done."""
MOST_PASSED = 4
"""So often in a row only the calm ones are looked at while many of them have something."""
READ_BYTES = 64 * 1024
"""So much is read of a socket at once. With asyncio's own 256 KiB the room for it comes from the system, page by page,
and goes back to it with every line."""
_IN, _OUT = 0x001, 0x004
"""EPOLLIN and EPOLLOUT."""
SWITCH_S = 0.001
"""A thread waits about so long for the interpreter. The threads that read keys and write to the terminal have little to
do and should not wait: with Python's own 5 ms a key and its picture lose 10 ms while the loop is busy."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` as `asyncio.run` does, in such a loop."""
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def call_first(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call `callback`, from another thread, before everything else that waits in `loop`, where that is one of these."""
    if isinstance(loop, _KeysFirst):
        loop.call_first(callback)
    else:
        loop.call_soon_threadsafe(callback)


class _KeysFirst(asyncio.SelectorEventLoop):
    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        super().__init__(selector)
        self._data: deque[asyncio.Handle] = deque()

    def _call_soon(
        self, callback: Callable[..., object], args: Sequence[Any], context: Context | None
    ) -> asyncio.Handle:
        # As the loop does it itself, but with a line of their own for data.
        handle = asyncio.Handle(callback, args, self, context)
        (self._data if handle._context.get(IS_DATA, False) else self._ready).append(handle)  # type: ignore[attr-defined]
        return handle

    def _run_once(self) -> None:
        for _ in range(min(len(self._data), MOST_DATA)):
            self._ready.append(self._data.popleft())
        super()._run_once()  # type: ignore[misc]

    def _make_socket_transport(self, *args: Any, **options: Any) -> asyncio.Transport:
        transport: asyncio.Transport = super()._make_socket_transport(*args, **options)  # type: ignore[misc]
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        return transport

    def call_first(self, callback: Callable[[], object]) -> None:
        # As `call_soon_threadsafe` does it, but for the end of the queue.
        self._check_closed()
        self._ready.appendleft(asyncio.Handle(callback, (), self))
        self._write_to_self()

    if TYPE_CHECKING:
        _ready: deque[asyncio.Handle]

        def _check_closed(self) -> None: ...

        def _write_to_self(self) -> None: ...


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that lets keys come first, and reads few sockets at once where the system has epoll."""
    if sys.platform != "linux":
        return _KeysFirst()
    import select
    import selectors

    class FewAtOnce(selectors.EpollSelector):
        # Sockets of a large fleet that have been there for some time are in an epoll of their own, and looked at now
        # and then: what many nodes sent meanwhile is read in a row, which takes half the time of reading it one by one
        # with a sleep between.
        _fd_to_key: dict[int, selectors.SelectorKey]
        _selector: select.epoll

        def __init__(self) -> None:
            super().__init__()
            self._calm = select.epoll()
            self._calm_files: set[int] = set()
            self._due = self._looked = 0.0
            self._passed = 0
            self._since: dict[int, float] = {}

        def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
            key = super().register(fileobj, events, data)
            self._since[key.fd] = monotonic()
            return key

        def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
            # Who asks for something else waits for an answer.
            self._rouse(fileobj)
            return super().modify(fileobj, events, data)

        def unregister(self, fileobj: Any) -> selectors.SelectorKey:
            self._rouse(fileobj)
            key = super().unregister(fileobj)
            self._since.pop(key.fd, None)
            return key

        def close(self) -> None:
            self._calm.close()
            super().close()

        def keep_awake(self) -> None:
            """Look at what is registered so far without delay for ever: it is the loop's own."""
            self._since.clear()

        def _rouse(self, fileobj: Any) -> None:
            file = self._fileobj_lookup(fileobj)  # type: ignore[attr-defined]
            if file not in self._calm_files:
                return
            self._calm_files.discard(file)
            self._since[file] = monotonic()
            # A file that was closed meanwhile is in neither.
            with suppress(OSError):
                self._calm.unregister(file)
                self._selector.register(file, _flags(self._fd_to_key[file].events))

        def _calm_down(self, file: int, now: float) -> None:
            if now - self._since.get(file, now) > CALM_AFTER_S:
                del self._since[file]
                self._selector.unregister(file)
                self._calm.register(file, _flags(self._fd_to_key[file].events))
                self._calm_files.add(file)

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            # As the selector does it itself, but for how many it asks for; the kernel tells of the others next time.
            now = monotonic()
            found: list[tuple[int, int]] = []
            if self._calm_files:
                # Without time to wait there is something to do, as what follows from a key: that comes first.
                is_busy = timeout is not None and timeout <= 0 and now - self._looked < PATIENCE_S
                if now >= self._due and not is_busy:
                    self._looked = now
                    found = self._calm.poll(0, MOST)
                    if len(found) < MOST:
                        self._due = now + PAUSE_S
                left_s = 0.0 if found else max(0.0, self._due - now)
                timeout = left_s if timeout is None else min(timeout, left_s)
            if len(found) == MOST and self._passed < MOST_PASSED:
                # What other threads ask for, as keys, stands in the loop already.
                self._passed += 1
            else:
                self._passed = 0
                wait_s = -1 if timeout is None else max(0.0, math.ceil(timeout * 1000) / 1000)
                with suppress(InterruptedError):
                    found += self._selector.poll(wait_s, MOST)
            ready = []
            is_large = len(self._fd_to_key) > MANY_FILES
            for file, events in found:
                key = self._fd_to_key.get(file)
                if key is not None:
                    wanted = selectors.EVENT_WRITE if events & ~_IN else 0
                    wanted |= selectors.EVENT_READ if events & ~_OUT else 0
                    ready.append((key, wanted & key.events))
                    if is_large and file in self._since:
                        self._calm_down(file, now)
            return ready

    selector = FewAtOnce()
    loop = _KeysFirst(selector)
    selector.keep_awake()
    return loop


def _flags(events: int) -> int:
    """Return what epoll calls what selectors call EVENT_READ (1) and EVENT_WRITE (2)."""
    return (_IN if events & 1 else 0) | (_OUT if events & 2 else 0)
