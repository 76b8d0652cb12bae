"""Who works for which job, who idles and who is out of service; and the groups of comparable rows made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.layout import Layout
from stethoscope.analysis.moment import Moment
from stethoscope.analysis.occupation import BUSY, IDLE, OUT, Occupation
from stethoscope.model.facts import GpuProcess
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Job, SchedulerState
from tests.builders import MONO, catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

IDLE_GPU = {"gpu_util": 0, "gpu_fb_used": 4, "gpu_fb_total": 80_000}


def idle(*places: str) -> dict[tuple[str, str], float]:
    return {(place, metric): value for place in places for metric, value in IDLE_GPU.items()}


def with_jobs(snapshot: FleetSnapshot, **jobs: tuple[str, ...]) -> FleetSnapshot:
    """Return the snapshot with running jobs (`job_1` is job 1) on these nodes."""
    return replace(snapshot, jobs=tuple(Job(name[4:], state="running", nodes=nodes) for name, nodes in jobs.items()))


def moment(snapshot: FleetSnapshot, seconds: float = 0.0) -> Moment:
    nodes = tuple(replace(node, frame_mono=MONO + seconds) for node in snapshot.nodes)
    now = replace(snapshot, mono=MONO + seconds, nodes=nodes)
    return Moment(now, Layout(now), catalogue())


def watched(*snapshots: FleetSnapshot, every_s: float = 60.0) -> tuple[Occupation, Moment]:
    """Show snapshots one after the other; return what is known at the end."""
    occupation, last = Occupation(), moment(snapshots[0])
    occupation.fit({scope: np.ones(last.rows(scope), dtype=bool) for scope in last.layout.owner})
    for number, snapshot in enumerate(snapshots):
        last = moment(snapshot, number * every_s)
        occupation.take(last)
    return occupation, last


def roles(occupation: Occupation, at: Moment, scope: Scope = Scope.GPU) -> list[int]:
    return occupation.role(scope, at.layout.owner[scope]).tolist()


def test_busy_and_idle_without_anybody_who_knows_jobs() -> None:
    occupation, at = watched(fleet(2, gpus=2, ports=1, set=idle("gpu-002/gpu/0", "gpu-002/gpu/1")))
    assert roles(occupation, at) == [BUSY, BUSY, IDLE, IDLE]
    assert roles(occupation, at, Scope.NODE) == [BUSY, IDLE]
    assert roles(occupation, at, Scope.PORT) == [BUSY, IDLE]


def test_memory_that_nobody_uses_is_no_work_without_a_job() -> None:
    held = {("gpu-001/gpu/0", "gpu_util"): 0, ("gpu-001/gpu/0", "gpu_power_draw"): 110}
    occupation, at = watched(fleet(1, gpus=2, set=held))
    assert roles(occupation, at) == [IDLE, BUSY]
    occupation, at = watched(with_jobs(fleet(1, gpus=2, set=held), job_1=("gpu-001",)))
    assert roles(occupation, at) == [BUSY, BUSY]


def test_a_gpu_that_the_job_does_not_use_is_idle() -> None:
    occupation, at = watched(with_jobs(fleet(1, gpus=2, set=idle("gpu-001/gpu/1")), job_1=("gpu-001",)))
    assert roles(occupation, at) == [BUSY, IDLE]


def test_a_rank_that_died_belongs_to_its_job_until_that_ends() -> None:
    at_work = with_jobs(fleet(1, gpus=2), job_1=("gpu-001",))
    dead = with_jobs(fleet(1, gpus=2, set=idle("gpu-001/gpu/1")), job_1=("gpu-001",))
    over = fleet(1, gpus=2, set=idle("gpu-001/gpu/0", "gpu-001/gpu/1"))
    occupation, at = watched(at_work, dead)
    assert roles(occupation, at) == [BUSY, BUSY]
    assert occupation.since(Scope.GPU, at.layout.owner[Scope.GPU]).tolist() == [-np.inf, -np.inf]
    occupation, at = watched(at_work, dead, over)
    assert roles(occupation, at) == [IDLE, IDLE]
    assert occupation.since(Scope.GPU, at.layout.owner[Scope.GPU]).tolist() == [MONO + 120.0] * 2


def test_another_job_is_another_occupation() -> None:
    first, second = with_jobs(fleet(1, gpus=1), job_1=("gpu-001",)), with_jobs(fleet(1, gpus=1), job_2=("gpu-001",))
    occupation, at = watched(first, second)
    assert occupation.since(Scope.GPU, at.layout.owner[Scope.GPU]).tolist() == [MONO + 60.0]
    # To learn which job it is, is none.
    occupation, at = watched(fleet(1, gpus=1), first)
    assert occupation.since(Scope.GPU, at.layout.owner[Scope.GPU]).tolist() == [-np.inf]


def test_a_drained_node_is_out_of_service() -> None:
    snapshot = fleet(2, gpus=1, set=idle("gpu-001/gpu/0"))
    state = SchedulerState(("idle", "drain"), reason="maint", owner="root")
    nodes = (replace(snapshot.nodes[0], scheduler=state), snapshot.nodes[1])
    occupation, at = watched(replace(snapshot, nodes=nodes))
    assert roles(occupation, at) == [OUT, BUSY]
    assert roles(occupation, at, Scope.NODE) == [OUT, BUSY]


def test_processes_tell_two_jobs_of_one_node_apart() -> None:
    snapshot = fleet(1, gpus=4)
    processes = tuple(GpuProcess(pid=gpu, gpu=gpu, kind="C", slurm_job=str(1 + gpu // 2)) for gpu in range(4))
    occupation, at = watched(replace(snapshot, nodes=(replace(snapshot.nodes[0], processes=processes),)))
    numbers = at.groups(Scope.GPU, "job").tolist()
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]
    assert occupation.job(Scope.NODE, at.layout.owner[Scope.NODE]).tolist() == [-1]


def test_groups_are_joined() -> None:
    snapshot = with_jobs(fleet(4, gpus=2, ports=2, per_rack=2), job_1=("gpu-001", "gpu-002", "gpu-003"))
    at = moment(snapshot)
    assert at.groups(Scope.GPU, "name").tolist() == [0, 1] * 4
    assert at.groups(Scope.NODE, "rack").tolist() == [0, 0, 1, 1]
    both = at.groups(Scope.NODE, "rack+job").tolist()
    assert both[0] == both[1]
    assert len(set(both)) == 3
    assert len(set(at.groups(Scope.PORT, "job+rail").tolist())) == 4
    assert at.groups(Scope.PORT, "leaf").tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert at.groups(Scope.GPU, "model+role").tolist() == [0] * 8
