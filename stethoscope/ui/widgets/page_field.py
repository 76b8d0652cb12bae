"""A field of several lines in which people write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message
from textual.widgets import TextArea

if TYPE_CHECKING:
    from textual import events


class PageField(TextArea):
    """Plain text, wrapped; the tabulator goes on to the next field."""

    DEFAULT_CSS = """
    PageField, PageField:focus { border: none; padding: 0; height: 1fr; scrollbar-size-vertical: 1; }
    """

    class Entered(Message):
        """Enter was pressed, which is to record everything."""

    def __init__(self, text: str, *, id: str, enter_saves: bool = False) -> None:  # noqa: A002  Textual's name
        """Begin with `text`; with `enter_saves` enter is told, and ctrl+j begins a line."""
        super().__init__(text, id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False)
        self.highlight_cursor_line = False
        self.cursor_blink = False
        if enter_saves:
            self.move_cursor(self.document.end)
        self._enter_saves = enter_saves

    async def _on_key(self, event: events.Key) -> None:
        if self._enter_saves and event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Entered())
        elif event.key in ("ctrl+j", "newline"):
            event.stop()
            event.prevent_default()
            self.insert("\n")
