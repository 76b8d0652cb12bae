"""The score of a drill."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.screens.pages import RowsScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.ui.app import StethoscopeApp


class DrillScreen(RowsScreen):
    """What was wrong, and how it was answered."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("score", moves=True)
    part = "score"

    def __init__(self, console: StethoscopeApp, lines: Sequence[str]) -> None:
        """Show `lines`."""
        super().__init__(console)
        self._lines = lines

    def title_row(self, cells: int) -> Row:
        """Return what this is."""
        return (Span(" How the drill went"[:cells], Tone.TITLE),)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the lines; what was wrong stands out."""
        return [
            (Span(f" {line}", Tone.PLAIN if line.startswith(" ") else Tone.STRONG),) if line else ()
            for line in self._lines
        ]
