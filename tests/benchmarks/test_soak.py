"""A healthy fleet for an hour, without a finding; and faults that are found in the same life."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.soak import HOUR_S, Soak, is_excused, of_fault, watched
from benchmarks.soak_life import Life, fault

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_a_day_has_everything_that_a_fleet_does() -> None:
    life, phases, drained, off = Life(16, 2), set(), set(), set()
    jobs = set(life.active)
    for number in range(1, 4500):
        t_s = number * 10.0
        life.move(t_s)
        jobs |= life.active.keys()
        phases |= {run.phase(node, t_s) for run in life.active.values() for node in run.job.nodes}
        drained |= {name for name, state in life.scheduler().nodes.items() if state.is_out_of_service}
        off |= {node for node in range(16) if life.is_off(node)}
    assert phases == {"loading", "initial", "warm", "steps", "saving", "evaluating"}
    assert len(jobs) >= 8
    assert drained
    assert off


@pytest.mark.slow
def test_a_healthy_fleet_has_no_finding_in_an_hour() -> None:
    soak = Soak(Life(8, 5))
    watched(soak, 1.0, quiet=True)
    assert [one.finding.summary for one in soak.past if not is_excused(one.finding)] == []


@pytest.mark.slow
def test_a_fault_in_the_same_life_is_found() -> None:
    hot = fault(
        8,
        "gpu_thermal_throttle",
        "gpu-004/gpu/2",
        0.03 * HOUR_S,
        {"temp_c": 88.0, "mem_temp_c": None, "clock_mhz": 1100.0, "ramp": 60.0},
    )
    soak = Soak(Life(8, 5, (hot,)))
    watched(soak, 0.1, quiet=True)
    assert "gpu_thermal" in {one.finding.rule for one in of_fault(hot, soak.past)}
