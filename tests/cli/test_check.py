"""`stethoscope check` as a command: exit codes, streams, and what a terminal gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.cli.check import exit_code
from stethoscope.model.finding import Finding, Severity
from tests.cli.terminals import in_terminal

if TYPE_CHECKING:
    from pathlib import Path

STETHOSCOPE = [sys.executable, "-m", "stethoscope"]


def run(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), **environment}
    return subprocess.run([*STETHOSCOPE, *arguments], capture_output=True, text=True, env=surroundings, check=False)


def found(*severities: Severity, reached: int = 1) -> Any:
    findings = tuple(Finding(str(s), "made", s, ("a",), "a", "", "sick") for s in severities)
    return SimpleNamespace(findings=findings, reached=("a",) * reached)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (found(), 0),
        (found(Severity.INFO), 0),
        (found(Severity.P2), 1),
        (found(Severity.P2, Severity.P1), 2),
        (found(Severity.P0), 2),
        (found(Severity.P1, reached=0), 69),
    ],
)
def test_exit_codes(result: Any, code: int) -> None:
    assert exit_code(result) == code


def test_this_machine_as_json(tmp_path: Path) -> None:
    done = run("check", "--json", home=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["schema"] == "stethoscope.check/1"
    assert [node["link"] for node in answer["nodes"]] == ["ok"]
    assert answer["summary"]["reached"] == 1
    assert answer["summary"]["seen_once"] == []
    assert done.stderr == ""
    assert done.returncode in (0, 1, 2)


def test_no_node_reached_is_69(tmp_path: Path) -> None:
    # Nothing listens on port 1 of this address.
    (tmp_path / "known_hosts").write_text("")
    (tmp_path / "config").write_text("")
    options = ["--hosts", "127.99.0.[1-2]", "--port", "1", "--known-hosts", str(tmp_path / "known_hosts")]
    done = run("check", "--ssh-config", str(tmp_path / "config"), *options, home=tmp_path)
    assert done.returncode == 69
    lines = done.stdout.splitlines()
    assert [line[:7] for line in lines[:-1]] == ["▲ P1   "] * 2
    assert lines[-1].startswith("0 of 2 nodes · 0 GPUs · 0 ports · 2 P1 · ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--timeout", "soon"], 64, '--timeout: "soon" is not a duration such as 30s, 5m or 1h30m'),
        (["--playbooks", "/nowhere"], 64, "--playbooks: /nowhere is not a directory"),
        (["--fleet", "/nowhere.yaml"], 65, "/nowhere.yaml"),
        (["--no-such-option"], 64, "No such option"),
    ],
)
def test_usage_and_data_errors(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    done = run("check", *arguments, home=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert (done.stdout, "Traceback" in done.stderr) == ("", False)


def test_a_terminal_gets_colour_and_no_line_wider_than_itself(tmp_path: Path) -> None:
    import re

    written = in_terminal(tmp_path, "check", columns=40, errors=False)[1].decode()
    assert "\x1b[" in written
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()
    assert max(len(line) for line in lines) <= 40
    assert lines[-1].startswith("1 node · ")
    assert lines[-1].endswith("…")


def test_no_color(tmp_path: Path) -> None:
    written = in_terminal(tmp_path, "check", "--ascii", columns=100, errors=False, NO_COLOR="1")[1].decode()
    assert "\x1b[3" not in written
    assert written.isascii()


SCENARIO = """\
schema: stethoscope.scenario/1
id: look
title: A GPU that is gone, an optic that dies, a node that is down
seed: 11
duration: 30m
fleet: {nodes: 6, gpus_per_node: 8, gpu: H100-SXM5-80GB}
jobs:
- {id: "7", nodes: "gpu-[001-002]", step_time_s: 1.0, shares: {compute: 0.6, comm: 0.3, data: 0.05, other: 0.05},
   samples_per_step: 100}
events:
- {at: 0s, fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3}
- {at: 0s, fault: gpu_fell_off_bus, where: gpu-004/gpu/2}
- {at: 0s, fault: historic_counters, where: gpu-005/ib/mlx5_1, params: {link_downed: 9, symbol_errors: 812345}}
"""


def test_a_fleet_over_ssh(tmp_path: Path) -> None:
    scenario, fleet = tmp_path / "look.yaml", tmp_path / "fleet.yaml"
    scenario.write_text(SCENARIO)
    surroundings = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    options = ["--scenario", str(scenario), "--write-fleet", str(fleet), "--start-at", "2m"]
    with subprocess.Popen([*STETHOSCOPE, "sim", *options], stderr=subprocess.PIPE, text=True, env=surroundings) as sim:
        try:
            assert sim.stderr is not None
            said = sim.stderr.readline()
            assert "serving" in said, said
            done = run("check", "--fleet", str(fleet), "--json", home=tmp_path)
        finally:
            sim.terminate()
    answer = json.loads(done.stdout)
    assert {(f["rule"], f["severity"], *f["where"], f["root_cause"]) for f in answer["findings"]} == {
        ("gpu_lost", "P0", "gpu-004/gpu/2", "gpu_fallen_off_bus"),
        ("ib_symbol_errors", "P1", "gpu-002/ib/mlx5_3", "ib_link_fault"),
        # The job prints that it got slower, which is true and whose cause triage is to settle.
        ("job_slow", "P1", "job/7", None),
    }
    assert done.returncode == 2
    assert answer["simulated"] is True
    assert [(node["node"], node["link"], len(node["findings"])) for node in answer["nodes"]] == [
        (f"gpu-00{number}", "ok", int(number in (2, 4))) for number in range(1, 7)
    ]
    assert (answer["summary"]["reached"], answer["summary"]["gpus"], answer["summary"]["ports"]) == (6, 48, 48)
