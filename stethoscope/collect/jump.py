"""Jump hosts: one connection each, shared by all the nodes behind it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from stethoscope.collect.link import LinkFailure
from stethoscope.model.frame import LinkState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import asyncssh

Opened = tuple["asyncssh.SSHClientConnection", bool]
"""A connection with its login done, and whether every host key on the way was checked."""
Via = tuple[str, ...]
"""The jumps that are being opened on the way to a node."""

JUMP_LIMIT_S = 90.0
"""Longest wait for a chain of jump hosts; two chains that lead through each other would wait for ever."""
JUMP_PAUSE_S = 5.0
"""A jump host that could not be reached is not tried again for each of the nodes behind it."""
JUMP_PATIENT_S = 500.0
"""Nor one that refuses, before the first of them is due again; a person who asks is heard at once."""
IN_FLIGHT = 8
"""Handshakes at once through one jump host."""
HOLD_S = 1.0
"""What is not even connected by then is no handshake, and lets the next one go first."""
PROXY_HOLD_S = 4.0
"""A proxy command may log in somewhere before it connects."""


class Jumps:
    """The connections to all jump hosts; `connect` opens one, given its name, those before it, and the way so far."""

    def __init__(self, connect: Callable[[str, str, Via], Awaitable[Opened]]) -> None:
        """Open nothing yet."""
        self._connect = connect
        self._by_text: dict[str, _Jump] = {}

    async def connection(self, text: str, via: Via) -> Opened:
        """Return the connection to the last host of `text` (as for `ssh -J`), opened if it is not open."""
        if text in via:
            raise LinkFailure(LinkState.ERROR, f"the jump hosts {', '.join(via)} lead back to {text}")
        if text not in self._by_text:
            self._by_text[text] = _Jump(text)
        try:
            async with asyncio.timeout(JUMP_LIMIT_S):
                return await self._by_text[text].connection(self._connect, (*via, text))
        except TimeoutError:
            raise LinkFailure(LinkState.UNREACHABLE, f"jump host {text}: no login in {JUMP_LIMIT_S:g} s") from None

    def gate(self, text: str) -> asyncio.Semaphore:
        """Return what bounds the handshakes through the last host of `text`."""
        return self._by_text[text].gate

    def forget_failures(self) -> None:
        """Let the next node try again at once."""
        for jump in self._by_text.values():
            jump.forget_failure()

    def close(self) -> None:
        """Close all connections."""
        for jump in self._by_text.values():
            jump.close()


class _Jump:
    """One chain of jump hosts."""

    def __init__(self, text: str) -> None:
        self._before, _, self._last = text.rpartition(",")
        self._lock = asyncio.Lock()
        self.gate = asyncio.Semaphore(IN_FLIGHT)
        self._open: Opened | None = None
        self._failure: LinkFailure | None = None
        self._failed_at = 0.0

    async def connection(self, connect: Callable[[str, str, Via], Awaitable[Opened]], via: Via) -> Opened:
        async with self._lock:
            if self._open is not None and not self._open[0].is_closed():
                return self._open
            now = asyncio.get_running_loop().time()
            pause_s = JUMP_PATIENT_S if self._failure is not None and self._failure.patient else JUMP_PAUSE_S
            if self._failure is None or now - self._failed_at > pause_s:
                try:
                    self._open = await connect(self._last, self._before, via)
                except LinkFailure as failure:
                    self._failure = LinkFailure(failure.state, f"jump host {self._last}: {failure.detail}")
                    self._failed_at = asyncio.get_running_loop().time()
                else:
                    self._failure = None
                    return self._open
            raise LinkFailure(self._failure.state, self._failure.detail)

    def forget_failure(self) -> None:
        self._failure = None

    def close(self) -> None:
        if self._open is not None:
            self._open[0].abort()


@asynccontextmanager
async def turn(gate: asyncio.Semaphore, is_open: Callable[[], bool], hold_s: float) -> AsyncIterator[None]:
    """Hold one of the places of `gate` for the length of a block, or for `hold_s` while nothing `is_open`."""
    await gate.acquire()
    held = True

    def leave() -> None:
        nonlocal held
        if held:
            held = False
            gate.release()

    timer = asyncio.get_running_loop().call_later(hold_s, lambda: None if is_open() else leave())
    try:
        yield
    finally:
        timer.cancel()
        leave()
