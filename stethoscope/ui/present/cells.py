"""The cells of one row of the fleet screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.ui.present.assess import age_word
from stethoscope.ui.present.layout import LABELS
from stethoscope.ui.present.numbers import REASON_LEVELS, cell_text
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, heat_tone, level_tone, pad, row_width

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import Node
    from stethoscope.ui.present.grid import FleetGrid, Target

NODE_TARGET = (Scope.NODE, 0)


def node_row(grid: FleetGrid, node: Node, level: int, what: tuple[str, Level], cursor: Target | None) -> Row:
    """Return the row of one node; `what` is its sentence with the level of what it says."""
    assert grid.layout is not None
    assert grid.assessment is not None
    layout = grid.layout
    glyphs = grid.glyphs
    gap = Span("   " if layout.spaced else " ")
    ellipsis = glyphs.ellipsis
    tone = level_tone(level)
    name_tone = Tone.STRONG if level > Level.MISSING else Tone.NORMAL
    row = [
        Span(f" {glyphs.level(level)} " if layout.spaced else f"{glyphs.level(level)} ", tone),
        Span(pad(node.name, layout.name, ellipsis), name_tone, cursor == NODE_TARGET),
    ]
    if not layout.spaced:
        row.append(Span(" "))
    if layout.value:
        row += [gap, *_value(grid, node, layout.value)]
    for scope in LABELS:
        if layout.block(scope):
            row += [gap, Span(" " * layout.lead(scope)), *_cells(grid, node, scope, cursor)]
    if layout.host:
        row += [gap, *_host(grid, node, layout.host)]
    if layout.link:
        row += [gap, _link(grid, node, layout.link)]
    row.append(gap)
    sentence, said = what
    if not sentence:
        sentence = "no GPU in use" if grid.is_idle(node) else "unlike its peers" if grid.is_odd(node) else ""
    if sentence and not (layout.link and sentence == node.link.state.value):
        row.append(Span(cut(sentence, layout.width - layout.before_what, ellipsis), level_tone(said)))
    return tuple(row)


def _value(grid: FleetGrid, node: Node, digits: int) -> list[Span]:
    assert grid.assessment is not None
    fresh = grid.assessment.ages[node.index]
    if fresh is not Level.NORMAL:
        return [Span(" "), Span(grid.glyphs.level(fresh).rjust(digits), level_tone(fresh))]
    return _number(grid, node.index, digits, selected=False)


def _cells(grid: FleetGrid, node: Node, scope: Scope, cursor: Target | None) -> list[Span]:
    assert grid.layout is not None
    assert grid.assessment is not None
    spans: list[Span] = []
    count, cell = grid.layout.cells_of(scope)
    part = grid.snapshot.rows(node, scope)
    fresh = grid.assessment.ages[node.index]
    main = scope is grid.metric.scope
    for position in range(count):
        selected = cursor == (scope, position)
        if position < len(part) and fresh is Level.NORMAL:
            row = part[position]
            if main and cell > 1:
                spans += _number(grid, row, cell, selected)
            elif main:
                spans.append(_block(grid, row, selected))
            else:
                level = int(grid.assessment.rows[scope][row])
                spans.append(Span(grid.glyphs.level(level), level_tone(level), selected))
        else:
            level = int(fresh) if position < len(part) or node.gpu_first < 0 else -1
            glyph = grid.glyphs.level(level) if level >= 0 else " "
            tone = level_tone(max(0, level))
            if cell > 1:
                spans += [Span(" "), Span(glyph.rjust(cell), tone, selected)]
            else:
                spans.append(Span(glyph, tone, selected))
        if cell == 1 and grid.layout.spaced and position < count - 1:
            spans.append(Span(" "))
    return spans


def _number(grid: FleetGrid, row: int, digits: int, selected: bool) -> list[Span]:
    metric = grid.metric
    value = grid.snapshot.tables[metric.scope].get(metric.id, row)
    level = int(grid.levels[row])
    if isinstance(value, Missing):
        reason = REASON_LEVELS[value.reason]
        return [Span(" "), Span(grid.glyphs.level(reason).rjust(digits), level_tone(max(reason, level)), selected)]
    text = cut(cell_text(metric, value, grid.divisor), digits, grid.glyphs.ellipsis).rjust(digits)
    own = int(grid.own_levels[row])
    tone = level_tone(own) if own > Level.MISSING else Tone.PLAIN if grid.deviates(value) else Tone.NORMAL
    if level > Level.MISSING:
        # The sign is the device's and stands directly before the number; the number is loud only if it is wrong itself.
        bare = text.lstrip()
        blank = digits - len(bare)
        sign = Span(grid.glyphs.level(level), level_tone(level), selected)
        return [Span(" " * blank), sign, Span(bare, tone, selected)]
    return [Span(" "), Span(text, tone, selected)]


def _block(grid: FleetGrid, row: int, selected: bool) -> Span:
    metric = grid.metric
    value = grid.snapshot.tables[metric.scope].get(metric.id, row)
    level = int(grid.levels[row])
    if isinstance(value, Missing):
        reason = REASON_LEVELS[value.reason]
        return Span(grid.glyphs.level(reason), level_tone(max(reason, level)), selected)
    if level > Level.MISSING:
        return Span(grid.glyphs.level(level), level_tone(level), selected)
    heat = int(grid.heat[row])
    tone = heat_tone(heat) if grid.deviates(value) else Tone.FAINT
    return Span(grid.glyphs.heat[heat], tone, selected)


def _host(grid: FleetGrid, node: Node, cells: int) -> list[Span]:
    assert grid.assessment is not None
    table = grid.snapshot.tables[Scope.NODE]
    level = int(grid.assessment.rows[Scope.NODE][node.index])
    parts = []
    for word, name in (("io", "cpu_iowait"), ("sirq", "cpu_softirq")):
        value = table.get(name, node.index)
        text = grid.glyphs.level(REASON_LEVELS[value.reason]) if isinstance(value, Missing) else f"{value:.0f}"
        parts.append(f"{word} {text:>2}")
    return [Span(pad(" ".join(parts), cells), level_tone(level) if level > Level.MISSING else Tone.NORMAL)]


def _link(grid: FleetGrid, node: Node, cells: int) -> Span:
    assert grid.assessment is not None
    state = node.link.state
    fresh = grid.assessment.ages[node.index]
    if state is LinkState.LIVE:
        word = "live" if fresh is not Level.STALE else "late"
        text = f"{word} {age_word(node, grid.assessment.now_mono)}"
    else:
        text = state.value
    return Span(pad(text, cells, grid.glyphs.ellipsis), level_tone(fresh))


def fold_row(grid: FleetGrid, cursor: Target | None, *, idle: bool) -> Row:
    """Return the row that stands for all folded nodes, with the medians of each cell."""
    assert grid.layout is not None
    assert grid.assessment is not None
    layout, glyphs, snapshot = grid.layout, grid.glyphs, grid.snapshot
    gap = Span("   " if layout.spaced else " ")
    members = grid.idle if idle else grid.folded
    name = pad(f"{len(members)} {'idle' if idle else 'more'}", layout.name, glyphs.ellipsis)
    lead = f" {glyphs.level(0)} " if layout.spaced else f"{glyphs.level(0)} "
    row = [Span(lead, Tone.NORMAL), Span(name, Tone.PLAIN, cursor is not None)]
    if not layout.spaced:
        row.append(Span(" "))
    folded = np.zeros(len(snapshot.nodes), dtype=bool)
    folded[[snapshot.by_name[name] for name in members]] = True
    metric = grid.metric
    if layout.value:
        row += [gap, *_median_cell(grid, np.flatnonzero(folded), layout.value)]
    for scope in LABELS:
        count, cell = layout.cells_of(scope)
        if not count:
            continue
        row += [gap, Span(" " * layout.lead(scope))]
        owner, place = grid.assessment.owners[scope]
        here = (owner >= 0) & folded[owner]
        for position in range(count):
            rows = np.flatnonzero(here & (place == position))
            if scope is metric.scope:
                row += _median_cell(grid, rows, cell)
            else:
                row.append(Span(glyphs.level(0) if rows.size else " ", Tone.NORMAL))
                if layout.spaced and position < count - 1:
                    row.append(Span(" "))
    row.append(Span(" " * (layout.before_what - row_width(tuple(row)))))
    words = "no GPU in use" if idle else "like their peers"
    row.append(Span(cut(words, layout.width - layout.before_what, glyphs.ellipsis), Tone.QUIET))
    return tuple(row)


def _median_cell(grid: FleetGrid, rows: npt.NDArray[np.int_], cell: int) -> list[Span]:
    metric = grid.metric
    table = grid.snapshot.tables[metric.scope]
    column = table.index[metric.id]
    present = rows[table.reasons[column, rows] == Reason.PRESENT] if rows.size else rows
    if not present.size:
        blank = grid.glyphs.level(Level.MISSING)
        return [Span(" "), Span(blank.rjust(cell), Tone.NORMAL)] if cell > 1 else [Span(blank, Tone.NORMAL)]
    if cell > 1:
        value = float(np.median(table.values[column, present]))
        return [
            Span(" "),
            Span(cut(cell_text(metric, value, grid.divisor), cell, grid.glyphs.ellipsis).rjust(cell), Tone.NORMAL),
        ]
    heat = int(np.median(grid.heat[present]))
    return [Span(grid.glyphs.heat[heat], Tone.FAINT)]
