"""The line that explains the cell under the cursor: what it is, how it compares, and what was found there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.ids import fold
from stethoscope.model.metric import Kind, Missing, Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS, age_word, link_words, metric_levels, peers_median
from stethoscope.ui.present.grid import FOLD, FOLD_IDLE, FleetGrid, Target
from stethoscope.ui.present.numbers import value_text
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, fit, level_tone

if TYPE_CHECKING:
    from stethoscope.model.fleet import Node

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
    glyphs = grid.glyphs
    if key in (FOLD, FOLD_IDLE):
        members = grid.idle if key == FOLD_IDLE else grid.folded
        kind = "healthy nodes without a GPU in use" if key == FOLD_IDLE else "healthy nodes"
        text = f"{len(members)} {kind}, folded: {fold(members)}"
        return (Span(" "), Span(cut(text, cells - 2, glyphs.ellipsis), Tone.QUIET))
    node = grid.snapshot.node(key)
    assert grid.assessment is not None
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
        said.append((f"{chosen.title} {value_text(chosen, value)}", int(metric_levels(table, chosen)[row])))
        peers = peers_median(grid.assessment, scope, chosen.id, row) if not chosen.words else None
        if peers is not None and not isinstance(value, Missing):
            said.append((f"peers {value_text(chosen, peers)}", 0))
    for name, word in _BESIDE[scope]:
        if name not in table.index or (name == chosen.id and scope is chosen.scope):
            continue
        metric = snapshot.catalogue[name]
        value = table.get(name, row)
        if isinstance(value, Missing) or (metric.kind is Kind.COUNTER and value == 0 and metric.warn is not None):
            continue
        if metric.bitmask and value == 0:
            continue
        said.append((f"{word} {value_text(metric, value)}".strip(), int(metric_levels(table, metric)[row])))
    if scope is Scope.NODE and node.kernel:
        said.append((f"kernel {node.kernel}", 0))
    return said or [("no value", 0)]


def _node_words(grid: FleetGrid, node: Node, wall: float, cells: int) -> Row:
    parts = [
        Span(" "),
        Span(node.name, Tone.STRONG),
        Span("  "),
        Span(link_words(node, wall, next_try=True), Tone.QUIET),
    ]
    return fit(parts, cells - 1, grid.glyphs.ellipsis)
