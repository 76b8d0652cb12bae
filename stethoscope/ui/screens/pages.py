"""What pages have in common: a title, rows that scroll or lines with a cursor, and the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import footer, position, rule
from stethoscope.ui.present.spans import Row, Span, Tone, fit, plain
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


class PlacedScreen(RowsScreen):
    """A page whose lower line says which of its lines are visible, where not all are."""

    def _draw(self) -> None:
        super()._draw()
        self._show_position()

    def _show_position(self) -> None:
        view, glyphs = self.query_one(RowsView), self._owner.glyphs
        words = position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs)
        self.query_one("#rule-bottom", Lines).show([rule(self.size.width or 80, glyphs, words)])

    def action_move(self, rows: int, columns: int) -> None:
        """Scroll."""
        super().action_move(rows, columns)
        self._show_position()

    def footer_keys(self) -> list[tuple[str, str]]:
        """Return the keys of the footer."""
        return footer_of(self.part, replay=self._owner.replay is not None)


class LinesScreen(Screen[None]):
    """A title, lines with a cursor that stands on those that lead somewhere, and the keys."""

    AUTO_FOCUS = ""
    part = ""
    """The screen's name in the registry of keys."""

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`."""
        super().__init__()
        self._owner = console
        self._chosen = 0

    def compose(self) -> ComposeResult:
        """Lay out a title, the lines, room for what the chosen one means, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="lines")
        yield Lines(id="rule-bottom")
        yield Lines(id="detail", rows=())
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no data."""
        # The keys move the cursor here, and the lines only where they must.
        self.query_one(RowsView).can_focus = False
        self._frame()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._frame()
        self.draw()

    def draw(self) -> None:
        """Draw everything that is known."""
        raise NotImplementedError

    def line_rows(self) -> Sequence[Row]:
        """Return the lines as they look without the cursor."""
        raise NotImplementedError

    def leads(self, number: int) -> bool:
        """Tell whether the cursor can stand on a line."""
        raise NotImplementedError

    def _frame(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        for name in ("rule-top", "rule-bottom"):
            self.query_one(f"#{name}", Lines).show([rule(cells, glyphs)])
        keys = footer_of(self.part, replay=self._owner.replay is not None)
        self.query_one("#keys", Lines).show([footer(keys, cells)])

    def show_lines(self) -> None:
        """Show the lines with the cursor on the chosen one."""
        view, glyphs = self.query_one(RowsView), self._owner.glyphs
        cells = view.cells or self.size.width or 80
        rows = [fit(row, cells, glyphs.ellipsis) for row in self.line_rows()]
        if 0 <= self._chosen < len(rows):
            text = plain(rows[self._chosen])
            words = text.lstrip()
            rows[self._chosen] = (Span(" " * (len(text) - len(words))), Span(words, Tone.PLAIN, selected=True))
        view.show(rows)
        self.show_position()

    def show_position(self) -> None:
        """Say which of the lines are visible."""
        view, glyphs = self.query_one(RowsView), self._owner.glyphs
        words = position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs)
        self.query_one("#rule-bottom", Lines).show([rule(self.size.width or 80, glyphs, words)])

    def action_move(self, rows: int, _columns: int) -> None:
        """Move the cursor to a line that leads somewhere, and the lines with it."""
        view, step = self.query_one(RowsView), 1 if rows > 0 else -1
        ahead = range(self._chosen + step, view.line_count() if rows > 0 else -1, step)
        leading = [number for number in ahead if self.leads(number)]
        if not leading:
            # There is no further line to stand on: show what is above the first, and below the last.
            view.scroll_to(y=view.scroll_offset.y + rows, animate=False, immediate=True)
            view.sync()
            self.show_position()
            return
        near = [number for number in leading if abs(number - self._chosen) <= abs(rows)]
        self._chosen = near[-1] if near else leading[0]
        self.show_lines()
        top, height = view.scroll_offset.y, view.size.height
        if not top <= self._chosen < top + height:
            target = self._chosen if self._chosen < top else self._chosen - height + 1
            view.scroll_to(y=target, animate=False, immediate=True)
            view.sync()
            self.show_position()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(1, self.query_one(RowsView).size.height - 1), 0)

    def action_cursor_first(self) -> None:
        """Go to the first line."""
        self.action_move(-self.query_one(RowsView).line_count(), 0)
        self.query_one(RowsView).scroll_to(y=0, animate=False, immediate=True)
        self.query_one(RowsView).sync()
        self.show_position()

    def action_cursor_last(self) -> None:
        """Go to the last line."""
        self.action_move(self.query_one(RowsView).line_count(), 0)
