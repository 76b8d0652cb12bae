"""Jobs as rows: their table, where their findings stand, and that one node hides nothing of a job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.filter import compile_filter
from stethoscope.analysis.filter_narrow import narrowed
from stethoscope.analysis.job_table import job_table
from stethoscope.analysis.layout import Layout
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.model.scheduler import Job
from tests.builders import catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot


def with_jobs(*jobs: tuple[Job, dict[str, float | Reason]]) -> FleetSnapshot:
    snapshot = fleet(4)
    table = job_table([values for _, values in jobs], catalogue())
    return replace(snapshot, jobs=tuple(job for job, _ in jobs), tables={**snapshot.tables, Scope.JOB: table})


def test_what_a_log_does_not_say_has_no_number() -> None:
    table = job_table(
        [{"job_step_time": 1.5, "job_loss": float("nan")}, {"job_step_time": Reason.WAITING}], catalogue()
    )
    assert table.get("job_step_time", 0) == 1.5
    assert table.get("job_loss", 0) == Missing(Reason.ERROR)
    assert table.get("job_busbw", 0) == Missing(Reason.UNSUPPORTED)
    assert table.get("job_step_time", 1) == Missing(Reason.WAITING)


def test_a_job_stands_at_its_first_node_that_is_here_and_is_known_by_its_id() -> None:
    here, elsewhere = Job("7", nodes=("other", "gpu-003", "gpu-001")), Job("8", nodes=("other",))
    snapshot = with_jobs((here, {}), (elsewhere, {}))
    layout = Layout(snapshot)
    assert layout.owner[Scope.JOB].tolist() == [2, -1]
    assert snapshot.place(snapshot.nodes[2], Scope.JOB, 0) == "job/7"
    assert layout.fits(snapshot)
    other = with_jobs((replace(here, id="9"), {}), (elsewhere, {}))
    assert not layout.fits(other)
    assert Layout(other).changed(Scope.JOB, layout).tolist() == [True, False]


def test_a_filter_by_a_number_of_jobs_means_their_nodes() -> None:
    slow, fast = Job("7", nodes=("gpu-001", "gpu-003")), Job("8", nodes=("gpu-002",))
    snapshot = with_jobs((slow, {"job_step_time": 3.0}), (fast, {"job_step_time": 1.0}))
    chosen = compile_filter("job_step_time>2", catalogue())
    verdicts = chosen.nodes(snapshot)
    assert np.flatnonzero(verdicts == verdicts.max()).tolist() == [0, 2]
    kept = narrowed(snapshot, np.array([False, True, False, False]))
    assert [job.id for job in kept.jobs] == ["8"]
    assert kept.tables[Scope.JOB].get("job_step_time", 0) == 1.0
