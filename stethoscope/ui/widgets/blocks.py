"""The map of the whole fleet on the screen, with a cursor that stands on half a character."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from stethoscope.ui.present.block_lines import map_cursor_line, map_line
from stethoscope.ui.present.block_places import Zoom
from stethoscope.ui.present.blocks import BACK, BLANK, CHARACTER, GROUND, PICKED, UNDER, BlockMap
from stethoscope.ui.present.spans import UNICODE, Level, Tone
from stethoscope.ui.theme import palette
from stethoscope.ui.widgets.rows import RowsView

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.color import Color
    from textual import events

    from stethoscope.ui.present.blocks import Canvas
    from stethoscope.ui.present.grid import FleetGrid, Target
    from stethoscope.ui.present.spans import Row

_NO_LINE: Canvas = np.array([BLANK], dtype=np.uint64)
"""What is painted below the last node."""
_READABLE = 3.0
"""A sign needs at least this contrast to what it stands on."""


class BlocksView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows a FleetGrid as a map; its interface is that of GridView."""

    DEFAULT_CSS = RowsView.DEFAULT_CSS.replace("RowsView", "BlocksView")
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        """Start without a grid and with the cursor on the first node."""
        super().__init__(id=id)
        self.grid: FleetGrid | None = None
        self.key: str | None = None
        """Node under the cursor; None follows the first one."""
        self.map: BlockMap | None = None
        self.when_moved: Callable[[], object] | None = None
        """Called when the cursor stands on another cell."""
        self._item = 0
        self._position = -1
        self._painted: dict[int, bytes] = {}
        self._strips: dict[bytes, Strip] = {}
        self._styles: dict[int, Style] = {}
        self._palette: list[Style] = []
        """What the styles were made of."""

    # ---- what GridView has too

    @property
    def current(self) -> tuple[str, Target] | None:
        """Return the node and cell under the cursor, or None while there are no nodes."""
        grid, here = self.grid, self.map
        if grid is None or here is None or not here.order.size:
            return None
        node = grid.snapshot.nodes[here.node_of(self._item, grid)]
        return self.key or node.name, here.target(self._position)

    def cursor_line(self, wall: float, cells: int) -> Row | None:
        """Return the line that explains what the cursor stands on, None while there are no nodes."""
        current = self.current
        if current is None or self.map is None or self.grid is None:
            return None
        return map_cursor_line(self.map, self.grid, self._item, current, wall, cells)

    def headline(self, cells: int) -> Row:
        """Return the line that says what a cell of the map is."""
        return map_line(self.map, cells) if self.map is not None and self.map.places is not None else ()

    @property
    def cells(self) -> int:
        """Return the width that the map can take."""
        return self.scrollable_content_region.width

    def line_count(self) -> int:
        """Return how many lines there are."""
        return self.map.places.lines if self.map is not None and self.map.places is not None else 0

    def follow(self) -> None:
        """Draw what the grid shows now, with the cursor on the node where it was, and paint what changed."""
        grid = self.grid
        if grid is None or grid.assessment is None or not self.cells:
            return
        halves = grid.glyphs is UNICODE and _has_colours(self)
        if self.map is None or self.map.glyphs is not grid.glyphs or self.map.halves is not halves:
            self.map = BlockMap(grid.glyphs, halves=halves)
        here = self.map
        here.zoom = None if grid.view.zoom == "auto" else Zoom[grid.view.zoom.upper()]
        here.update(grid, self.cells, max(1, self.size.height))
        self._find()
        self.sync()

    def move(self, rows: int = 0, columns: int = 0) -> None:
        """Move the cursor by nodes up and down and by cells to the sides; it stops at the edges."""
        here = self.map
        if here is None or here.places is None or not here.order.size:
            return
        owner = here.places.owner
        row, column = here.places.row(self._item), here.column(self._item, self._position)
        if rows:
            # As many rows as there are lines go to the end, however many nodes share a line.
            far = len(owner) if abs(rows) >= here.places.lines else abs(rows)
            row = _row_with_nodes(owner, row, far if rows > 0 else -far)
            stops = np.flatnonzero(owner[row] >= 0)
            column = int(stops[np.abs(stops - column).argmin()])
        if columns:
            stops = np.flatnonzero(owner[row] >= 0)
            place = int(np.searchsorted(stops, column)) + columns
            column = int(stops[max(0, min(stops.size - 1, place))])
        self._stand(int(owner[row, column]), column)

    def home(self) -> None:
        """Go to the first node and follow whatever comes to stand there."""
        self.key = None
        self._item, self._position = 0, -1
        self._moved()

    def select(self, name: str) -> bool:
        """Put the cursor on a node, or on the worst of those that a line of the grid is about; False when it is not on
        the map."""
        grid = self.grid
        if grid is None or self.map is None or grid.assessment is None:
            return False
        line = grid.line_of(name)
        nodes = [grid.snapshot.by_name[name]] if name in grid.snapshot.by_name else list(line.nodes) if line else []
        item = self.map.item_of(max(nodes, key=grid.assessment.nodes.__getitem__), self._item) if nodes else None
        if item is None:
            return False
        self._item = item
        self.key = grid.snapshot.nodes[self.map.node_of(item, grid)].name
        self._moved()
        return True

    # ---- what the map has beside

    def under_cursor(self) -> list[str]:
        """Return the names of the nodes on which the cursor stands: one, or those of a group."""
        here, grid = self.map, self.grid
        if self.current is None or here is None or grid is None:
            return []
        return [grid.snapshot.nodes[node].name for node in here.nodes_of(self._item)]

    def next_wrong(self, step: int) -> bool:
        """Go to the next node (or group) that deserves a look, or the previous one; False when there is no other."""
        here, grid = self.map, self.grid
        if here is None or grid is None or grid.assessment is None or self.current is None:
            return False
        nodes = grid.snapshot.nodes
        count = len(here.places.line) if here.places is not None else 0
        for distance in range(1, count):
            item = (self._item + step * distance) % count
            if any(
                grid.assessment.nodes[node] > Level.MISSING or grid.is_odd(nodes[node]) for node in here.nodes_of(item)
            ):
                self._item, self._position = item, -1
                self.key = nodes[here.node_of(item, grid)].name
                self._moved()
                return True
        return False

    # ---- looking closer

    @property
    def zoom(self) -> Zoom | None:
        """Return how close the map is shown; None before there is one."""
        return self.map.form.zoom if self.map is not None and self.map.places is not None else None

    def zoom_by(self, steps: int) -> bool:
        """Look closer (positive) or from farther away; False when that is not possible. 0 is as close as all fit."""
        if self.map is None or self.zoom is None or self.grid is None:
            return False
        before = self.zoom
        grouped = any(section.label for section in self.map.sections)
        least = Zoom.GROUP if grouped else Zoom.NODE
        self.grid.view.zoom = Zoom(max(least, min(Zoom.NAME, before + steps))).name.lower() if steps else "auto"
        self.follow()
        self._moved()
        return self.zoom is not before

    def enter(self) -> bool:
        """Look into the group under the cursor; False when the cursor stands on a node, which can be opened itself."""
        if self.zoom is not Zoom.GROUP or self.current is None:
            return False
        self.key = self.current[0]
        return self.zoom_by(1)

    # ---- painting

    def forget(self) -> None:
        """Build every strip again: the palette or the characters changed."""
        self._styles.clear()
        self._strips.clear()
        self._painted.clear()
        self.map = None
        self.follow()
        self.refresh()

    def sync(self) -> None:
        """Paint the visible lines that changed."""
        size = Size(self.cells, self.line_count())
        if self.virtual_size != size:
            self.virtual_size = size
        top = self.scroll_offset.y
        painted = {top + y: self._line(top + y).tobytes() for y in range(self.size.height)}
        dirty = [
            Region(0, index - top, self.size.width, 1)
            for index, line in painted.items()
            if self._painted.get(index) != line
        ]
        self._painted = painted
        if dirty:
            self.refresh(*dirty)

    def render_line(self, y: int) -> Strip:
        """Return the strip of visible line `y`."""
        plain = palette(self.app)[0]
        if plain is not self._palette:
            self._palette = plain
            self._styles.clear()
            self._strips.clear()
        line = self._line(self.scroll_offset.y + y)
        key = line.tobytes()
        strip = self._strips.get(key)
        if strip is None or strip.cell_length != self.cells:
            if len(self._strips) > 4 * max(64, self.size.height):
                self._strips.clear()
            strip = self._strips[key] = self._strip(line)
        return strip

    def _line(self, index: int) -> Canvas:
        here = self.map
        if here is None or index >= len(here.canvas):
            return _NO_LINE
        return here.line(index, self._item if here.order.size else None, self._shown_position(here))

    def _strip(self, line: Canvas) -> Strip:
        text = (line >> np.uint64(CHARACTER)).astype("<u4").tobytes().decode("utf-32-le")
        looks = line & np.uint64((1 << CHARACTER) - 1)
        starts = [0, *(np.flatnonzero(looks[1:] != looks[:-1]) + 1).tolist()]
        segments = [
            # Behind a wide character stands a cell without a character of its own.
            Segment(text[start:end].replace("\0", ""), self._style(int(looks[start])))
            for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
        ]
        return Strip(segments).adjust_cell_length(self.cells, palette(self.app)[2])

    def _style(self, number: int) -> Style:
        style = self._styles.get(number)
        if style is None:
            plain, selected, blank = palette(self.app)
            fore, back = number & GROUND, number >> BACK & GROUND
            if number >> PICKED & 1:
                style = selected[fore if fore != GROUND else Tone.PLAIN]
            elif fore == back == GROUND:
                style = blank
            else:
                colours = [blank.bgcolor if tone == GROUND else plain[tone].color for tone in (fore, back)]
                if 0 < fore <= Level.CRITICAL and back > Level.CRITICAL and _contrast(*colours) < _READABLE:
                    colours[1] = blank.bgcolor
                basis = plain[fore] if fore != GROUND else blank
                style = basis + Style(
                    color=colours[0],
                    bgcolor=colours[1],
                    underline=bool(number >> UNDER & 1) or None,
                    # What is about both nodes is turned here already.
                    reverse=False if basis.reverse else None,
                )
            self._styles[number] = style
        return style

    # ---- the cursor

    def _shown_position(self, here: BlockMap) -> int:
        return min(self._position, here.form.cells - 1) if here.form.lead and here.form.zoom is not Zoom.GROUP else -1

    def _find(self) -> None:
        """Find the cursor's node again after the map changed."""
        here, grid = self.map, self.grid
        assert here is not None
        assert grid is not None
        item: int | None = 0
        if self.key is not None:
            node = grid.snapshot.by_name.get(self.key)
            # A node can be in several groups: then the cursor stays in the one in which it stands.
            item = here.item_of(node, self._item) if node is not None else None
        count = len(here.places.line) if here.places is not None else 0
        if item is None:
            item = max(0, min(self._item, count - 1))
            self.key = grid.snapshot.nodes[here.node_of(item, grid)].name if count else self.key
        self._item = item

    def _stand(self, item: int, column: int) -> None:
        here, grid = self.map, self.grid
        assert here is not None
        assert grid is not None
        self._item = item
        if here.form.zoom in (Zoom.GPU, Zoom.NAME):
            self._position = here.position_at(item, column)
        self.key = grid.snapshot.nodes[here.node_of(item, grid)].name
        self._moved()

    def _moved(self) -> None:
        here = self.map
        if here is not None and here.places is not None and self._item < here.places.line.size:
            line, top, height = int(here.places.line[self._item]), self.scroll_offset.y, self.size.height
            # By half pages: over a slow line every step costs a page.
            half = max(1, height // 2)
            wanted = top
            while line < wanted:
                wanted -= half
            while height and line >= wanted + height:
                wanted += half
            if wanted != top:
                self.scroll_to(y=max(0, wanted), animate=False, immediate=True)
        self.sync()
        if self.when_moved is not None:
            self.when_moved()

    # ---- size and mouse

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the nodes for the new room, with the cursor in it."""
        self.follow()
        self._moved()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on what was clicked: on the upper half of a character first, then on the other one."""
        here = self.map
        if here is None or here.places is None or event.chain > 1:
            # Twice at once is meant for what the first click chose.
            return
        line, column = event.y + self.scroll_offset.y, event.x
        each = 2 if here.form.halves else 1
        if not 0 <= line < here.places.lines:
            return
        rows = [line * each + half for half in range(each)]
        found = []
        for row in rows:
            stops = np.flatnonzero(here.places.owner[row, : column + 1] >= 0)
            if stops.size and column - stops[-1] < max(here.form.lead, 1):
                found.append((int(here.places.owner[row, stops[-1]]), int(stops[-1])))
        if found:
            here_now = (self._item, here.column(self._item, self._shown_position(here)))
            self._stand(*found[(found.index(here_now) + 1) % len(found) if here_now in found else 0])

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll by half a page."""
        self._scroll_half(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll back by half a page."""
        self._scroll_half(event, -1)

    def _scroll_half(self, event: events.MouseScrollDown | events.MouseScrollUp, sign: int) -> None:
        event.stop()
        event.prevent_default()
        self.scroll_relative(y=sign * max(1, self.size.height // 2), animate=False, immediate=True)
        self.sync()


def _row_with_nodes(owner: Canvas | np.ndarray[tuple[int, ...], np.dtype[np.int64]], row: int, step: int) -> int:
    """Return the row that is `step` rows away, or the nearest one behind it (else before it) on which nodes stand."""
    wanted = max(0, min(len(owner) - 1, row + step))
    onward = range(wanted, len(owner)) if step > 0 else range(wanted, -1, -1)
    back = range(wanted, row, -1) if step > 0 else range(wanted, row)
    return next((at for at in (*onward, *back) if (owner[at] >= 0).any()), row)


def _has_colours(view: BlocksView) -> bool:
    """Tell whether colours can say which half is which on this terminal."""
    plain = palette(view.app)[0]
    return not view.app.no_color and plain[Tone.FAINT].color != plain[Tone.CRITICAL].color


def _contrast(one: Color | None, other: Color | None) -> float:
    """Return the contrast of two colours, 1 to 21, as the WCAG has it."""
    first, second = sorted((_luminance(one), _luminance(other)))
    return (second + 0.05) / (first + 0.05)


def _luminance(colour: Color | None) -> float:
    if colour is None:
        return 0.0
    parts = [value / 255 for value in colour.get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
