"""The lines of the heat over time: title, legend, the times above the columns, the rows, and the cell's explanation."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from stethoscope.clock import duration, hms
from stethoscope.model.ids import fold
from stethoscope.model.metric import Kind, Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS, short_place
from stethoscope.ui.present.heat_time import MORE, median, worst_row
from stethoscope.ui.present.legend import metric_title, scale
from stethoscope.ui.present.node.trend import span_text
from stethoscope.ui.present.numbers import value_text
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import (
    WORDS,
    Level,
    Row,
    Span,
    Tone,
    cut,
    fit,
    heat_tone,
    level_tone,
    pad,
    row_width,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.analysis.history import History
    from stethoscope.model.finding import Finding
    from stethoscope.ui.present.grid import FleetGrid
    from stethoscope.ui.present.heat_time import HeatPicture
    from stethoscope.ui.present.replay import ReplayStanding

_WIDE = 100
_MINUTES = (1, 2, 5, 10, 15)
_LABEL = 8
"""Columns that a time takes, with what is left free behind it."""
_SCOPES = {Scope.GPU: "GPU", Scope.PORT: "port"}


def title_row(grid: FleetGrid, picture: HeatPicture, wall: float, cells: int, replay: ReplayStanding | None) -> Row:
    """Return the top line: the fleet, what is shown, how long, and the time."""
    metric, glyphs = grid.metric, grid.glyphs
    lead = " stethoscope  " if cells >= _WIDE else " "
    device = _SCOPES.get(metric.scope)
    which = "lowest" if metric.worse == "low" else "highest"
    what = f"{which} {device} of each node, " if device and cells >= _WIDE else ""
    span = span_text(max(picture.step_s, picture.columns * picture.step_s))
    left = (
        Span(lead, Tone.QUIET),
        Span(f"{grid.snapshot.fleet}  heat over time", Tone.TITLE),
        Span(f"  {what}{span}, {span_text(picture.step_s)} a column", Tone.QUIET),
    )
    marks = replay_marks(replay, wall) if replay is not None else ((Span(f"{hms(wall)} UTC ", Tone.QUIET),),) * 2
    mark = next((mark for mark in marks if row_width((*left, *mark)) + 2 <= cells), marks[-1])
    return spread(fit(left, max(0, cells - row_width(mark) - 2), glyphs.ellipsis), mark, cells)


def legend_row(grid: FleetGrid, cells: int) -> Row:
    """Return the metric with its scale, what the signs mean, and the filter."""
    glyphs = grid.glyphs
    left = (Span(" "), *metric_title(grid), *scale(grid))
    signs = [Span(f"{glyphs.level(Level.MISSING)} no value   ", Tone.QUIET)]
    limits = ((grid.metric.warn, Level.WARNING), (grid.metric.critical, Level.CRITICAL))
    signs += [
        Span(f"{glyphs.level(level)} {WORDS[level]}   ", Tone.QUIET) for limit, level in limits if limit is not None
    ]
    chosen = [Span("filter ", Tone.QUIET), Span(grid.view.filter, Tone.STRONG), Span(" ")] if grid.view.filter else []
    for right in ((*signs, *chosen), tuple(chosen)):
        if row_width(left) + row_width(right) + 2 <= cells:
            return spread(left, right, cells)
    return fit(left, cells, glyphs.ellipsis)


def times_row(grid: FleetGrid, picture: HeatPicture, cells: int) -> Row:
    """Return the times of whole minutes, each above the column in which it begins."""
    lead = f"   {pad('node', picture.name)} "
    minutes = next((some for some in _MINUTES if some * 60 / picture.step_s >= _LABEL), _MINUTES[-1])
    offset = _offset(grid)
    text = [" "] * (picture.columns + _LABEL)
    free = 0
    for column in range(picture.columns):
        begin = (picture.first + column) * picture.step_s + offset
        if math.floor((begin + picture.step_s - 1e-6) / (60 * minutes)) > math.floor((begin - 1e-6) / (60 * minutes)):
            at = math.floor((begin + picture.step_s - 1e-6) / (60 * minutes)) * 60 * minutes
            if column >= free:
                text[column : column + 5] = hms(at)[:5]
                free = column + _LABEL - 1
    return fit((Span(lead, Tone.QUIET), Span("".join(text).rstrip(), Tone.QUIET)), cells, grid.glyphs.ellipsis)


def findings_row(grid: FleetGrid, picture: HeatPicture) -> Row:
    """Return the signs of the findings of the nodes above the columns in which they begin, the worst of each."""
    assert grid.assessment is not None
    marks: dict[int, int] = {}
    shown = [name for line in picture.lines for name in (grid.snapshot.nodes[node].name for node in line.nodes)]
    for name in shown:
        for finding in grid.assessment.findings.get(name, ()):
            column = _begins(grid, picture, finding)
            if 0 <= column < picture.columns:
                marks[column] = max(marks.get(column, 0), int(SEVERITY_LEVELS[finding.severity]))
    row = [Span(f"   {pad('found', picture.name)} ", Tone.QUIET)]
    for column in range(picture.columns):
        level = marks.get(column, 0)
        row.append(Span(grid.glyphs.level(level), level_tone(level)) if level else Span(" "))
    return tuple(row)


def heat_row(grid: FleetGrid, picture: HeatPicture, line: int, cursor: int | None) -> Row:
    """Return the row of a line, with the cell in the column `cursor` marked as selected."""
    assert grid.assessment is not None
    glyphs, here = grid.glyphs, picture.lines[line]
    many = here.key == MORE
    level = 0 if many else int(grid.assessment.nodes[here.nodes[0]])
    name = f"{len(here.nodes):,} more" if many else here.key
    tone = Tone.PLAIN if many else Tone.STRONG if level > Level.MISSING else Tone.NORMAL
    row = [
        Span(f" {glyphs.level(level)} ", level_tone(level)),
        Span(f"{pad(name, picture.name, glyphs.ellipsis)} ", tone),
    ]
    return (*row, *_cells(grid, picture, line, cursor))


def _cells(grid: FleetGrid, picture: HeatPicture, line: int, cursor: int | None) -> list[Span]:
    """Return the cells of a line, those that look the same side by side in one piece."""
    glyphs = grid.glyphs
    signs, tones = [], []
    for heat, level, loud in zip(
        picture.heats[line].tolist(), picture.levels[line].tolist(), picture.loud[line].tolist(), strict=True
    ):
        signs.append(glyphs.level(level) if level else glyphs.heat[heat])
        tones.append(int(level_tone(level)) if level else int(heat_tone(heat)) if loud else int(Tone.FAINT))
    text = "".join(signs)
    spans: list[Span] = []
    begin = 0
    for column in range(1, len(text) + 1):
        cut_here = column == len(text) or tones[column] != tones[begin] or cursor in (column, column - 1)
        if cut_here:
            spans.append(Span(text[begin:column], Tone(tones[begin]), begin == cursor))
            begin = column
    return spans


def cell_line(
    grid: FleetGrid, picture: HeatPicture, history: History, line: int, column: int, now_mono: float, cells: int
) -> Row:
    """Return the explanation of a cell: node, time, value, what the others had, and what was found then."""
    here, glyphs, metric = picture.lines[line], grid.glyphs, grid.metric
    dot = f" {glyphs.dot} "
    begin = (picture.first + column) * picture.step_s
    ago = max(0.0, now_mono - begin - picture.step_s)
    when = f"{hms(begin + _offset(grid))} UTC" + (f", {duration(ago).replace('.0 s', ' s')} ago" if ago >= 1 else "")
    names = [grid.snapshot.nodes[node].name for node in here.nodes]
    title = names[0] if len(names) == 1 else f"{len(names):,} nodes"
    parts = [Span(f" {title}", Tone.STRONG), Span(f"  {when}{dot}", Tone.QUIET)]
    if len(names) > 1:
        value = median(picture.by_node[column, list(here.nodes)])
        parts.append(Span(f"median {_said(grid, value)}{dot}", Tone.PLAIN))
        parts.append(Span(f"alike: {fold(names)}", Tone.QUIET))
        return fit(parts, cells - 1, glyphs.ellipsis)
    found = worst_row(grid, history, here.nodes[0], begin, picture.step_s)
    level = int(picture.levels[line, column])
    if found is None:
        # A column between two samples has the value of the earlier one.
        value = float(picture.values[line, column])
        said = "no value" if math.isnan(value) else f"{metric.title} {_said(grid, value)}"
    else:
        place = short_place(grid.snapshot.place(grid.snapshot.nodes[here.nodes[0]], metric.scope, found[0]))
        said = f"{metric.title} {value_text(metric, found[1])}{f', {place}' if place else ''}"
    parts.append(Span(said, level_tone(level) if level else Tone.PLAIN))
    usual = median(picture.by_node[column])
    if not math.isnan(usual) and not metric.words:
        parts.append(Span(f"{dot}median of all {_said(grid, usual)}", Tone.QUIET))
    for finding, sign in _found(grid, picture, names[0], column):
        parts.append(Span(f"{dot}{glyphs.level(sign)} {finding.severity} {finding.summary}", level_tone(sign)))
    return fit(parts, cells - 1, glyphs.ellipsis)


def waiting_row(words: str, cells: int, ellipsis: str) -> Row:
    """Return the line that stands where there is no cell to explain."""
    return (Span(cut(f" {words}", cells, ellipsis), Tone.QUIET),)


def _said(grid: FleetGrid, value: float) -> str:
    """Return a value that is in the unit that is shown already."""
    metric = grid.metric
    scaled = metric.rate_scale if metric.kind is Kind.COUNTER else 1.0
    return "no value" if math.isnan(value) else value_text(metric, float(f"{value / scaled:.7g}"))


def _found(grid: FleetGrid, picture: HeatPicture, name: str, column: int) -> Iterable[tuple[Finding, int]]:
    assert grid.assessment is not None
    for finding in grid.assessment.findings.get(name, ()):
        level = int(SEVERITY_LEVELS[finding.severity])
        if level and _begins(grid, picture, finding) == column:
            yield finding, level


def _begins(grid: FleetGrid, picture: HeatPicture, finding: Finding) -> int:
    """Return the column in which a finding began, -1 where its time cannot be told."""
    try:
        wall = datetime.fromisoformat(finding.since).timestamp()
    except ValueError:
        return -1
    return picture.column_of(wall - _offset(grid))


def _offset(grid: FleetGrid) -> float:
    """Return what wall time is more than monotonic time."""
    return grid.snapshot.wall - grid.snapshot.mono
