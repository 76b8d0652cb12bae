"""Keeps a link to every node: bounded attempts at once, pauses between failures, a watch over silence, a clean end.

It knows nothing of SSH: a Dialer starts the probe on one node.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Protocol

from stethoscope.collect.backoff import Backoff
from stethoscope.collect.command import CommandError
from stethoscope.collect.link import LinkFailure, NodeLink, Running
from stethoscope.heap import give_back
from stethoscope.model.frame import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.clock import Clock
    from stethoscope.collect.command import Answer
    from stethoscope.collect.source import Sink
    from stethoscope.model.nodespec import NodeSpec

SLOTS = 256
"""Attempts at once: what is dead holds its slot until its time-out, so there are many more than the live ones need."""
FIRST, FIRST_S = 8, 0.2
"""So few nodes of a large fleet have the machine to themselves for so long: among 256 handshakes that take their turns
none is done before nearly all are."""
WATCH_S = 0.5
_MANY_NODES, _WATCHES = 256, 4
"""Of more nodes than these every fourth is looked at each time: what a link waits for takes many seconds."""
STOP_S = 2.0
"""The probes get so long to end by themselves."""
FULL = b'{"do":"full"}\n'


class Dialer(Protocol):
    """Starts the probe on a node."""

    async def dial(self, link: NodeLink, nonce: str) -> Running:
        """Start the probe of `link.node`; its output goes to `link.receive` from then on. Raises LinkFailure."""

    def forget_failures(self) -> None:
        """Try again at once what is shared between nodes and failed."""

    async def close(self) -> None:
        """Let go of everything that is shared between nodes."""


class _Lane:
    """One node with its task's state."""

    __slots__ = ("backoff", "link", "settled", "wake")

    def __init__(self, link: NodeLink, jitter: Callable[[], float]) -> None:
        self.link = link
        self.backoff = Backoff(jitter)
        self.wake: asyncio.Event | None = None
        """Ends the pause between two attempts; there while there is one."""
        self.settled = False


class Fanout:
    """The links to all nodes of a source."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        clock: Clock,
        *,
        slots: int = SLOTS,
        on_settled: Callable[[], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Keep links to `nodes`; `on_settled` is called once, when each is live or has failed for the first time."""
        self._nodes = nodes
        self._clock = clock
        self._slots = asyncio.Semaphore(slots)
        self._on_settled = on_settled
        self._jitter = jitter
        self._lanes: dict[str, _Lane] = {}
        self._unsettled = len(nodes)
        self._dialer: Dialer | None = None

    async def run(self, sink: Sink, dialer: Dialer) -> None:
        """Keep the links until cancelled; then end the probes, within STOP_S, and leave nothing behind."""
        self._lanes = {node.name: _Lane(NodeLink(node, self._clock, sink), self._jitter) for node in self._nodes}
        self._dialer = dialer
        lanes = list(self._lanes.values())
        first = FIRST if len(lanes) > SLOTS else len(lanes)
        tasks = [asyncio.create_task(self._keep(lane, dialer)) for lane in lanes[:first]]
        tasks.append(asyncio.create_task(self._watch()))
        try:
            if first < len(lanes):
                await asyncio.sleep(FIRST_S)
                tasks += [asyncio.create_task(self._keep(lane, dialer)) for lane in lanes[first:]]
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            running = [lane.link.running for lane in self._lanes.values() if lane.link.running is not None]
            await asyncio.shield(self._end(tasks, running, dialer))

    def ask_full(self, node: str | None = None) -> None:
        """Ask one node, or all that run, for a frame with every value."""
        lanes = self._lanes.values() if node is None else [self._lanes[node]] if node in self._lanes else []
        for lane in lanes:
            if lane.link.running is not None:
                lane.link.running.write(FULL)

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        """Run a command line with `text` as its input on a node whose probe runs; CommandError when it has none."""
        link = self._lanes[node].link if node in self._lanes else None
        if link is None or link.running is None:
            raise CommandError("there is no link" if link is None else f"there is no link: {link.link.state.value}")
        return await link.running.run_script(line, text, limit_s)

    def retry(self, node: str | None = None) -> None:
        """Try one node, or all that wait, at once."""
        if self._dialer is not None:
            self._dialer.forget_failures()
        lanes = self._lanes.values() if node is None else [self._lanes[node]] if node in self._lanes else []
        for lane in lanes:
            lane.backoff.clear()
            if lane.wake is not None:
                lane.wake.set()

    def note(self, node: str) -> str:
        """Return what the login to `node` printed before the probe spoke, cleaned."""
        return self._lanes[node].link.noise if node in self._lanes else ""

    async def _keep(self, lane: _Lane, dialer: Dialer) -> None:
        while True:
            try:
                failure = await self._attempt(lane, dialer)
            except Exception as error:  # noqa: BLE001 -- a defect met on one node must not cost the others
                failure = LinkFailure(LinkState.ERROR, f"{type(error).__name__}: {error}")
            pause_s = lane.backoff.failed(patient=failure.patient, slow=failure.slow, live_s=lane.link.live_s)
            lane.wake = asyncio.Event()
            lane.link.failed(failure, self._clock.wall() + pause_s)
            self._settle(lane)
            with suppress(TimeoutError):
                await asyncio.wait_for(lane.wake.wait(), pause_s)
            lane.wake = None

    async def _attempt(self, lane: _Lane, dialer: Dialer) -> LinkFailure:
        link, nonce = lane.link, secrets.token_hex(16)
        try:
            async with self._slots:
                link.connecting(nonce)
                running = await dialer.dial(link, nonce)
                link.started(running)
        except LinkFailure as failure:
            return failure
        return link.ended(await running.ended())

    def _settle(self, lane: _Lane) -> None:
        if lane.settled:
            return
        lane.settled = True
        self._unsettled -= 1
        if self._unsettled == 0 and self._on_settled is not None:
            self._on_settled()

    async def _watch(self) -> None:
        lanes = [*self._lanes.values()]
        parts = [lanes] if len(lanes) <= _MANY_NODES else [lanes[first::_WATCHES] for first in range(_WATCHES)]
        for number, part in enumerate(cycle(parts)):
            await asyncio.sleep(WATCH_S)
            now = self._clock.monotonic()
            if self._unsettled and len(parts) > 1 and number % 2:
                # Hundreds of handshakes at once, and tables that grow, leave holes of fifty megabytes.
                give_back()
            for lane in part:
                lane.link.check(now)
                if not lane.settled and not lane.link.link.state.is_pending:
                    self._settle(lane)

    async def _end(self, tasks: list[asyncio.Task[None]], running: list[Running], dialer: Dialer) -> None:
        ends = [*tasks, *(asyncio.create_task(probe.stop()) for probe in running)]
        done, late = await asyncio.wait(ends, timeout=STOP_S)
        for end in late:
            end.cancel()
        for end in done:
            # What went wrong on the way out is of no use to anybody.
            if not end.cancelled():
                end.exception()
        for probe in running:
            probe.abort()
        await dialer.close()
        for lane in self._lanes.values():
            lane.link.stopped()


def raise_file_limit(nodes: int) -> None:
    """Allow as many open files as links to `nodes` need, as far as the hard limit goes; words about a low one are left
    to the links that fail."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nodes + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
