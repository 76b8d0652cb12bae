"""A stand-in for the probe, and a sink that tests wait on."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from stethoscope.collect.program import Program
from stethoscope.model.frame import Frame, Link, LinkState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from stethoscope.collect.source import Source

# Runs with any Python: says the sentinel, hello, full, then a delta a tick until its input ends. A control line is
# answered with a full frame. The first line of its input says what else it does.
PLAYER = r"""
import json,os,select,sys,time
nonce,tick=sys.argv[1],float(sys.argv[2])
what=os.read(0,1).decode()
seq=[0]
def say(t,**k):
    d=dict(t=t,seq=seq[0],mono=time.monotonic(),wall=time.time(),**k)
    seq[0]+=1
    os.write(1,(json.dumps(d)+"\n").encode())
if what=="m": time.sleep(60)
os.write(1,("stethoscope.probe/1 %s\n"%nonce).encode())
say("hello",host="player",pid=os.getpid())
if what=="s": time.sleep(60)
say("full",node={"load_1m":1.0})
if what=="l": os.write(1,b"x"*3000000)
if what=="f":
    while 1: os.write(1,b"y"*60000+b"\n")
if what=="q": time.sleep(3.2)
while 1:
    if select.select([0],[],[],tick)[0]:
        if not os.read(0,4096):
            say("bye",why="input ended")
            break
        say("full",node={"load_1m":2.0})
    else:
        say("delta",node={"load_1m":1.5})
"""


def player(what: str = "-") -> Program:
    """Return a program that plays a probe: `-` well, `m` mute, `s` silent after hello, `q` quiet for 3 s after the
    first frame, `l` with an endless line, `f` flooding."""
    body = PLAYER.encode().hex()
    code = f'exec(bytes.fromhex("{body}").decode())'
    return Program(
        command=lambda nonce, tick_s: f"exec {sys.executable} -I -S -c '{code}' {nonce} {tick_s}",
        payload=what.encode,
    )


class Watcher:
    """Keeps what a source hands over; tests await conditions on it."""

    def __init__(self) -> None:
        self.frames: dict[str, list[Frame]] = {}
        self.links: dict[str, list[Link]] = {}
        self._changed = asyncio.Event()

    def on_frame(self, frame: Frame) -> None:
        self.frames.setdefault(frame.node, []).append(frame)
        self._changed.set()

    def on_link(self, node: str, link: Link) -> None:
        self.links.setdefault(node, []).append(link)
        self._changed.set()

    async def until(self, true: Callable[[], object], limit_s: float = 45.0) -> None:
        """Wait until `true` holds; it is asked at every frame and every change of a link."""
        try:
            async with asyncio.timeout(limit_s):
                while not true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            last = {node: links[-1] for node, links in self.links.items()}
            raise AssertionError(f"never came true; links: {last}") from None

    async def state(self, node: str, *states: LinkState, limit_s: float = 45.0) -> Link:
        """Wait until the link to `node` is in one of `states`; return it."""
        await self.until(lambda: node in self.links and self.links[node][-1].state in states, limit_s)
        return self.links[node][-1]

    async def live(self, node: str) -> Link:
        """Wait until the link to `node` is live; return it."""
        return await self.state(node, LinkState.LIVE)

    def states(self, node: str) -> list[LinkState]:
        """Return all states that the link to `node` had."""
        return [link.state for link in self.links.get(node, [])]


@asynccontextmanager
async def running(source: Source) -> AsyncIterator[Watcher]:
    """Run `source` for the length of a block, then end it and check that it ends in time."""
    watcher = Watcher()
    task = asyncio.create_task(source.run(watcher))
    try:
        yield watcher
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 4.0)
