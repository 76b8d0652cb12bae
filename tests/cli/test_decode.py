"""`stethoscope decode` as a user runs it: text, JSON, pipes, colours, exit codes, following."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stethoscope
from tests.cli.terminals import in_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

GONE = "2026-03-14T02:07:00Z node-a kernel: NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.\n"
WELL = "2026-03-14T02:00:00Z node-a kernel: usb 1-1: new device\n"
COMMAND = [sys.executable, "-m", "stethoscope", "decode"]
ROOT = Path(stethoscope.__file__).parents[1]


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "LANG": "C.UTF-8",
        **more,
    }


def run(folder: Path, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, input=stdin, cwd=ROOT,
        env=environment(folder, **more),
    )  # fmt: skip


def test_text(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(WELL + GONE)
    done = run(tmp_path, str(tmp_path / "a.log"))
    assert (done.returncode, done.stderr) == (2, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("✖ P0  gpu_fallen_off_bus")
    assert any("xid.79" in line and "node-a" in line for line in lines)
    assert lines[-1].startswith("  read     a.log · 2 lines · ")
    assert "\x1b" not in done.stdout


def test_a_pipe_and_ascii(tmp_path: Path) -> None:
    done = run(tmp_path, "--ascii", stdin=GONE)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.isascii()
    assert done.stdout.startswith("X P0  gpu_fallen_off_bus")


def test_an_output_that_knows_no_other_script(tmp_path: Path) -> None:
    text = GONE.replace("GPU has", "größer GPU has")
    done = run(tmp_path, stdin=text * 3, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.isascii()
    assert "gr??er GPU has fallen off the bus." in done.stdout
    assert "x3" in done.stdout


def test_nothing_wrong(tmp_path: Path) -> None:
    done = run(tmp_path, "-", stdin=WELL)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("· healthy")
    assert "read     stdin · 1 line · 56 bytes · 2026-03-14 02:00:00 to 02:00:00 UTC" in done.stdout


def test_json(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(WELL + GONE + GONE)
    done = run(tmp_path, str(tmp_path / "a.log"), "--json")
    assert (done.returncode, done.stderr) == (2, "")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["schema"] == "stethoscope.decode/1"
    verdict = found["verdict"]
    assert (verdict["root_cause"], verdict["signature"], verdict["severity"]) == ("gpu_fallen_off_bus", "xid.79", "P0")
    assert {"confidence", "culprits", "summary", "supports", "contradicts", "next_checks"} <= verdict.keys()
    assert len(found["alternatives"]) <= 2
    (event,) = found["events"]
    assert event["fields"]["xid"] == 79
    assert event["fields"]["pci"] == "0000:81:00"
    assert (event["file"], event["line"], event["at"]) == (str(tmp_path / "a.log"), 2, "2026-03-14T02:07:00Z")
    assert (event["role"], event["host"], event["rank"], event["count"]) == ("cause", "node-a", None, 2)
    assert event["last_at"] == "2026-03-14T02:07:00Z"
    assert event["meaning"]
    assert found["stats"]["lines"] == 3
    assert found["stats"]["matched"] == 2
    assert found["stats"]["bytes"] == len(WELL + GONE + GONE)


def test_hostile_text_is_cleaned(tmp_path: Path) -> None:
    line = GONE.replace("GPU has", "\x1b]0;boo\x07\x1b[2J\u202e GPU has")
    done = run(tmp_path, stdin=line)
    assert "GPU has fallen off the bus." in done.stdout
    assert not any(character in done.stdout for character in "\x1b\x07\u202e")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing.log"], 65, "stethoscope: nothing.log: no such file\n"),
        (
            ["--since", "boo"],
            64,
            'stethoscope: --since: "boo" is no time: write 02:14, 2026-03-14T02:14:07Z, or 2h for',
        ),
        (["--tz", "Nowhere/Else"], 64, 'stethoscope: --tz: no zone is called "Nowhere/Else"'),
        (["--node", "a["], 64, 'stethoscope: cannot read node set "a["'),
        (["--playbooks", "nothing"], 64, "stethoscope: --playbooks: nothing is not a directory\n"),
    ],
)
def test_what_cannot_be_done(arguments: Sequence[str], code: int, said: str, tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(said)


@pytest.mark.parametrize(("more", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours(more: dict[str, str], is_coloured: bool, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(GONE)
    _, written = in_terminal(
        tmp_path, "decode", str(tmp_path / "a.log"), columns=80, errors=True, LANG="C.UTF-8", **more
    )
    text = written.decode()
    assert ("\x1b[1;31m✖ P0" in text) is is_coloured
    assert ("\x1b" in text) is is_coloured


def test_following_ends_when_nobody_reads_on(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(GONE)
    process = subprocess.Popen(
        [*COMMAND, "-f", str(tmp_path / "a.log")], stdout=subprocess.PIPE, cwd=ROOT, env=environment(tmp_path)
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("✖ P0".encode())
    process.stdout.close()
    assert process.wait(timeout=20) == 2


def test_following_a_pipe_ends_with_it(tmp_path: Path) -> None:
    done = run(tmp_path, "--follow", stdin=WELL + GONE)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.count("P0  gpu_fallen_off_bus") == 1


def test_following(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(WELL)
    process = subprocess.Popen(
        [*COMMAND, "--follow", "--json", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(tmp_path, PYTHONUNBUFFERED="1"),
        # What runs in the background of a script is started with the signal ignored, and so would this be.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    with path.open("a") as file:
        file.write(GONE)
    second = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (first["verdict"]["root_cause"], second["verdict"]["root_cause"]) == ("healthy", "gpu_fallen_off_bus")
    assert (process.returncode, said) == (2, "")
