"""The line below the top one: the chosen metric with its scale, what the signs mean, and how the nodes are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.ui.present.numbers import number
from stethoscope.ui.present.spans import (
    HEAT_LEVELS,
    WORDS,
    Level,
    Row,
    Span,
    Tone,
    cut,
    fit,
    heat_tone,
    row_width,
    spread,
)

if TYPE_CHECKING:
    from stethoscope.ui.present.grid import FleetGrid

_NARROW = 100
_SIGNS = (Level.PLANNED, Level.WARNING, Level.CRITICAL, Level.STALE, Level.MISSING, Level.HUNG, Level.LOST)
_FILTER_LEAST = 8


def legend_line(grid: FleetGrid, cells: int, job: tuple[Row, Row] = ((), ())) -> Row:
    """Return the legend; where not everything fits, the signs go first, then the scale, then the words about the job
    (`job_segment`), then the filter is cut."""
    glyphs = grid.glyphs
    title = [Span(" "), *metric_title(grid)]
    chosen = _chosen(grid, cells >= _NARROW)
    signs = [Span(f"{glyphs.level(level)} {WORDS[level]}   ", Tone.QUIET) for level in _SIGNS]
    rich: list[tuple[list[Span], list[Span]]] = [([*title, *scale(grid)], chosen), (title, chosen)]
    if cells >= _NARROW:
        rich.insert(0, ([*title, *scale(grid)], [*signs, *chosen]))
    if job[0]:
        gap = Span("  ", Tone.QUIET)
        rich[:0] = [(left, [*right, gap, *words]) for left, right in rich for words in dict.fromkeys(job)]
    for left, right in rich:
        room = cells - row_width(tuple(left)) - row_width(tuple(right))
        wanted = grid.view.filter
        short = wanted if row_width((Span(wanted),)) + 4 <= room else ""
        if room >= 2 and (short or not wanted):
            return spread(tuple(left), (*right, *_filter(short, cells >= _NARROW)), cells)
    room = max(_FILTER_LEAST, cells - row_width(tuple(title)) - row_width(tuple(chosen)) - 6)
    right = [*chosen, *_filter(cut(grid.view.filter, room, glyphs.ellipsis), wide=False)]
    lead = fit(title, max(0, cells - row_width(tuple(right)) - 2), glyphs.ellipsis)
    return fit(spread(lead, tuple(right), cells), cells, glyphs.ellipsis)


def metric_title(grid: FleetGrid) -> list[Span]:
    """Return the name of what is shown, with its unit."""
    if grid.deviation is not None:
        return [*grid.deviation.title()]
    unit = f" {grid.unit}" if grid.unit else ""
    return [Span(grid.metric.title, Tone.STRONG), Span(unit, Tone.QUIET)]


def scale(grid: FleetGrid) -> list[Span]:
    """Return the steps of magnitude between the ends of the scale, nothing for a metric whose values are words."""
    if grid.deviation is not None:
        return [*grid.deviation.scale(grid.glyphs)]
    if grid.metric.words:
        return []
    low, high = (number(end / grid.divisor) for end in (grid.scale.low, grid.scale.high))
    steps = [Span(grid.glyphs.heat[step], heat_tone(step)) for step in range(HEAT_LEVELS)]
    return [Span(f"   {low} ", Tone.QUIET), *steps, Span(f" {high}", Tone.QUIET)]


def _chosen(grid: FleetGrid, wide: bool) -> list[Span]:
    """Return order, grouping, folding and selection."""
    view = grid.view
    by_value = "lowest first" if grid.metric.worse == "low" else "highest first"
    by_value = by_value if grid.deviation is None else "farthest first"
    orders = {"worst": "worst first", "name": "by name", "value": by_value, "group": "groups by name"}
    if view.density == "blocks":
        orders["worst"] = orders["name"]
    words = [orders[view.sort] if view.sort != "group" or view.group != "none" else "by pod and rack"]
    words += [f"in {'partitions' if view.group == 'partition' else f'{view.group}s'}"] if view.group != "none" else []
    words[-1] = words[-1].replace("leafs", "leaves")
    words += [f"fold {view.fold}"] if view.fold != "fill" else []
    spans = [Span(("   " if wide else "  ").join(words), Tone.QUIET)]
    marked = sum(name in grid.marked for name in grid.snapshot.by_name) if grid.marked else 0
    if marked:
        spans.append(Span(f"{'   ' if wide else '  '}{marked:,} selected", Tone.KEY))
    return spans


def _filter(text: str, wide: bool) -> list[Span]:
    if not text:
        return [Span(" ")]
    return [Span("   filter " if wide else "  /", Tone.QUIET), Span(text, Tone.STRONG), Span(" ")]
