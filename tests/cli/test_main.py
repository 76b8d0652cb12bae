"""The command itself: what it does with errors that nobody foresaw."""

from __future__ import annotations

import click
import pytest

from stethoscope.cli import main as module


def test_a_defect_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def broken() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(module.LazyGroup, "get_command", lambda *_: broken)
    monkeypatch.setattr("sys.argv", ["stethoscope", "check"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 70
    assert capsys.readouterr().err.endswith("ValueError: broken\n")
