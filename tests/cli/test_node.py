"""`stethoscope node`: the node screen as text and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.store.made import record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("node") / "night.sthr"
    record(path, "at: 100s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2", until_s=160)
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stethoscope", "node", *arguments], capture_output=True, text=True, check=False
    )


def test_a_node_of_a_recording_is_told_what_is_wrong_first(recording: Path) -> None:
    done = run("gpu-002", "--replay", str(recording))
    assert done.returncode == 2, done.stderr
    rows = done.stdout.splitlines()
    assert "gpu-002" in rows[0]
    assert "P0 gpu/2" in rows[1]
    assert any(row.startswith(" - Host") for row in rows)
    assert not any(row.startswith(" + ") for row in rows)


def test_its_json_is_one_document(recording: Path) -> None:
    done = run("gpu-002", "--replay", str(recording), "--json", "--at", "+60s")
    assert done.returncode == 0, done.stderr
    doc = json.loads(done.stdout)
    assert doc["schema"] == "stethoscope.node/1"
    assert doc["node"] == "gpu-002"
    assert {device["place"] for device in doc["devices"]} >= {"gpu-002", "gpu-002/gpu/0"}
    early = {device["place"]: device for device in doc["devices"]}["gpu-002/gpu/2"]
    assert early["values"]["gpu_sm_clock"]["unit"] == "MHz"


def test_a_node_that_is_not_there_is_a_usage_error(recording: Path) -> None:
    done = run("gpu-0o2", "--replay", str(recording))
    assert done.returncode == 64
    assert 'no node is called "gpu-0o2"' in done.stderr
