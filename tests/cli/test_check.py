"""`stethoscope check` as a command: exit codes, streams, and what a terminal gets."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.cli.check import exit_code
from stethoscope.model.finding import Finding, Severity

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
        (["--timeout", "soon"], 64, "--timeout: a time is written 30s, 5m or 1h"),
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


def in_terminal(columns: int, home: Path, *arguments: str, **environment: str) -> str:
    """Return what `check` of this machine writes to a terminal of that width."""
    keep, give = pty.openpty()
    surroundings = {
        **os.environ,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "TERM": "xterm-256color",
        "COLUMNS": str(columns),
        **environment,
    }
    for name in ("NO_COLOR", "FORCE_COLOR"):
        if name not in environment:
            surroundings.pop(name, None)
    process = subprocess.Popen(
        [*STETHOSCOPE, "check", *arguments], stdout=give, stderr=subprocess.DEVNULL, env=surroundings
    )
    os.close(give)
    written = b""
    while True:
        try:
            part = os.read(keep, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    process.wait()
    os.close(keep)
    return written.decode()


def test_a_terminal_gets_colour_and_no_line_wider_than_itself(tmp_path: Path) -> None:
    import re

    written = in_terminal(40, tmp_path)
    assert "\x1b[" in written
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()
    assert max(len(line) for line in lines) <= 40
    assert lines[-1].startswith("1 node · ")
    assert lines[-1].endswith("…")


def test_no_color(tmp_path: Path) -> None:
    written = in_terminal(100, tmp_path, "--ascii", NO_COLOR="1")
    assert "\x1b[3" not in written
    assert written.isascii()
