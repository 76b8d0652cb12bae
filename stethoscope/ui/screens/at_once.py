"""Keys whose effect is on the terminal before anything else happens: those that move the cursor, above all.

A key on its usual way passes five queues, and its picture waits for the next sixtieth of a second. Between any two of
these steps the loop reads what nodes have sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.actions import parse
from textual.screen import ModalScreen, Screen

from stethoscope.ui.narrow import NarrowCompositor

if TYPE_CHECKING:
    from textual import events


class AtOnceScreen(Screen[None]):
    """A screen some of whose keys act and paint at once."""

    AT_ONCE: ClassVar[frozenset[str]] = frozenset()
    """Names of the actions: they are not coroutines, and open nothing that takes keys."""

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self._compositor = NarrowCompositor()

    def take_at_once(self, key: str) -> bool:
        """Do what `key` does and paint it, when that is possible; False when it has to go its usual way."""
        for binding in self._bindings.key_to_bindings.get(key, ()):
            _, name, parameters = parse(binding.action)
            if name in self.AT_ONCE and self.check_action(name, parameters):
                getattr(self, f"action_{name}")(*parameters)
                self.paint()
                return True
        return False

    def paint(self) -> None:
        """Send now what has changed, instead of with Textual's next frame; not when more than lines has changed."""
        if (
            not self.is_current
            or self.app._batch_count
            or self._layout_required
            or self._scroll_required
            or self._repaint_required
        ):
            return
        dirty = {widget for widget in self._compositor.visible_widgets if widget._repaint_required}
        if any(widget._layout_required for widget in dirty):
            return
        for widget in dirty:
            widget._repaint_required = False
        self._dirty_widgets |= dirty
        self._compositor.update_widgets(self._dirty_widgets)
        self._compositor_refresh()


class TypedIntoScreen(ModalScreen[str | None]):
    """A screen into which a terminal may type a whole file: no key waits, and so none is too many."""

    def take_typed(self, key: events.Key) -> bool:
        """Take `key` if it is a part of the text."""
        raise NotImplementedError
