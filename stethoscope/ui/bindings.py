"""From the key registry to Textual's bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.actions import parse
from textual.binding import Binding

from stethoscope.ui.keys import KEYS

if TYPE_CHECKING:
    from textual.binding import BindingType

MOVES: dict[str, str] = {
    "up": "move(-1, 0)", "k": "move(-1, 0)", "down": "move(1, 0)", "j": "move(1, 0)",
    "left": "move(0, -1)", "h": "move(0, -1)", "right": "move(0, 1)", "l": "move(0, 1)",
    "pageup": "page(-1)", "pagedown": "page(1)",
}  # fmt: skip
"""What the moving keys do on a screen that has `action_move` and `action_page`."""


_BOUND = {parse(key.action)[1:]: key for key in KEYS if key.live or key.replay}


def works(action: str, parameters: tuple[object, ...], *, replay: bool) -> bool:
    """Tell whether what a key does can be done here: some keys are for a replay alone, some have there another
    meaning."""
    key = _BOUND.get((action, parameters))
    return key is None or not (key.live if replay else key.replay)


def bindings_of(screen: str, *, moves: bool = False) -> list[BindingType]:
    """Return the bindings of a screen; `ctrl+q` wins over everything, so that there is always a way out."""
    found: list[BindingType] = [
        Binding(name, key.action, key.short, id=f"{key.id}.{name}", show=False, priority=name == "ctrl+q")
        for key in KEYS
        if key.action and screen in key.where
        for name in key.keys
    ]
    if moves:
        found += [Binding(name, action, show=False, id=f"move.{name}") for name, action in MOVES.items()]
    return found
