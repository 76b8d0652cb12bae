"""What tests of several verbs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.kb_shell import Shell

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def kb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("VISUAL", raising=False)
    return Shell()
