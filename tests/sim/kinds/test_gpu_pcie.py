"""PCIe links of GPUs: narrow, slow, or full of corrected errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.model.metric import Scope
from stethoscope.sim import tools
from stethoscope.sim.readings import Readings
from tests.sim.watching import facts
from tests.sim.worlds import mean, twin

if TYPE_CHECKING:
    from stethoscope.sim.twin import Twin

GPU = "0000:52:00.0"
PORT = "0000:5e:00.0"


def _pcie(world: Twin, metric: str, name: str) -> object:
    devices = facts(world, 1)["pcie"].devices[Scope.PCIE]
    return devices.values[metric][devices.names.index(name)]


def _waiting(world: Twin, node: int, port: int) -> float:
    """Return the share of a minute in which a port waits for credit."""
    before = int(world.total("ib_port_xmit_wait", world.t_s)[node, port])
    world.advance_to(world.t_s + 60)
    return (int(world.total("ib_port_xmit_wait", world.t_s)[node, port]) - before) / 60 / 156_250_000


@pytest.mark.parametrize(
    ("event", "width", "gen", "left"),
    [
        ("gpu_pcie_width_low", 8, 5, 0.55),
        ("gpu_pcie_gen_low", 16, 2, 0.1375),
        ("gpu_pcie_gen_low, params: {gen: 4}", 16, 4, 0.55),
    ],
)
def test_a_link_that_is_narrow_or_slow_holds_up_every_rank_alike(event: str, width: int, gen: int, left: float) -> None:
    fault, _, params = event.partition(", ")
    world = twin(f"at: 10s, fault: {fault}, where: gpu-002/gpu/2" + (f", {params}" if params else ""))
    assert world.advance_to(60) == []
    gpus = facts(world, 1)["gpu"].gpu
    assert gpus["gpu_pcie_link_width"] == [16, 16, width, 16, 16, 16, 16, 16]
    assert gpus["gpu_pcie_link_gen"] == [5, 5, gen, 5, 5, 5, 5, 5]
    assert gpus["gpu_pcie_link_gen_max"] == [5] * 8
    assert _pcie(world, "pcie_link_width", GPU) == width
    assert _pcie(world, "pcie_aer_correctable", GPU) == 0
    # The collective grows by what the link does not carry; the rank's own data time a little.
    assert world.job_states()[0].step_time_s == pytest.approx(1 + 0.25 * (1 / left - 1), rel=0.04)
    step = world.runs["7"].step
    assert step is not None
    assert step.collective_s == pytest.approx(0.25 / left)
    assert 0.05 < step.data_s[1, 2] < 0.1
    assert step.wait_s.max() < 0.05
    readings = Readings(world)
    assert mean(readings, "gpu_util", 0) >= 93
    assert mean(readings, "gpu_util", 1) >= 93
    assert 0.1 <= _waiting(world, 0, 2) <= 0.2
    assert _waiting(world, 0, 3) < 0.02
    answer = tools.output(world, 1, "lspci", [GPU])
    assert answer is not None
    speed = {2: "5", 4: "16", 5: "32"}[gen]
    assert f"LnkSta:\tSpeed {speed}GT/s" in answer[1]
    assert f"Width x{width}" in answer[1].split("LnkSta:")[1].split("\n")[0]


def test_half_of_a_link_that_is_the_narrow_part_anyway_is_half() -> None:
    # Generation 4 carries 27.5 GB/s, less than the 50 of the adapter.
    world = twin("at: 10s, fault: gpu_pcie_width_low, where: gpu-002/gpu/2", gpu="A100-SXM4-80GB")
    world.advance_to(60)
    step = world.runs["7"].step
    assert step is not None
    assert step.collective_s == pytest.approx(0.25 / 0.5)


def test_a_storm_of_corrected_errors_is_counted_and_costs_next_to_nothing() -> None:
    world = twin("at: 10s, fault: pcie_aer_storm, where: gpu-002/gpu/2")
    world.advance_to(9)
    before = facts(world, 1)["gpu"].gpu["gpu_pcie_replay"]
    said = world.advance_to(130)
    after = facts(world, 1)["gpu"].gpu["gpu_pcie_replay"]
    assert [later - past for later, past in zip(after, before, strict=True)] == [0, 0, 600, 0, 0, 0, 0, 0]
    assert _pcie(world, "pcie_aer_correctable", GPU) == pytest.approx(600, abs=300)
    assert _pcie(world, "pcie_aer_fatal", GPU) == 0
    assert [line.text for line in said] == [
        "pcieport 0000:4e:01.0: AER: Multiple Corrected error received: 0000:52:00.0",
        "nvidia 0000:52:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
        "nvidia 0000:52:00.0:    [12] Timeout",
    ]
    assert 1 < float(world.job_states()[0].step_time_s or 0) < 1.02


def test_a_storm_at_an_adapter_names_the_adapter() -> None:
    world = twin("at: 10s, fault: pcie_aer_storm, where: gpu-002/ib/mlx5_3, params: {per_minute: 60}")
    said = world.advance_to(70)
    assert _pcie(world, "pcie_aer_correctable", PORT) == pytest.approx(60, abs=1)
    assert [line.text for line in said][:2] == [
        "pcieport 0000:5d:03.0: AER: Multiple Corrected error received: 0000:5e:00.0",
        "mlx5_core 0000:5e:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
    ]
