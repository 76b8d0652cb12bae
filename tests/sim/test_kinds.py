"""Each fault kind shows what it shows on real fleets: direction and size, at its place and elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.readings import Readings
from stethoscope.sim.scenarios import bundled, open_scenario
from stethoscope.sim.twin import Twin
from tests.sim.worlds import gpu, mean, twin


def _rate(world: Twin, metric: str, node: int, port: int, seconds: float = 60.0) -> float:
    before = int(world.total(metric, world.t_s)[node, port])
    world.advance_to(world.t_s + seconds)
    return (int(world.total(metric, world.t_s)[node, port]) - before) / seconds


# ---------------------------------------------------------------- ib_optic_degraded


def test_a_degraded_optic_counts_errors_on_one_port_and_slows_everybody_alike() -> None:
    world = twin("at: 10s, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3")
    healthy = Readings(world)
    moving = _rate(world, "ib_port_xmit_data", 4, 0, 9)
    world.advance_to(200)
    assert _rate(world, "ib_symbol_error", 1, 3) == pytest.approx(40, rel=0.02)
    assert _rate(world, "ib_link_error_recovery", 1, 3, 600) * 60 == pytest.approx(1, abs=0.11)
    assert _rate(world, "ib_port_rcv_errors", 1, 3) > 1
    assert _rate(world, "ib_local_link_integrity_errors", 1, 3, 120) * 60 == pytest.approx(3, abs=1)
    assert _rate(world, "ib_symbol_error", 1, 2) == 0
    assert _rate(world, "ib_symbol_error", 0, 3) == 0
    assert _rate(world, "ib_link_downed", 1, 3) == 0
    readings = Readings(world)
    assert {readings.port["ib_port_rate"][node][3] for node in range(6)} == {400}
    # 0.62 of a step of 1.25 s computes: power falls a little everywhere, on the node of the optic as elsewhere.
    for node in range(5):
        assert mean(readings, "gpu_power_draw", node) == pytest.approx(457, abs=15)
    assert mean(readings, "gpu_power_draw", 0) < mean(healthy, "gpu_power_draw", 0)
    # Traffic falls with the step rate, on every node.
    assert _rate(world, "ib_port_xmit_data", 4, 0) / moving == pytest.approx(1 / 1.25, rel=0.03)
    assert world.job_states()[0].step_time_s == pytest.approx(1.25)
    assert world.shown()[("gpu-002/ib/mlx5_3", "ib_module_rx_power")] == pytest.approx(-9.5)
    # The partners of the rail in the same pod wait for credit, ten times as long as the others.
    assert _rate(world, "ib_port_xmit_wait", 0, 3) > 5 * _rate(world, "ib_port_xmit_wait", 0, 2)
    assert _rate(world, "ib_port_xmit_wait", 4, 3) < 2 * _rate(world, "ib_port_xmit_wait", 4, 2)


def test_an_optic_that_is_swapped_gives_the_speed_back() -> None:
    world = twin("at: 10s, until: 2m, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3")
    world.advance_to(119)
    assert world.job_states()[0].step_time_s == pytest.approx(1.25)
    world.advance_to(121)
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)
    assert _rate(world, "ib_symbol_error", 1, 3) == 0


# ---------------------------------------------------------------- gpu_thermal_throttle


def test_a_hot_gpu_climbs_then_slows_and_the_others_wait_cooler_and_at_full_clock() -> None:
    world = twin("at: 10s, fault: gpu_thermal_throttle, where: gpu-003/gpu/4")
    world.advance_to(69)
    climbing = Readings(world)
    assert gpu(climbing, "gpu_temp", 2, 4) > 80
    assert gpu(climbing, "gpu_sm_clock", 2, 4) > 1600
    world.advance_to(600)
    readings = Readings(world)
    assert gpu(readings, "gpu_temp", 2, 4) == pytest.approx(88, abs=4)
    assert gpu(readings, "gpu_temp_margin", 2, 4) == pytest.approx(-1, abs=4)
    assert gpu(readings, "gpu_sm_clock", 2, 4) == pytest.approx(1100, abs=200)
    assert gpu(readings, "gpu_clocks_event_reasons", 2, 4) == 0x20
    assert 300 <= gpu(readings, "gpu_power_draw", 2, 4) <= 380
    assert gpu(readings, "gpu_util", 2, 4) >= 96
    assert readings.gpu["gpu_sm_clock"][0] == [1980] * 8
    assert set(readings.gpu["gpu_clocks_event_reasons"][0]) == {0}
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(408, abs=15)
    assert mean(readings, "gpu_util", 0) >= 97
    assert 2 <= mean(climbing, "gpu_temp", 0) - mean(readings, "gpu_temp", 0) <= 15
    assert world.job_states()[0].throughput == pytest.approx(1000 / (1 + 0.62 * (1710 / 1100 - 1)))


def test_the_hard_limit_adds_the_hardware_reasons() -> None:
    world = twin("at: 0s, fault: gpu_thermal_throttle, where: gpu-003/gpu/4, params: {temp_c: 91, ramp: 10s}")
    world.advance_to(60)
    assert gpu(Readings(world), "gpu_clocks_event_reasons", 2, 4) == 0x20 | 0x40 | 0x8


def test_a_bad_board_is_not_hot_once_its_job_is_gone() -> None:
    world = twin(
        "at: 0s, fault: gpu_thermal_throttle, where: gpu-003/gpu/4, params: {ramp: 10s}",
        "at: 60s, fault: gpu_fell_off_bus, where: gpu-001/gpu/2",
    )
    world.advance_to(900)
    readings = Readings(world)
    assert gpu(readings, "gpu_temp", 2, 4) < 50
    assert gpu(readings, "gpu_clocks_event_reasons", 2, 4) == 1


# ---------------------------------------------------------------- gpu_fell_off_bus


def test_a_lost_gpu_is_missing_not_zero_and_its_job_hangs_then_dies() -> None:
    world = twin("at: 10s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2, params: {crash_after: 40s}")
    said = world.advance_to(20)
    readings = Readings(world)
    assert {readings.gpu[metric][1][2] for metric in readings.gpu if metric != "gpu_handle_error"} == {"lost"}
    assert gpu(readings, "gpu_handle_error", 1, 2) == 15
    assert (readings.node["gpu_count"][1], readings.node["gpu_count_pci"][1]) == (7, 8)
    assert isinstance(readings.gpu["gpu_temp"][1][1], int)
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(160, abs=8)
    assert mean(readings, "gpu_util", 0) >= 97
    assert world.job_states()[0].step_time_s is None
    assert _rate(world, "ib_port_xmit_data", 0, 0, 10) == 0
    kernel = [line.text for line in said if line.sink == "kernel"]
    assert kernel[0] == "pcieport 0000:4e:01.0: AER: Uncorrected (Fatal) error received: 0000:52:00.0"
    assert "NVRM: Xid (PCI:0000:52:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus." in kernel
    assert [(line.text, line.rank) for line in said if line.sink == "job"] == [
        ("[rank10]: RuntimeError: CUDA error: unknown error", 10)
    ]
    assert not world.job_states()[0].rank_alive[10]
    assert sum(world.job_states()[0].rank_alive) == 39
    said = world.advance_to(80)
    readings = Readings(world)
    assert readings.gpu["gpu_fb_used"][0] == [0] * 8
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(69, abs=2)
    assert world.job_states()[0].state == "FAILED"
    lost = [line for line in said if "ProcessGroupNCCL.cpp:552" in line.text]
    assert {line.rank for line in lost} == set(range(40)) - set(range(8, 16))
    assert any("*** STEP 7.0 ON gpu-002 CANCELLED AT" in line.text for line in said if line.sink == "slurm")
    assert [line.text for line in said if "INVALID" in line.text] == [
        "error: Setting node gpu-002 state to INVALID with reason:gres/gpu count reported lower than configured (7 < 8)"
    ]
    assert [world.slurm_state(node) for node in (0, 1)] == ["idle", "inval"]


def test_without_aer_nothing_announces_the_loss_and_a_hang_ends_at_the_watchdog() -> None:
    world = twin("at: 10s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2, params: {aer_before: false, outcome: hang}")
    said = world.advance_to(600)
    assert not any("AER" in line.text or line.sink == "job" for line in said)
    assert world.job_states()[0].state == "RUNNING"
    said = world.advance_to(640)
    caught = [line for line in said if "Watchdog caught collective operation timeout" in line.text]
    # All that wait, those beside the lost one on its node as well.
    assert len(caught) == 39
    assert world.job_states()[0].state == "FAILED"


# ---------------------------------------------------------------- node_down


@pytest.mark.parametrize("how", ["power", "panic", "hang"])
def test_a_node_that_is_down_takes_the_job_with_it(how: str) -> None:
    world = twin(f"at: 10s, fault: node_down, where: gpu-002, params: {{how: {how}}}")
    world.advance_to(11)
    assert (world.link(1), world.link(0)) == (how, "up")
    assert mean(Readings(world), "gpu_util", 0) >= 97
    assert world.job_states()[0].step_time_s is None
    said = world.advance_to(60)
    errors = [line for line in said if "status=12" in line.text]
    assert {line.node for line in errors} == {"gpu-001", "gpu-003"}
    assert world.job_states()[0].state == "FAILED"
    said = world.advance_to(320)
    assert "error: Nodes gpu-002 not responding, setting DOWN" in [line.text for line in said]
    assert world.slurm_state(1) == "down*"


def test_a_node_that_comes_back_has_booted_and_counts_from_zero() -> None:
    world = twin("at: 10s, fault: node_down, where: gpu-002, params: {back_after: 100s}")
    world.advance_to(109)
    assert world.link(1) == "power"
    world.advance_to(111)
    assert world.link(1) == "up"
    assert world.boots == {1: 110.0}
    readings = Readings(world)
    assert readings.port["ib_port_xmit_data"][1] == [0] * 8
    assert readings.port["ib_port_xmit_data"][0] != [0] * 8


# ---------------------------------------------------------------- driver_hung


def test_a_hung_driver_hides_every_gpu_of_one_node_and_the_job_waits() -> None:
    world = twin("at: 10s, fault: driver_hung, where: gpu-002")
    said = world.advance_to(130)
    readings = Readings(world)
    assert {value for values in readings.gpu.values() for value in values[1]} == {"hung"}
    assert (readings.node["nvml_latency"][1], readings.node["gpu_count"][1]) == ("hung", "hung")
    assert (readings.node["procs_blocked"][1], readings.node["procs_blocked"][0]) == (3, 0)
    # The load average still remembers the job; the CPUs are idle.
    assert 3 < readings.node["load1"][1] < 24
    assert readings.node["cpu_util"][1] < 2
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(160, abs=8)
    assert world.job_states()[0].state == "RUNNING"
    assert {(line.at_s, line.node, line.sink) for line in said} == {(130.0, "gpu-002", "kernel")}
    assert all(re.fullmatch(r"INFO: task \S+:\d+ blocked for more than 120 seconds\.", line.text) for line in said)
    assert len(said) == 2


def test_a_hung_driver_may_leave_the_job_alone() -> None:
    world = twin("at: 10s, fault: driver_hung, where: gpu-002, params: {job_effect: none}")
    world.advance_to(30)
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)
    assert Readings(world).gpu["gpu_util"][1] == ["hung"] * 8


# ---------------------------------------------------------------- historic_counters


def test_old_counters_stand_where_they_are_and_change_nothing() -> None:
    world = twin(
        "at: 0s, fault: historic_counters, where: gpu-002/ib/mlx5_1, params: {link_downed: 255, xmit_wait: 4294967295}",
        "at: 0s, fault: historic_counters, where: gpu-003/gpu/5, params: {sbe: 91}",
    )
    plain = twin()
    for seconds in (1, 300):
        world.advance_to(seconds)
        plain.advance_to(seconds)
        readings = Readings(world)
        assert readings.port["ib_link_downed"][1][1] == 255
        assert readings.port["ib_symbol_error"][1][1] == 65535
        assert readings.port["ib_port_xmit_wait"][1][1] == 4294967295
        assert readings.port["ib_link_downed"][1][2] == 0
        assert readings.gpu == Readings(plain).gpu
    assert world.job_states() == plain.job_states()
    assert world.shown()[("gpu-003/gpu/5", "gpu_ecc_corr_volatile_dram")] == 91


# ---------------------------------------------------------------- all kinds


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_placeholder_of_a_kind_is_filled(name: str) -> None:
    places = {
        "gpu": "gpu-002/gpu/2", "ib": "gpu-002/ib/mlx5_3", "node": "gpu-002", "nvlink": "gpu-002/nvlink/2/4",
        "leaf": "leaf/leaf-01-3", "rank": "job/7/rank/10", "job": "job/7", "disk": "gpu-002/disk/nvme1n1",
        "cpu": "gpu-002/cpu", "rack": "rack/rack-01", "storage": "storage/shared", "fleet": "fleet",
    }  # fmt: skip
    target = next(place for form, place in places.items() if form in KINDS[name].targets)
    world = twin(f"at: 1s, fault: {name}, where: {target}")
    for line in world.advance_to(1000):
        assert "None" not in line.text
        assert "{" not in line.text


@pytest.mark.parametrize("name", sorted(bundled()))
def test_a_bundled_scenario_plays_to_its_end(name: str) -> None:
    played = open_scenario(name)
    world = Twin(played)
    world.advance_to(played.duration_s)
    Readings(world)


def test_the_documentation_lists_every_kind_and_parameter() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "simulated-fleet.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert all(f"`{param}`" in row for param in kind.params)


# ---------------------------------------------------------------- what is no fault


def test_a_drained_node_is_drained_once_its_job_is_gone_and_says_who_and_why() -> None:
    world = twin(
        'at: 10s, fault: maintenance_drain, where: gpu-006, params: {reason: "maint: BMC", down: true}',
        "at: 10s, fault: maintenance_drain, where: gpu-002, params: {down: true}",
    )
    assert [world.slurm_state(node) for node in (1, 5)] == ["allocated", "idle"]
    assert world.slurm_reason(5) is None
    world.advance_to(20)
    assert [world.slurm_state(node) for node in (1, 5)] == ["draining", "drained"]
    assert world.slurm_reason(5) == ("maint: BMC", "root", 10.0)
    assert world.slurm_reason(1) == ("maint: firmware", "root", 10.0)
    # Nobody switches a node off under a job.
    assert [world.link(node) for node in (1, 5)] == ["up", "power"]
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)


def test_a_rack_is_drained_together() -> None:
    world = twin("at: 0s, fault: maintenance_drain, where: rack/rack-01", job_nodes="gpu-[005-006]")
    racks = [world.layout.fleet.rack(node) for node in range(6)]
    assert [world.slurm_state(node) for node in range(6)] == [
        "drained" if rack == "rack-01" and node < 4 else "draining" if rack == "rack-01" else "allocated"
        for node, rack in enumerate(racks)
    ]


def test_an_idle_node_lowers_its_links_and_nothing_else() -> None:
    world = twin("at: 0s, fault: idle_node, where: gpu-006", "at: 0s, fault: idle_node, where: gpu-001")
    world.advance_to(60)
    shown = {place for (place, metric) in world.shown() if metric == "gpu_pcie_link_gen"}
    assert shown == {f"gpu-006/gpu/{gpu}" for gpu in range(8)}
    assert world.slurm_state(5) == "idle"


def test_slurm_drains_a_node_that_registers_with_too_few_gpus() -> None:
    world = twin(*(f"at: 1s, fault: gpu_fell_off_bus, where: gpu-006/gpu/{gpu}" for gpu in (2, 5)))
    world.advance_to(100)
    assert world.slurm_state(5) == "inval"
    assert world.slurm_reason(5) == ("gres/gpu count reported lower than configured (6 < 8)", "slurm", 61.0)


def test_a_node_that_slurm_lost_says_so() -> None:
    world = twin("at: 10s, fault: node_down, where: gpu-002")
    world.advance_to(320)
    assert world.slurm_state(1) == "down*"
    assert world.slurm_reason(1) == ("Not responding", "slurm", 310.0)
