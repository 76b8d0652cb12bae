"""Scenarios as people write them: what is wrong is said with its place; one is begun from a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import UsageError
from stethoscope.session.scenario_check import check_scenario
from stethoscope.session.scenario_from import scenario_from
from stethoscope.sim.scenarios import vocabulary
from stethoscope.specs.load import loads
from stethoscope.specs.scenario import LogLine
from stethoscope.specs.scenario_read import read_scenario
from stethoscope.store.tape import open_tape
from tests.session.test_drill import OPTIC
from tests.store.made import record

if TYPE_CHECKING:
    from pathlib import Path


def checked(directory: Path, text: str) -> list[str]:
    """Return the errors in a scenario, `line:column: message`."""
    path = directory / "optic.yaml"
    path.write_text(text)
    return [str(error).removeprefix(f"{path}:") for error in check_scenario(str(path)).errors]


def test_nothing_is_wrong(tmp_path: Path) -> None:
    """What is in it is said in a line, and what a reader should know besides."""
    path = tmp_path / "optics.yaml"
    path.write_text(OPTIC)
    found = check_scenario(str(path))
    assert found.errors == ()
    assert found.summary == "4 nodes, 1 job, 1 fault, 3 min; expects global ib_link_fault gpu-002/ib/mlx5_3"
    assert found.remarks == (
        'it calls itself "optic", not as its file',
        "ib_optic_degraded begins at 60s: before 180s nobody knows a healthy job",
    )
    assert found.as_json()["ok"] is True


def test_every_event_that_is_wrong_is_named(tmp_path: Path) -> None:
    """Not only the first: a kind, a parameter and a place, each with the nearest word."""
    text = OPTIC.replace("symbol_errors_per_s: 40", "symbol_error_per_s: 40").replace(
        "kernel_log: {where: gpu-002", "kernel_log: {where: gpu-022"
    )
    first, second = checked(tmp_path, text)
    assert first.endswith(
        'ib_optic_degraded has no parameter "symbol_error_per_s"; did you mean "symbol_errors_per_s"?'
    )
    assert first.startswith("15:")
    assert second.startswith('16:33: no node "gpu-022" in this fleet of 4')


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("root_cause: ib_link_fault", "root_cause: ib_link_falt", '21:15: no root cause "ib_link_falt"; did you mean'),
        ("layer: communication", "layer: hardware", "20:10: ib_link_fault is of the layer communication"),
        (
            "layer: communication",
            "layer: comunication",
            '20:10: no layer "comunication"; did you mean "communication"?',
        ),
        ("culprits: [gpu-002/ib/mlx5_3]", "culprits: [gpu-002/ib/mlx5_9]", "22:14: no port mlx5_9: there are 8"),
        ("not_blamed: [gpu-001]", "not_blamed: [gpu-100]", '24:16: no node "gpu-100"'),
        ("detect_within: 60s", "detect_within: soon", '25:18: "soon" is not a duration'),
        ("detect_within: 60s", "accept: {rootcause: [nic_fault]}", '25:12: "rootcause" is no answer; did you mean'),
        ("root_cause: ib_link_fault", "root_cause: healthy", "19:3: in a healthy fleet scope and severity are none"),
    ],
)
def test_what_is_expected_is_checked(tmp_path: Path, old: str, new: str, error: str) -> None:
    """A word that no diagnosis can say would never be scored right."""
    assert any(found.startswith(error) for found in checked(tmp_path, OPTIC.replace(old, new))), checked(
        tmp_path, OPTIC.replace(old, new)
    )


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("symbol_errors_per_s: 40", "symbol_errors_per_s: -40", "expected a number of 0 or more"),
        ("duration: 3m", "duration: 0s", "a scenario lasts more than nothing, and at most 100h"),
        ("duration: 3m", "duration: 90d", "a scenario lasts more than nothing, and at most 100h"),
        ("id: optic", 'id: "op\\ntic"', "an id is one line of at most 120 characters that can be printed"),
        ("fault: ib_optic_degraded", 'fault: "ib\\n\\e[31moptic"', 'unknown fault kind "ib optic"'),
        ("jobs:\n", "jobs:\nJOB", 'a job "4242" stands here twice'),
    ],
)
def test_what_cannot_be_meant_is_an_error(tmp_path: Path, old: str, new: str, error: str) -> None:
    """Not a scenario that is played for ever, or in which something is less than nothing; a message is one line."""
    job = OPTIC[OPTIC.index("- id:") : OPTIC.index("events:")]
    text = OPTIC.replace(old, new.replace("JOB", job), 1)
    assert text != OPTIC
    assert [found for found in checked(tmp_path, text) if error in found and "\n" not in found], checked(tmp_path, text)


@pytest.mark.parametrize(
    ("event", "remark"),
    [
        (
            "set: {where: gpu-002/ib/mlx5_1, metric: gpu_temp, value: 80}",
            "set gpu_temp at gpu-002/ib/mlx5_1: nothing there has it",
        ),
        (
            'set: {where: gpu-002, metric: gpu_temp, value: "80 C"}',
            'set gpu_temp at gpu-002: it is a number, "80 C" changes nothing',
        ),
        (
            "probe_output: {where: gpu-002, probe: mlxlnk, text: x}",
            'probe_output at gpu-002: no probe "mlxlnk"; did you mean "mlxlink"?',
        ),
        ("set: {where: gpu-002/gpu/1, metric: gpu_temp, value: 80}", ""),
        ("set: {where: gpu-002, metric: gpu_temp, value: null}", ""),
        ("set: {where: job/4242/rank/9, metric: gpu_temp, value: 80}", ""),
        ("set: {where: gpu-002/disk/nvme1n1, metric: disk_io_util, value: 80}", ""),
        ("probe_output: {where: gpu-002, probe: ibdiagnet, text: x}", ""),
    ],
)
def test_what_happens_in_vain_is_said(tmp_path: Path, event: str, remark: str) -> None:
    """It can be played, and its writer meant something by it."""
    path = tmp_path / "optic.yaml"
    path.write_text(OPTIC.replace("events:\n", f"events:\n- {{at: 1m, {event}}}\n"))
    found = check_scenario(str(path))
    assert found.errors == ()
    assert [one for one in found.remarks if "begins at" not in one] == ([remark] if remark else [])


def test_light_and_clocks_may_be_below_nothing(tmp_path: Path) -> None:
    """Some numbers have a sign."""
    assert checked(tmp_path, OPTIC.replace("symbol_errors_per_s: 40", "rx_power_dbm: -12")) == []


def test_no_such_scenario() -> None:
    """A bundled one by its name is checked; another name is refused with the nearest."""
    assert check_scenario("demo").errors == ()
    with pytest.raises(UsageError, match='no scenario "dmo"; did you mean "demo"'):
        check_scenario("dmo")


def test_a_scenario_from_a_recording_can_be_played(tmp_path: Path) -> None:
    """The fleet, the log lines at their times, what was found as comments, and nothing that nobody knows."""
    path = tmp_path / "night.sthr"
    record(path, "at: 60s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2", until_s=150)
    text = scenario_from(open_tape(path), "Night of the 3rd")
    scenario = read_scenario(loads(text, "night.yaml"), vocabulary())
    assert (scenario.id, scenario.duration_s, scenario.fleet.nodes) == ("night-of-the-3rd", 150.0, 6)
    assert scenario.expect is not None
    assert (scenario.expect.root_cause, scenario.expect.severity) == ("unknown", "P0")
    lines = [event for event in scenario.events if isinstance(event, LogLine) and "Xid" in event.line]
    assert lines
    assert all(event.where.text == "gpu-002" and 55 <= event.at_s <= 75 for event in lines)
    assert "fault: gpu_fell_off_bus, where: gpu-002/gpu/2}" in text
    (tmp_path / "night.yaml").write_text(text)
    assert check_scenario(str(tmp_path / "night.yaml")).errors == ()
