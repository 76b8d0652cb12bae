"""One line to type an answer into."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input

from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.ui.app import StethoscopeApp


class AskScreen(ModalScreen[str | None]):
    """Asks for a word; escape gives none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    AUTO_FOCUS = "Input"

    def __init__(self, console: StethoscopeApp, what: str) -> None:
        """Ask; `what` stands in the empty input."""
        super().__init__()
        self._owner = console
        self._what = what

    def compose(self) -> ComposeResult:
        """Lay out the input and the keys."""
        yield Input(placeholder=self._what, id="ask")
        yield Lines(id="rule-top")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no answer."""
        cells = self.size.width or 80
        self.query_one("#rule-top", Lines).show([rule(cells, self._owner.glyphs)])
        self.query_one("#keys", Lines).show([footer([("enter", "take"), ("escape", "back")], cells)])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the answer, or none when there is nothing."""
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Give no answer."""
        self.dismiss(None)
