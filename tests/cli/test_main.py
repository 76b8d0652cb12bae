"""The command itself: what it does with errors that nobody foresaw."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from stethoscope.cli import main as module

if TYPE_CHECKING:
    from pathlib import Path


def test_a_defect_has_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @click.command()
    def broken() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(module.LazyGroup, "get_command", lambda *_: broken)
    monkeypatch.setattr("sys.argv", ["stethoscope", "check"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 70
    assert capsys.readouterr().err.splitlines()[0] == "stethoscope: a defect: ValueError: broken"
    assert len(list(tmp_path.rglob("*.txt"))) == 1


def test_what_a_library_warns_of_goes_into_the_debug_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "stethoscope"):
        module._log_warning("All-NaN slice encountered", RuntimeWarning, "rules.py", 7)
    assert caplog.messages == ["rules.py:7: RuntimeWarning: All-NaN slice encountered"]
    module._log_warning("invalid value", RuntimeWarning, "rules.py", 8)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("closed", "words", "status"),
    [
        ("<&-", "xid 79", 0),
        ("<&-", "xid", 64),
        (">&-", "xid 79", 0),
        ("2>&-", "xid", 64),
        ("<&- >&- 2>&-", "xid 79", 0),
    ],
)
def test_a_stream_that_the_caller_closed_is_no_defect(closed: str, words: str, status: int) -> None:
    line = f"exec {sys.executable} -m stethoscope {words} {closed}"
    ran = subprocess.run(["sh", "-c", line], input="", capture_output=True, text=True, check=False)
    assert (ran.returncode, "defect" in ran.stdout + ran.stderr) == (status, False)


def test_the_help_lists_every_verb_once() -> None:
    listed = [name for _, names in module.SECTIONS for name in names]
    assert sorted(listed) == sorted(module.VERBS)
