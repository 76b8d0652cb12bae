"""GPUs that go on computing, slower: heat, power, clocks. Sizes are those of an H100 in a job with 62 % compute."""

from __future__ import annotations

import pytest

from stethoscope.sim import tools
from stethoscope.sim.readings import Readings
from tests.sim.watching import facts
from tests.sim.worlds import gpu, mean, twin

COMPUTE = 0.62
"""Share of a step of 1 s; the others are 0.25 communication, 0.05 data, 0.08 other."""


def test_memory_is_the_hot_part_when_the_scenario_says_so() -> None:
    world = twin("at: 10s, fault: gpu_thermal_throttle, where: gpu-003/gpu/4, params: {temp_c: 82, mem_temp_c: 97}")
    world.advance_to(400)
    readings = Readings(world)
    assert gpu(readings, "gpu_mem_temp", 2, 4) == pytest.approx(97, abs=3)
    assert gpu(readings, "gpu_mem_temp", 2, 3) < 75
    assert gpu(readings, "gpu_clocks_event_reasons", 2, 4) == 0x20


def test_the_power_brake_makes_a_whole_node_cool_and_slow_at_once() -> None:
    world = twin("at: 10s, fault: gpu_power_brake, where: gpu-003")
    world.advance_to(9)
    before = Readings(world)
    world.advance_to(300)
    now = Readings(world)
    assert world.job_states()[0].step_time_s == pytest.approx(1 + COMPUTE * (2 - 1))
    assert set(now.gpu["gpu_clocks_event_reasons"][2]) == {0x88}
    assert mean(now, "gpu_sm_clock", 2) == pytest.approx(855, abs=40)
    assert 280 <= mean(now, "gpu_power_draw", 2) <= 330
    assert -11 <= mean(now, "gpu_temp", 2) - mean(before, "gpu_temp", 2) <= -5
    assert mean(now, "gpu_util", 2) >= 96
    # The others wait for it, at their highest clock and no reason.
    assert 340 <= mean(now, "gpu_power_draw", 0) <= 400
    assert now.gpu["gpu_sm_clock"][0] == [1980] * 8
    assert set(now.gpu["gpu_clocks_event_reasons"][0]) == {0}


def test_a_brake_that_comes_and_goes_is_seen_from_sample_to_sample() -> None:
    world = twin("at: 10s, fault: gpu_power_brake, where: gpu-003/gpu/4, params: {duty: 0.3}", driver="575.57.08")
    braked = 0
    for at_s in range(20, 220):
        world.advance_to(at_s)
        readings = Readings(world)
        if int(gpu(readings, "gpu_clocks_event_reasons", 2, 4)) & 0x80:
            braked += 1
            assert gpu(readings, "gpu_sm_clock", 2, 4) < 1100
        else:
            assert gpu(readings, "gpu_sm_clock", 2, 4) > 1500
        assert gpu(readings, "gpu_clocks_event_reasons", 2, 3) in (0, 4)
    assert braked == pytest.approx(60, abs=20)
    assert world.job_states()[0].step_time_s == pytest.approx(1 + COMPUTE * (1 / (1 - 0.3 * 0.5) - 1))
    held_us = facts(world, 2)["gpu"].gpu["gpu_throttle_time_hw_power_brake"]
    assert held_us[4] == pytest.approx(0.3 * 209e6, rel=0.03)
    assert held_us[3] == 0


def test_a_low_power_limit_is_pinned_cool_and_slow() -> None:
    world = twin("at: 10s, fault: gpu_power_cap_low, where: gpu-003/gpu/4")
    world.advance_to(9)
    before = gpu(Readings(world), "gpu_temp", 2, 4)
    drawn = []
    for at_s in range(200, 300):
        world.advance_to(at_s)
        drawn.append(gpu(Readings(world), "gpu_power_draw", 2, 4))
    readings = Readings(world)
    assert readings.gpu["gpu_power_limit"][2] == [700, 700, 700, 700, 400, 700, 700, 700]
    assert max(drawn) == pytest.approx(400, rel=0.01)
    assert sum(drawn) / 100 == pytest.approx(354, abs=12)
    assert 1170 <= gpu(readings, "gpu_sm_clock", 2, 4) <= 1270
    assert gpu(readings, "gpu_clocks_event_reasons", 2, 4) == 0x4
    assert -14 <= gpu(readings, "gpu_temp", 2, 4) - before <= -3
    fc = (700 / 400) ** 0.6
    assert world.job_states()[0].step_time_s == pytest.approx(1 + COMPUTE * (fc - 1))
    answer = tools.output(world, 2, "nvidia_smi_q", ["4"])
    assert answer is not None
    assert f"{'        Current Power Limit':<42}: 400.00 W" in answer[1]
    assert f"{'        Default Power Limit':<42}: 700.00 W" in answer[1]


def test_the_default_limit_is_that_of_the_reference_board_and_a_given_one_is_as_given() -> None:
    world = twin(
        "at: 0s, fault: gpu_power_cap_low, where: gpu-001/gpu/1",
        "at: 0s, fault: gpu_power_cap_low, where: gpu-001/gpu/2, params: {limit_w: 250, clock_mhz: 900}",
        gpu="A100-SXM4-80GB",
    )
    world.advance_to(60)
    readings = Readings(world)
    assert readings.gpu["gpu_power_limit"][0][:3] == [400, pytest.approx(228.6), 250]
    assert gpu(readings, "gpu_sm_clock", 0, 2) == pytest.approx(900, abs=150)


@pytest.mark.parametrize(("how", "bits"), [("app_clocks", 0x2), ("lgc", 0)])
def test_clocks_that_were_set_are_a_flat_line(how: str, bits: int) -> None:
    world = twin(f"at: 10s, fault: gpu_clock_locked_low, where: gpu-003/gpu/4, params: {{how: {how}}}")
    world.advance_to(9)
    before = gpu(Readings(world), "gpu_temp", 2, 4)
    for at_s in range(200, 230):
        world.advance_to(at_s)
        readings = Readings(world)
        assert gpu(readings, "gpu_sm_clock", 2, 4) == 1200
        assert gpu(readings, "gpu_clocks_event_reasons", 2, 4) == bits
        assert 350 <= gpu(readings, "gpu_power_draw", 2, 4) <= 420
    assert -12 <= gpu(readings, "gpu_temp", 2, 4) - before <= -3
    assert gpu(readings, "gpu_power_limit", 2, 4) == 700
    assert world.job_states()[0].step_time_s == pytest.approx(1 + COMPUTE * (1710 / 1200 - 1))
    answer = tools.output(world, 2, "nvidia_smi_q", ["4"])
    assert answer is not None
    set_to = 1200 if how == "app_clocks" else 1980
    assert f"    Applications Clocks\n{'        Graphics':<42}: {set_to} MHz" in answer[1]


def test_a_clock_that_is_set_above_what_the_power_allows_costs_nothing() -> None:
    world = twin(
        "at: 0s, fault: gpu_clock_locked_low, where: gpu-001/gpu/1, params: {clock_mhz: 1293}", gpu="A100-SXM4-80GB"
    )
    world.advance_to(60)
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)
    assert gpu(Readings(world), "gpu_sm_clock", 0, 1) == pytest.approx(1215, abs=70)


def test_a_locked_clock_holds_while_the_job_hangs() -> None:
    world = twin(
        "at: 10s, fault: gpu_clock_locked_low, where: gpu-003/gpu/4",
        "at: 20s, fault: gpu_fell_off_bus, where: gpu-001/gpu/0, params: {outcome: hang}",
    )
    world.advance_to(60)
    readings = Readings(world)
    assert gpu(readings, "gpu_sm_clock", 2, 4) == 1200
    assert gpu(readings, "gpu_sm_clock", 2, 3) == 1980


def test_a_silent_slow_gpu_shows_nothing_but_its_time() -> None:
    world, plain = twin("at: 10s, fault: gpu_silent_slow, where: gpu-003/gpu/4"), twin()
    for one in (world, plain):
        one.advance_to(300)
    now, usual = Readings(world), Readings(plain)
    assert world.job_states()[0].throughput == pytest.approx(1000 / (1 + COMPUTE * 0.1))
    for metric, near in (("gpu_sm_clock", 20), ("gpu_power_draw", 15), ("gpu_temp", 2), ("gpu_util", 2)):
        assert gpu(now, metric, 2, 4) == pytest.approx(gpu(usual, metric, 2, 4), abs=near)
    assert now.gpu["gpu_clocks_event_reasons"][2][4] == usual.gpu["gpu_clocks_event_reasons"][2][4]
    step = world.runs["7"].step
    assert step is not None
    assert step.compute_s[2, 4] == pytest.approx(1.1 * COMPUTE)
    # In its collective it is the shortest of all, by as much.
    assert step.comm_s[2, 4] == pytest.approx(0.25)
    assert step.comm_s[0, 0] == pytest.approx(0.25 + 0.1 * COMPUTE)


def test_two_causes_for_a_low_clock_do_not_add_up() -> None:
    world = twin(
        "at: 10s, fault: gpu_power_cap_low, where: gpu-003/gpu/4, params: {limit_w: 400}",
        "at: 10s, fault: gpu_clock_locked_low, where: gpu-003/gpu/4, params: {clock_mhz: 900}",
    )
    world.advance_to(60)
    assert world.job_states()[0].step_time_s == pytest.approx(1 + COMPUTE * (1710 / 900 - 1))
    readings = Readings(world)
    assert gpu(readings, "gpu_sm_clock", 2, 4) == 900
    assert gpu(readings, "gpu_power_limit", 2, 4) == 400
    assert gpu(readings, "gpu_clocks_event_reasons", 2, 4) == 0x6
