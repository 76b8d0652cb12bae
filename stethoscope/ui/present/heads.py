"""The rows that stand for several nodes: that of a group, and those of nodes that are alike."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.model.ids import fold
from stethoscope.model.metric import Kind as MetricKind
from stethoscope.model.metric import Scope
from stethoscope.ui.present.arrange import Kind
from stethoscope.ui.present.cells import NODE_TARGET, lead
from stethoscope.ui.present.groups import about, title
from stethoscope.ui.present.layout import LABELS
from stethoscope.ui.present.numbers import cell_text
from stethoscope.ui.present.spans import HEAT_LEVELS, Level, Row, Span, Tone, cut, fit, level_tone, pad, row_width

if TYPE_CHECKING:
    from stethoscope.ui.present.arrange import Line
    from stethoscope.ui.present.grid import FleetGrid, Target
    from stethoscope.ui.present.summary import Summary


def bundle_row(grid: FleetGrid, line: Line, cursor: Target | None) -> Row:
    """Return the row of a line that is about several nodes: the median of each cell where most are near it, and how
    many they are."""
    assert grid.layout is not None
    assert grid.assessment is not None
    layout, glyphs = grid.layout, grid.glyphs
    is_head = line.kind is Kind.HEAD
    gap = Span("   " if layout.spaced else " ")
    level = grid.level_of(line) if is_head else 0
    marked = all(name in grid.marked for name in grid.members(line)) if grid.marked else False
    name = title(grid.view.group, line.group) if is_head else " " * layout.indent + _many(line)
    name_tone = Tone.KEY if marked else Tone.TITLE if is_head else Tone.PLAIN
    row = lead(grid, level, level_tone(level), marked=marked)
    row.append(Span(pad(name, layout.name, glyphs.ellipsis), name_tone, cursor == NODE_TARGET))
    if not layout.spaced:
        row.append(Span(" "))
    summary, place = grid.summary(line)
    if layout.value:
        row += [gap, *_median(grid, summary, place, 0, layout.value, cursor == NODE_TARGET)]
    for scope in LABELS:
        count, cell = layout.cells_of(scope)
        if count:
            row += [gap, Span(" " * layout.lead(scope))]
        for position in range(count):
            selected = cursor == (scope, position)
            if scope is grid.metric.scope:
                row += _median(grid, summary, place, position, cell, selected)
            else:
                row.append(_worst(grid, summary, place, scope, position, selected))
            if cell == 1 and layout.spaced and position < count - 1:
                row.append(Span(" "))
    row.append(Span(" " * max(0, layout.before_what - row_width(tuple(row)))))
    return (*row, *fit(_words(grid, line), layout.what, glyphs.ellipsis))


def _many(line: Line) -> str:
    return f"{len(line.nodes)} {'idle' if line.kind is Kind.IDLE else 'more'}"


def _worst(grid: FleetGrid, summary: Summary, place: int, scope: Scope, position: int, selected: bool) -> Span:
    levels = summary.levels[scope]
    level = int(levels[place, position]) if position < levels.shape[1] else -1
    return Span(grid.glyphs.level(level) if level >= 0 else " ", level_tone(max(0, level)), selected)


def _median(grid: FleetGrid, summary: Summary, place: int, position: int, cell: int, selected: bool) -> list[Span]:
    """Return the median of a cell, or that its values differ; where no node has a value the worst sign, and nothing
    where there is no device."""
    metric = grid.metric
    value = float(summary.medians[place, position]) if position < summary.medians.shape[1] else math.nan
    levels = summary.levels[metric.scope]
    level = int(levels[place, position]) if position < levels.shape[1] else -1
    if math.isnan(value):
        glyph = " " if level < 0 else grid.glyphs.level(max(level, Level.MISSING))
        tone = level_tone(max(level, Level.MISSING))
        return [Span(" "), Span(glyph.rjust(cell), tone, selected)] if cell > 1 else [Span(glyph, tone, selected)]
    differs = bool(summary.differ[place, position])
    if cell > 1:
        said = grid.glyphs.differ if differs else _number(grid, value)
        text = cut(said, cell, grid.glyphs.ellipsis)
        wrong = level > Level.MISSING
        sign = Span(grid.glyphs.level(level), level_tone(level), selected) if wrong else Span(" ")
        return [Span(" " * (cell - len(text))), sign, Span(text, Tone.NORMAL, selected)]
    if level > Level.MISSING:
        return [Span(grid.glyphs.level(level), level_tone(level), selected)]
    if differs:
        return [Span(grid.glyphs.differ, Tone.NORMAL, selected)]
    if grid.deviation is not None:
        loud = Tone(grid.deviation.tone_of(value))
        return [Span(grid.deviation.sign(value, loud, grid.glyphs), loud, selected)]
    shown = value * (metric.rate_scale if metric.kind is MetricKind.COUNTER else 1.0)
    share = (shown - grid.scale.low) / (grid.scale.high - grid.scale.low)
    return [Span(grid.glyphs.heat[min(HEAT_LEVELS - 1, max(0, int(share * HEAT_LEVELS)))], Tone.FAINT, selected)]


def _number(grid: FleetGrid, value: float) -> str:
    return cell_text(grid.metric, value, grid.divisor) if grid.deviation is None else grid.deviation.text_of(value)


def _words(grid: FleetGrid, line: Line) -> list[Span]:
    """Return what the last column says: what the nodes have in common, or how many there are and how they stand."""
    assert grid.assessment is not None
    if line.kind is not Kind.HEAD:
        words = "no GPU in use" if line.kind is Kind.IDLE else "like their peers"
        names = f"  {fold(grid.members(line))}" if grid.view.group != "none" else ""
        return [Span(words, Tone.QUIET), Span(names, Tone.NORMAL)]
    dot = f" {grid.glyphs.dot} "
    many = "1 node" if len(line.nodes) == 1 else f"{len(line.nodes):,} nodes"
    parts = [Span(many, Tone.PLAIN)]
    levels = Counter(grid.levels_in(line).tolist())
    wrong = [level for level in reversed(Level) if level > Level.MISSING and levels[level]]
    parts += [Span(f"  {grid.glyphs.level(level)} {levels[level]}", level_tone(level)) for level in wrong]
    if not wrong and line.hides:
        idle = grid.view.group != "leaf" and all(grid.is_idle(grid.snapshot.nodes[node]) for node in line.nodes)
        words = "no GPU in use" if idle else "like their peers" if grid.all_alike(line) else ""
        parts += [Span(dot + words, Tone.QUIET)] if words else []
    said = about(grid.snapshot, grid.view.group, line.group)
    return [*parts, Span(dot + said, Tone.QUIET)] if said else parts
