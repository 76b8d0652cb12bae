"""A table with a row for each device: for devices with long names and few metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.metric import Kind, Missing, Reason
from stethoscope.ui.present.node.view import Line, Piece, Spot, View
from stethoscope.ui.present.numbers import REASON_CELLS, REASON_LEVELS, title_in_text, total_text, value_text
from stethoscope.ui.present.spans import Level, Tone, cut, level_tone, pad, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.model.metric import Metric, Scope


class Column(NamedTuple):
    """A metric as a column."""

    metric: str
    cells: int
    head: str | None = None


def device_rows(
    view: View,
    section: str,
    scope: Scope,
    devices: Iterable[int],
    columns: Sequence[Column],
    *,
    head: str,
    name_cells: int,
    note: Callable[[int], str] | None = None,
) -> list[Line]:
    """Return a head and a row for each device: its name, as many of `columns` as fit, and what `note` says of it."""
    snapshot, glyphs = view.snapshot, view.glyphs
    table, part = snapshot.tables[scope], snapshot.rows(view.node, scope)
    chosen: list[Column] = []
    room = view.cells - name_cells - 4
    for column in columns:
        if column.metric in table.index and column.cells <= room:
            chosen.append(column)
            room -= column.cells
    levels = {column.metric: view.metric_levels(snapshot.catalogue[column.metric]) for column in chosen}
    heads = [_head(snapshot.catalogue[column.metric], column, glyphs.ellipsis) for column in chosen]
    lines: list[Line] = [(Piece(f"   {pad(head, name_cells)}", Tone.QUIET), *heads)]
    own = view.levels(scope)
    for at in devices:
        name, row = view.node.devices[scope][at], part[at]
        loud = int(own[at]) if own[at] > Level.MISSING else 0
        line = [
            Piece(f" {glyphs.level(loud) if loud else ' '} ", level_tone(loud)),
            Piece(pad(name, name_cells, glyphs.ellipsis), level_tone(loud) if loud else Tone.QUIET),
        ]
        for column in chosen:
            metric = snapshot.catalogue[column.metric]
            spot, level = Spot(section, scope, column.metric, at), int(levels[column.metric][at])
            value = table.get(column.metric, row)
            if isinstance(value, Missing) and value.reason is Reason.ONE_READING and metric.kind is Kind.COUNTER:
                # Its rate is not known yet, and its total is.
                text, tone = _counter_text(metric, 0.0, table.total(metric.id, row)), Tone.QUIET
            elif isinstance(value, Missing):
                text, tone = REASON_CELLS[value.reason], level_tone(REASON_LEVELS[value.reason])
            else:
                text = (
                    _counter_text(metric, value, table.total(metric.id, row))
                    if metric.kind is Kind.COUNTER
                    else (value_text(metric, value))
                )
                tone = level_tone(level) if level > Level.MISSING else Tone.QUIET
            text = cut(text, column.cells - 1, glyphs.ellipsis)
            line += [Piece(" " * (column.cells - width(text))), Piece(text, tone, spot)]
        words = note(at) if note is not None else ""
        if words and room > 8:
            line.append(Piece("   " + cut(words, room - 3, glyphs.ellipsis), Tone.QUIET))
        lines.append(tuple(line))
    return lines


def _head(metric: Metric, column: Column, ellipsis: str) -> Piece:
    head = title_in_text(metric.title) if column.head is None else column.head
    return Piece(cut(head, column.cells - 1, ellipsis).rjust(column.cells), Tone.QUIET)


def _counter_text(metric: Metric, value: float, total: int | Missing) -> str:
    """Return the rate of a counter that moves, else its total."""
    if value:
        return value_text(metric, value)
    return total_text(metric, total) if not isinstance(total, Missing) else "0"
