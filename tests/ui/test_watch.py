"""`stethoscope watch` as it is typed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.ui.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path


def test_alone_it_watches_this_machine(tmp_path: Path) -> None:
    with Terminal(["-m", "stethoscope"], columns=100, HOME=str(tmp_path)) as terminal:
        terminal.wait("1 node")
        terminal.wait("live")
        terminal.send("q")
        assert terminal.finish() == 0


def test_a_missing_fleet_file_is_bad_data() -> None:
    with Terminal(["-m", "stethoscope", "watch", "--fleet", "/nonexistent/fleet.yaml"]) as terminal:
        assert terminal.finish() == 65
        assert b"No such file" in terminal.raw
        assert b"Traceback" not in terminal.raw


def test_options_that_do_not_fit_together_are_usage(tmp_path: Path) -> None:
    with Terminal(["-m", "stethoscope", "watch", "--hosts", "a", "--fleet", str(tmp_path / "f.yaml")]) as terminal:
        assert terminal.finish() == 64


def test_without_a_terminal_it_is_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope", "watch"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert done.returncode == 64
    assert "stethoscope check" in done.stderr
