"""Scenarios played in virtual time, diagnosed and scored."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import UsageError
from stethoscope.session.drill import Drilled, drill, drill_all, scenario_files
from stethoscope.session.played import Played
from stethoscope.sim.scenarios import vocabulary
from stethoscope.specs.load import loads
from stethoscope.specs.scenario_read import read_scenario

if TYPE_CHECKING:
    from stethoscope.specs.scenario import Scenario

OPTIC = """
schema: stethoscope.scenario/1
id: optic
title: A sick optic
seed: 7
duration: 3m
fleet: {nodes: 4, gpus_per_node: 8, gpu: H100-SXM5-80GB, nodes_per_rack: 4, nodes_per_pod: 4}
jobs:
- id: "4242"
  nodes: gpu-[001-004]
  step_time_s: 1.0
  shares: {compute: 0.6, comm: 0.3, data: 0.05, other: 0.05}
  samples_per_step: 256
events:
- {at: 1m, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3, params: {symbol_errors_per_s: 40}}
- {at: 90s, kernel_log: {where: gpu-002, line: "mlx5_core 0000:5e:00.0: Port module event: module 3, High Temperature"}}
- {at: 1m, probe_output: {where: gpu-001, probe: nccl_all_reduce, text: "# Avg bus bandwidth    : 90.2833"}}
expect:
  scope: global
  layer: communication
  root_cause: ib_link_fault
  culprits: [gpu-002/ib/mlx5_3]
  severity: P1
  not_blamed: [gpu-001]
  detect_within: 60s
"""


def scenario(text: str = OPTIC) -> Scenario:
    """Return a scenario from its text."""
    return read_scenario(loads(text, "optic.yaml"), vocabulary())


@pytest.fixture(scope="module")
def drilled() -> Drilled:
    """Return the sick optic, played to its end."""
    one = Drilled(scenario())
    one.run()
    return one


def test_what_was_played_is_found_at_its_place(drilled: Drilled) -> None:
    """The finding names the port; the innocent node has none that is urgent."""
    found = [(finding.rule, place) for _, finding, place in drilled.record.named if finding.severity.value == "P1"]
    assert ("ib_symbol_errors", "gpu-002/ib/mlx5_3") in found
    assert not [place for _, place in found if place.startswith("gpu-001")]


def test_scene_has_what_a_console_has(drilled: Drilled) -> None:
    """The night's list, the job with its pace, and the logs of both kinds."""
    played = drilled.played
    scene = played.scene()
    assert scene.now_s == played.twin.wall_at_0 + 180.0
    assert {entry.finding.rule for entry in scene.entries} >= {"ib_symbol_errors"}
    assert [job.id for job in scene.jobs] == ["4242"]
    assert scene.snapshot.standings["4242"].last is not None
    of_job, of_kernels = scene.logs
    assert of_job.log.lines > of_kernels.log.lines == 1
    assert played.session.lost_lines == 0


def test_measuring_asks_the_twin_as_a_node(drilled: Drilled) -> None:
    """A tool with a script answers through its parser, one without prints what the scenario says, nobody else."""
    played = drilled.played
    (port,) = played.measure("gpu-002/ib/mlx5_3", "mlxlink")
    assert (port.place, port.status) == ("gpu-002/ib/mlx5_3", "ok")
    assert port.items
    (all_reduce,) = played.measure("job/4242", "nccl_all_reduce")
    assert "90.2833" in all_reduce.text
    assert played.measure("gpu-003", "nccl_all_reduce") == ()
    assert played.measure("gpu-099", "mlxlink") == ()


def test_the_diagnosis_reads_nothing_of_the_scenario(drilled: Drilled) -> None:
    """Without an expectation, under another name, the same machine gives the same findings and the same answer."""
    told_nothing = replace(scenario(), id="x", title="", source="", expect=None)
    again = Drilled(told_nothing)
    first = again.run()
    assert [(t, f.id, place) for t, f, place in again.record.named] == [
        (t, f.id, place) for t, f, place in drilled.record.named
    ]
    assert drilled.diagnosis is not None
    assert first.as_json() == drilled.diagnosis.as_json()


def test_the_diagnosis_imports_nothing_of_the_scenario() -> None:
    """Not even by a detour that a static graph cannot see."""
    code = (
        "import sys, importlib, pkgutil, stethoscope.analysis as a\n"
        "for m in pkgutil.walk_packages(a.__path__, a.__name__ + '.'):\n"
        "    importlib.import_module(m.name)\n"
        "import stethoscope.model.verdict, stethoscope.specs.playbook\n"
        "print(*(m for m in sys.modules if m.startswith(('stethoscope.sim', 'stethoscope.session'))"
        " or m == 'stethoscope.specs.scenario'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_row_of_a_drill(tmp_path: Path) -> None:
    """Expected, got, time to detect and the points are there; a broken file is a row with its position."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(OPTIC)
    bad.write_text(OPTIC.replace("ib_optic_degraded", "ib_optic_degrade"))
    broken, row = drill_all([str(bad), str(good)])
    assert broken.id == "optic"
    assert broken.error.startswith(f'{bad}:15:19: unknown fault kind "ib_optic_degrade"; did you mean')
    assert row.got is not None
    assert row.got.detect_s is not None
    assert 0 < row.got.detect_s <= 60
    assert row.got.false_alarms == 0
    assert row.points["in_time"] == 1.0
    document = row.as_json()
    assert document["expect"]["culprits"] == ["gpu-002/ib/mlx5_3"]
    assert set(document["got"]) >= {
        "scope", "layer", "root_cause", "severity", "culprits", "confidence", "detect_s", "false_alarms",
    }  # fmt: skip
    assert set(document["correct"]) == {"scope", "layer", "root_cause", "culprits", "severity", "in_time"}


def test_node_that_goes_is_lost_and_comes_back() -> None:
    """Its link says what one over SSH would say: silent, unreachable, live again after the reboot."""
    text = OPTIC.replace(
        "fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3, params: {symbol_errors_per_s: 40}",
        "fault: node_down, where: gpu-002, params: {how: power, back_after: 90s}",
    )
    played = Played(scenario(text))
    states: list[str] = []

    def look() -> None:
        link = played.snapshot.node("gpu-002").link
        if not states or states[-1] != link.state.value:
            states.append(link.state.value)

    played.advance(180.0, look)
    assert states[:4] == ["live", "silent", "connecting", "unreachable"]
    assert states[-1] == "live"
    assert "reboot" in played.snapshot.node("gpu-002").link.detail


def test_files_that_are_drilled(tmp_path: Path) -> None:
    """Of a directory what means to be a scenario, in order; a bundled one by its name; an unknown name is refused."""
    (tmp_path / "b.yaml").write_text(OPTIC)
    (tmp_path / "a.yaml").write_text(OPTIC)
    (tmp_path / "answers.yaml").write_text("accept: {optic: {root_cause: [nic_fault]}}\n")
    skipped: list[str] = []
    assert scenario_files([tmp_path], skipped.append) == [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]
    assert skipped == [f"{tmp_path}/answers.yaml: not a scenario (stethoscope.scenario/1), left out"]
    assert scenario_files([Path("demo")]) == ["demo"]
    with pytest.raises(UsageError, match="no such file"):
        scenario_files([tmp_path / "c.yaml"])


def test_what_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    """Not even YAML."""
    path = tmp_path / "torn.yaml"
    path.write_text("schema: [")
    row = drill(str(path))
    assert (row.id, row.got, bool(row.error)) == ("torn", None, True)
