"""The lines around a map of the fleet: how to read it, and what the cell under the cursor is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.metric import Scope
from stethoscope.ui.present.assess import what_is_wrong
from stethoscope.ui.present.block_places import Zoom
from stethoscope.ui.present.cursor import place_line
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, fit, level_tone

if TYPE_CHECKING:
    from stethoscope.ui.present.blocks import BlockMap
    from stethoscope.ui.present.grid import FleetGrid, Target

_DEVICES = {Scope.GPU: "GPU", Scope.PORT: "port"}


def map_line(here: BlockMap, cells: int) -> Row:
    """Return the line above the map that says what a cell is."""
    form, ellipsis = here.form, here.glyphs.ellipsis
    device = _DEVICES.get(here.scope, "value")
    if form.zoom is Zoom.GROUP:
        text = "a tile is a group: how many of its nodes have something wrong"
    elif form.zoom is Zoom.NODE:
        text = "a node is half a character" if form.halves else "a node is one character"
    else:
        text = f"a {device} is half a character" if form.halves else f"a {device} is one character"
    if form.halves:
        text += f" {here.glyphs.dot} two nodes share a line: the first above, the second below, its signs underlined"
    return (Span(cut(f" {text}", cells, ellipsis), Tone.QUIET),)


def map_cursor_line(
    here: BlockMap, grid: FleetGrid, item: int, current: tuple[str, Target], wall: float, cells: int
) -> Row:
    """Return the explanation of what the cursor stands on: `item` of the map, `current` as the widget has it."""
    if here.form.zoom is Zoom.GROUP:
        return _group_line(here, grid, item, current[0], wall, cells)
    half = here.half(item)
    said = f" {half}" if half else ""
    name, target = current
    return (Span(said, Tone.KEY), *place_line(grid, grid.snapshot.node(name), target, wall, cells - len(said)))


def _group_line(here: BlockMap, grid: FleetGrid, item: int, worst: str, wall: float, cells: int) -> Row:
    assert grid.assessment is not None
    section, glyphs = here.sections[item], here.glyphs
    wrong = int((grid.assessment.nodes[list(section.nodes)] > Level.MISSING).sum())
    count = "1 node" if len(section.nodes) == 1 else f"{len(section.nodes):,} nodes"
    parts = [Span(f" {section.label}", Tone.STRONG), Span(f"  {count}", Tone.PLAIN)]
    if wrong:
        sentence, level = what_is_wrong(grid.assessment, grid.snapshot.node(worst), wall)
        parts.append(Span(f" {glyphs.dot} {wrong:,} with something wrong", Tone.PLAIN))
        parts.append(Span(f" {glyphs.dot} {glyphs.level(level)} {worst} {sentence}".rstrip(), level_tone(level)))
    else:
        parts.append(Span(f" {glyphs.dot} nothing wrong", Tone.QUIET))
    return fit(parts, cells - 1, glyphs.ellipsis)
