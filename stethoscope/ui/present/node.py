"""The node screen: everything that is known of one node, what is wrong first."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.clock import duration, hms, iso
from stethoscope.model.metric import Kind, Missing, Reason, Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS, age_word, metric_levels
from stethoscope.ui.present.lines import note_title, since_text
from stethoscope.ui.present.numbers import (
    COUNTED,
    REASON_CELLS,
    REASON_LEVELS,
    cell_text,
    common_unit,
    shown,
    total_text,
    value_text,
)
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import Glyphs, Level, Row, Span, Tone, cut, level_tone, pad, row_width, spread, width

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric
    from stethoscope.model.scheduler import SchedulerState
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.replay import ReplayStanding

_TITLE = 26
_CELL = 9
_LOG_LINES = 40
_HOST_CELL = 42


def node_title(
    assessment: Assessment,
    node: Node,
    wall: float,
    cells: int,
    glyphs: Glyphs,
    *,
    paused: bool,
    replay: ReplayStanding | None = None,
) -> Row:
    """Return the top line of the node screen."""
    level = int(assessment.nodes[node.index])
    fresh = assessment.ages[node.index]
    age = age_word(node, assessment.now_mono)
    parts = [node.link.state.value + (f", data {age}" if age else "")]
    if node.gpus:
        parts.append(f"{len(node.gpus)} x {node.gpus[0].name}")
    if node.ports:
        parts.append(f"{len(node.ports)} ports")
    if node.rack:
        parts.append(node.rack)
    words = f" {glyphs.dot} ".join(parts)
    right: Row = (Span(f"{hms(wall)} UTC ", Tone.QUIET),)
    if replay is not None:
        right = replay_marks(replay, wall)[1]
    elif paused:
        right = (Span(" PAUSED ", Tone.KEY, selected=True), Span("  "), *right)
    left = (
        Span(f" {glyphs.level(level)} ", level_tone(level)),
        Span(node.name, Tone.TITLE),
        Span("  "),
        Span(
            cut(words, max(0, cells - width(node.name) - max(21, row_width(right) + 7)), glyphs.ellipsis),
            level_tone(fresh) if fresh else Tone.QUIET,
        ),
    )
    return spread(left, right, cells)


def node_rows(assessment: Assessment, node: Node, wall: float, cells: int, glyphs: Glyphs) -> list[Row]:
    """Return the body of the node screen."""
    rows: list[Row] = []
    found = assessment.findings.get(node.name, ())
    if found:
        rows += _heading("Findings", "")
        for finding in found:
            tone = level_tone(SEVERITY_LEVELS[finding.severity])
            where = ", ".join(place.partition("/")[2] or place for place in finding.where)
            text = f"{where}  {finding.summary} {glyphs.dot} {since_text(finding.since, wall)}"
            glyph = glyphs.level(SEVERITY_LEVELS[finding.severity])
            rows.append(
                (Span(f" {glyph} {finding.severity} ", tone), Span(cut(text, cells - 8, glyphs.ellipsis), tone))
            )
    notes = sorted(node.notes.items())
    if notes:
        rows += _heading("Cannot be seen", "")
        for what, why in notes:
            rows.append(
                (Span(f" {glyphs.level(Level.MISSING)} ", Tone.MISSING), Span(f"{note_title(what)}: {why}", Tone.PLAIN))
            )
    if not _has_values(assessment, node):
        # A table of nothing but reasons says no more than the link does.
        return _joined(rows + _identity(node, wall, cells, glyphs) + _log(assessment.snapshot, node, cells, glyphs))
    if node.gpus:
        names = [str(gpu.index) for gpu in node.gpus]
        rows += _table(assessment, node, Scope.GPU, "GPUs", names, cells, glyphs)
    if node.ports:
        names = [port.device if port.port == 1 else f"{port.device}:{port.port}" for port in node.ports]
        rows += _table(assessment, node, Scope.PORT, "Ports", names, cells, glyphs)
    rows += _host(assessment, node, cells, glyphs)
    rows += _log(assessment.snapshot, node, cells, glyphs)
    rows += _identity(node, wall, cells, glyphs)
    return _joined(rows)


def _joined(rows: list[Row]) -> list[Row]:
    return rows[1:] if rows and rows[0] == () else rows


def _has_values(assessment: Assessment, node: Node) -> bool:
    """Tell whether anything was read on the node itself, whatever it was."""
    table = assessment.snapshot.tables[Scope.NODE]
    own = [table.index[name] for name in table.metrics if assessment.snapshot.catalogue[name].tier != "console"]
    reasons = table.reasons[own, node.index]
    return not np.isin(reasons, (Reason.UNREACHABLE, Reason.WAITING)).all()


def _heading(title: str, words: str) -> list[Row]:
    return [(), (Span(f" {title}", Tone.STRONG), Span(f"  {words}" if words else "", Tone.QUIET))]


def _table(
    assessment: Assessment, node: Node, scope: Scope, title: str, names: list[str], cells: int, glyphs: Glyphs
) -> list[Row]:
    snapshot = assessment.snapshot
    table, part = snapshot.tables[scope], snapshot.rows(node, scope)
    size = max(_CELL, *(len(name) + 2 for name in names))
    fit = max(1, (cells - _TITLE - 3) // size)
    rows: list[Row] = []
    metrics = [metric for metric in snapshot.catalogue.values() if metric.id in table.index]
    levels = {metric.id: metric_levels(table, metric)[part.start : part.stop] for metric in metrics}
    worst = {name: int(np.where(some > Level.MISSING, some, 0).max()) for name, some in levels.items()}
    for start in range(0, len(part), fit):
        block = range(start, min(start + fit, len(part)))
        head = "".join(names[position].rjust(size) for position in block)
        rows += [(), (Span(f" {pad(title, _TITLE + 2)}", Tone.STRONG), Span(head, Tone.QUIET))]
        quiet: list[str] = []
        for metric in sorted(metrics, key=lambda metric: -worst[metric.id]):
            if metric.kind is Kind.COUNTER and _all_zero(snapshot, scope, metric, part):
                quiet.append(metric.title)
                continue
            rows.append(_metric_row(snapshot, scope, metric, part, block, levels[metric.id], size, glyphs))
            if metric.kind is Kind.COUNTER:
                rows.append(_total_row(snapshot, scope, metric, part, block, size, glyphs))
        if quiet:
            rows += _wrapped(f"0 in all: {', '.join(quiet)}", cells, Tone.NORMAL)
    return rows


def _wrapped(text: str, cells: int, tone: Tone) -> list[Row]:
    return [(Span(f"   {line}", tone),) for line in wrap(text, max(20, cells - 6))]


def _all_zero(snapshot: FleetSnapshot, scope: Scope, metric: Metric, part: range) -> bool:
    table = snapshot.tables[scope]
    column, total = table.index[metric.id], table.counter_index[metric.id]
    rows = slice(part.start, part.stop)
    return bool(
        (table.reasons[column, rows] == Reason.PRESENT).all()
        and (table.values[column, rows] == 0).all()
        and (table.totals[total, rows] == 0).all()
    )


def _metric_row(
    snapshot: FleetSnapshot,
    scope: Scope,
    metric: Metric,
    part: range,
    block: range,
    levels: np.ndarray,
    size: int,
    glyphs: Glyphs,
) -> Row:
    table = snapshot.tables[scope]
    values = [table.get(metric.id, part[position]) for position in block]
    tops = [abs(shown(metric, value)) for value in values if not isinstance(value, Missing)]
    divisor, unit = common_unit(metric, max(tops, default=0.0))
    title = metric.title if unit in COUNTED else f"{metric.title} {unit}".strip()
    worst = int(levels.max())
    loud = worst > Level.MISSING
    row = [
        Span(f" {glyphs.level(worst) if loud else ' '} ", level_tone(worst)),
        Span(pad(title, _TITLE, glyphs.ellipsis), Tone.PLAIN if loud else Tone.QUIET),
    ]
    for position, value in zip(block, values, strict=True):
        level = int(levels[position])
        if isinstance(value, Missing):
            row.append(Span(REASON_CELLS[value.reason].rjust(size), level_tone(REASON_LEVELS[value.reason])))
        else:
            text = cut(cell_text(metric, value, divisor), size - 2, glyphs.ellipsis)
            if level > Level.MISSING:
                text = glyphs.level(level) + text
            row.append(Span(text.rjust(size), level_tone(level) if level > Level.MISSING else Tone.PLAIN))
    return tuple(row)


def _total_row(
    snapshot: FleetSnapshot, scope: Scope, metric: Metric, part: range, block: range, size: int, glyphs: Glyphs
) -> Row:
    table = snapshot.tables[scope]
    row = [Span("   "), Span(pad("  total", _TITLE), Tone.NORMAL)]
    for position in block:
        total = table.total(metric.id, part[position])
        if isinstance(total, Missing):
            row.append(Span(REASON_CELLS[total.reason].rjust(size), level_tone(REASON_LEVELS[total.reason])))
        elif total in metric.pins:
            row.append(Span("pinned".rjust(size), Tone.PLANNED))
        else:
            row.append(Span(total_text(metric, total).rjust(size), Tone.NORMAL))
    return tuple(row)


def _host(assessment: Assessment, node: Node, cells: int, glyphs: Glyphs) -> list[Row]:
    snapshot = assessment.snapshot
    table = snapshot.tables[Scope.NODE]
    entries: list[tuple[int, tuple[Span, ...]]] = []
    for name, metric in snapshot.catalogue.items():
        if name not in table.index:
            continue
        level = int(metric_levels(table, metric)[node.index]) if name != "node_data_age" else 0
        value = table.get(name, node.index)
        text = value_text(metric, value)
        tone = level_tone(level) if isinstance(value, Missing) or level > Level.MISSING else Tone.PLAIN
        loud = level > Level.MISSING
        title = pad(metric.title, 28, glyphs.ellipsis)
        entry = (
            Span(f" {glyphs.level(level) if loud else ' '} ", level_tone(level)),
            Span(title, Tone.QUIET),
            Span(pad(text, _HOST_CELL - 31, glyphs.ellipsis), tone),
        )
        entries.append((-level if loud else 0, entry))
    entries.sort(key=lambda entry: entry[0])
    columns = max(1, cells // _HOST_CELL)
    lines = -(-len(entries) // columns)
    rows: list[Row] = _heading("Host", "")
    for line in range(lines):
        row: list[Span] = []
        for column in range(columns):
            place = column * lines + line
            if place < len(entries):
                row += entries[place][1]
        rows.append(tuple(row))
    return rows


def _log(snapshot: FleetSnapshot, node: Node, cells: int, glyphs: Glyphs) -> list[Row]:
    events = [event for event in snapshot.events if event.node == node.name][-_LOG_LINES:]
    if not events:
        return []
    rows = _heading("Log", "newest last")
    for event in events:
        tone = Tone.WARNING if event.xid is not None else Tone.PLAIN
        text = f"{event.source}  {event.text}"
        rows.append((Span(f"   {hms(event.at)}  ", Tone.QUIET), Span(cut(text, cells - 14, glyphs.ellipsis), tone)))
    return rows


def _scheduler_lines(state: SchedulerState) -> list[tuple[str, str]]:
    """Return what the scheduler says of a node: its states, why and by whom, and the jobs on it."""
    lines = [("slurm", state.words_text)]
    if state.reason:
        owner = f" ({state.owner})" if state.owner else ""
        since = f", since {iso(state.since)}" if state.since is not None else ""
        lines.append(("", f"{state.reason}{owner}{since}"))
    if state.reservation:
        lines.append(("", f"reserved: {state.reservation}"))
    if state.jobs:
        more = f" and {len(state.jobs) - 8} more" if len(state.jobs) > 8 else ""
        lines.append(("jobs", ", ".join(state.jobs[:8]) + more))
    return lines


def _identity(node: Node, wall: float, cells: int, glyphs: Glyphs) -> list[Row]:
    link = node.link
    lines = [("link", f"{link.state.value} since {iso(link.since)}")]
    if link.detail:
        lines += [("", line) for line in wrap(link.detail, max(20, cells - 17))]
    if not link.verified:
        lines.append(("", "the host key was not verified"))
    if link.next_try is not None:
        lines.append(("", f"next try in {duration(max(0.0, link.next_try - wall))}, after {link.attempts} attempts"))
    probe = f"{node.frames:,} frames, one every {node.tick_s:g} s"
    lines.append(("probe", probe + (f", {node.bad_lines:,} unreadable lines" if node.bad_lines else "")))
    if node.clock_offset_s is not None and abs(node.clock_offset_s) >= 1:
        lines.append(("clock", f"{node.clock_offset_s:+.1f} s from ours, transport included"))
    if node.rack or node.pod:
        lines.append(("place", f" {glyphs.dot} ".join(part for part in (node.pod, node.rack) if part)))
    if node.scheduler is not None:
        lines += _scheduler_lines(node.scheduler)
    if node.kernel:
        lines.append(("kernel", node.kernel))
    if node.boot_id:
        lines.append(("boot", node.boot_id))
    lines += [(f"gpu/{gpu.index}", f"{gpu.name}  {gpu.pci}  {gpu.uuid}") for gpu in node.gpus]
    lines += [
        (f"ib/{port.device}", f"port {port.port}  {port.layer}  {port.pci}  {port.netdev}".rstrip())
        for port in node.ports
    ]
    rows = _heading("Link and identity", "")
    for name, text in lines:
        rows.append((Span(f"   {pad(name, 12)}", Tone.QUIET), Span(cut(text, cells - 16, glyphs.ellipsis), Tone.PLAIN)))
    return rows
