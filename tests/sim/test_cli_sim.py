"""`stethoscope sim` as a process: what it prints, the fleet file that appears last, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stethoscope.sim.control import ask
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.listing import kind_lines
from stethoscope.specs.fleet import read_fleet

COMMAND = [sys.executable, "-m", "stethoscope", "sim"]


def _start(fleet_file: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--write-fleet", str(fleet_file), *arguments],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def _wait_for(path: Path, child: subprocess.Popen[str]) -> None:
    for _ in range(1000):
        if path.exists():
            return
        assert child.poll() is None, child.stderr.read() if child.stderr else ""
        time.sleep(0.01)
    raise AssertionError("the fleet file did not appear")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_demo_and_leaves_nothing_when_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    fleet_file = tmp_path / "deep" / "fleet.yaml"
    with _start(fleet_file, "--start-at", "4m") as child:
        _wait_for(fleet_file, child)
        fleet = read_fleet(fleet_file)
        assert len(fleet.nodes) == 64
        assert {node.pod for node in fleet.nodes} == {"pod-01", "pod-02"}
        assert len({(node.address, node.port) for node in fleet.nodes}) == 64
        key = Path(fleet.nodes[0].identity_file or "")
        assert key.stat().st_mode & 0o777 == 0o600
        assert key.parent.stat().st_mode & 0o777 == 0o700
        child.send_signal(number)
        assert child.wait(5) == 0
        said = child.stderr.read() if child.stderr else ""
    assert said.startswith("stethoscope sim: serving demo: 64 nodes x 8 H100-SXM5-80GB, first gpu-001 at 127.")
    assert said.count("\n") == 1
    assert not key.parent.exists()
    assert not fleet_file.exists()


def test_it_ends_when_its_parent_does(tmp_path: Path) -> None:
    fleet_file = tmp_path / "fleet.yaml"
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with _start(fleet_file, "--with-parent", str(parent.pid)) as child:
        _wait_for(fleet_file, child)
        parent.communicate(b"\n")
        assert child.wait(5) == 0


def test_it_keeps_its_hands_off_a_file_that_is_not_its_own(tmp_path: Path) -> None:
    fleet_file = tmp_path / "fleet.yaml"
    fleet_file.write_text("schema: stethoscope.fleet/1\n")
    with _start(fleet_file) as child:
        assert child.wait(10) == 64
    assert fleet_file.read_text() == "schema: stethoscope.fleet/1\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--scenario", "dmeo"], 64, 'no scenario "dmeo"; did you mean "demo"? bundled: demo'),
        (["--scenario", "./none.yaml"], 65, "none.yaml"),
        (["--start-at", "1:30"], 64, "is not a duration"),
        (["--speed", "0"], 64, "--speed"),
    ],
)
def test_what_does_not_make_sense_is_said_in_a_line(
    arguments: list[str], code: int, words: str, tmp_path: Path
) -> None:
    result = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=30, cwd=tmp_path, check=False
    )
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_the_bundled_scenarios_and_every_kind_are_listed() -> None:
    result = subprocess.run(
        [*COMMAND, "--list"], capture_output=True, text=True, timeout=30, env=os.environ, check=False
    )
    assert result.returncode == 0
    assert "  demo       An optic loses light" in result.stdout
    for name in KINDS:
        assert f"\n{name}: " in result.stdout
    assert "    where   NODE/ib/HCA\n    params  symbol_errors_per_s=40 1/s" in result.stdout
    assert "down_s=4s" in result.stdout
    assert all(param.meaning for kind in KINDS.values() for param in kind.params.values())


def test_the_list_can_be_read_in_a_narrow_terminal() -> None:
    """Words are not broken: the places of one kind have a line to themselves."""
    lines = list(kind_lines(80))
    assert [line for line in lines if len(line) > 80 and "where" not in line and "value=" not in line] == []
    assert any(line.startswith(" " * 20) and line.strip() for line in lines)


def test_a_fault_is_injected_into_the_fleet_that_runs(tmp_path: Path) -> None:
    scenario = tmp_path / "quiet.yaml"
    scenario.write_text(
        "schema: stethoscope.scenario/1\nid: quiet\ntitle: Nothing happens\nduration: 20m\n"
        "fleet: {nodes: 2, gpus_per_node: 8, gpu: H100-SXM5-80GB}\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    fleet = subprocess.Popen(
        [*COMMAND, "--scenario", str(scenario)], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert fleet.stderr is not None
        assert ", control " in fleet.stderr.readline()

        def inject(text: str) -> tuple[int, str]:
            done = subprocess.run(
                [*COMMAND, "--inject", text], capture_output=True, text=True, timeout=20, env=environment, check=False
            )
            return done.returncode, done.stdout + done.stderr

        said = inject("ib_optic_degraded gpu-002/ib/mlx5_3 at=+30s until=+90s symbol_errors_per_s=41")
        assert said == (0, "ib_optic_degraded at gpu-002/ib/mlx5_3 in 30 s, for 60 s\n")
        code, words = inject("ib_optic_degrade gpu-002/ib/mlx5_3")
        assert code == 64
        assert 'unknown fault kind "ib_optic_degrade"; did you mean "ib_optic_degraded"?' in words
        (control,) = tmp_path.glob("stethoscope-sim-*/control")
        assert control.stat().st_mode & 0o777 == 0o600
        assert control.parent.stat().st_mode & 0o777 == 0o700
        answer = ask(control, {"do": "state"})
        assert [(fault["kind"], fault["params"]["symbol_errors_per_s"]) for fault in answer["faults"]] == [
            ("ib_optic_degraded", 41.0)
        ]
    finally:
        fleet.terminate()
        fleet.wait(10)
    assert not list(tmp_path.glob("stethoscope-sim-*"))
    assert inject("ib_link_down gpu-002/ib/mlx5_3")[0] == 69


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start-at", "99999h"], "--start-at: a fleet starts within 100h of scenario time"),
        (["--start-at", "nan"], '--start-at: "nan" is not a duration such as 30s, 5m or 1h30m'),
        (["--speed", "nan"], "--speed: from 0.1 to 60"),
        (["--speed", "inf"], "--speed: from 0.1 to 60"),
        (["--speed", "0"], "--speed: from 0.1 to 60"),
    ],
)
def test_a_start_or_speed_that_cannot_be(arguments: list[str], message: str) -> None:
    result = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=20, check=False)
    assert (result.returncode, result.stderr) == (64, f"stethoscope: {message}\n")


def test_a_fleet_file_that_cannot_be_written() -> None:
    result = subprocess.run(
        [*COMMAND, "--write-fleet", "/proc/fleet.yaml"], capture_output=True, text=True, timeout=20, check=False
    )
    assert (result.returncode, result.stderr) == (64, "stethoscope: /proc/fleet.yaml: No such file or directory\n")
