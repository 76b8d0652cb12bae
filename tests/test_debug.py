"""The debug log and the report of a crash: for the user alone, bounded, without secrets."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope import debug

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield tmp_path / "stethoscope"
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_log_is_private_and_keeps_no_secret(state: Path) -> None:
    path = debug.start_log()
    logging.getLogger("stethoscope").debug("password=%s", "hunter2")
    try:
        raise RuntimeError("token=abcdef")
    except RuntimeError:
        logging.getLogger("asyncssh").exception("failed")
    text = path.read_text()
    assert path == state / "logs" / "debug.log"
    assert mode(path) == 0o600
    assert "password=[removed]" in text
    assert "token=[removed]" in text
    assert "hunter2" not in text
    assert "abcdef" not in text


def test_a_report_names_the_place_and_holds_no_values(state: Path) -> None:
    def broken(passphrase: str) -> None:
        raise KeyError("password=hunter2")

    with pytest.raises(KeyError) as caught:
        broken("never shown")
    path = debug.report_crash(caught.value)
    assert path is not None
    text = path.read_text()
    assert path.parent == state / "crashes"
    assert mode(path) == 0o600
    assert "in broken" in text
    assert "password=[removed]" in text
    assert "hunter2" not in text.replace('raise KeyError("password=hunter2")', "")
    assert "never shown" not in text.replace('broken("never shown")', "")


def test_old_reports_go(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "REPORTS", 2)
    (state / "crashes").mkdir(parents=True)
    for day in (1, 2, 3):
        (state / "crashes" / f"2020-01-0{day}T00-00-00Z-1.txt").write_text("old")
    debug.report_crash(ValueError("new"))
    kept = sorted(path.name[:10] for path in (state / "crashes").glob("*.txt"))
    assert len(kept) == 2
    assert kept[0] == "2020-01-03"


def test_a_report_that_cannot_be_written_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
    assert debug.report_crash(ValueError("x")) is None


def test_a_defect_of_a_verb_is_one_line_and_a_report(state: Path) -> None:
    program = (
        "import sys; from stethoscope.cli import main, lint\n"
        "def broken(*_): raise ZeroDivisionError('token=abc')\n"
        "lint.directories = broken; sys.argv = ['stethoscope', 'lint']; main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": str(state.parent), "HOME": str(state.parent)},
        cwd=Path(debug.__file__).parents[1],
    )
    first, second = done.stderr.splitlines()
    assert done.returncode == 70
    assert first == "stethoscope: a defect: ZeroDivisionError: token=[removed]"
    assert "Traceback" not in done.stderr
    report = Path(second.partition(" is in ")[2].partition(",")[0])
    assert "ZeroDivisionError" in report.read_text()


def test_the_flag_writes_the_log(state: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope", "--debug", "xid", "79"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": str(state.parent), "HOME": str(state.parent)},
        cwd=Path(debug.__file__).parents[1],
    )
    assert done.returncode == 0
    assert f"debug log in {state}/logs/debug.log" in done.stderr
    assert "Python" in (state / "logs" / "debug.log").read_text()
