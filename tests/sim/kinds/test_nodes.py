"""The kinds of whole nodes show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import pytest

from stethoscope.model import wire
from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, rate, step_s
from tests.sim.watching import facts, speaker
from tests.sim.worlds import mean, twin

WHERE, NODE = "gpu-002", 1


def test_a_node_that_lost_its_power_says_so_in_the_log_of_its_board_once_it_is_back() -> None:
    world = twin(f"at: 10s, fault: node_down, where: {WHERE}, params: {{back_after: 400s, crash_after: 40s}}")
    said = world.advance_to(55)
    assert {line.at_s for line in said if "status=12" in line.text} == {50.0}
    assert (world.link(NODE), world.shown()[WHERE, "node_bmc_reachable"]) == ("power", 1)
    world.advance_to(330)
    assert world.slurm_state(NODE) == "down*"
    world.advance_to(500)
    assert world.link(NODE) == "up"
    log = printed(world, NODE, "ipmitool_sel")
    assert "Power Unit Pwr_Unit_Status | Power off/down | Asserted" in log
    assert "Pwr_Unit_Status" not in printed(world, 0, "ipmitool_sel")


@pytest.mark.parametrize(("how", "link"), [("mgmt_nic", "hang"), ("memory", "hang"), ("sshd", "refused")])
def test_a_node_that_nobody_reaches_keeps_the_job_at_its_pace(how: str, link: str) -> None:
    world = twin(
        f"at: 10s, fault: node_unreachable_but_job_alive, where: {WHERE}, params: {{how: {how}, slurm_sees_it: true}}"
    )
    moving = rate(world, "ib_port_xmit_data", 0, 0, 9)
    said = world.advance_to(600)
    assert (world.link(NODE), world.link(0), said) == (link, "up", [])
    assert world.shown()[WHERE, "node_bmc_reachable"] == 1
    assert (step_s(world), world.slurm_state(NODE)) == (1.0, "allocated")
    assert rate(world, "ib_port_xmit_data", 0, 0, 60) == pytest.approx(moving, rel=0.02)


def test_slurm_that_loses_the_node_ends_the_job_after_five_minutes() -> None:
    world = twin(f"at: 10s, fault: node_unreachable_but_job_alive, where: {WHERE}")
    said = world.advance_to(305)
    assert [(line.at_s, line.text) for line in said] == [(70.0, "error: Nodes gpu-002 not responding")]
    assert step_s(world) == 1.0
    world.advance_to(330)
    assert (world.job_states()[0].step_time_s, world.slurm_state(NODE)) == (None, "down*")


@pytest.mark.parametrize(("how", "link"), [("agent", "silent"), ("no_python", "no python")])
def test_a_probe_that_stops_costs_the_job_nothing(how: str, link: str) -> None:
    world = twin(f"at: 10s, fault: monitor_heartbeat_lost, where: {WHERE}, params: {{how: {how}}}")
    assert world.advance_to(120) == []
    assert (world.link(NODE), world.link(0), step_s(world)) == (link, "up", 1.0)


def test_a_driver_that_does_not_let_us_ask_hides_the_gpus_alone() -> None:
    world = twin(f"at: 10s, fault: monitor_heartbeat_lost, where: {WHERE}, params: {{how: permission}}")
    world.advance_to(60)
    readings = Readings(world)
    assert {value for values in readings.gpu.values() for value in values[NODE]} <= {"permission", "unsupported", 0}
    assert (readings.node["gpu_count"][NODE], readings.node["nvml_latency"][NODE]) == ("permission", "permission")
    assert isinstance(readings.node["cpu_util"][NODE], float)
    assert (step_s(world), world.link(NODE)) == (1.0, "up")


def test_values_that_repeat_stand_still_while_the_clock_goes_on() -> None:
    world = twin(f"at: 10s, fault: monitor_heartbeat_lost, where: {WHERE}, params: {{how: stale_values}}")
    frozen, moving = speaker(world, NODE), speaker(world, 0)
    for one in (frozen, moving):
        one.frame(Readings(world), full=True)
    world.advance_to(12)
    for one in (frozen, moving):
        one.frame(Readings(world))
    world.advance_to(50)
    messages = [wire.decode(one.frame(Readings(world))) for one in (frozen, moving)]
    assert isinstance(messages[0], wire.Delta)
    assert isinstance(messages[1], wire.Delta)
    assert (messages[0].node, messages[0].gpu, messages[0].port) == ({}, {}, {})
    assert messages[1].node
    assert messages[0].mono > messages[1].mono - 90 * 86_400


def test_a_hung_driver_names_the_same_processes_in_the_kernel_log_and_in_state_d() -> None:
    world = twin(f"at: 10s, fault: driver_hung, where: {WHERE}")
    said = world.advance_to(200)
    stuck = {task.pid: task.name for task in facts(world, NODE)["host"].tasks or ()}
    named = [line.text.split("task ")[1].split(" blocked")[0] for line in said if line.sink == "kernel"]
    assert len(stuck) == 3
    assert [stuck[int(name.split(":")[1])] for name in named] == ["nvidia-smi", "python3"]
    assert mean(Readings(world), "gpu_util", 0) >= 97


def test_a_stopped_fabric_manager_fails_what_starts_and_leaves_what_runs() -> None:
    world = twin(f"at: 10s, fault: fabric_manager_down, where: {WHERE}")
    said = world.advance_to(60)
    assert [facts(world, node)["tuning"].node["fabricmanager_active"] for node in (0, NODE)] == [1, 0]
    assert "don't match with driver version 550.90.07" in next(line.text for line in said if line.sink == "fm")
    starts = [line for line in said if "Error 802: system not yet initialized" in line.text]
    assert {(line.at_s, line.node) for line in starts} == {(30.0, WHERE)}
    assert len(starts) == 8
    assert step_s(world) == 1.0
    quiet = twin(f"at: 10s, fault: fabric_manager_down, where: {WHERE}, params: {{job_effect: none}}")
    assert [line.sink for line in quiet.advance_to(60)] == ["fm"]
