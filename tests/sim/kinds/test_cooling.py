"""Supplies, fans and cooling show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import pytest

from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, step_s
from tests.sim.watching import facts
from tests.sim.worlds import gpu, mean, twin

WHERE, NODE = "gpu-002", 1


def test_a_lost_supply_is_seen_by_the_board_alone() -> None:
    world = twin(f"at: 10s, fault: psu_failed, where: {WHERE}")
    before = facts(world, NODE)["bmc"].node
    world.advance_to(120)
    assert (before["bmc_psu_status"], facts(world, NODE)["bmc"].node["bmc_psu_status"]) == (0, 1)
    assert facts(world, 0)["bmc"].node["bmc_psu_status"] == 0
    assert world.shown()[WHERE, "bmc_psu_status"] == 5
    log = printed(world, NODE, "ipmitool_sel")
    assert "Power Supply PSU3_Status | Failure detected | Asserted" in log
    assert "Power Supply PSU3_Status | Power Supply AC lost | Asserted" in log
    sensors = printed(world, NODE, "ipmi_sensor")
    assert sensors.count("Failure detected") == 1
    assert (step_s(world), gpu(Readings(world), "gpu_clocks_event_reasons", NODE, 0)) == (1.0, pytest.approx(2, abs=2))


def test_with_too_few_supplies_the_board_brakes_all_its_gpus() -> None:
    world = twin(f"at: 10s, fault: psu_failed, where: {WHERE}, params: {{supplies_ok: 3, brake: true}}")
    world.advance_to(300)
    readings = Readings(world)
    assert {gpu(readings, "gpu_clocks_event_reasons", NODE, index) for index in range(8)} == {0x88}
    assert mean(readings, "gpu_sm_clock", NODE) == pytest.approx(855, abs=60)
    assert mean(readings, "gpu_power_draw", NODE) < 400
    # Computing takes twice as long: 0.62 of a second more.
    assert step_s(world) == pytest.approx(1.62)
    assert (
        "Main Power Fault     : true" in str(facts(world, NODE)["bmc"]) or world.shown()[WHERE, "bmc_psu_status"] == 3
    )


def test_a_dead_fan_warms_what_is_behind_it_over_minutes_and_the_others_turn_faster() -> None:
    world = twin(f"at: 10s, fault: fan_failed, where: {WHERE}, params: {{gpus: [4, 5], temp_rise_c: 8}}")
    before = Readings(world)
    world.advance_to(700)
    readings = Readings(world)
    for index, rise_c in ((4, 8), (5, 8), (0, 0), (7, 0)):
        change_c = gpu(readings, "gpu_temp", NODE, index) - gpu(before, "gpu_temp", NODE, index)
        assert change_c == pytest.approx(rise_c, abs=2.2)
    assert mean(readings, "gpu_temp", 0) == pytest.approx(mean(before, "gpu_temp", 0), abs=1)
    assert [facts(world, node)["bmc"].node["bmc_fan_status"] for node in (0, NODE)] == [0, 1]
    assert "Lower Critical going low  | Asserted | Reading 0 < Threshold 1500 RPM" in printed(
        world, NODE, "ipmitool_sel"
    )
    fans = [line.split("|") for line in printed(world, NODE, "ipmi_sensor").splitlines() if "RPM" in line]
    speeds = {line[0].strip(): int(line[4].split()[0]) for line in fans}
    assert speeds.pop("FAN7_TACH1") == 0
    assert min(speeds.values()) > 11_000
    assert step_s(world) == 1.0


def test_a_dead_fan_may_slow_down_the_gpus_behind_it() -> None:
    world = twin(f"at: 10s, fault: fan_failed, where: {WHERE}, params: {{gpus: [4], throttle: true, clock_mhz: 1200}}")
    world.advance_to(900)
    readings = Readings(world)
    assert gpu(readings, "gpu_temp", NODE, 4) == pytest.approx(87.5, abs=4)
    assert gpu(readings, "gpu_sm_clock", NODE, 4) == pytest.approx(1200, abs=170)
    assert int(gpu(readings, "gpu_clocks_event_reasons", NODE, 4)) & 0x20
    assert not int(gpu(readings, "gpu_clocks_event_reasons", NODE, 3)) & 0x20
    assert step_s(world) == pytest.approx(1 + 0.62 * (1710 / 1200 - 1))


def test_a_rack_without_cooling_draws_hot_air_and_its_hottest_gpus_slow_down() -> None:
    world = twin("at: 10s, fault: rack_cooling_fault, where: rack/rack-01")
    before = Readings(world)
    world.advance_to(900)
    readings = Readings(world)
    for node in range(6):
        inlet_c = facts(world, node)["bmc"].node["bmc_inlet_temp"]
        assert inlet_c == pytest.approx(38 if node < 4 else 24, abs=1.6)
    # All of the rack by the air; those in front work for as long as before.
    assert gpu(readings, "gpu_temp", NODE, 0) - gpu(before, "gpu_temp", NODE, 0) == pytest.approx(12, abs=4)
    assert mean(readings, "gpu_temp", 4) <= mean(before, "gpu_temp", 4) + 1
    hot = [
        [int(gpu(readings, "gpu_clocks_event_reasons", node, index)) & 0x20 for index in range(8)] for node in (1, 4)
    ]
    assert (sum(map(bool, hot[0])), sum(map(bool, hot[1]))) == (2, 0)
    assert step_s(world) == pytest.approx(1 + 0.62 * (1710 / 1300 - 1))
    quiet = twin("at: 10s, fault: rack_cooling_fault, where: rack/rack-01, params: {throttle: false, inlet_c: 33}")
    quiet.advance_to(900)
    assert step_s(quiet) == 1.0
