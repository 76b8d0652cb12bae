"""The line that explains the cell under the cursor: what it is, how it compares, and what was found there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stethoscope.model.ids import fold
from stethoscope.model.metric import Kind, Missing, Scope
from stethoscope.ui.present.arrange import Kind as LineKind
from stethoscope.ui.present.assess import SEVERITY_LEVELS, age_word, link_words, peers_median
from stethoscope.ui.present.groups import about, title
from stethoscope.ui.present.layout import LABELS
from stethoscope.ui.present.numbers import value_text
from stethoscope.ui.present.row_levels import metric_levels
from stethoscope.ui.present.spans import Level, Row, Span, Tone, fit, level_tone

if TYPE_CHECKING:
    from stethoscope.model.fleet import Node, Table
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.arrange import Line
    from stethoscope.ui.present.grid import FleetGrid, Target

_BESIDE: dict[Scope, tuple[tuple[str, str], ...]] = {
    Scope.GPU: (
        ("gpu_clocks_event_reasons", "throttle"),
        ("gpu_temp", ""),
        ("gpu_temp_margin", "margin"),
        ("gpu_power_draw", ""),
        ("gpu_util", "busy"),
    ),
    Scope.PORT: (
        ("ib_port_state", ""),
        ("ib_port_rate", ""),
        ("ib_symbol_error", "symbol errors"),
        ("ib_link_error_recovery", "recoveries"),
        ("ib_port_xmit_data", "send"),
        ("ib_port_rcv_data", "receive"),
    ),
    Scope.NODE: (
        ("cpu_util", "CPU"),
        ("cpu_iowait", "I/O wait"),
        ("cpu_softirq", "soft interrupts"),
        ("load1", "load"),
        ("mem_available", "memory available"),
    ),
}
"""What is said about a place beside the chosen metric."""


def cursor_line(grid: FleetGrid, key: str, target: Target, wall: float, cells: int) -> Row:
    """Return the explanation of the cell `target` in the row `key`."""
    line = grid.line_of(key)
    assert line is not None
    if line.kind is not LineKind.NODE:
        return _bundle_words(grid, line, target, cells)
    return place_line(grid, grid.snapshot.nodes[line.nodes[0]], target, wall, cells)


def place_line(grid: FleetGrid, node: Node, target: Target, wall: float, cells: int) -> Row:
    """Return the explanation of one place of a node, whether or not the node has a row."""
    assert grid.assessment is not None
    glyphs = grid.glyphs
    rows = grid.snapshot.rows(node, target.scope)
    if target.position >= len(rows):
        return _node_words(grid, node, wall, cells)
    place = grid.snapshot.place(node, target.scope, target.position)
    row = rows[target.position]
    parts = [Span(" "), Span(place, Tone.STRONG), Span("  ")]
    dot = f" {glyphs.dot} "
    finding = grid.assessment.finding_at(place)
    for number, (text, level) in enumerate(_values(grid, node, target.scope, row)):
        tone = level_tone(level) if level > Level.MISSING else Tone.QUIET if number else Tone.PLAIN
        parts += [Span(dot if number else "", Tone.QUIET), Span(text, tone)]
    fresh = grid.assessment.ages[node.index]
    age = age_word(node, grid.assessment.now_mono)
    if fresh is not Level.NORMAL:
        parts.append(Span(dot + link_words(node, wall, next_try=True), level_tone(fresh)))
    elif age:
        parts.append(Span(f"{dot}age {age}", Tone.QUIET))
        if node.link.detail:
            parts.append(Span(f"{dot}{node.link.detail}", Tone.QUIET))
    if finding is not None:
        said = SEVERITY_LEVELS[finding.severity]
        parts.append(Span(f"{dot}{glyphs.level(said)} {finding.severity} {finding.summary}", level_tone(said)))
    return fit(parts, cells - 1, glyphs.ellipsis)


def _values(grid: FleetGrid, node: Node, scope: Scope, row: int) -> list[tuple[str, int]]:
    """Return what is said of a place, the chosen metric first, each with the level of that value."""
    snapshot = grid.snapshot
    assert grid.assessment is not None
    table = snapshot.tables[scope]
    said: list[tuple[str, int]] = []
    chosen = grid.metric
    if scope is chosen.scope:
        value = table.get(chosen.id, row)
        said.append((f"{chosen.title} {value_text(chosen, value)}", _level(table, chosen, row)))
        peers = peers_median(grid.assessment, scope, chosen.id, row) if not chosen.words else None
        if peers is not None and not isinstance(value, Missing):
            said.append((f"peers {value_text(chosen, peers)}", 0))
        away = grid.deviation.sentence(row) if grid.deviation is not None else ""
        if away:
            said.append((away, 0))
    for name, word in _BESIDE[scope]:
        if name not in table.index or (name == chosen.id and scope is chosen.scope):
            continue
        metric = snapshot.catalogue[name]
        value = table.get(name, row)
        if isinstance(value, Missing) or (metric.kind is Kind.COUNTER and value == 0 and metric.warn is not None):
            continue
        if metric.bitmask and value == 0:
            continue
        said.append((f"{word} {value_text(metric, value)}".strip(), _level(table, metric, row)))
    if scope is Scope.NODE and node.kernel:
        said.append((f"kernel {node.kernel}", 0))
    return said or [("no value", 0)]


def _level(table: Table, metric: Metric, row: int) -> int:
    return int(metric_levels(table, metric, range(row, row + 1))[0])


def _bundle_words(grid: FleetGrid, line: Line, target: Target, cells: int) -> Row:
    """Return which nodes a line is about, how many of them are selected, and the median that the cell shows."""
    members = grid.members(line)
    dot = f" {grid.glyphs.dot} "
    if line.kind is LineKind.HEAD:
        by = grid.view.group
        said = about(grid.snapshot, by, line.group)
        lead = [Span(title(by, line.group), Tone.STRONG), Span(f"  {said}{dot if said else ''}", Tone.QUIET)]
        kind = "nodes" if len(members) != 1 else "node"
    else:
        lead = []
        kind = "healthy nodes without a GPU in use" if line.kind is LineKind.IDLE else "healthy nodes"
    parts = [Span(" "), *lead]
    summary, place = grid.summary(line)
    if target.scope is grid.metric.scope and target.position < summary.medians.shape[1]:
        median = float(summary.medians[place, target.position])
        if not math.isnan(median):
            word = f"{LABELS[target.scope]} {target.position}: " if target.scope in LABELS else ""
            said = f"median {value_text(grid.metric, median)}"
            if summary.differ[place, target.position]:
                ends = (summary.lows[place, target.position], summary.highs[place, target.position])
                said = " to ".join(value_text(grid.metric, float(end)) for end in ends)
            parts.append(Span(f"{word}{said}{dot}", Tone.PLAIN))
    selected = sum(name in grid.marked for name in members)
    if selected:
        parts.append(Span(f"{selected} selected{dot}", Tone.KEY))
    folded = ", folded" if line.kind is not LineKind.HEAD else ""
    parts.append(Span(f"{len(members)} {kind}{folded}: {fold(members)}", Tone.QUIET))
    return fit(parts, cells - 1, grid.glyphs.ellipsis)


def _node_words(grid: FleetGrid, node: Node, wall: float, cells: int) -> Row:
    parts = [
        Span(" "),
        Span(node.name, Tone.STRONG),
        Span("  "),
        Span(link_words(node, wall, next_try=True), Tone.QUIET),
    ]
    return fit(parts, cells - 1, grid.glyphs.ellipsis)
