"""What stands in the way is told with what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.model.terminal import TerminalFacts
from stethoscope.session import lint
from stethoscope.session.doctor import Remark, examine

if TYPE_CHECKING:
    from pathlib import Path

GOOD = TerminalFacts(True, "xterm-256color", 256, 120, 40, "utf-8", "en_US.UTF-8", answers=True, ambiguous_cells=1)


@pytest.fixture(scope="module")
def data() -> lint.LintResult:
    """Return what is wrong with the data files, looked at once: it takes seconds."""
    return lint.lint()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: lint.LintResult) -> Path:
    monkeypatch.setattr(lint, "lint", lambda: data)
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def loud(terminal: TerminalFacts) -> list[Remark]:
    return [remark for remark in examine(terminal) if remark.level != "ok"]


def test_a_good_terminal_on_a_fresh_home_has_nothing_in_the_way() -> None:
    assert [remark for remark in loud(GOOD) if remark.topic != "ssh"] == []


@pytest.mark.parametrize(
    ("terminal", "topic", "level", "words"),
    [
        (replace(GOOD, is_terminal=False), "terminal", "critical", "there is none"),
        (replace(GOOD, term="dumb", colours=0), "terminal", "critical", "TERM=dumb"),
        (replace(GOOD, columns=60), "terminal", "warning", "60x40"),
        (replace(GOOD, colours=16), "colours", "warning", "16 colours"),
        (replace(GOOD, encoding="ascii"), "characters", "warning", "ASCII signs"),
        (replace(GOOD, locale="C"), "characters", "warning", "ASCII signs"),
        (replace(GOOD, answers=False), "characters", "warning", "did not say"),
        (replace(GOOD, ambiguous_cells=2), "characters", "warning", "two cells"),
    ],
)
def test_each_fault_of_a_terminal_is_told(terminal: TerminalFacts, topic: str, level: str, words: str) -> None:
    found = next(remark for remark in loud(terminal) if remark.topic == topic)
    assert found.level == level
    assert words in found.says
    assert found.do


def test_directories_that_others_can_write_and_sockets_that_are_gone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = home / "state" / "stethoscope"
    state.mkdir(parents=True)
    state.chmod(0o777)
    (home / "config").write_text("a file where a directory should be")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "gone"))
    says = {remark.says: remark for remark in loud(GOOD)}
    assert says[f"{state} can be written by others (0777)"].do == f"chmod 700 {state}"
    assert says[f"the agent's socket {home / 'gone'} is not there"].level == "warning"


def test_incidents_are_counted_and_broken_ones_told(home: Path) -> None:
    incidents = home / "data" / "stethoscope" / "incidents"
    incidents.mkdir(parents=True)
    incidents.chmod(0o775)
    (incidents / "INC-2026-03-14-aaaaa.md").write_text("no front matter\n")
    said = [remark for remark in examine(GOOD) if str(incidents) in remark.says]
    assert [(remark.level, remark.says) for remark in said] == [("ok", f"{incidents}, 0 of them")]
    assert "1 of the files broken or odd" in {remark.says for remark in loud(GOOD)}
