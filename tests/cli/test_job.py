"""`stethoscope job` as a command: one log, no nodes, what cannot be read, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_check import run

if TYPE_CHECKING:
    from pathlib import Path

LINES = "".join(f"step {step}/1000 | loss 2.5 | 0.8 s/step | 640 samples/s\n" for step in range(1, 61))


def test_a_log_of_this_machine_as_text_and_json(tmp_path: Path) -> None:
    log = tmp_path / "train.out"
    log.write_text(LINES)
    done = run("job", "--log", str(log), "--ascii", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert done.stdout.isascii()
    assert lines[0] == "job train.out"
    assert lines[1] == "  step        0.80 s | step 60 of 1,000 | varies by 0 %"
    assert lines[2] == "  speed       640 samples/s | 0 % against its own past"
    answer = json.loads(run("job", "--log", str(log), "--json", home=tmp_path).stdout)
    assert answer["schema"] == "stethoscope.job/1"
    (job,) = answer["jobs"]
    assert (job["step"]["step"], job["metrics"]["job_step_time"], job["log"]["family"]) == (60, 0.8, "plain")
    assert job["metrics"]["job_data_share"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--log", "none.out"), 65, "none.out: No such file or directory"),
        (("--log", "x", "--hosts", "gpu-1"), 64, "--log is a file on this machine"),
        (("--at", "+5m"), 64, "--at is a time of a recording"),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = run("job", *arguments, home=tmp_path)
    assert done.returncode == code
    assert said in done.stderr


def test_an_unknown_job_is_told_with_what_is_near(tmp_path: Path) -> None:
    log = tmp_path / "train.out"
    log.write_text(LINES)
    done = run("job", "train.ou", "--log", str(log), home=tmp_path)
    assert done.returncode == 64
    assert 'no job is called "train.ou"; did you mean "train.out"?' in done.stderr
