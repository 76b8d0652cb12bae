"""Textual's compositor, asking of widgets those lines alone that are drawn.

Textual asks every widget between the first and the last line that changed for all of its lines. A key that moves the
cursor changes two rows and the line below them that explains it: the other fifty took half of its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual._compositor import Compositor
from textual.geometry import Region

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual._compositor import ChopsUpdate
    from textual.strip import Strip


class NarrowCompositor(Compositor):
    """Draws parts of a screen from the lines in them."""

    _changed: tuple[Region, ...] = ()
    """What is being drawn when it is not the whole screen."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what to draw where something has changed."""
        self._changed = tuple(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed = ()

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        if not self._changed:
            yield from super()._get_renders(crop)
            return
        left: Iterable[Region] = self._changed
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            changed = [part for part in map(shown.intersection, left) if part]
            if not changed:
                continue
            # Whole lines: what is left and right of a change on them is not drawn, but cut where widgets end.
            first, last = min(part.y for part in changed), max(part.bottom for part in changed)
            lines = Region(shown.x, first, shown.width, last - first)
            yield region, lines, widget.render_lines(lines.translate((-region.x, -region.y)))
            # Those in front come first: nothing is seen of what is behind them.
            left = [part for part in left if not shown.contains_region(part)]
