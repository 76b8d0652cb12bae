"""One look at a fleet: two full frames of every node, some seconds apart, and what the rules make of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stethoscope.analysis.drift import has_told, is_hung
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Missing, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from stethoscope.analysis.history import History
    from stethoscope.collect.source import Source
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.session.session import Session

APART_S = 5.0
"""Time between the two frames of a node."""
ONE_APART_S = 3.0
"""The same for one node that somebody waits for."""
TIMEOUT_S = 40.0
"""Longer than a probe waits for a driver that starts before it says that it hangs, and than a login may take."""
POLL_S = 0.1
GRACE_S = 1.5
"""How long nodes that another is only compared with are waited for when that is done, and how long for its second
reading of what comes in parts."""
PARTS_S = 4.0
"""How long the first reading of that delays the second frame."""

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
    """Nodes of which no second frame came, or none with an answer of the GPU driver: what moves there is not known."""
    defects: int
    """Lines and link states that were lost to a defect of the program."""
    history: History | None = None
    """What values were before, where that was seen."""

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
    enough: float | None = None
    """Since when those that are waited for are settled."""
    failures: dict[str, Link] = field(default_factory=dict)
    """How the link failed last, for it is tried again and again meanwhile."""

    def is_settled(self, node: Node) -> bool:
        """Tell whether the node need not be waited for; note how its link failed, if it did."""
        if has_failed(node):
            self.failures[node.name] = node.link
        return node.name in self.done or (node.name in self.failures and not node.link.state.is_live)

    def is_over(self, nodes: Collection[Node], wanted: Collection[str], mono: float) -> bool:
        """Tell whether all nodes are settled, or those that are wanted and what the others may take beside them."""
        unsettled = [node for node in nodes if not self.is_settled(node)]
        if not wanted:
            return not unsettled
        if any(node.name in wanted for node in unsettled):
            return False
        if self.enough is None:
            self.enough = mono
        again = all(self._parts_came_again(node) for node in nodes if node.name in wanted)
        return (not unsettled and again) or mono - self.enough >= GRACE_S

    def _parts_came_again(self, node: Node) -> bool:
        asked = self.asked.get(node.name)
        return asked is None or not node.link.state.is_live or all(part.mono >= asked for part in node.parts.values())

    def advance(
        self, node: Node, source: Source, mono: float, apart_s: float, *, answered: bool, whole: bool = False
    ) -> None:
        """Ask for the second frame when it is due, and note when it came; `answered` tells that the GPU driver has said
        something, be it that there is none. A `whole` node is asked only when its versions and settings have come."""
        if node.frame_mono is None or node.name in self.done:
            return
        due = self.due.setdefault(node.name, node.frame_mono + apart_s)
        asked = self.asked.get(node.name)
        if asked is not None:
            if node.frame_mono >= asked and answered:
                self.done.add(node.name)
        elif mono >= due and (not whole or has_told(node) or is_hung(node) or mono >= due + PARTS_S):
            self.asked[node.name] = mono
            source.ask_full(node.name)


async def check(
    session: Session,
    *,
    timeout_s: float = TIMEOUT_S,
    apart_s: float = APART_S,
    wanted: Collection[str] = (),
    on_progress: Callable[[int, int, float], None] | None = None,
) -> CheckResult:
    """Look at every node of `session` twice, `apart_s` seconds apart, and return what the rules find.

    The session, opened for a single look and not yet running, is run here, until every node was seen twice or its link
    failed, or for `timeout_s`. With `wanted` only these nodes are waited for, until what they read rarely is there too;
    what has come of the others by then is what they are compared with. `on_progress` gets the number of nodes that are
    done, that of all, and the seconds since the start. What ends the source ends the check.
    """
    clock = session.clock
    started = clock.monotonic()
    running = asyncio.create_task(session.run())
    progress = _Progress()
    try:
        while True:
            snapshot = session.snapshot(latest=True)
            for node in snapshot.nodes:
                answered = _driver_answered(snapshot, node)
                whole = node.name in wanted
                progress.advance(node, session.source, clock.monotonic(), apart_s, answered=answered, whole=whole)
            elapsed_s = clock.monotonic() - started
            settled = sum([progress.is_settled(node) for node in snapshot.nodes])
            if on_progress is not None:
                on_progress(settled, len(snapshot.nodes), elapsed_s)
            is_over = progress.is_over(snapshot.nodes, wanted, clock.monotonic())
            if (is_over and not session.awaits_scheduler) or elapsed_s >= timeout_s:
                break
            if running.done():
                # Raises what ended the source, if it was an error.
                running.result()
                break
            await asyncio.wait({running}, timeout=POLL_S)
        _give_up(session, progress.failures, timeout_s)
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


def has_failed(node: Node) -> bool:
    """Tell whether the link to `node` failed in a way that does not pass by itself soon."""
    state = node.link.state
    if state.is_live or state.is_pending or state is LinkState.SILENT:
        return False
    return not (state in _PASSING and node.link.attempts < 2 and node.link.next_try is not None)


def _driver_answered(snapshot: FleetSnapshot, node: Node) -> bool:
    table = snapshot.tables[Scope.NODE]
    if "nvml_latency" not in table.index:
        return True
    latency = table.get("nvml_latency", node.index)
    return not (isinstance(latency, Missing) and latency.reason is Reason.WAITING)


def _give_up(session: Session, failures: Mapping[str, Link], timeout_s: float) -> None:
    """Say how the links of nodes that are just being tried stand: as they failed before, or as not reached. What ends
    again and again cannot be looked at."""
    for node in session.snapshot(latest=True).nodes:
        link = failures.get(node.name, node.link) if node.link.state.is_pending else node.link
        if link.state.is_pending:
            detail = f"still {link.state.value} after {timeout_s:.0f} s" + (f": {link.detail}" if link.detail else "")
            link = Link(LinkState.UNREACHABLE, since=session.clock.wall(), detail=detail)
        elif link.state is LinkState.CLOSED:
            link = replace(link, state=LinkState.ERROR)
        if link is not node.link:
            session.on_link(node.name, link)
