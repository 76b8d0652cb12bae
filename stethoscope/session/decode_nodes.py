"""The kernel logs of nodes, over the links that the console uses: what `decode --node` reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.collect import nodelog
from stethoscope.collect.command import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.session import Session

POLL_S = 0.1
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class NodeLog:
    """The kernel log of a node."""

    node: str
    data: bytes = b""
    trouble: str = ""
    """Why there is none."""


async def kernel_logs(
    session: Session,
    nodes: Sequence[str],
    since: float,
    *,
    timeout_s: float = 40.0,
    on_progress: Callable[[str], None] | None = None,
) -> list[NodeLog]:
    """Connect to the nodes of `session`, not yet running, read what their kernels said since wall second `since`, and
    end. A node that is not reached within `timeout_s`, or lets nobody read its log, is one with trouble."""
    clock = session.clock
    started = clock.monotonic()
    running = asyncio.create_task(session.run())
    try:
        while not running.done():
            snapshot = session.snapshot(latest=True)
            left = [name for name in nodes if not _is_settled(snapshot, name)]
            if not left or clock.monotonic() - started > timeout_s:
                break
            if on_progress is not None:
                on_progress(f"connecting to {len(nodes):,} nodes, {len(nodes) - len(left):,} done")
            await asyncio.wait({running}, timeout=POLL_S)
        if running.done():
            running.result()
        snapshot = session.snapshot(latest=True)
        if on_progress is not None:
            on_progress(f"reading the kernel logs of {len(nodes):,} nodes")
        slots = asyncio.Semaphore(_AT_ONCE)
        return list(await asyncio.gather(*(_one(session, snapshot, name, since, slots) for name in nodes)))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _one(session: Session, snapshot: FleetSnapshot, name: str, since: float, slots: asyncio.Semaphore) -> NodeLog:
    node = snapshot.node(name)
    if not node.frames:
        return NodeLog(name, trouble=node.link.detail or str(node.link.state.value))
    source: Any = session.source
    may_sudo = {spec.name: getattr(spec, "sudo", False) for spec in source.nodes}
    async with slots:
        try:
            return NodeLog(name, await nodelog.kernel_log(source, name, since, sudo=may_sudo.get(name, False)))
        except CommandError as error:
            return NodeLog(name, trouble=str(error))


def _is_settled(snapshot: FleetSnapshot, name: str) -> bool:
    node = snapshot.node(name)
    return bool(node.frames) or node.link.next_try is not None
