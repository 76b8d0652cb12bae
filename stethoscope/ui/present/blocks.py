"""A map of the whole fleet: two nodes on a line, each with half of every character, and a sign over what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Scope
from stethoscope.ui.present.block_cells import ABSENT, Cells, by_group, cells_of, device_rows
from stethoscope.ui.present.block_places import NAME_LIMIT, Form, Section, Zoom, choose, common_prefix, forms
from stethoscope.ui.present.grid import Target
from stethoscope.ui.present.spans import Level, Tone, cut, width

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.ui.present.block_places import Ints, Places
    from stethoscope.ui.present.grid import FleetGrid
    from stethoscope.ui.present.spans import Glyphs

    Codes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]
    Canvas = npt.NDArray[np.uint64]
    """Cells as numbers: the character shifted by 24 bits, and its look."""

GROUND = 63
"""The tone of the background, where nothing stands."""
BACK, UNDER, PICKED, CHARACTER = 6, 12, 13, 24
"""Bits of a look behind the tone of the foreground: tone of the background, underlined, under the cursor; then the
character."""
BLANK = (ord(" ") << CHARACTER) | (GROUND << BACK) | GROUND
_HALF = ord("▀")
_NOTHING = np.uint8(0)


def look(fore: int, back: int = GROUND) -> int:
    """Return the number of a look."""
    return back << BACK | fore


class BlockMap:
    """The nodes of a fleet on a canvas of characters, kept in place from one snapshot to the next."""

    def __init__(self, glyphs: Glyphs, *, halves: bool) -> None:
        """Draw with `glyphs`; `halves`: the terminal has colours and half blocks."""
        self.glyphs = glyphs
        self.halves = halves
        self.zoom: Zoom | None = None
        """How close the user wants to look; None is as close as all nodes fit."""
        self.sections: tuple[Section, ...] = ()
        self.order: Ints = np.empty(0, dtype=np.int64)
        """Index of the node of every item, section by section."""
        self.scope = Scope.GPU
        self.positions = 0
        """Cells of a node when looked at closely."""
        self.places: Places | None = None
        self.canvas: Canvas = np.empty((0, 0), dtype=np.uint64)
        self._placed: tuple[object, ...] = ()
        self._written: tuple[object, ...] = ()
        self._words: Canvas = self.canvas
        self._signs = np.array([ord(sign) for sign in glyphs.levels], dtype=np.uint64)
        self._heats = np.array([ord(sign) for sign in glyphs.heat], dtype=np.uint64)

    @property
    def form(self) -> Form:
        """Return how items are drawn; there are places after the first `update`."""
        assert self.places is not None
        return self.places.form

    def update(self, grid: FleetGrid, cells: int, height: int) -> None:
        """Take what `grid` shows now, and also what it folds; `cells` and `height` are the room."""
        sections = [(label, nodes) for label, nodes in grid.sections() if nodes]
        if grid.view.sort == "worst":
            # On a map what is wrong is found by its colour, and a node by its place: that must not move.
            sections = sorted(((label, tuple(sorted(nodes))) for label, nodes in sections), key=lambda one: one[1][0])
        self.sections = tuple(Section(label, nodes) for label, nodes in sections)
        self.order = np.array([node for section in self.sections for node in section.nodes], dtype=np.int64)
        self.scope = grid.metric.scope
        rows = device_rows(grid, self.order)
        self.positions = rows.shape[1]
        self._place(grid, cells, height)
        devices, nodes = cells_of(grid, self.order, rows)
        if self.form.zoom is Zoom.GROUP:
            nodes = by_group(nodes, [len(section.nodes) for section in self.sections])
            # The sign says how the group stands, the cell how much.
            none = np.zeros_like(nodes.levels)
            devices = nodes._replace(levels=none, signs=none)
        elif self.form.zoom is Zoom.NODE:
            devices = nodes
        signs = nodes.levels[:, 0]
        marked = self._marked(grid)
        self._write_words(grid, signs, marked)
        self.canvas = self._words.copy()
        if self.form.halves:
            self._draw_halves(devices, signs, marked)
        else:
            self._draw_whole(devices, signs, marked)

    def _marked(self, grid: FleetGrid) -> Flags:
        """Return by item whether the user selected it; of a group, all of its nodes."""
        by_name = grid.snapshot.by_name
        of_node = np.zeros(len(by_name), dtype=np.bool_)
        of_node[[by_name[name] for name in grid.marked if name in by_name]] = True
        if self.form.zoom is Zoom.GROUP:
            return np.array([of_node[list(section.nodes)].all() for section in self.sections], dtype=np.bool_)
        return of_node[self.order]

    # ---- where it stands

    def _place(self, grid: FleetGrid, cells: int, height: int) -> None:
        labels = [section.label for section in self.sections if section.label]
        names = max((width(node.name) for node in grid.snapshot.nodes), default=0)
        sizes = tuple(len(section.nodes) for section in self.sections)
        key = (sizes, tuple(labels), names, self.positions, self.zoom, self.halves, cells, height)
        if key == self._placed:
            return
        tried = forms(self.zoom, halves=self.halves, positions=self.positions, names=names, labels=labels)
        if tried[0].zoom is Zoom.GROUP:
            sizes = (len(sizes),)
            labels = []
        self.places = choose(tried, sizes, bool(labels), cells, height)
        self._placed, self._written = key, ()

    def _write_words(self, grid: FleetGrid, node_levels: Codes, marked: Flags) -> None:
        """Draw the labels and names anew if they changed."""
        assert self.places is not None
        places, form = self.places, self.form
        nodes = grid.snapshot.nodes
        words: list[tuple[int, int, int, str, Tone]] = []
        if form.ruled and places.line.size:
            _, firsts = np.unique(places.line, return_index=True)
            words += [
                (int(places.line[item]), 0, form.label - 1, nodes[self.order[item]].name, Tone.QUIET) for item in firsts
            ]
        elif places.labels:
            prefix = common_prefix([section.label for section in self.sections])
            cells = form.label - 1
            for (line, column), section in zip(places.labels, self.sections, strict=True):
                name = section.label if width(section.label) <= cells else section.label[len(prefix) :]
                words.append((line, column, cells, name, Tone.QUIET))
        if form.zoom in (Zoom.NAME, Zoom.GROUP):
            tones = np.where(marked, Tone.KEY, np.where(node_levels > Level.MISSING, Tone.STRONG, Tone.NORMAL))
            names = self._group_words(grid) if form.zoom is Zoom.GROUP else [nodes[node].name for node in self.order]
            words += [
                (int(places.line[item]), int(places.column[item]) + 2, form.lead - 3, name, Tone(int(tones[item])))
                for item, name in enumerate(names)
            ]
        key = (tuple(words), places.owner.shape)
        if key == self._written:
            return
        self._words = np.full((places.lines, places.owner.shape[1]), BLANK, dtype=np.uint64)
        for line, column, room, text, tone in words:
            _write(self._words, line, column, cut(text, room, self.glyphs.ellipsis), look(tone))
        self._written = key

    def _group_words(self, grid: FleetGrid) -> list[str]:
        assert grid.assessment is not None
        wide = min(NAME_LIMIT, max(width(section.label) for section in self.sections))
        names = []
        for section in self.sections:
            wrong = int((grid.assessment.nodes[list(section.nodes)] > Level.MISSING).sum())
            label = cut(section.label, wide, self.glyphs.ellipsis)
            count = f"{wrong} of {len(section.nodes)}" if wrong else f"{len(section.nodes)}"
            names.append(label + " " * (wide - width(label)) + f"{count:>10}")
        return names

    # ---- the canvas

    def _draw_whole(self, cells: Cells, signs: Codes, marked: Flags) -> None:
        """Draw one item a line: a sign for what is wrong, else how much; selected ones have a plus, or a line below
        their sign."""
        assert self.places is not None
        places, form = self.places, self.form
        wrong = (cells.levels > 0) & (cells.levels != ABSENT)
        level = np.where(wrong, cells.levels, _NOTHING)
        if form.zoom is Zoom.NODE:
            # Half a character is too little for a sign, a whole one too much for a colour alone.
            drawn = self._whole_signs(level, marked[:, None], self._signs[0])
        else:
            drawn = _cells(
                np.where(wrong, self._signs[np.where(wrong, cells.signs, _NOTHING)], self._heats[cells.heats]),
                np.where(wrong, level, cells.tones),
            )
        drawn[cells.levels == ABSENT] = BLANK
        columns = places.column[:, None] + form.lead + np.arange(form.cells)
        self.canvas[places.line[:, None], columns] = drawn
        if form.lead:
            quiet = self._signs[0] if form.zoom in (Zoom.NAME, Zoom.GROUP) else np.uint64(ord(" "))
            self.canvas[places.line, places.column] = self._whole_signs(signs, marked, quiet)

    def _whole_signs(self, levels: Codes, marked: Flags, quiet: np.uint64) -> Canvas:
        healthy = levels == 0
        characters = np.where(healthy, np.where(marked, np.uint64(ord("+")), quiet), self._signs[levels])
        tones = np.where(healthy & marked, np.uint8(Tone.KEY), levels)
        return _cells(characters, tones) | marked.astype(np.uint64) << np.uint64(UNDER)

    def _draw_halves(self, cells: Cells, signs: Codes, marked: Flags) -> None:
        """Draw two items a line; selected ones have a mark before their cells, or where there is none their cell."""
        assert self.places is not None
        places, form = self.places, self.form
        upper = np.flatnonzero(~places.lower)
        paired = np.append(places.lower[1:], np.False_)[upper]
        lower = np.where(paired, upper + 1, 0)
        alone = ~paired[:, None]
        columns = places.column[upper, None] + form.lead + np.arange(form.cells)
        tones = cells.tones if form.lead else np.where(marked[:, None], np.uint8(Tone.KEY), cells.tones)
        cells = cells._replace(tones=tones)
        self.canvas[places.line[upper, None], columns] = self._halves(_of(cells, upper), _of(cells, lower, alone))
        if form.lead:
            marks = np.where(marked, np.uint8(Tone.KEY), np.uint8(GROUND))[:, None]
            column = signs[:, None]
            lead = Cells(column, column, marks, column)
            self.canvas[places.line[upper, None], places.column[upper, None]] = self._halves(
                _of(lead, upper), _of(lead, lower, alone)
            )

    def _halves(self, above: Cells, below: Cells) -> Canvas:
        """Return characters for pairs of cells: two colours, or the sign of what is wrong. A sign stands on the colour
        of the other half and is underlined when it is about the lower one; about both, it stands on its own colour."""
        ground = np.uint8(GROUND)
        upper = np.where(above.levels == ABSENT, ground, above.tones)
        lower = np.where(below.levels == ABSENT, ground, below.tones)
        first = np.where(above.levels == ABSENT, _NOTHING, above.levels)
        second = np.where(below.levels == ABSENT, _NOTHING, below.levels)
        worse = np.maximum(first, second)
        both = (first > 0) & (second > 0)
        fore = np.where(worse > 0, worse, upper)
        back = np.where(both, ground, np.where(second > 0, upper, lower))
        solid = both & (worse > Level.PLANNED)
        fore, back = np.where(solid, ground, fore), np.where(solid, worse, back)
        blank = (worse == 0) & (upper == ground) & (lower == ground)
        sign = np.where(worse > 0, np.where(second > first, below.signs, above.signs), _NOTHING)
        characters = np.where(worse > 0, self._signs[sign], np.where(blank, np.uint64(ord(" ")), np.uint64(_HALF)))
        under = ((second > 0) & ~both).astype(np.uint64) << np.uint64(UNDER)
        return _cells(characters, fore, back) | under

    def line(self, index: int, item: int | None, position: int) -> Canvas:
        """Return a line of the canvas, with the cell at `position` of `item` under the cursor (-1: the item itself)."""
        row: Canvas = self.canvas[index]
        if item is None or self.places is None or int(self.places.line[item]) != index:
            return row
        row = row.copy()
        column = self.column(item, position)
        if not self.form.halves:
            end = column + self.form.lead - 1 if position < 0 and self.form.lead > 1 else column + 1
            row[column:end] |= np.uint64(1 << PICKED)
            return row
        start = int(self.places.column[item])
        # Where nothing else stands before the cells, a mark there leads the eye to the cursor.
        for at in {column, start} if row[start] == BLANK and self.form.lead else {column}:
            row[at] = self._half_cursor(int(row[at]), int(self.places.lower[item]))
        return row

    def _half_cursor(self, cell: int, lower: int) -> int:
        fore, back = cell & GROUND, cell >> BACK & GROUND
        if cell >> CHARACTER == _HALF:
            other = fore if lower else back
        else:
            # A sign gives way to the cursor (the line below says what it was), unless it is about the other half.
            own = fore == GROUND or cell >> UNDER & 1 == lower
            other = back if own else fore
        top, bottom = (other, Tone.STRONG) if lower else (Tone.STRONG, other)
        return _HALF << CHARACTER | look(top, bottom)

    # ---- finding one's way

    def column(self, item: int, position: int) -> int:
        """Return the column of a cell of an item; position -1 is the item itself."""
        assert self.places is not None
        lead = self.form.lead
        return int(self.places.column[item]) + (0 if position < 0 or not lead else lead + position)

    def position_at(self, item: int, column: int) -> int:
        """Return which cell of an item stands at a column, -1 for the item itself."""
        assert self.places is not None
        inside = column - int(self.places.column[item]) - self.form.lead
        return inside if self.form.lead and self.form.zoom is not Zoom.GROUP and inside >= 0 else -1

    def item_of(self, node: int, near: int = 0) -> int | None:
        """Return the item that shows a node (that at `near` if it does), None when it is not on the map."""
        if self.form.zoom is Zoom.GROUP:
            groups = [at for at, section in enumerate(self.sections) if node in section.nodes]
            return near if near in groups else groups[0] if groups else None
        found = np.flatnonzero(self.order == node)
        return None if not found.size else near if near in found else int(found[0])

    def node_of(self, item: int, grid: FleetGrid) -> int:
        """Return the node that an item stands for; for a group, the one with the most wrong."""
        assert grid.assessment is not None
        nodes = self.nodes_of(item)
        return nodes[int(grid.assessment.nodes[list(nodes)].argmax())]

    def nodes_of(self, item: int) -> tuple[int, ...]:
        """Return the nodes that an item shows: one, or those of a group."""
        return self.sections[item].nodes if self.form.zoom is Zoom.GROUP else (int(self.order[item]),)

    def half(self, item: int) -> str:
        """Return which half of its line a node has, in a word with its sign; nothing where it has the whole line."""
        if not self.form.halves or self.places is None:
            return ""
        return "▄ lower" if self.places.lower[item] else "▀ upper"

    def target(self, position: int) -> Target:
        """Return what the cell at `position` of an item is about."""
        closely = self.form.zoom in (Zoom.GPU, Zoom.NAME) and self.scope is not Scope.NODE
        return Target(self.scope, position) if closely and position >= 0 else Target(Scope.NODE)


def _of(cells: Cells, items: Ints, nothing: Flags | None = None) -> Cells:
    """Return the cells of some items, absent where there is `nothing`."""
    levels = cells.levels[items] if nothing is None else np.where(nothing, ABSENT, cells.levels[items])
    return Cells(levels, cells.signs[items], cells.tones[items], cells.heats[items])


def _cells(characters: Canvas, fore: Codes, back: Codes | None = None) -> Canvas:
    """Return cells of the canvas."""
    behind = np.uint64(GROUND << BACK) if back is None else back.astype(np.uint64) << np.uint64(BACK)
    return (characters << np.uint64(CHARACTER) | behind | fore).astype(np.uint64)


def _write(canvas: Canvas, line: int, column: int, text: str, style: int) -> None:
    for character in text:
        size = width(character)
        if size == 0 or not character.isprintable():
            continue
        if column + size > canvas.shape[1]:
            break
        canvas[line, column] = ord(character) << CHARACTER | style
        if size == 2:
            # The right half of a wide character has none of its own.
            canvas[line, column + 1] = style
        column += size
