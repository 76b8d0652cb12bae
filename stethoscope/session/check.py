"""One look at a fleet: two full frames of every node, some seconds apart, and what the rules make of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.model.frame import Link, LinkState

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.clock import Clock
    from stethoscope.collect.source import Source
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.session.session import Session

APART_S = 5.0
"""Time between the two frames of a node."""
TIMEOUT_S = 20.0
POLL_S = 0.1

_PASSING = (LinkState.CLOSED, LinkState.ERROR)
"""States that a second attempt may mend: a busy sshd drops connections."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one look gave."""

    snapshot: FleetSnapshot
    """As it stood at the end, with its findings."""
    seconds: float
    reached: tuple[str, ...]
    """Nodes that sent at least one frame."""
    unreached: tuple[str, ...]
    seen_once: tuple[str, ...]
    """Nodes of which no second frame came: nothing is known of what moves on them."""
    defects: int
    """Lines and link states that were lost to a defect of the program."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the active findings, the most urgent first."""
        return tuple(finding for finding in self.snapshot.findings if finding.state == "active")


@dataclass(slots=True)
class _Progress:
    """How far each node is; times are monotonic seconds."""

    due: dict[str, float] = field(default_factory=dict)
    """When the second frame is to be asked for."""
    asked: dict[str, float] = field(default_factory=dict)
    """When it was asked for."""
    done: set[str] = field(default_factory=set)

    def advance(self, node: Node, source: Source, mono: float, apart_s: float) -> None:
        """Ask for the second frame when it is due, and note when it came."""
        if node.frame_mono is None or node.name in self.done:
            return
        due = self.due.setdefault(node.name, node.frame_mono + apart_s)
        asked = self.asked.get(node.name)
        if asked is not None:
            if node.frame_mono >= asked:
                self.done.add(node.name)
        elif mono >= due:
            self.asked[node.name] = mono
            source.ask_full(node.name)


async def check(
    session: Session,
    *,
    timeout_s: float = TIMEOUT_S,
    apart_s: float = APART_S,
    on_progress: Callable[[int, int, float], None] | None = None,
) -> CheckResult:
    """Look at every node of `session` twice, `apart_s` seconds apart, and return what the rules find.

    The session, opened for a single look and not yet running, is run here, until every node was seen twice or its link
    failed, or for `timeout_s`. `on_progress` gets the number of nodes that are done, that of all, and the seconds since
    the start. What ends the source ends the check.
    """
    clock = session.clock
    started = clock.monotonic()
    running = asyncio.create_task(session.run())
    progress = _Progress()
    try:
        while True:
            snapshot = session.snapshot(latest=True)
            for node in snapshot.nodes:
                progress.advance(node, session.source, clock.monotonic(), apart_s)
            elapsed_s = clock.monotonic() - started
            settled = sum(node.name in progress.done or _has_failed(node) for node in snapshot.nodes)
            if on_progress is not None:
                on_progress(settled, len(snapshot.nodes), elapsed_s)
            if settled == len(snapshot.nodes) or elapsed_s >= timeout_s:
                break
            if running.done():
                # Raises what ended the source, if it was an error.
                running.result()
                break
            await asyncio.wait({running}, timeout=POLL_S)
        _give_up(session, clock, timeout_s)
        snapshot = session.evaluate()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    reached = tuple(node.name for node in snapshot.nodes if node.frames)
    return CheckResult(
        snapshot=snapshot,
        seconds=clock.monotonic() - started,
        reached=reached,
        unreached=tuple(node.name for node in snapshot.nodes if not node.frames),
        seen_once=tuple(name for name in reached if name not in progress.done),
        defects=session.lost_lines,
    )


def _has_failed(node: Node) -> bool:
    state = node.link.state
    if state.is_live or state.is_pending or state is LinkState.SILENT:
        return False
    return not (state in _PASSING and node.link.attempts < 2 and node.link.next_try is not None)


def _give_up(session: Session, clock: Clock, timeout_s: float) -> None:
    """Say of nodes that are still being connected that they were not reached."""
    for node in session.snapshot(latest=True).nodes:
        if node.link.state.is_pending and not node.frames:
            was = node.link.detail or node.link.state.value
            detail = f"still {node.link.state.value} after {timeout_s:.0f} s" + (f": {was}" if node.link.detail else "")
            session.on_link(node.name, Link(LinkState.UNREACHABLE, since=clock.wall(), detail=detail))
