"""What logs say, for the diagnosis: of each job what it prints with the kernel lines of its nodes, then all kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.judge_kernel import judge_kernel
from stethoscope.model.finding import Severity
from stethoscope.model.logs import LogVerdict
from stethoscope.model.verdict import Heard
from stethoscope.session.decode import judged
from stethoscope.session.logbook import feed_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.event import LogEvent
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.specs.codes import Codes
    from stethoscope.specs.signature import Signatures

_QUIET = LogVerdict("healthy", 0.9, Severity.INFO, "The kernel logs tell of nothing wrong")


class _One:
    """One scanner, and what was judged of what it had."""

    def __init__(self, signatures: Signatures, now: float) -> None:
        self.scanner = Scanner(signatures, now=now)
        self.is_stale = True
        self.heard: Heard | None = None


class Hearing:
    """Takes lines as they come, and judges them when somebody asks."""

    def __init__(self, signatures: Signatures, codes: Codes, now: float) -> None:
        """Know what is looked for; `now` is the wall second at which it begins."""
        self._signatures, self._codes, self._now = signatures, codes, now
        self._fleet = _One(signatures, now)
        self._jobs: dict[str, _One] = {}
        self._held: frozenset[int] = frozenset()
        self._events: tuple[LogEvent, ...] | None = None

    def kernels(self, snapshot: FleetSnapshot, nodes: Mapping[str, Sequence[str]]) -> None:
        """Take the kernel lines that are new in a snapshot; `nodes` are those of each job."""
        if snapshot.events is self._events:
            return
        self._events = snapshot.events
        new = [event for event in snapshot.events if id(event) not in self._held]
        self._held = frozenset(map(id, snapshot.events))
        if not new:
            return
        feed_kernel(self._fleet.scanner, new)
        self._fleet.is_stale = True
        for job, names in nodes.items():
            members = set(names)
            here = [event for event in new if event.node in members]
            if here:
                one = self._of(job)
                feed_kernel(one.scanner, here)
                one.is_stale = True

    def printed(self, job: str, data: bytes, *, name: str) -> None:
        """Take whole lines of what a job printed into the file `name`."""
        if data:
            one = self._of(job)
            one.scanner.feed_line(data, name=name)
            one.is_stale = True

    def judged(self, wall: float) -> tuple[Heard, ...]:
        """Return what each job's log says, then what the kernels say."""
        for job, one in self._jobs.items():
            if one.is_stale:
                found = judged(one.scanner, self._signatures, None, now=wall, seconds=0.0)
                one.heard = Heard(found.log, found.verdict, tuple(found.alternatives), job)
                one.is_stale = False
        if self._fleet.is_stale:
            log = self._fleet.scanner.finish()
            verdicts = judge_kernel(log, self._signatures, self._codes)
            self._fleet.heard = Heard(log, verdicts[0] if verdicts else _QUIET, tuple(verdicts[1:]))
            self._fleet.is_stale = False
        return tuple(one.heard for one in (*self._jobs.values(), self._fleet) if one.heard is not None)

    def _of(self, job: str) -> _One:
        if job not in self._jobs:
            self._jobs[job] = _One(self._signatures, self._now)
        return self._jobs[job]
