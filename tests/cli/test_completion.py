"""A shell completes verbs without importing any, flags, and metrics by their ids."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stethoscope


def run(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **variables},
        cwd=Path(stethoscope.__file__).parents[1],
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_for_each_shell_name_the_variable_that_main_looks_at(shell: str) -> None:
    assert f"_STETHOSCOPE_COMPLETE={shell}_complete" in run("completion", shell)


def complete(words: str) -> list[str]:
    program = "from stethoscope.cli.main import group; group(prog_name='stethoscope')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": "/nowhere",
            "_STETHOSCOPE_COMPLETE": "bash_complete",
            "COMP_WORDS": f"stethoscope {words}",
            "COMP_CWORD": str(len(words.split(" "))),
        },
        cwd=Path(stethoscope.__file__).parents[1],
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_what_is_completed() -> None:
    assert complete("dr") == ["drift", "drill"]
    assert complete("watch --metr") == ["--metric"]
    assert "gpu_temp" in complete("demo --metric gpu_te")


FLEET = """
schema: stethoscope.fleet/1
name: prod
groups:
  rack-01: {nodes: "gpu-[001-003]"}
  rack-02: {nodes: "cpu-1"}
"""


def test_nodes_groups_and_probes_are_completed_by_name(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    assert complete(f"node --fleet {fleet} gpu") == ["gpu-001", "gpu-002", "gpu-003"]
    assert complete(f"check --fleet {fleet} --group rack-0") == ["rack-01", "rack-02"]
    assert complete(f"check --fleet {fleet} --hosts gpu-001,gpu-00") == [f"gpu-001,gpu-00{n}" for n in (1, 2, 3)]
    assert complete("probe show smart") == ["smartctl"]
    assert complete(f"probe run --fleet {fleet} lspci --on cpu") == ["cpu-1"]


def test_a_broken_fleet_file_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("schema: [")
    assert complete(f"node --fleet {tmp_path}/fleet.yaml gpu") == []
    assert complete(f"node --fleet {tmp_path}/none.yaml gpu") == []
