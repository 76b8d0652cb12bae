"""Processors, memory and clocks of hosts show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import pytest

from stethoscope.model import wire
from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, step_s
from tests.sim.watching import facts, speaker
from tests.sim.worlds import gpu, mean, twin

WHERE, NODE = "gpu-002", 1


@pytest.mark.parametrize("place", [WHERE, f"{WHERE}/cpu"])
def test_what_takes_the_processors_delays_the_ranks_of_its_node(place: str) -> None:
    world = twin(f"at: 10s, fault: cpu_contention, where: {place}, params: {{proc: kworker_scan}}")
    before = Readings(world)
    world.advance_to(600)
    readings = Readings(world)
    assert readings.node["load1"][NODE] == pytest.approx(380, rel=0.08)
    assert 90 <= float(str(readings.node["cpu_util"][NODE])) <= 100
    assert readings.node["psi_cpu_some"][NODE] == pytest.approx(60, rel=0.25)
    assert 55 <= mean(readings, "gpu_util", NODE) <= 85
    assert mean(readings, "gpu_util", 0) >= 96
    # A healthy step of 1 s has 0.08 of other work, now three times as long, and 0.05 of data, half as long again.
    assert step_s(world) == pytest.approx(1 + 2 * 0.08 + 0.5 * 0.05)
    assert mean(readings, "gpu_power_draw", 0) < mean(before, "gpu_power_draw", 0)
    assert readings.node["psi_cpu_some"][0] < 2
    text = printed(world, NODE, "top")
    first = next(line for line in text.splitlines() if line.strip()[:1].isdigit())
    assert first.split()[-1] == "kworker_scan"
    assert "kworker_scan" not in printed(world, 0, "top")


def test_interrupts_may_be_the_reason() -> None:
    world = twin(f"at: 10s, fault: cpu_contention, where: {WHERE}, params: {{softirq_pct: 12}}")
    world.advance_to(60)
    readings = Readings(world)
    assert readings.node["cpu_softirq"][NODE] == pytest.approx(12.4, rel=0.25)
    assert readings.node["cpu_softirq_max"][NODE] > 85
    assert "ksoftirqd" in printed(world, NODE, "top")


def test_processors_that_save_power_are_slow_on_one_node_without_load() -> None:
    world = twin(f"at: 10s, fault: cpu_governor_powersave, where: {WHERE}, params: {{clocksource: hpet}}")
    world.advance_to(300)
    readings = Readings(world)
    words = [facts(world, node)["tuning"].words for node in (0, NODE)]
    assert [(word["cpu_governor"], word["clocksource"]) for word in words] == [
        ("performance", "tsc"),
        ("powersave", "hpet"),
    ]
    text = printed(world, NODE, "top")
    assert "scaling_governor     192 powersave" in text
    clocks = [int(line.split()[2]) for line in text.splitlines() if line.startswith("scaling_cur_freq")]
    assert max(clocks) == pytest.approx(1_500_000, rel=0.02)
    assert readings.node["load1"][NODE] < 30
    assert 78 <= mean(readings, "gpu_util", NODE) <= 90
    # fo = 3400/1500, fd = 1.5
    assert step_s(world) == pytest.approx(1 + 0.08 * (3400 / 1500 - 1) + 0.05 * 0.5)


def test_memory_errors_are_counted_and_logged_and_cost_next_to_nothing() -> None:
    world = twin(f"at: 10s, fault: cpu_mce, where: {WHERE}/cpu")
    said = world.advance_to(11)
    counts = [facts(world, NODE)["host"].node["edac_ce"]]
    world.advance_to(71)
    counts.append(facts(world, NODE)["host"].node["edac_ce"])
    assert float(str(counts[1])) - float(str(counts[0])) == pytest.approx(60, abs=1)
    assert [line.text.split(":")[0] for line in said if line.sink == "kernel"] == ["EDAC MC0", "mce"]
    assert step_s(world) == pytest.approx(1.0, abs=0.01)
    assert facts(world, 0)["host"].node["edac_ce"] in (0, 1)


def test_a_machine_check_that_is_fatal_ends_the_node_and_the_job() -> None:
    world = twin(f"at: 10s, fault: cpu_mce, where: {WHERE}, params: {{fatal_at: 60s}}")
    world.advance_to(75)
    assert (world.link(NODE), step_s(world)) == ("panic", None)
    world.advance_to(140)
    assert world.job_states()[0].state != "RUNNING"


def test_memory_runs_down_before_the_kernel_kills_a_rank() -> None:
    world = twin(f"at: 300s, fault: host_oom_kill, where: {WHERE}, params: {{rank_on_node: 5}}")
    total = 2_063_872
    left = {}
    for t_s in (100, 210, 299):
        world.advance_to(t_s)
        left[t_s] = float(str(Readings(world).node["mem_available"][NODE])) / total
    assert left[100] == pytest.approx(0.62, abs=0.02)
    assert left[210] == pytest.approx(0.315, abs=0.03)
    assert left[299] == pytest.approx(0.013, abs=0.006)
    assert float(str(Readings(world).node["psi_memory_full"][NODE])) > 30
    assert Readings(world).node["mem_available"][0] > 0.6 * total  # type: ignore[operator]
    assert float(str(facts(world, NODE)["host"].node["swap_used"])) > 4000
    before = float(str(facts(world, NODE)["host"].node["oom_kills"]))
    said = world.advance_to(302)
    killed = next(line for line in said if "Out of memory: Killed process" in line.text)
    assert "Killed process 20102 (python3)" in killed.text
    readings = Readings(world)
    assert (gpu(readings, "gpu_fb_used", NODE, 5), gpu(readings, "gpu_fb_used", NODE, 4) > 1000) == (0, True)
    assert float(str(facts(world, NODE)["host"].node["oom_kills"])) - before == 1
    assert [alive for alive in world.job_states()[0].rank_alive if not alive] == [False]
    said = world.advance_to(340)
    assert any("Detected 1 oom_kill event in StepId=7.0" in line.text for line in said)
    assert world.job_states()[0].state != "RUNNING"
    # The one that was killed prints nothing.
    assert not any(line.text.startswith("[rank13]") for line in said)


def test_a_limit_of_the_job_is_reached_while_the_host_has_plenty() -> None:
    world = twin(f"at: 300s, fault: host_oom_kill, where: {WHERE}, params: {{cgroup: true, victim: loader_worker}}")
    world.advance_to(299)
    assert Readings(world).node["mem_available"][NODE] > 0.4 * 2_063_872  # type: ignore[operator]
    said = world.advance_to(310)
    assert any(line.text.startswith("Memory cgroup out of memory: Killed process") for line in said)
    assert any("DataLoader worker" in line.text and "killed by signal" in line.text for line in said)


def test_a_wrong_clock_is_in_every_time_that_the_node_gives_and_stops_nothing() -> None:
    world = twin(f"at: 10s, fault: clock_skew, where: {WHERE}, params: {{offset_ms: 4200}}")
    speaking = speaker(world, NODE)
    said = world.advance_to(60)
    assert [facts(world, node)["clock"].node["clock_offset"] for node in (0, NODE)] == [
        pytest.approx(0, abs=0.001), pytest.approx(4.2, abs=0.001),
    ]  # fmt: skip
    message = wire.decode(speaking.frame(Readings(world), full=True))
    assert isinstance(message, wire.Full)
    assert message.wall == pytest.approx(world.wall_at_0 + 64.2, abs=0.01)
    assert [(line.sink, line.text) for line in said] == [
        ("syslog", "chronyd[911]: Can't synchronise: no selectable sources")
    ]
    assert "chronyd[911]: Can't synchronise" in printed(world, NODE, "dmesg")
    assert step_s(world) == 1.0
