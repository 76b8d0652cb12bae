"""A fault that comes in while the twin plays is the same fault as one that the scenario has."""

from __future__ import annotations

import pytest

from stethoscope.errors import DataError
from stethoscope.sim.readings import Readings
from stethoscope.sim.scenarios import vocabulary
from stethoscope.sim.twin import Twin
from stethoscope.specs.scenario_read import read_fault
from tests.sim.worlds import scenario

EVENT = "at: 100s, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3, params: {symbol_errors_per_s: 41, ramp: 20s}"
WORDS = "ib_optic_degraded gpu-002/ib/mlx5_3 at=+40s symbol_errors_per_s=41 ramp=20s"


def test_an_injected_fault_is_that_of_a_scenario() -> None:
    planned, quiet = Twin(scenario(EVENT)), Twin(scenario())
    quiet.advance_to(60.0)
    quiet.inject(read_fault(WORDS, quiet.scenario, vocabulary(), quiet.t_s))
    for moment in (70.0, 110.0, 150.0, 300.0):
        planned.advance_to(moment)
        quiet.advance_to(moment)
        one, other = Readings(planned), Readings(quiet)
        assert one.port["ib_symbol_error"] == other.port["ib_symbol_error"]
        assert one.gpu["gpu_power_draw"] == other.gpu["gpu_power_draw"]
    assert planned.faults == quiet.faults


def test_one_that_ends_is_over_and_lines_come() -> None:
    world = Twin(scenario())
    world.advance_to(50.0)
    world.inject(read_fault("gpu_fell_off_bus gpu-002/gpu/2", world.scenario, vocabulary(), world.t_s))
    world.inject(read_fault("ib_link_down gpu-003/ib/mlx5_1 until=+30s", world.scenario, vocabulary(), world.t_s))
    said = world.advance_to(60.0)
    assert any("Xid" in line.text for line in said)
    assert Readings(world).port["ib_port_state"][2][1] != Readings(world).port["ib_port_state"][2][0]
    world.advance_to(90.0)
    assert Readings(world).port["ib_port_state"][2][1] == Readings(world).port["ib_port_state"][2][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", 'inject: unknown fault kind ""'),
        ("ib_link_dwn gpu-001/ib/mlx5_1", 'unknown fault kind "ib_link_dwn"; did you mean "ib_link_down"'),
        ("ib_link_down", 'a fault needs "where"'),
        ("ib_link_down gpu-001", 'ib_link_down is not for "gpu-001"; it takes: ib'),
        ("ib_link_down gpu-001/ib/mlx5_1 outcome=burn", '"burn" is not one of crash, hang'),
        ("ib_link_down gpu-001/ib/mlx5_1 outcome", '"outcome" is not key=value'),
        ("ib_link_down gpu-001/ib/mlx5_1 at=5s", "at=5s is over: it is 60s now"),
        ("ib_link_down gpu-001/ib/mlx5_1 at=soon", 'at: "soon" is not a duration'),
        ("ib_link_down gpu-001/ib/mlx5_1 at=+10s until=+5s", "until is not after at"),
        ("ib_optic_degraded gpu-001/ib/mlx5_1 symbol_errors_per_s=[1", "inject"),
        ("ib_optic_degraded gpu-001/ib/mlx5_1 symbol_errors_per_s=-1", "symbol_errors_per_s: expected a number of 0"),
        ('maintenance_drain gpu-001 reason="maint', "a quote that is opened is not closed"),
    ],
)
def test_words_that_mean_no_fault(words: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_fault(words, scenario(), vocabulary(), 60.0, name="inject")
    assert message in str(error.value)


def test_words_with_spaces_stand_in_quotes() -> None:
    text = 'maintenance_drain gpu-001 reason="maint: a fan"'
    assert read_fault(text, scenario(), vocabulary(), 60.0).params["reason"] == "maint: a fan"
