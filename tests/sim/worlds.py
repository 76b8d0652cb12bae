"""Small scenarios for the tests of the simulated fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim.scenarios import vocabulary
from stethoscope.sim.twin import Twin
from stethoscope.specs.load import loads
from stethoscope.specs.scenario_read import read_scenario

if TYPE_CHECKING:
    from stethoscope.sim.readings import Readings
    from stethoscope.specs.scenario import Scenario

TEXT = """\
schema: stethoscope.scenario/1
id: test
title: A test
seed: {seed}
duration: 30m
fleet: {{nodes: {nodes}, gpus_per_node: 8, gpu: {gpu}, nodes_per_pod: 4, driver: "{driver}"}}
jobs:
  - id: "7"
    nodes: {job_nodes}
    step_time_s: {step_time_s}
    shares: {shares}
    samples_per_step: {samples}
events:
{events}
"""


def scenario(
    *events: str,
    seed: int = 5,
    nodes: int = 6,
    gpu: str = "H100-SXM5-80GB",
    driver: str = "550.90.07",
    job_nodes: str = "gpu-[001-005]",
    step_time_s: float = 1.0,
    shares: str = "{compute: 0.62, comm: 0.25, data: 0.05, other: 0.08}",
    samples: int = 1000,
) -> Scenario:
    """Return a scenario of six nodes, the last one idle, with these events in flow form."""
    listed = "\n".join(f"  - {{{event}}}" for event in events) or "  []"
    text = TEXT.format(
        seed=seed,
        nodes=nodes,
        gpu=gpu,
        driver=driver,
        job_nodes=job_nodes,
        step_time_s=step_time_s,
        shares=shares,
        samples=samples,
        events=listed,
    )
    return read_scenario(loads(text, "test.yaml"), vocabulary())


def twin(*events: str, **settings: object) -> Twin:
    """Return a twin of `scenario(...)`."""
    return Twin(scenario(*events, **settings))  # type: ignore[arg-type]


def gpu(readings: Readings, metric: str, node: int, index: int) -> float:
    """Return a GPU's value that must be a number."""
    value = readings.gpu[metric][node][index]
    assert isinstance(value, int | float)
    return value


def mean(readings: Readings, metric: str, node: int) -> float:
    """Return the mean of a metric over the GPUs of a node."""
    return sum(gpu(readings, metric, node, index) for index in range(8)) / 8
