"""One line to type an answer into."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input

from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.spans import Span, Tone
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.ui.app import StethoscopeApp


class AskScreen(ModalScreen[str | None]):
    """Asks for a word; escape gives none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    AUTO_FOCUS = "Input"

    def __init__(self, console: StethoscopeApp, what: str, why: str = "") -> None:
        """Ask; `what` stands in the empty input, and below it what should be known before one answers."""
        super().__init__()
        self._owner = console
        self._what = what
        self._why = why

    def compose(self) -> ComposeResult:
        """Lay out the input and the keys."""
        yield Input(placeholder=self._what, id="ask")
        yield Lines(id="rule-top")
        yield Lines(id="why")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw what needs no answer."""
        cells = self.size.width or 80
        lines = wrap(self._why, max(20, cells - 2))
        self.query_one("#why", Lines).show([(Span(f" {line}", Tone.WARNING),) for line in lines])
        self.query_one("#rule-top", Lines).show([rule(cells, self._owner.glyphs)])
        self.query_one("#keys", Lines).show([footer([("enter", "take"), ("escape", "back")], cells)])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the answer, or none when there is nothing."""
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Give no answer."""
        self.dismiss(None)
