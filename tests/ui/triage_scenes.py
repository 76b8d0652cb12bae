"""Scenes for the guided triage: a job that is slower beside a sick link, nothing wrong, and hostile words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.model.finding import Fact
from stethoscope.model.verdict import Scene, Seen
from stethoscope.session.night import NightKeeper
from tests.builders import WALL, fleet
from tests.ui.job_scenes import JOB, standing, with_jobs
from tests.ui.scenes import EVIL, finding

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

SINCE = "2026-03-14T02:11:07Z"
LINK = "gpu-007/ib/mlx5_3"


def sick_link(*, evil: str = "") -> FleetSnapshot:
    """Return a fleet whose job is a third slower, beside a sick link; `evil` stands in its words."""
    fact = Fact("ib_symbol_error", 41.0, "below 10.1/h", LINK, SINCE, "sysfs")
    sick = finding("P1", LINK, f"symbol errors +41/s{evil}", SINCE, "ib_symbol_errors", fact)
    slow = finding("P1", "job/4242", "throughput -33 % against its own past", SINCE, "job_slow")
    found = [replace(sick, root_cause="ib_link_fault"), slow]
    return with_jobs(fleet(32, name=f"prod-a{evil}", findings=found), (JOB, standing()))


def quiet() -> FleetSnapshot:
    """Return a fleet in which nothing is wrong, with a job."""
    return with_jobs(fleet(32, name="prod-a"), (JOB, standing(slow=0)))


def scene(snapshot: FleetSnapshot, *, slow: bool = True, focus: str = "") -> Scene:
    """Return what the diagnosis reads of a snapshot; the job was seen to be slower."""
    night = NightKeeper()
    night.take(snapshot.findings, snapshot.wall)
    seen = (
        Seen("job_slow", "job/4242", WALL - 90, None, 33.4, "its own past"),
        Seen("late_nobody", "job/4242", WALL - 60, None, 99.8, ""),
    )
    entries = tuple(night.entries.values())
    return Scene(WALL, snapshot, entries, (), snapshot.jobs, (), focus, seen if slow else ())


EVERYTHING_EVIL = " ".join(EVIL)
