"""The cells of one row of the fleet screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.ui.present.assess import age_word
from stethoscope.ui.present.layout import LABELS, jobs_text
from stethoscope.ui.present.numbers import REASON_LEVELS, cell_text
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, heat_tone, level_tone, pad

if TYPE_CHECKING:
    from stethoscope.model.fleet import Node
    from stethoscope.ui.present.arrange import Line
    from stethoscope.ui.present.grid import FleetGrid, Target

NODE_TARGET = (Scope.NODE, 0)
# Members of an enumeration are looked for again each time that they are named: too long for every number.
_MISSING, _PLAIN, _NORMAL = int(Level.MISSING), Tone.PLAIN, Tone.NORMAL
_BLANK = Span(" ")


def node_row(
    grid: FleetGrid, line: Line, node: Node, level: int, what: tuple[str, Level], cursor: Target | None
) -> Row:
    """Return the row of one node; `what` is its sentence with the level of what it says."""
    assert grid.layout is not None
    assert grid.assessment is not None
    layout = grid.layout
    glyphs = grid.glyphs
    gap = Span("   " if layout.spaced else " ")
    ellipsis = glyphs.ellipsis
    tone = level_tone(level)
    marked = node.name in grid.marked
    name_tone = Tone.KEY if marked else Tone.STRONG if level > Level.MISSING else Tone.NORMAL
    name = pad(" " * layout.indent + node.name, layout.name, ellipsis)
    row = [*lead(grid, level, tone, marked=marked), Span(name, name_tone, cursor == NODE_TARGET)]
    if not layout.spaced:
        row.append(Span(" "))
    if layout.value:
        row += [gap, *_value(grid, node, layout.value)]
    for scope in LABELS:
        if layout.block(scope):
            row += [gap, Span(" " * layout.lead(scope)), *_cells(grid, line, node, scope, cursor)]
    if layout.host:
        row += [gap, *_host(grid, node, layout.host)]
    if layout.link:
        row += [gap, _link(grid, node, layout.link)]
    for cells, text in ((layout.job, jobs_text(node)), (layout.rack, node.rack)):
        if cells:
            row += [gap, Span(pad(text, cells, ellipsis), Tone.NORMAL)]
    if layout.trend:
        bars = grid.trends.bars(grid.snapshot, node)
        steps = [grid.glyphs.spark.index(bar) for bar in bars if bar != " "]
        # A healthy node that is like its peers is not to be seen first, even when all of them moved together.
        loud = level > Level.MISSING or grid.is_odd(node)
        moved = len(steps) > 0 and max(steps) - min(steps) > 1
        row += [gap, Span(bars, Tone.FAINT if not loud else Tone.PLAIN if moved else Tone.QUIET)]
    row.append(gap)
    sentence, said = what
    if not sentence and grid.view.group != "leaf":
        other = "changed since the mark" if grid.view.mode == "mark" else "unlike its peers"
        sentence = "no GPU in use" if grid.is_idle(node) else other if grid.is_odd(node) else ""
    if sentence and not (layout.link and sentence == node.link.state.value):
        row.append(Span(cut(sentence, layout.what, ellipsis), level_tone(said)))
    return tuple(row)


def lead(grid: FleetGrid, level: int, tone: Tone, *, marked: bool) -> list[Span]:
    """Return the begin of a row: its sign, and a star where it is selected."""
    assert grid.layout is not None
    glyph, star = grid.glyphs.level(level), "*" if marked else " "
    if grid.layout.spaced:
        return [Span(star, Tone.KEY), Span(f"{glyph} ", tone)]
    return [Span(glyph, tone), Span(star, Tone.KEY)]


def _value(grid: FleetGrid, node: Node, digits: int) -> list[Span]:
    assert grid.assessment is not None
    fresh = grid.assessment.ages[node.index]
    if fresh is not Level.NORMAL:
        return [Span(" "), Span(grid.glyphs.level(fresh).rjust(digits), level_tone(fresh))]
    return _numbers(grid, range(node.index, node.index + 1), digits, -1)[0]


def _cells(grid: FleetGrid, line: Line, node: Node, scope: Scope, cursor: Target | None) -> list[Span]:
    assert grid.layout is not None
    assert grid.assessment is not None
    spans: list[Span] = []
    count, cell = grid.layout.cells_of(scope)
    part = grid.snapshot.rows(node, scope)
    fresh = grid.assessment.ages[node.index]
    main = scope is grid.metric.scope
    by_leaf = grid.view.group == "leaf"
    numbers: list[list[Span]] = []
    if main and cell > 1 and fresh is Level.NORMAL:
        place = cursor[1] if cursor is not None and cursor[0] is scope else -1
        numbers = _numbers(grid, part[:count], cell, place)
    for position in range(count):
        selected = cursor == (scope, position)
        if by_leaf and position < len(part) and node.leaf(position) != line.group:
            spans.append(Span(" " * (cell + 1 if cell > 1 else 1), Tone.NORMAL, selected))
        elif position < len(part) and fresh is Level.NORMAL:
            row = part[position]
            if main and cell > 1:
                spans += numbers[position]
            elif main:
                spans.append(_block(grid, row, selected))
            else:
                level = int(grid.assessment.rows[scope][row])
                quiet = level <= Level.MISSING and grid.is_beside(scope, row)
                spans.append(Span(grid.glyphs.level(level), Tone.FAINT if quiet else level_tone(level), selected))
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


def _numbers(grid: FleetGrid, part: range, digits: int, place: int) -> list[list[Span]]:
    """Return the spans of the chosen metric in these rows of its table; the cursor stands on that at `place`."""
    metric, away = grid.metric, grid.deviation
    ellipsis, levels = grid.glyphs.ellipsis, grid.levels[part.start : part.stop].tolist()
    own_levels = grid.own_levels[part.start : part.stop].tolist()
    made: list[list[Span]] = []
    for position, (row, value) in enumerate(zip(part, _values(grid, part), strict=True)):
        level, own, selected = levels[position], own_levels[position], position == place
        if isinstance(value, Missing):
            reason = REASON_LEVELS[value.reason]
            sign = grid.glyphs.level(reason).rjust(digits)
            made.append([_BLANK, Span(sign, level_tone(max(reason, level)), selected)])
            continue
        said = cell_text(metric, value, grid.divisor) if away is None else away.text(row)
        text = cut(said, digits, ellipsis).rjust(digits)
        if away is not None:
            tone = Tone(int(away.tones[row]))
        else:
            tone = level_tone(own) if own > _MISSING else _PLAIN if grid.deviates(value) else _NORMAL
        if own <= _MISSING and grid.is_beside(metric.scope, row):
            tone = Tone.FAINT
        if level > _MISSING:
            # The sign is the device's and stands directly before the number; the number is loud only if it is wrong
            # itself.
            bare = text.lstrip()
            sign = grid.glyphs.level(level)
            before = Span(" " * (digits - len(bare)))
            made.append([before, Span(sign, level_tone(level), selected), Span(bare, tone, selected)])
        else:
            made.append([_BLANK, Span(text, tone, selected)])
    return made


def _values(grid: FleetGrid, part: range) -> list[float | Missing]:
    """Return what is shown of these rows: their values, or their distances from what they are compared with."""
    if grid.deviation is None:
        return grid.snapshot.tables[grid.metric.scope].get_all(grid.metric.id, part)
    return [_value_at(grid, row) for row in part]


def _value_at(grid: FleetGrid, row: int) -> float | Missing:
    """Return what is shown of a row: its value, or its distance from what it is compared with."""
    if grid.deviation is None:
        return grid.snapshot.tables[grid.metric.scope].get(grid.metric.id, row)
    reason = Reason(int(grid.deviation.reasons[row]))
    return float(grid.deviation.values[row]) if reason is Reason.PRESENT else Missing(reason)


def _block(grid: FleetGrid, row: int, selected: bool) -> Span:
    metric, away = grid.metric, grid.deviation
    value = _value_at(grid, row)
    level = int(grid.levels[row])
    if isinstance(value, Missing):
        reason = REASON_LEVELS[value.reason]
        return Span(grid.glyphs.level(reason), level_tone(max(reason, level)), selected)
    if level > Level.MISSING:
        return Span(grid.glyphs.level(level), level_tone(level), selected)
    beside = grid.is_beside(metric.scope, row)
    if away is not None:
        tone = Tone(int(away.tones[row]))
        return Span(away.sign(value, tone, grid.glyphs), Tone.FAINT if beside else tone, selected)
    heat = int(grid.heat[row])
    tone = heat_tone(heat) if grid.deviates(value) and not beside else Tone.FAINT
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
