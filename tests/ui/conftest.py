"""Screens look the same wherever the tests run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

os.environ["TERM"] = "xterm-256color"
os.environ["TEXTUAL_ANIMATIONS"] = "none"
for name in ("NO_COLOR", "COLORTERM"):
    os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def _no_incidents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no console find what is recorded on the machine on which the tests run, nor what comes with the program."""
    from stethoscope.session.incidents import Library
    from stethoscope.ui.recording import Recording

    library = Library(tmp_path / "incidents", cache=tmp_path / "cache", seeds=False, drafts=tmp_path / "drafts")
    monkeypatch.setattr(Recording, "_library", library)
    monkeypatch.setattr("stethoscope.ui.recording.OFFER_S", 0.01)
