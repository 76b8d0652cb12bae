"""On-demand probes of simulated nodes: in the tools' own forms, with the twin's numbers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from stethoscope.model.report import ToolError
from stethoscope.sim import tools
from stethoscope.sim.readings import Readings
from stethoscope.specs.probes import load_manifest
from tests.sim.watching import facts
from tests.sim.worlds import twin

if TYPE_CHECKING:
    from stethoscope.model.report import Report
    from stethoscope.sim.twin import Twin

AIMS = {"node": [], "gpu": ["2"], "port": ["mlx5_3", "1"], "disk": ["nvme1n1"], "net": ["ib3"], "pci": ["0000:52:00.0"]}
MARK = "stethoscope-probe: "
OPTIC = "at: 10s, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3, params: {rx_power_dbm: -9.5, ramp: 10s}"


def _ran(world: Twin, node: int, probe: str, args: list[str]) -> list[tuple[int, str]]:
    """Return exit status and output of each command of a probe."""
    answer = tools.output(world, node, probe, args)
    assert answer is not None
    runs: list[tuple[int, str]] = []
    for block in answer[1].split(f"{MARK}$ ")[1:]:
        text, _, status = block.partition("\n")[2].rpartition(f"\n{MARK}exit ")
        runs.append((int(status), text))
    return runs


def _report(world: Twin, node: int, probe: str, args: list[str], number: int = 0) -> Report:
    parser = next(one.parser for one in load_manifest().ondemand if one.id == probe)
    status, text = _ran(world, node, probe, args)[number]
    report: Report = importlib.import_module(f"stethoscope.parse.tools.{parser}").read(text, exit=status)
    return report


def _items(report: Report, where: str = "") -> dict[str, object]:
    return {item.name: item.value for item in report.items if item.where == where}


@pytest.mark.parametrize("probe", [one.id for one in load_manifest().ondemand])
def test_every_probe_of_the_manifest_is_answered_and_understood(probe: str) -> None:
    entry = next(one for one in load_manifest().ondemand if one.id == probe)
    world = twin(OPTIC)
    world.advance_to(60)
    aims = [AIMS[entry.target], []] if entry.target in ("gpu", "pci") else [AIMS[entry.target]]
    for args in aims:
        for number, (status, _) in enumerate(_ran(world, 1, probe, args)):
            if status == 0:
                assert _report(world, 1, probe, args, number).items
    again = twin(OPTIC)
    again.advance_to(60)
    assert tools.output(world, 1, probe, aims[0]) == tools.output(again, 1, probe, aims[0])


def test_a_probe_that_no_node_has_says_so_and_a_scenario_has_the_last_word() -> None:
    world = twin('at: 0s, probe_output: {where: gpu-002, probe: mlxlink, text: "Rx -9.5"}')
    answer = tools.output(world, 0, "fio", [])
    assert answer == (127, "", "stethoscope-probe: not installed: fio\n")
    assert tools.output(world, 1, "mlxlink", ["mlx5_0", "1"]) == (0, "Rx -9.5", "")


def test_a_sick_optic_has_the_same_numbers_in_every_tool() -> None:
    world = twin(OPTIC)
    world.advance_to(60)
    link = _report(world, 1, "mlxlink", ["mlx5_3", "1"])
    counters = Readings(world).port
    said = _items(link)
    assert _items(link, "lane/3")["ib_module_rx_power"] == -9.5
    assert _items(link, "lane/0")["ib_module_rx_power"] > 1.5
    assert said["ib_effective_ber"] == 1e-9
    assert said["recommendation"] == "Bad signal integrity"
    assert said["symbol_errors"] == counters["ib_symbol_error"][1][3] > 1000
    assert said["ib_link_down_counter"] == counters["ib_link_downed"][1][3]
    asked = next(iter(_report(world, 1, "perfquery", ["mlx5_3", "1"]).items)).where
    assert _items(_report(world, 1, "perfquery", ["mlx5_3", "1"]), asked)["ib_symbol_error"] == said["symbol_errors"]
    fabric = _ran(world, 0, "ibqueryerrors", [])[0][1]
    assert '"gpu-002 mlx5_3"\n   GUID' in fabric
    assert f"[SymbolErrorCounter == {said['symbol_errors']}]" in fabric
    healthy = _items(_report(world, 0, "mlxlink", ["mlx5_3", "1"]))
    assert (healthy["recommendation"], healthy["ib_effective_ber"]) == ("No issue was observed", 0.0)


def test_nvidia_smi_shows_what_the_parts_show() -> None:
    world = twin(
        "at: 0s, fault: gpu_thermal_throttle, where: gpu-002/gpu/2, params: {ramp: 10s}",
        "at: 0s, fault: historic_counters, where: gpu-002/gpu/2, params: {sbe: 14}",
        "at: 0s, set: {where: gpu-002/nvlink/2/5, metric: nvlink_state, value: 0}",
        driver="575.57.08",
    )
    world.advance_to(60)
    text = _ran(world, 1, "nvidia_smi_q", ["2"])[0][1]
    gpu = facts(world, 1)["gpu"].gpu
    assert f"SW Thermal Slowdown               : {gpu['gpu_throttle_time_sw_thermal'][2]} us" in text
    assert "            SW Thermal Slowdown" not in text
    assert "        SW Thermal Slowdown               : Active\n" in text
    assert "            DRAM Correctable              : 14\n" in text
    assert f"GPU Current Temp                  : {Readings(world).gpu['gpu_temp'][1][2]} C" in text
    assert "            Process ID" not in text
    assert "        Process ID                        : 20099\n" in text
    links = [line.strip() for line in _ran(world, 1, "nvidia_smi_nvlink", ["2"])[0][1].splitlines()]
    assert (links[6], links[7]) == ("Link 5: <inactive>", "Link 6: 26.562 GB/s")


def test_a_lost_gpu_ends_the_tools_that_ask_for_it() -> None:
    world = twin("at: 10s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2")
    world.advance_to(12)
    status, text = _ran(world, 1, "nvidia_smi_q", [])[0]
    assert (status, "GPU is lost" in text, "0000:52:00.0" in text) == (15, True, True)
    with pytest.raises(ToolError):
        _report(world, 1, "nvidia_smi_q", ["2"])
    assert _ran(world, 1, "nvidia_smi_q", ["3"])[0][0] == 0
    assert _ran(world, 1, "dcgm_diag_r1", [])[0][0] == 226
    assert "(rev ff)" in _ran(world, 1, "lspci", ["0000:52:00.0"])[0][1]
    assert "LnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)" in _ran(world, 1, "lspci", ["0000:1b:00.0"])[0][1]


def test_a_tool_that_calls_a_hung_driver_never_ends_and_others_do() -> None:
    world = twin("at: 10s, fault: driver_hung, where: gpu-002")
    world.advance_to(12)
    assert tools.output(world, 1, "nvidia_smi_q", []) is None
    assert tools.output(world, 1, "dcgm_diag_r1", []) is None
    assert tools.output(world, 1, "ibstat", []) is not None
    assert tools.output(world, 0, "nvidia_smi_q", []) is not None


def test_what_is_not_there_is_an_error_and_no_value() -> None:
    world = twin()
    assert tools.output(world, 0, "mlxlink", ["mlx5_9", "1"])[0] == 255  # type: ignore[index]
    assert tools.output(world, 0, "smartctl", ["sda"])[0] == 2  # type: ignore[index]
    assert tools.output(world, 0, "ethtool", ["eth7"])[0] == 75  # type: ignore[index]
    assert tools.output(world, 0, "nvidia_smi_q", ["9"])[0] == 6  # type: ignore[index]
