"""Jobs looked at once, or on and on, without a console: on a fleet, or in one log of this machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stethoscope.analysis.job_judge import JobJudge
from stethoscope.analysis.job_table import job_table
from stethoscope.clock import SystemClock
from stethoscope.model.fleet import FleetSnapshot
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Job, JobSource
from stethoscope.session.job_tail import LocalTail
from stethoscope.specs.fleet_jobs import JOB_ID
from stethoscope.specs.metric import load_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.session.session import Session

LOOKS, APART_S = 5, 1.0
"""Looks of the rules, so that what must last a moment can be seen to last."""
_IDLE_S = 6.0
"""Without any job after so long, there is none."""
_STEP_S = 0.1


async def look_at_jobs(
    session: Session, *, timeout_s: float, tell: Callable[[FleetSnapshot], object] | None = None
) -> FleetSnapshot:
    """Return the state with what the logs of all jobs say, once they were read, or after `timeout_s`. With `tell` go on
    until cancelled, giving it every state."""
    clock = session.clock
    running = asyncio.create_task(session.run())
    try:
        started = clock.monotonic()
        while clock.monotonic() - started < timeout_s and not running.done():
            snapshot = session.snapshot()
            heard = any(node.frames for node in snapshot.nodes)
            settled = heard and not any(node.link.state.is_pending for node in snapshot.nodes)
            waits = session.awaits_scheduler or (not snapshot.jobs and clock.monotonic() - started < _IDLE_S)
            if settled and not waits and (session.jobs.first_read.is_set() or not session.jobs.may_read):
                break
            if settled and not waits and not session.jobs.has_logs(snapshot):
                break
            await asyncio.sleep(_STEP_S)
        snapshot = session.evaluate()
        for _ in range(LOOKS):
            await asyncio.sleep(APART_S)
            snapshot = session.evaluate()
        while tell is not None:
            tell(snapshot)
            await asyncio.sleep(APART_S)
            snapshot = session.evaluate()
        return snapshot
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class LogFile:
    """The log of a job on this machine, without any node."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._clock = SystemClock()
        name = "".join(letter if letter.isalnum() or letter in "_.+:@-" else "-" for letter in path.name)
        id_ = name if JOB_ID.fullmatch(name) else "log"
        self._job = Job(id_, stdout=str(path), source=JobSource.GUESSED)
        self._catalogue = load_catalogue()
        self._tail = LocalTail(JobJudge(self._clock.wall()), path, self._clock)

    def snapshot(self) -> FleetSnapshot:
        """Read what was added and return what the log says; OSError when it cannot be read."""
        self._tail.read_on()
        wall = self._clock.wall()
        standing = self._tail.judge.standing(self._tail.log, wall, may_hang=False)
        return FleetSnapshot(
            fleet="",
            wall=wall,
            mono=self._clock.monotonic(),
            nodes=(),
            tables={Scope.JOB: job_table([standing.values], self._catalogue)},
            catalogue=self._catalogue,
            jobs=(self._job,),
            standings={self._job.id: standing},
        )
