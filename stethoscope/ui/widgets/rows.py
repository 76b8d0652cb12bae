"""Rows of spans on the screen: fixed lines, and a scrolling list that repaints only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from stethoscope.text import clean
from stethoscope.ui.present.spans import ASCII, to_ascii
from stethoscope.ui.theme import palette

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual.app import App

    from stethoscope.ui.present.spans import Row


class PlainBar(ScrollBarRender):
    """A scroll bar of whole cells: no character that a poor terminal would miss, and no byte more than needed."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]


ScrollBar.renderer = PlainBar


def strip_of(row: Row, cells: int, app: App[object]) -> Strip:
    """Return the strip of a row, filled with background or cut to `cells`."""
    plain, selected, blank = palette(app)
    ascii_only = getattr(app, "glyphs", None) is ASCII
    segments: list[Segment] = []
    last_style: Style | None = None
    run: list[str] = []
    for text, tone, marked in row:
        style = selected[tone] if marked else plain[tone]
        if not text.isprintable():
            # Everything remote was cleaned when it was parsed; what is not printable here is a defect that must not
            # reach a terminal.
            text = clean(text)
        if ascii_only and not text.isascii():
            text = to_ascii(text)
        if style is last_style:
            run.append(text)
            continue
        if run:
            segments.append(Segment("".join(run), last_style))
        run = [text]
        last_style = style
    if run:
        segments.append(Segment("".join(run), last_style))
    used = sum([len(text) if text.isascii() else cell_len(text) for text, _, _ in segments])
    if used < cells:
        segments.append(Segment(" " * (cells - used), blank))
    # A strip takes long to make: one that fits is not made a second time.
    return Strip(segments, cells) if used <= cells else Strip(segments).adjust_cell_length(cells, blank)


class Lines(Widget):
    """A few fixed rows; one that does not change is not painted again."""

    DEFAULT_CSS = """
    Lines { height: 1; width: 1fr; }
    Lines.-gone { display: none; }
    """
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, rows: Sequence[Row] = ((),)) -> None:  # noqa: A002  Textual's name
        """Show `rows` at first."""
        super().__init__(id=id, classes="" if rows else "-gone")
        self._rows: list[Row] = list(rows)

    @property
    def rows(self) -> list[Row]:
        """Return what is shown."""
        return list(self._rows)

    def show(self, rows: Sequence[Row]) -> None:
        """Show `rows`; the widget is as high as there are rows, and gone without any."""
        old = self._rows
        self._rows = list(rows)
        if len(rows) != len(old) or not self.styles.height:
            self.styles.height = len(rows)
            self.set_class(not rows, "-gone")
            self.refresh()
            return
        changed = [
            Region(0, y, self.size.width, 1) for y, (new, was) in enumerate(zip(rows, old, strict=True)) if new != was
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """Return the strip of line `y`."""
        row = self._rows[y] if y < len(self._rows) else ()
        return strip_of(row, self.size.width, self.app)


class RowsView(ScrollView, can_focus=True):
    """A scrolling list of rows, asked for one by one while they are visible."""

    DEFAULT_CSS = """
    RowsView { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
        scrollbar-gutter: stable; }
    """
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        """Show nothing at first."""
        super().__init__(id=id)
        self._fixed: list[Row] = []
        self._painted: dict[int, Row] = {}
        self._strips: dict[int, tuple[Row, int, Strip]] = {}

    def line_count(self) -> int:
        """Return how many rows there are."""
        return len(self._fixed)

    def line(self, index: int) -> Row:
        """Return the row `index`, asked for while it is visible."""
        return self._fixed[index]

    def show(self, rows: Sequence[Row]) -> None:
        """Show `rows`, painting those that differ."""
        self._fixed = list(rows)
        self.sync()

    @property
    def cells(self) -> int:
        """Return the width that rows can take."""
        return self.scrollable_content_region.width

    def lengthen(self, lines: int) -> None:
        """Let it be possible to scroll to any of `lines` rows, which are about to be shown."""
        size = Size(self.cells, lines)
        if self.virtual_size != size:
            self.virtual_size = size

    def sync(self) -> None:
        """Ask for the visible rows again and paint those that changed."""
        count = self.line_count()
        size = Size(self.cells, count)
        if self.virtual_size != size:
            self.virtual_size = size
        top = self.scroll_offset.y
        dirty: list[Region] = []
        painted: dict[int, Row] = {}
        for y in range(self.size.height):
            row = self.line(top + y) if top + y < count else ()
            if self._painted.get(top + y) != row:
                dirty.append(Region(0, y, self.size.width, 1))
            painted[top + y] = row
        self._painted = painted
        if dirty:
            self.refresh(*dirty)

    def touch(self, *lines: int) -> None:
        """Ask for these rows again, where they are visible, and paint those that changed."""
        top, count = self.scroll_offset.y, self.line_count()
        for index in set(lines):
            if top <= index < min(count, top + self.size.height):
                row = self.line(index)
                if self._painted.get(index) != row:
                    self._painted[index] = row
                    self.refresh(Region(0, index - top, self.size.width, 1))
            else:
                # Asked for when it comes into view.
                self._painted.pop(index, None)

    def render_line(self, y: int) -> Strip:
        """Return the strip of visible line `y`."""
        index = self.scroll_offset.y + y
        cells = self.cells
        if index >= self.line_count():
            return strip_of((), cells, self.app)
        row = self._painted.get(index)
        if row is None:
            row = self._painted[index] = self.line(index)
        kept = self._strips.get(index)
        if kept is not None and kept[0] == row and kept[1] == cells:
            return kept[2]
        strip = strip_of(row, cells, self.app)
        if len(self._strips) > 4 * max(64, self.size.height):
            self._strips.clear()
        self._strips[index] = (row, cells, strip)
        return strip

    def forget(self) -> None:
        """Build every strip again: the palette changed."""
        self._strips.clear()
        self._painted.clear()
        self.refresh()
