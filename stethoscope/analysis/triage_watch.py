"""What passes while somebody looks: values that come and go again, remembered for the diagnosis; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.scheduler import Job
    from stethoscope.model.verdict import Seen


class Watch:
    """Looks at each snapshot that rules look at, and remembers what it will be asked about."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._jobs: dict[str, Job] = {}
        self._seen: dict[tuple[str, str], Seen] = {}

    def look(self, snapshot: FleetSnapshot) -> None:
        """Take in one snapshot, with its findings; each is later than the one before."""
        for job in snapshot.jobs:
            self._jobs[job.id] = job

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return every job that was seen, as it was known last."""
        return tuple(self._jobs[id_] for id_ in sorted(self._jobs))

    @property
    def seen(self) -> tuple[Seen, ...]:
        """Return what was noticed, in the order of time."""
        return tuple(sorted(self._seen.values(), key=lambda one: (one.at, one.what, one.place)))
