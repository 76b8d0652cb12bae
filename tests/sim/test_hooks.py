"""What a fault kind can do that none of the present ones does: every hook has its effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from stethoscope.model.metric import Reason
from stethoscope.sim.kinds.kind import Kind, Line
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.readings import Readings
from stethoscope.specs.scenario import Param
from tests.sim.worlds import gpu, mean, twin

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.twin import Twin


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Effects, float], None]], Twin]:
    """Return a function that plays a kind with the given effect on node gpu-002 from 10 s on, up to 60 s."""

    def run(effect: Callable[[Effects, float], None]) -> Twin:
        class Invented(Kind):
            name = "invented"
            targets = frozenset({"node", "job", "leaf"})
            params = {"eio_after": Param("20s", "s")}  # noqa: RUF012
            lines = (
                Line("kernel", "eio_after", "others", "eio on {peer_node} because of {node} after {eio_after}"),
                Line("job", 1.0, "rank0", "[rank{rank}] stopped"),
                Line("job", 2.0, "all", "[rank{rank}] all"),
            )

            def apply(self, effects: Effects, age_s: float) -> None:
                effect(effects, age_s)

        monkeypatch.setitem(KINDS, "invented", Invented)
        world = twin("at: 10s, fault: invented, where: gpu-002")
        world.advance_to(60)
        return world

    return run


def test_stalls_and_slow_loaders_leave_the_gpu_without_kernels(play: Callable[..., Twin]) -> None:
    def starve(effects: Effects, age_s: float) -> None:
        effects.stall_s[1] += 0.4
        effects.other[1] *= 2

    world = play(starve)
    readings = Readings(world)
    assert world.job_states()[0].step_time_s == pytest.approx(1.48)
    assert mean(readings, "gpu_util", 1) == pytest.approx(67, abs=3)
    assert mean(readings, "gpu_util", 0) >= 97


def test_a_job_wide_path_is_as_good_as_a_port(play: Callable[..., Twin]) -> None:
    world = play(lambda effects, _: effects.job_bandwidth.update({"7": 0.1}))
    assert world.job_states()[0].step_time_s == pytest.approx(0.75 + 2.5)


def test_power_is_cut_and_values_are_replaced(play: Callable[..., Twin]) -> None:
    def cut(effects: Effects, age_s: float) -> None:
        effects.power_factor[1] = 0.5
        effects.fix("gpu_power_limit", 350.0, 1, 3)
        effects.fix("ib_port_state", 1.0, 1, 2)
        effects.add("cpu_iowait", 30.0, 1)
        effects.add("ib_port_xmit_discards", 5.0, 1, 2)
        effects.gpu_missing[2, 1] = Reason.ERROR
        effects.links[4] = "hang"
        effects.slurm[3] = "drained"
        effects.probes[("gpu-002", "smartctl")] = "FAILED!"
        effects.shown[("gpu-002/disk/nvme1n1", "nvme_percentage_used")] = 104.0

    world = play(cut)
    readings = Readings(world)
    assert mean(readings, "gpu_power_draw", 1) == pytest.approx(0.5 * 397 + 95, abs=12)
    assert (gpu(readings, "gpu_power_limit", 1, 3), gpu(readings, "gpu_power_limit", 1, 4)) == (350, 700)
    assert (readings.port["ib_port_state"][1][2], readings.port["ib_port_state"][1][3]) == (1, 4)
    assert readings.node["cpu_iowait"][1] == pytest.approx(30, abs=7)
    assert readings.port["ib_port_xmit_discards"][1][2] == pytest.approx(250, abs=2)
    assert readings.gpu["gpu_temp"][2][1] == "error"
    assert (world.link(4), world.slurm_state(3), world.probe_text(1, "smartctl")) == ("hang", "drained", "FAILED!")
    assert world.shown()[("gpu-002/disk/nvme1n1", "nvme_percentage_used")] == 104.0


def test_lines_come_at_the_age_that_a_parameter_says_from_whom_they_should(play: Callable[..., Twin]) -> None:
    play(lambda effects, age_s: None)
    world = twin("at: 10s, fault: invented, where: gpu-002")
    said = world.advance_to(60)
    assert [(line.at_s, line.rank) for line in said if line.text.endswith("stopped")] == [(11.0, 0)]
    assert [line.rank for line in said if line.text.endswith("all")] == list(range(40))
    kernel = [line for line in said if line.sink == "kernel"]
    assert {line.node for line in kernel} == {"gpu-001", "gpu-003", "gpu-004", "gpu-005"}
    assert (kernel[0].at_s, kernel[0].text) == (30.0, "eio on gpu-001 because of gpu-002 after 20")


@pytest.mark.parametrize(
    ("place", "nodes"), [("job/7", ["001", "002", "003", "004", "005"]), ("leaf/leaf-02-3", ["005", "006"])]
)
def test_of_a_cause_that_is_on_no_single_node_each_node_speaks_for_itself(
    play: Callable[..., Twin], place: str, nodes: list[str]
) -> None:
    play(lambda effects, age_s: None)
    said = twin(f"at: 10s, fault: invented, where: {place}").advance_to(60)
    ranks = [(int(node) - 1) * 8 + gpu for node in nodes if node != "006" for gpu in range(8)]
    assert [line.rank for line in said if line.text.endswith("all")] == ranks
    kernel = [line.text.partition(" after")[0] for line in said if line.sink == "kernel"]
    assert kernel == [f"eio on gpu-{node} because of gpu-{node}" for node in nodes]


def test_effects_start_at_none(play: Callable[..., Twin]) -> None:
    plain = twin()
    plain.advance_to(60)
    world = play(lambda effects, age_s: None)
    assert Readings(world).gpu == Readings(plain).gpu
    assert np.all(world.effects.compute == 1)
