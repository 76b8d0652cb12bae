"""The fleet's grid: rows from `present.grid`, a cursor over rows and cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.ui.widgets.rows import RowsView

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from stethoscope.ui.present.grid import FleetGrid, Target
    from stethoscope.ui.present.spans import Row


class GridView(RowsView, inherit_bindings=False):
    """Shows a FleetGrid and moves the cursor over it."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        """Start without a grid and with the cursor on the first row."""
        super().__init__(id=id)
        self.grid: FleetGrid | None = None
        self.key: str | None = None
        """Row under the cursor; None follows the first row."""
        self.when_moved: Callable[[], object] | None = None
        """Called when the cursor stands on another cell. A message would come a picture later than the cursor."""
        self._line = 0
        self._column = 0

    @property
    def current(self) -> tuple[str, Target] | None:
        """Return the row and cell under the cursor, or None while there are no rows."""
        grid = self.grid
        if grid is None or not grid.lines:
            return None
        targets = grid.targets()
        return grid.lines[self._line], targets[min(self._column, len(targets) - 1)]

    def line_count(self) -> int:
        """Return how many rows there are."""
        return len(self.grid.lines) if self.grid is not None else 0

    def line(self, index: int) -> Row:
        """Return the row `index`, with the cursor's cell marked."""
        assert self.grid is not None
        # For one row of fifty: what its cells are about takes as long as a fifth of the row.
        current = self.current if index == self._line else None
        return self.grid.row(index, current[1] if current is not None else None)

    def follow(self) -> None:
        """Find the cursor's row again after the rows changed, and paint."""
        if self.grid is not None and self.grid.lines:
            lines = self.grid.lines
            before = self._line
            if self.key is None:
                self._line = 0
            elif self.key in lines:
                self._line = lines.index(self.key)
                self._stay(self._line - before)
            else:
                self._line = min(self._line, len(lines) - 1)
                self.key = lines[self._line]
        else:
            self._line = 0
        self.sync()

    def _stay(self, moved: int) -> None:
        """Scroll by as many lines as came or went above the cursor, so that its row stays where the eye is."""
        lines, height = self.line_count(), self.size.height
        top = max(0, min(self.scroll_offset.y + moved, lines - height))
        if moved and height and top != self.scroll_offset.y:
            self.lengthen(lines)
            self.scroll_to(y=top, animate=False, immediate=True)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the cell that was clicked."""
        line = event.y + self.scroll_offset.y
        if self.grid is None or self.grid.layout is None or not 0 <= line < self.line_count():
            event.stop()
            return
        from stethoscope.ui.present.grid import Target

        targets = self.grid.targets()
        before = self._line
        self._line, self._column = line, targets.index(Target(*self.grid.layout.at(event.x)))
        self.key = self.grid.lines[line]
        self._moved(before)

    def move(self, rows: int = 0, columns: int = 0) -> None:
        """Move the cursor by rows and cells; it stops at the edges."""
        if self.grid is None or not self.grid.lines:
            return
        before = self._line
        self._line = max(0, min(len(self.grid.lines) - 1, self._line + rows))
        self._column = max(0, min(len(self.grid.targets()) - 1, self._column + columns))
        self.key = self.grid.lines[self._line]
        self._moved(before)

    def home(self) -> None:
        """Go to the first row and follow whatever comes to stand there."""
        self.key = None
        before, self._line = self._line, 0
        self._moved(before)

    def select(self, name: str) -> bool:
        """Put the cursor on a node, or on the line with that key; False when its row is not shown."""
        if self.grid is None or name not in self.grid.lines:
            return False
        self.key = name
        before, self._line = self._line, self.grid.lines.index(name)
        self._moved(before)
        return True

    def _moved(self, before: int) -> None:
        """Show the cursor on its line, which was the line `before`; the other rows stay as they are."""
        top, height = self.scroll_offset.y, self.size.height
        if self._line < top:
            self.scroll_to(y=self._line, animate=False, immediate=True)
        elif height and self._line >= top + height:
            self.scroll_to(y=self._line - height + 1, animate=False, immediate=True)
        self.touch(before, self._line)
        if self.when_moved is not None:
            self.when_moved()
