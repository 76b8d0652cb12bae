"""`stethoscope drift` as a command: exit codes, streams, and what is told of this machine."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.cli.drift import exit_code
from tests.cli.terminals import in_terminal
from tests.cli.test_check import run

if TYPE_CHECKING:
    from pathlib import Path


def result(*differing: str, reached: bool = True) -> Any:
    return SimpleNamespace(is_reached=reached, table=SimpleNamespace(differing=differing))


@pytest.mark.parametrize(
    ("looked", "code"),
    [(result(), 0), (result("driver_version"), 1), (result(reached=False), 69), (result("kernel", reached=False), 69)],
)
def test_exit_codes(looked: Any, code: int) -> None:
    assert exit_code(looked) == code


def test_this_machine_as_json(tmp_path: Path) -> None:
    done = run("drift", "--json", home=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["schema"] == "stethoscope.drift/1"
    assert (answer["summary"]["expected"], answer["summary"]["told"]) == (1, 1)
    assert [row["id"] for row in answer["rows"] if row["id"] == "kernel" and row["values"]] == ["kernel"]
    assert (done.stderr, done.returncode) == ("", 0)


def test_this_machine_as_text(tmp_path: Path) -> None:
    done = run("drift", "--ascii", home=tmp_path)
    assert done.stdout.isascii()
    assert done.stdout.splitlines()[-1].startswith("1 of 1 node told | nothing differs | ")
    assert done.returncode == 0


def test_a_terminal_gets_lines_that_fit(tmp_path: Path) -> None:
    written = in_terminal(tmp_path, "drift", columns=60, errors=False)[1].decode()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()
    assert max(len(line) for line in lines) <= 60
    assert next(line for line in lines if line.startswith("· kernel  ")).endswith("1 node")


def test_no_node_reached_is_69(tmp_path: Path) -> None:
    # Nothing listens on port 1 of this address.
    (tmp_path / "known_hosts").write_text("")
    (tmp_path / "config").write_text("")
    options = ["--hosts", "127.99.0.[1-2]", "--port", "1", "--known-hosts", str(tmp_path / "known_hosts")]
    done = run("drift", "--ssh-config", str(tmp_path / "config"), *options, home=tmp_path)
    assert done.returncode == 69
    assert done.stdout.splitlines()[0] == "? untold                 refused             127.99.0.[1-2]  2 nodes"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--timeout", "soon"], 64, '--timeout: "soon" is not a duration such as 30s, 5m or 1h30m'),
        (["--at", "+5m"], 64, "--at is a time of a recording: say which one with --replay"),
        (["--fleet", "/nowhere.yaml"], 65, "/nowhere.yaml"),
        (["--replay", "/nowhere.sthr"], 65, "/nowhere.sthr"),
    ],
)
def test_usage_and_data_errors(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    done = run("drift", *arguments, home=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert (done.stdout, "Traceback" in done.stderr) == ("", False)
