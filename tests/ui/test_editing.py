"""An incident in an editor that does not end well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stethoscope.ui import editing


class _Console:
    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, text: str, seconds: float = 4) -> None:
        """Keep what is told."""
        self.told.append(text)


@pytest.mark.parametrize(
    ("written", "status", "told"),
    [
        ("typed before it was killed", -9, "vi ended with -9: nothing was taken over; your text is in"),
        ("as it was", 1, "vi ended with 1: nothing was taken over"),
        ("as it was", 0, "nothing was changed"),
    ],
)
async def test_what_an_editor_wrote_before_it_failed_is_kept(
    written: str, status: int, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)

    async def runs(_console: object, _words: str, command: list[str]) -> int:
        Path(command[-1]).write_text(written)
        return status

    monkeypatch.setattr(editing, "with_terminal", runs)
    console, taken = _Console(), list[str]()
    any_console: Any = console
    assert not await editing._edit(any_console, "INC-1", "as it was", taken.append)
    assert taken == []
    assert console.told[-1].startswith(told)
    kept = [path.read_text() for path in tmp_path.rglob("INC-1*.md")]
    assert kept == ([written] if "your text" in told else [])
