"""The line in which a filter is typed: it marks what cannot be read, completes, and knows the filters of before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from stethoscope.ui.present.filter_line import FilterLine, Recall, typed_row
from stethoscope.ui.widgets.rows import strip_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.binding import BindingType
    from textual.strip import Strip

    from stethoscope.analysis.filter import Completion
    from stethoscope.ui.app import StethoscopeApp


class FilterField(Input):
    """An input that draws itself from a FilterLine, which its screen keeps up to date."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", show=False),
        Binding("shift+tab", "complete(-1)", show=False),
        Binding("up", "recall(True)", show=False),
        Binding("down", "recall(False)", show=False),
    ]

    class Looked(Message):
        """The cursor moved, or another candidate was chosen: what stands around the text is to be drawn again."""

    def __init__(
        self, console: StethoscopeApp, text: str, history: Sequence[str], complete: Callable[[str, int], Completion]
    ) -> None:
        """Begin with `text`; `complete` says what can stand at a place of a text."""
        self._owner = console
        self.line = FilterLine(text, len(text))
        self._history = history
        self._recall: Recall | None = None
        self._complete = complete
        self._completion: tuple[Completion, str] | None = None
        """What is gone through with the tabulator, and the text without a candidate."""
        self._at = -1
        self._made = ""
        super().__init__(text, id="filter")

    def show(self, line: FilterLine) -> None:
        """Draw `line`."""
        self.line = line
        self.refresh()

    @property
    def candidates(self) -> tuple[Sequence[str], int | None]:
        """Return what can stand at the cursor, and which of it is chosen."""
        if self._completion is not None and self.value == self._made:
            return self._completion[0].candidates, self._at
        return self._complete(self.value, self.cursor_position).candidates, None

    def action_complete(self, step: int) -> None:
        """Put the next candidate, or the previous one, in the place of the word at the cursor."""
        if self._completion is None or self.value != self._made:
            found = self._complete(self.value, self.cursor_position)
            if not found.candidates:
                return
            self._completion, self._at = (found, self.value), -1 if step > 0 else 0
        found, before = self._completion
        self._at = (self._at + step) % len(found.candidates)
        self._put(*found.applied(before, found.candidates[self._at]))

    def action_recall(self, older: bool) -> None:
        """Put a filter of before in the place of the text."""
        if self._recall is None:
            self._recall = Recall(self._history, self.value)
        text = self._recall.older() if older else self._recall.newer()
        self._put(text, len(text))

    def _put(self, text: str, cursor: int) -> None:
        self._made = text
        self.value = text
        self.cursor_position = cursor

    def watch_selection(self) -> None:
        """Tell that something else can stand at the cursor now."""
        self.post_message(self.Looked())

    def render_line(self, y: int) -> Strip:
        """Return the strip of the line."""
        cells = self.size.width
        return strip_of(typed_row(self.line, cells, self._owner.glyphs), cells, self.app)
