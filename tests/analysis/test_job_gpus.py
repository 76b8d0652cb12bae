"""What the GPUs of a job do while no step comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.job_gpus import waiting, with_gpus
from stethoscope.model.job import Standing
from stethoscope.model.metric import Reason
from tests.builders import fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from tests.builders import Value


def all_gpus(*, but: dict[tuple[str, str], Value] | None = None, **values: Value) -> FleetSnapshot:
    places = [f"gpu-{node:03}/gpu/{gpu}" for node in (1, 2) for gpu in range(8)]
    return fleet(2, set={(place, name): value for place in places for name, value in values.items()} | (but or {}))


@pytest.mark.parametrize(
    ("snapshot", "share"),
    [
        (all_gpus(), 0.0),
        (all_gpus(gpu_util=0, gpu_power_draw=120), 1.0),
        (all_gpus(gpu_util=100, gpu_power_draw=230), 1.0),
        (all_gpus(gpu_util=86, gpu_power_draw=300), 0.0),
        (all_gpus(gpu_util=100, gpu_power_draw=230, but={("gpu-001/gpu/0", "gpu_power_draw"): 610}), 15 / 16),
        (all_gpus(gpu_util=100, gpu_power_draw=230, but={("gpu-002/gpu/3", "gpu_util"): Reason.LOST}), 1.0),
        (all_gpus(gpu_util=Reason.UNSUPPORTED), None),
        (all_gpus(gpu_util=100, gpu_power_draw=Reason.UNSUPPORTED), None),
        (fleet(2, lost=["gpu-002"]), None),
        (fleet(2, waiting=["gpu-001", "gpu-002"]), None),
    ],
)
def test_how_many_gpus_of_a_job_wait(snapshot: FleetSnapshot, share: float | None) -> None:
    assert waiting(snapshot.nodes, snapshot) == share


def test_gpus_are_asked_only_where_the_step_is_late() -> None:
    idle = all_gpus(gpu_util=0)
    assert "job_gpus_waiting" not in with_gpus(Standing(values={"job_step_age": 30.0}), idle.nodes, idle).values
    assert with_gpus(Standing(values={"job_step_age": 90.0}), idle.nodes, idle).values["job_gpus_waiting"] == 1
