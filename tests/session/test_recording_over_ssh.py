"""A fleet of real SSH servers, recorded by the command and looked at again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from stethoscope.session.open import session_maker
from stethoscope.session.player import Player
from stethoscope.store.tape import open_tape

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SCENARIO = """\
schema: stethoscope.scenario/1
id: small
title: A GPU falls off the bus
source: constructed
seed: 3
duration: 10m
fleet: {nodes: 3, gpus_per_node: 8, gpu: H100-SXM5-80GB, ib_ports_per_node: 8}
jobs:
  - id: "1"
    nodes: gpu-[001-003]
    step_time_s: 0.8
    shares: {compute: 0.58, comm: 0.28, data: 0.05, other: 0.09}
    samples_per_step: 100
events:
  - {at: 20s, fault: gpu_fell_off_bus, where: gpu-002/gpu/5}
"""


def test_a_small_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    scenario, fleet, path = tmp_path / "small.yaml", tmp_path / "fleet.yaml", tmp_path / "a.sthr"
    scenario.write_text(SCENARIO)
    stethoscope = [sys.executable, "-m", "stethoscope"]
    simulated = subprocess.Popen(
        [*stethoscope, "sim", "--scenario", str(scenario), "--write-fleet", str(fleet), "--start-at", "15s"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with simulated:
        for _ in range(1000):
            if fleet.exists():
                break
            assert simulated.poll() is None, simulated.stderr.read() if simulated.stderr else ""
            time.sleep(0.01)
        done = subprocess.run(
            [*stethoscope, "record", "--fleet", str(fleet), "--output", str(path), "--duration", "12s"],
            capture_output=True, text=True, env=os.environ, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        simulated.terminate()
    assert done.returncode == 0, done.stderr
    tape = open_tape(path)
    assert tape.reels[0].fleet.simulated
    assert [node.name for node in tape.reels[0].fleet.nodes] == ["gpu-001", "gpu-002", "gpu-003"]
    player = Player(tape, session_maker())
    player.play(tape.end)
    snapshot = player.session.snapshot(latest=True)
    assert [node.bad_lines for node in snapshot.nodes] == [0, 0, 0]
    assert all(node.frames >= 5 and node.link.state.is_live for node in snapshot.nodes)
    check = subprocess.run(
        [*stethoscope, "check", "--replay", str(path), "--json"],
        capture_output=True, text=True, env=os.environ, timeout=60, check=False,
    )  # fmt: skip
    assert check.returncode == 2
    answer = json.loads(check.stdout)
    assert [finding["where"] for finding in answer["findings"]] == [["gpu-002/gpu/5"]]
    assert answer["simulated"] is True
