"""`stethoscope drill` and `stethoscope scenario`: what they print, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.cli.drill import command, exit_status, print_rows
from stethoscope.cli.scenario import command as scenario
from stethoscope.session.drill_score import Row, points
from tests.session.test_drill import OPTIC
from tests.session.test_drill_score import LINK, got

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = Row("right", "right.yaml", LINK, got(), points=points(LINK, got(), 90.0))
_LATE = got(detect_s=200.0, root_cause="ib_link_down")
LATE = Row("late", "late.yaml", LINK, _LATE, points=points(LINK, _LATE, 90.0))
_ALARM = got(false_alarms=1)
ALARM = Row("alarm", "alarm.yaml", LINK, _ALARM, points=points(LINK, _ALARM, 90.0))
BROKEN = Row("broken", "broken.yaml", error='broken.yaml:3:1: unknown key "x"')


@pytest.mark.parametrize(
    ("rows", "status"),
    [([RIGHT], 0), ([RIGHT, LATE], 1), ([LATE, ALARM], 2), ([RIGHT, BROKEN], 65), ([ALARM, BROKEN], 65)],
)
def test_exit_status(rows: list[Row], status: int) -> None:
    assert exit_status(rows) == status


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([RIGHT, LATE, BROKEN])
    head, right, late, missed, broken, why, total, rest = capsys.readouterr().out.splitlines()
    link = "global ib_link_fault gpu-007/ib/mlx5_3"
    assert head.split() == ["scenario", "expected", "got", "detected", "false", "score"]
    assert right == f"right     {link}  {link}      15 s      0   100%"
    assert late == f"late      {link}  global ib_link_down gpu-007/ib/mlx5_3      200 s      0    75%"
    assert missed == "    missed: root cause (half), in time · detected after 200 s"
    assert broken.split() == ["broken", "-", "cannot", "be", "played", "-", "-", "-"]
    assert why == '    broken.yaml:3:1: unknown key "x"'
    assert total == (
        "1 of 2 right: scope 100%, layer 100%, root cause 75%, culprits 100%, severity 100%, in time 50%, "
        "half of them detected within 108 s, 0 false alarms"
    )
    assert rest == "1 could not be played"


def test_a_scenario_is_named_with_its_file_where_that_is_called_otherwise() -> None:
    assert (RIGHT.name, Row("demo", "demo").name) == ("right", "demo")
    assert Row("optic", "nights/first.yaml").name == "optic (first.yaml)"


def test_json_has_what_could_not_be_played(tmp_path: Path) -> None:
    path = tmp_path / "optic.yaml"
    path.write_text(OPTIC.replace("fault: ib_optic_degraded", "fault: ib_optic"))
    done = CliRunner().invoke(command, [str(path), "--json"], standalone_mode=False)
    assert done.return_value == 65
    document = json.loads(done.stdout)
    assert document["schema"] == "stethoscope.drill/1"
    (result,) = document["results"]
    assert (result["id"], result["got"], result["correct"]) == ("optic", None, None)
    assert 'unknown fault kind "ib_optic"' in result["error"]
    assert document["score"]["broken"] == 1
    assert "1/1 optic" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--ssh", "--jobs", "2", "demo"], ["--speed", "2", "demo"], ["nowhere.yaml"], []]
)
def test_usage(arguments: list[str]) -> None:
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert type(done.exception).__name__ in ("UsageError", "MissingParameter")


def test_scenario_check(tmp_path: Path) -> None:
    good, bad = tmp_path / "optic.yaml", tmp_path / "bad.yaml"
    good.write_text(OPTIC)
    bad.write_text(OPTIC.replace("gpu: H100-SXM5-80GB", "gpu: H100-SXM-80GB"))
    done = CliRunner().invoke(scenario, ["check", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 65
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{bad}:7:")
    assert 'unknown GPU "H100-SXM-80GB"; did you mean "H100-SXM5-80GB"' in lines[0]
    assert lines[1].startswith(f"{good}: nothing wrong: 4 nodes, 1 job")
    done = CliRunner().invoke(scenario, ["check", "--json", str(good)], standalone_mode=False)
    assert (done.return_value, json.loads(done.stdout)["files"][0]["ok"]) == (0, True)
