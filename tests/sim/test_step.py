"""The arithmetic of a synchronous step, with exact values."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.sim.step import Step, step
from tests.sim.worlds import scenario, twin

ONES = np.ones((2, 2))


def _step(compute: object = ONES, stall_s: object = None, bandwidth: float = 1.0, data: object = ONES) -> Step:
    job = scenario(step_time_s=2.0).jobs[0]
    stall = np.zeros((2, 2)) if stall_s is None else stall_s
    return step(job, compute, data, ONES, stall, bandwidth)  # type: ignore[arg-type]


def test_a_healthy_step_takes_its_time_and_nobody_waits() -> None:
    result = _step()
    assert result.step_s == pytest.approx(2.0)
    assert result.collective_s == pytest.approx(0.5)
    assert result.wait_s.max() == pytest.approx(0.0)


def test_a_slow_rank_makes_the_others_wait_and_waits_itself_for_nobody() -> None:
    compute = np.array([[1.0, 1.5], [1.0, 1.0]])
    result = _step(compute)
    # (fc - 1) * c * T0 = 0.5 * 0.62 * 2
    assert result.step_s == pytest.approx(2.0 + 0.62)
    assert result.wait_s[0, 1] == pytest.approx(0.0)
    assert result.wait_s[1, 1] == pytest.approx(0.62)
    # The slow rank measures the shortest collective.
    assert result.comm_s[0, 1] == pytest.approx(0.5)
    assert result.comm_s[0, 0] == pytest.approx(1.12)


def test_a_narrow_path_makes_the_collective_longer_for_everybody_alike() -> None:
    result = _step(bandwidth=0.5)
    # M = m * T0 / 0.5
    assert result.collective_s == pytest.approx(1.0)
    assert result.step_s == pytest.approx(2.5)
    assert result.wait_s.max() == pytest.approx(0.0)


def test_a_stall_counts_once_and_is_time_without_a_kernel() -> None:
    stall = np.zeros((2, 2))
    stall[1, 0] = 0.4
    result = _step(stall_s=stall)
    assert result.step_s == pytest.approx(2.4)
    assert result.stall_s[1, 0] == pytest.approx(0.4)
    assert result.wait_s[0, 0] == pytest.approx(0.4)


def test_the_published_optic_case_falls_from_1200_to_800_samples_a_second() -> None:
    world = twin(
        "at: 5m, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3, params: {bandwidth_factor: 0.5}",
        step_time_s=0.8,
        shares="{compute: 0.40, comm: 0.50, data: 0.04, other: 0.06}",
        samples=960,
        gpu="A100-SXM4-80GB",
    )
    world.advance_to(299)
    assert world.job_states()[0].throughput == pytest.approx(1200)
    world.advance_to(360)
    assert world.job_states()[0].step_time_s == pytest.approx(1.2)
    assert world.job_states()[0].throughput == pytest.approx(800)
    # c*T0 + (m*T0)/0.5 + (d + o)*T0 = 0.32 + 0.40/0.5 + 0.08 = 1.2 s; 960 / 1.2 = 800.


def test_the_published_switch_case_goes_from_120_to_180_ms() -> None:
    # T0 = 120 ms of which 60 ms are communication; with half of the leaf's bandwidth 60 + 60/0.5 = 180.
    world = twin(
        "at: 5m, fault: leaf_congestion, where: leaf/leaf-01-3, params: {comm_factor: 0.5, ramp: 1s}",
        step_time_s=0.12,
        shares="{compute: 0.44, comm: 0.50, data: 0.02, other: 0.04}",
        samples=120,
    )
    world.advance_to(299)
    assert world.job_states()[0].step_time_s == pytest.approx(0.120)
    world.advance_to(360)
    assert world.job_states()[0].step_time_s == pytest.approx(0.180)
    assert world.job_states()[0].throughput == pytest.approx(120 / 0.180)


def test_the_published_straggler_goes_from_4_4_to_6_6_s_and_all_others_wait_for_it() -> None:
    # T0 = 4.4 s, c = 0.75: one GPU that computes 1 + 2.2/3.3 = 5/3 times as long adds 0.75 * 4.4 * 2/3 = 2.2 s.
    world = twin(
        "at: 5m, fault: gpu_silent_slow, where: gpu-003/gpu/4, params: {compute_factor: 1.6666667}",
        step_time_s=4.4,
        shares="{compute: 0.75, comm: 0.15, data: 0.04, other: 0.06}",
        samples=4400,
    )
    world.advance_to(299)
    assert world.job_states()[0].step_time_s == pytest.approx(4.4)
    world.advance_to(360)
    assert world.job_states()[0].step_time_s == pytest.approx(6.6)
    now = world.runs["7"].step
    assert now is not None
    assert now.wait_s[2, 4] == pytest.approx(0.0)
    assert now.wait_s[0, 0] == pytest.approx(2.2)
