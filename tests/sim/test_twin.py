"""The twin in virtual time: it depends on scenario and seed alone, counters are integrals, nothing lost is 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.model.metric import Scope
from stethoscope.sim.columns import PORT_COUNTERS
from stethoscope.sim.readings import Readings
from stethoscope.sim.scenarios import vocabulary
from stethoscope.sim.twin import Twin
from stethoscope.specs.load import loads
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.scenario_read import read_scenario
from tests.sim.worlds import gpu, mean, twin

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
FAULTS = (
    "at: 30s, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3, until: 70s",
    "at: 40s, fault: gpu_thermal_throttle, where: gpu-003/gpu/4, params: {ramp: 20s}",
    "at: 90s, fault: gpu_fell_off_bus, where: gpu-001/gpu/2",
)


def _bytes(readings: Readings) -> bytes:
    return json.dumps([readings.gpu, readings.port, readings.node]).encode()


def test_every_fast_metric_of_the_catalogue_is_read_and_no_other() -> None:
    readings = Readings(twin())
    fast = [metric for metric in load_catalogue(PLAYBOOKS).values() if metric.tier == "fast"]
    assert set(readings.gpu) == {metric.id for metric in fast if metric.scope is Scope.GPU}
    assert set(readings.port) == {metric.id for metric in fast if metric.scope is Scope.PORT}
    assert set(readings.node) == {metric.id for metric in fast if metric.scope is Scope.NODE}


@pytest.mark.parametrize("ticks", [(120.0,), (0.5, 29.999, 30.0, 61.3, 119.0, 120.0), tuple(range(1, 121))])
def test_what_a_moment_shows_does_not_depend_on_the_way_to_it(ticks: tuple[float, ...]) -> None:
    straight, stepping = twin(*FAULTS), twin(*FAULTS)
    said = straight.advance_to(120.0)
    heard = [line for t_s in ticks for line in stepping.advance_to(t_s)]
    assert heard == said
    assert _bytes(Readings(stepping)) == _bytes(Readings(straight))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 120), max_size=12))
def test_any_way_to_a_moment_leads_to_the_same_bytes_and_counters_never_fall(moments: list[float]) -> None:
    straight, stepping = twin(*FAULTS), twin(*FAULTS)
    straight.advance_to(120.0)
    before = {metric: stepping.total(metric, 0.0) for metric in PORT_COUNTERS}
    for t_s in [*sorted(moments), 120.0]:
        stepping.advance_to(t_s)
        now = {metric: stepping.total(metric, t_s) for metric in PORT_COUNTERS}
        assert all((now[metric] >= before[metric]).all() for metric in PORT_COUNTERS)
        before = now
    assert _bytes(Readings(stepping)) == _bytes(Readings(straight))


def test_another_seed_is_other_noise_and_a_larger_fleet_is_not() -> None:
    assert _bytes(Readings(twin(seed=5))) != _bytes(Readings(twin(seed=6)))
    small, large = Readings(twin(nodes=6)), Readings(twin(nodes=40))
    assert small.gpu["gpu_power_draw"][:6] == large.gpu["gpu_power_draw"][:6]


def test_a_busy_healthy_gpu_and_an_idle_one_look_as_they_do() -> None:
    world = twin()
    world.advance_to(60)
    readings = Readings(world)
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(492, abs=15)
    assert mean(readings, "gpu_temp", 0) == pytest.approx(58, abs=3)
    assert mean(readings, "gpu_util", 0) == pytest.approx(94, abs=1.5)
    assert mean(readings, "gpu_sm_clock", 0) == pytest.approx(1710, abs=25)
    assert set(readings.gpu["gpu_clocks_event_reasons"][0]) <= {0, 4}
    assert readings.gpu["gpu_fb_used"][0] == [round(0.88 * 81559)] * 8
    assert readings.node["cpu_util"][0] == pytest.approx(14, abs=3)
    assert readings.node["load1"][0] == pytest.approx(24, abs=1)
    assert readings.gpu["gpu_sm_clock"][5] == [345] * 8
    assert readings.gpu["gpu_util"][5] == [0] * 8
    assert readings.gpu["gpu_clocks_event_reasons"][5] == [1] * 8
    assert mean(readings, "gpu_power_draw", 5) == pytest.approx(69, abs=1)
    assert [world.slurm_state(node) for node in (0, 5)] == ["allocated", "idle"]


def test_other_boards_scale_and_have_no_margin_where_the_driver_has_none() -> None:
    readings = Readings(twin(gpu="A100-SXM4-80GB"))
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(492 * 400 / 700, abs=10)
    assert mean(readings, "gpu_sm_clock", 0) == pytest.approx(0.865 * 1410, abs=25)
    assert readings.gpu["gpu_temp_margin"][0] == ["unsupported"] * 8
    assert Readings(twin(gpu="T4")).gpu["nvlink_tx"][0] == ["unsupported"] * 8
    assert isinstance(gpu(Readings(twin()), "nvlink_tx", 0, 0), int)


@pytest.mark.parametrize("tick_s", [0.25, 2.0, 60.0])
def test_counters_are_integrals_at_any_tick(tick_s: float) -> None:
    world = twin()
    first = Readings(world).port["ib_port_xmit_data"][0][0]
    last = first
    for number in range(1, int(120 / tick_s) + 1):
        world.advance_to(number * tick_s)
        total = world.total("ib_port_xmit_data", world.t_s)[0, 0]
        assert total > last
        last = int(total)
    # 95 Gb/s in words of four bytes
    assert (last - first) / 120 * 3.2e-8 == pytest.approx(95, rel=0.001)


def test_a_counter_goes_on_where_it_was_when_the_rate_changes() -> None:
    world = twin("at: 10s, fault: node_down, where: gpu-002, params: {crash_after: 5m}")
    world.advance_to(9.999)
    before = int(world.total("ib_port_xmit_data", 9.999)[0, 0])
    world.advance_to(30)
    after = int(world.total("ib_port_xmit_data", 30)[0, 0])
    assert 0 <= after - before <= 95e9 / 32 * 0.01
    assert int(world.total("ib_port_xmit_data", 31)[0, 0]) == after


def test_set_moves_to_its_value_keeps_noise_and_ends() -> None:
    world = twin(
        "at: 10s, until: 60s, set: {where: rack/rack-01, metric: gpu_temp, value: 78, ramp: 20s}",
        "at: 10s, set: {where: gpu-002/gpu/1, metric: gpu_util, value: null}",
        "at: 10s, set: {where: gpu-001/ib/mlx5_0, metric: ib_port_xmit_data, value: 10}",
        "at: 10s, set: {where: gpu-001/disk/nvme1n1, metric: nvme_percentage_used, value: 104}",
    )
    world.advance_to(20)
    half = Readings(world)
    assert mean(half, "gpu_temp", 0) == pytest.approx(68, abs=3)
    assert half.gpu["gpu_util"][1][1] == "error"
    assert isinstance(half.gpu["gpu_util"][1][2], int)
    world.advance_to(40)
    whole = Readings(world)
    assert mean(whole, "gpu_temp", 0) == pytest.approx(78, abs=0.7)
    assert mean(whole, "gpu_temp", 4) == pytest.approx(58, abs=3)
    rate = float(world.total("ib_port_xmit_data", 40)[0, 0] - world.total("ib_port_xmit_data", 30)[0, 0]) / 10
    assert rate * 3.2e-8 == pytest.approx(10, rel=0.01)
    assert world.shown() == {("gpu-001/disk/nvme1n1", "nvme_percentage_used"): 104}
    world.advance_to(61)
    assert mean(Readings(world), "gpu_temp", 0) == pytest.approx(58, abs=3)


def test_the_lines_of_the_scenario_come_at_their_time() -> None:
    world = twin(
        'at: 4s, kernel_log: {where: gpu-002, line: "mlx5_core 0000:5e:00.0: module 3, High Temperature"}',
        'at: 3s, job_log: {where: job/7/rank/9, line: "loss is nan"}',
    )
    assert world.advance_to(2.9) == []
    said = world.advance_to(10)
    assert [(line.at_s, line.sink, line.node, line.rank) for line in said] == [
        (3.0, "job", "gpu-002", 9),
        (4.0, "kernel", "gpu-002", None),
    ]


def test_a_probe_prints_what_the_scenario_says_from_its_time_on() -> None:
    world = twin('at: 5s, until: 9s, probe_output: {where: gpu-002, probe: mlxlink, text: "Rx -9.5"}')
    assert world.probe_text(1, "mlxlink") is None
    world.advance_to(5)
    assert world.probe_text(1, "mlxlink") == "Rx -9.5"
    assert world.probe_text(0, "mlxlink") is None
    world.advance_to(9)
    assert world.probe_text(1, "mlxlink") is None


def test_an_unreachable_node_is_said_by_set_too() -> None:
    world = twin("at: 5s, until: 9s, set: {where: gpu-002, metric: node_reachable, value: 0}")
    assert world.link(1) == "up"
    world.advance_to(6)
    assert (world.link(1), world.link(0)) == ("hang", "up")
    world.advance_to(9)
    assert world.link(1) == "up"


def test_values_are_whole_where_the_tools_give_whole_numbers() -> None:
    readings = Readings(twin())
    assert isinstance(gpu(readings, "gpu_sm_clock", 0, 0), int)
    assert isinstance(gpu(readings, "gpu_temp", 0, 0), int)
    power = gpu(readings, "gpu_power_draw", 0, 0)
    assert power == round(power, 1)


def test_a_fleet_without_adapters_or_jobs_is_a_fleet() -> None:
    text = (
        "{schema: stethoscope.scenario/1, id: t, title: t, duration: 1m, "
        "fleet: {nodes: 2, gpus_per_node: 4, gpu: L40S, ib_ports_per_node: 0}}"
    )
    world = Twin(read_scenario(loads(text), vocabulary()))
    assert world.advance_to(30) == []
    readings = Readings(world)
    assert readings.port["ib_port_state"] == [[], []]
    assert readings.gpu["gpu_util"] == [[0] * 4] * 2
    assert world.job_states() == ()
