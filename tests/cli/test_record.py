"""`stethoscope record` and what reads its files, as commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from stethoscope.cli.recording import parse_size, ring_limits
from stethoscope.errors import UsageError
from stethoscope.store.format import RecordType
from stethoscope.store.lines import is_full
from stethoscope.store.recordings import Recording
from stethoscope.store.tape import open_tape
from tests.store.made import record

if TYPE_CHECKING:
    from pathlib import Path

STETHOSCOPE = [sys.executable, "-m", "stethoscope"]


def surroundings(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home / "state")}


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STETHOSCOPE, *arguments],
        capture_output=True, text=True, env=surroundings(home), timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def start(*arguments: str, home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*STETHOSCOPE, "record", *arguments],
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=surroundings(home), start_new_session=True,
    )  # fmt: skip


def frames(path: Path) -> list[float]:
    """Return the wall times of the lines in a file."""
    return [r.wall for block in Recording(path).blocks() for r in block if r.type == RecordType.FRAME]


def wait_for_frames(path: Path, child: subprocess.Popen[str], least: int = 1) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and child.poll() is None:
        if path.exists() and path.stat().st_size > 300 and len(frames(path)) >= least:
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing was recorded: {child.poll()}")


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a fleet that loses a GPU at 100 s."""
    path = tmp_path_factory.mktemp("sick") / "sick.sthr"
    record(path, "at: 100s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2", until_s=160)
    return path


def test_this_machine_for_a_while(tmp_path: Path) -> None:
    path = tmp_path / "out" / "a.sthr"
    done = run("record", "--output", str(path), "--duration", "3s", "--interval", "500ms", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "recording 1 node into" in done.stderr
    assert "recorded" in done.stderr
    recording = Recording(path)
    assert recording.closed
    assert len(frames(path)) >= 3
    assert path.stat().st_mode & 0o777 == 0o600
    again = run("record", "--output", str(path), home=tmp_path)
    assert again.returncode == 64
    assert "is there already" in again.stderr
    told = run("check", "--replay", str(path), "--json", home=tmp_path)
    assert json.loads(told.stdout)["summary"]["reached"] == 1


def test_the_daemon_keeps_a_ring_and_obeys_signals(tmp_path: Path) -> None:
    with start("--daemon", "--interval", "200ms", home=tmp_path) as child:
        ring = tmp_path / "state" / "stethoscope" / "recordings"
        end = time.monotonic() + 20
        while not (files := list(ring.glob("*/*.sthr"))) and time.monotonic() < end:
            time.sleep(0.02)
        wait_for_frames(files[0], child)
        child.send_signal(signal.SIGHUP)
        while len(files := sorted(ring.glob("*/*.sthr"))) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        # Both may have begun in one second.
        (new,) = [path for path in files if not Recording(path).closed]
        wait_for_frames(new, child)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0
    assert all(Recording(path).closed for path in files)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert files[0].parent.stat().st_mode & 0o777 == ring.stat().st_mode & 0o777 == 0o700
    assert len({reel.take for reel in open_tape(files[0].parent).reels}) == 1
    # The new file stands for itself: it begins with all values, not only with what changed.
    lines = [record.payload for block in Recording(new).blocks() for record in block if record.type == RecordType.FRAME]
    # The node is asked for them, and a busy one sends a few changes first.
    assert any(is_full(line) for line in lines[:15])


@pytest.mark.parametrize("after_s", [0.0, 0.45, 0.8, 1.3, 1.9])
def test_killed_at_any_moment_it_loses_two_seconds_at_most(after_s: float, tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    with start("--output", str(path), "--interval", "200ms", home=tmp_path) as child:
        wait_for_frames(path, child, least=2)
        time.sleep(after_s)
        killed = time.time()
        child.kill()
        child.wait(10)
    recording = Recording(path)
    assert not recording.closed
    assert not recording.being_written
    assert killed - frames(path)[-1] <= 2.0
    assert run("replay", "--info", str(path), home=tmp_path).returncode == 0


def test_a_directory_that_cannot_be_made_ends_it(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    done = run("record", "--duration", "20s", home=tmp_path)
    assert done.returncode == 65
    assert "recording stopped: Not a directory" in done.stderr
    assert run("record", "--output", str(tmp_path / "state" / "a.sthr"), home=tmp_path).returncode == 64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["record", "--replay", "x"], "is a recording already"),
        (["record", "--keep-size", "much"], "--keep-size"),
        (["record", "--keep-time", "long"], "--keep-time"),
        (["record", "--duration", "long"], "--duration"),
        (["check", "--at", "02:14"], "say which one with --replay"),
        (["check", "--replay", ".", "--hosts", "a"], "--replay and --hosts"),
        (["watch", "--replay", ".", "--record", "x"], "is a recording already"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run(*arguments, home=tmp_path)
    assert done.returncode == 64
    assert words in done.stderr


def test_check_at_a_time_of_a_recording(sick: Path, tmp_path: Path) -> None:
    before = run("check", "--replay", str(sick), "--at", "02:15:30", "--json", home=tmp_path)
    assert before.returncode == 0, before.stdout
    after = run("check", "--replay", str(sick), "--at", "+2m", "--json", home=tmp_path)
    assert after.returncode == 2
    answer = json.loads(after.stdout)
    assert answer["at"] == "2026-03-14T02:16:07Z"
    assert [(f["rule"], f["where"]) for f in answer["findings"]] == [("gpu_lost", ["gpu-002/gpu/2"])]
    # The rules look once a second: what came behind 02:15:47 is seen at the next look.
    assert answer["findings"][0]["since"] == "2026-03-14T02:15:48Z"
    assert run("check", "--replay", str(sick), "--at", "+2m", "--json", home=tmp_path).stdout == after.stdout
    text = run("check", "--replay", str(sick), "--at", "2026-03-14T02:16:07Z", home=tmp_path)
    assert "gpu-002/gpu/2 fell off the bus" in text.stdout
    assert run("check", "--replay", str(sick), "--at", "03:00", home=tmp_path).returncode == 64
    assert run("check", "--replay", str(sick.parent), home=tmp_path).returncode == 2


def test_what_is_in_a_recording(sick: Path, tmp_path: Path) -> None:
    done = run("replay", "--info", str(sick), home=tmp_path)
    assert done.returncode == 0
    assert "fleet    twin (simulated), 6 nodes: gpu-[001-006]" in done.stdout
    assert "time     2026-03-14T02:14:07Z to 2026-03-14T02:16:47Z, 3 m" in done.stdout
    assert "damage   none" in done.stdout
    data = bytearray(sick.read_bytes())
    entry = Recording(sick).entries[20]
    data[int(entry["at"]) + 90] ^= 1
    broken = tmp_path / "broken.sthr"
    broken.write_bytes(data)
    answer = json.loads(run("replay", "--info", "--json", str(broken), home=tmp_path).stdout)
    assert answer["schema"] == "stethoscope.replay/1"
    assert (answer["nodes"], answer["nodes_heard"]) == (6, 6)
    assert len(answer["damage"]) == 1
    assert answer["damage"][0].startswith("broken.sthr: damaged at byte")
    assert run("check", "--replay", str(broken), home=tmp_path).returncode == 2


@pytest.mark.parametrize("verb", [["replay", "--info"], ["check", "--replay"], ["replay"]])
def test_what_is_no_recording(verb: list[str], tmp_path: Path) -> None:
    missing = run(*verb, str(tmp_path / "none.sthr"), home=tmp_path)
    assert missing.returncode == 65
    assert "no such file" in missing.stderr
    (tmp_path / "bad.sthr").write_text("hello")
    if verb != ["replay"]:
        bad = run(*verb, str(tmp_path / "bad.sthr"), home=tmp_path)
        assert bad.returncode == 65
        assert "not a recording" in bad.stderr


def test_sizes() -> None:
    assert [parse_size(text) for text in ("2G", "500M", "1048576", "1.5 GiB", "1tb")] == [
        2 * 1024**3, 500 * 1024**2, 1024**2, 3 * 512 * 1024**2, 1024**4,
    ]  # fmt: skip
    for text in ("", "x", "-1G", "10k", "1e9"):
        with pytest.raises(ValueError, match=r"."):
            parse_size(text)
    assert (ring_limits("24h", "2G").age_s, ring_limits("24h", "2G").size) == (86_400, 2 * 1024**3)
    with pytest.raises(UsageError):
        ring_limits("24h", "1k")
