"""One look at a fleet that lasts until every node has told what is compared."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.analysis.drift import DriftTable, drift, has_told, is_hung
from stethoscope.session.check import POLL_S, TIMEOUT_S, has_failed
from stethoscope.session.player import Player

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.player import MakeSession
    from stethoscope.session.session import Session
    from stethoscope.store.tape import Tape

LEAD_S, RECORDS, MOST_S = 315.0, 40_000, 735.0
"""What is played of a recording: the parts of every node come whole at least every five minutes."""


@dataclass(frozen=True, slots=True)
class DriftResult:
    """What a look gave."""

    snapshot: FleetSnapshot
    table: DriftTable
    seconds: float

    @property
    def is_reached(self) -> bool:
        """Tell whether any node sent anything."""
        return any(node.frames for node in self.snapshot.nodes)


async def look_for_drift(
    session: Session, *, timeout_s: float = TIMEOUT_S, on_progress: Callable[[int, int, float], None] | None = None
) -> DriftResult:
    """Run `session`, opened and not yet running, until every node has told what is compared, its driver hangs or its
    link failed, or for `timeout_s`. `on_progress` gets how many nodes that are, of how many, and the seconds since the
    start."""
    clock = session.clock
    started = clock.monotonic()
    running = asyncio.create_task(session.run())
    try:
        while True:
            snapshot = session.snapshot(latest=True)
            settled = sum([has_told(node) or has_failed(node) or is_hung(node) for node in snapshot.nodes])
            elapsed_s = clock.monotonic() - started
            if on_progress is not None:
                on_progress(settled, len(snapshot.nodes), elapsed_s)
            if settled == len(snapshot.nodes) or elapsed_s >= timeout_s:
                break
            if running.done():
                # Raises what ended the source, if it was an error.
                running.result()
                break
            await asyncio.wait({running}, timeout=POLL_S)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return DriftResult(snapshot, drift(snapshot), clock.monotonic() - started)


def drift_of_recording(tape: Tape, make: MakeSession, at: float) -> DriftResult:
    """Return what differed at second `at` of `tape`."""
    player = Player(tape, make)
    player.begin(tape.lead_in(at, LEAD_S, RECORDS, MOST_S))
    player.play(at)
    snapshot = player.session.snapshot(latest=True)
    return DriftResult(snapshot, drift(snapshot), player.t - player.began)
