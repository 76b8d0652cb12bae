"""The terminal, given to another program and taken back."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.ui.outside import with_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Console:
    """Gives its terminal away as Textual does, which takes it back only where nothing was raised meanwhile."""

    def __init__(self) -> None:
        self.away = False
        self.has_terminal = True

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Give the terminal away."""
        self.has_terminal = False
        yield
        self.has_terminal = True

    def refresh(self, *, layout: bool) -> None:
        """Draw."""

    def pull(self) -> None:
        """Draw what came."""


async def test_a_program_that_is_missing_does_not_keep_the_terminal() -> None:
    console: Any = _Console()
    with pytest.raises(FileNotFoundError):
        await with_terminal(console, "no-such-editor", ["/no/such/editor"])
    assert (console.has_terminal, console.away) == (True, False)


async def test_what_a_program_ends_with_is_told() -> None:
    console: Any = _Console()
    assert await with_terminal(console, "python", [sys.executable, "-c", "raise SystemExit(3)"]) == 3
    assert (console.has_terminal, console.away) == (True, False)
