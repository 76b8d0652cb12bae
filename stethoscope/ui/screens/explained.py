"""What one kind of line means: the same explanation that `stethoscope explain` gives, with the line that led here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.session.explain import listed
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.explained import explained_rows
from stethoscope.ui.present.spans import Row, Span, Tone, spread
from stethoscope.ui.screens.pages import RowsScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.session.logbook import LogBook
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.logs import LogRow


class ExplainedScreen(RowsScreen):
    """The explanation of a signature or a code; enter goes to the node that the line was about."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("explained", moves=True)
    part = "explained"

    def __init__(self, console: StethoscopeApp, book: LogBook, signature: str, row: LogRow | None = None) -> None:
        """Explain `signature`, met in `row`."""
        super().__init__(console)
        self._book = book
        self._signature = signature
        self._row = row

    def title_row(self, cells: int) -> Row:
        """Return what is explained, and where it was met."""
        node = self._row.node if self._row is not None else ""
        right = (Span(f"{node} ", Tone.QUIET),) if node else ()
        return spread((Span(f" {self._signature}", Tone.TITLE),), right, cells)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the explanation."""
        event = self._row.event if self._row is not None else None
        return explained_rows(
            self._signature, event, self._book.signatures, self._book.codes, self._owner.glyphs, min(cells, 120)
        )

    def action_open_node(self) -> None:
        """Open the node that the line was about."""
        if self._row is not None and self._row.node:
            self._owner.open_node(self._row.node)
        else:
            self._owner.tell("no node of this fleet stands behind this")

    def action_copy_explained(self) -> None:
        """Copy the explanation."""
        copy(self._owner, self.text(), "the explanation")

    def action_save_explained(self) -> None:
        """Write the explanation into a file."""
        save(self._owner, self.text(), self._signature, self._owner.clock.wall())


def browse(console: StethoscopeApp, book: LogBook) -> None:
    """Let a person choose one of all signatures and codes, and explain it."""
    choices = [(one.id, one.meaning, one.id) for one in listed("", book.signatures, book.codes)]

    def take(signature: str) -> None:
        console.push_screen(ExplainedScreen(console, book, signature))

    console.choose("signature", choices, take)
