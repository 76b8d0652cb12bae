"""The console's event loop: what a key asks for does not wait behind what hundreds of nodes have sent meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
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
    import math
    import selectors

    class FewAtOnce(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            # As the selector does it itself, but for how many it asks for; the kernel tells of the others next time.
            wait_s = -1 if timeout is None else max(0.0, math.ceil(timeout * 1000) / 1000)
            try:
                found = self._selector.poll(wait_s, MOST)  # type: ignore[attr-defined]
            except InterruptedError:
                return []
            ready = []
            for file, events in found:
                key = self.get_map().get(file)
                if key is not None:
                    wanted = selectors.EVENT_WRITE if events & ~_IN else 0
                    wanted |= selectors.EVENT_READ if events & ~_OUT else 0
                    ready.append((key, wanted & key.events))
            return ready

    return _KeysFirst(FewAtOnce())
