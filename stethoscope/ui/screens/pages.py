"""What pages have in common: a title, rows that scroll, and the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.spans import Row, fit, plain
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from stethoscope.ui.app import StethoscopeApp


def as_text(rows: Sequence[Row]) -> str:
    """Return rows as they are copied and saved."""
    return "\n".join(plain(row).rstrip() for row in rows) + "\n"


class RowsScreen(Screen[None]):
    """A title, rows that scroll, and the keys."""

    AUTO_FOCUS = "RowsView"
    part = ""
    """The screen's name in the registry of keys."""

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`."""
        super().__init__()
        self._owner = console

    def compose(self) -> ComposeResult:
        """Lay out a title, the rows, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="values")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._draw()

    def title_row(self, cells: int) -> Row:
        """Return the top line."""
        raise NotImplementedError

    def rows(self, cells: int) -> Sequence[Row]:
        """Return what is shown, for a width of `cells`."""
        raise NotImplementedError

    def _draw(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        view = self.query_one(RowsView)
        self.query_one("#top", Lines).show([self.title_row(cells)])
        for name in ("rule-top", "rule-bottom"):
            self.query_one(f"#{name}", Lines).show([rule(cells, glyphs)])
        self.query_one("#keys", Lines).show([footer(self.footer_keys(), cells)])
        wide = view.cells or cells
        view.show([fit(row, wide, glyphs.ellipsis) for row in self.rows(wide)])

    def footer_keys(self) -> list[tuple[str, str]]:
        """Return the keys of the footer, each with its word."""
        return footer_of(self.part)

    def action_move(self, rows: int, _columns: int) -> None:
        """Scroll."""
        view = self.query_one(RowsView)
        view.scroll_to(y=view.scroll_offset.y + rows, animate=False, immediate=True)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_move(pages * max(1, self.query_one(RowsView).size.height - 1), 0)

    def text(self) -> str:
        """Return everything that is shown, as text."""
        return as_text(self.rows(10_000))
