"""How long it takes until something is found."""

from __future__ import annotations

import pytest

from stethoscope.session.drill_found import Record, detect_s
from stethoscope.sim.scenarios import vocabulary
from stethoscope.specs.load import loads
from stethoscope.specs.scenario_read import read_scenario

HEAD = """
schema: stethoscope.scenario/1
id: told
title: Told by values and lines
duration: 10m
fleet: {nodes: 4, gpus_per_node: 8, gpu: H100-SXM5-80GB}
background:
- {at: 2m, fault: gpu_sbe_growth, where: gpu-001/gpu/1}
expect:
  scope: local
  layer: communication
  root_cause: ib_link_fault
  culprits: [gpu-004/ib/mlx5_3]
  severity: P2
events:
"""
TOLD = """
- {at: 5m, set: {where: gpu-004/ib/mlx5_3, metric: ib_symbol_error, value: 9000, ramp: 5m}}
- {at: 320s, kernel_log: {where: gpu-004, line: "Port module event: module 3, High Temperature"}}
"""
FAULT = "- {at: 5m, fault: ib_optic_degraded, where: gpu-004/ib/mlx5_3}\n"


@pytest.mark.parametrize(
    ("events", "named_s", "expected"),
    [
        # What is told from 300 and 320 s on: found behind the first, behind the last, never.
        (TOLD, 315.0, 15.0),
        (TOLD, 365.0, 45.0),
        (TOLD, 200.0, None),
        # A fault has a start of its own, whatever is told beside it.
        (FAULT + TOLD, 365.0, 65.0),
    ],
)
def test_from_when_it_is_counted(events: str, named_s: float, expected: float | None) -> None:
    scenario = read_scenario(loads(HEAD + events, "told.yaml"), vocabulary())
    record = Record()
    record.told.append((named_s, "ib_link_fault", ("gpu-004/ib/mlx5_3",)))
    assert scenario.expect is not None
    assert detect_s(scenario, scenario.expect, record) == expected
