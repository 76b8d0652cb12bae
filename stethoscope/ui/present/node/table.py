"""A table of one scope: a row for each metric, a column for each device. What is wrong comes first; what is the same
everywhere, what is 0 and what is not there is said in a few words below."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.metric import REASON_WORDS, Kind, Metric, Missing, Reason
from stethoscope.ui.present.assess import median_of, peers_of
from stethoscope.ui.present.node.trend import bars, span_text
from stethoscope.ui.present.node.view import Line, Piece, Spot, View, flowed
from stethoscope.ui.present.numbers import (
    COUNTED,
    REASON_CELLS,
    REASON_LEVELS,
    cell_text,
    common_unit,
    shown,
    title_in_text,
    total_text,
    value_text,
)
from stethoscope.ui.present.spans import Level, Tone, cut, level_tone, pad, width

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stethoscope.model.fleet import Table
    from stethoscope.model.metric import Scope

_TREND, _LEAST_TREND = 24, 10
_BESIDE = 8
"""Cells of what stands beside the devices: what peers have, and what was counted since the mark."""
_UNLIKE = 0.1
"""A value this much of the median away from it is drawn plain instead of quiet."""
_SHORT = {"waiting": "wait", "thermal": "heat", "slowdow": "slow", "display": "disp"}
"""Words of cells of seven characters."""
_SHORTER = {
    "temperature": "temp", "Uncorrected": "Uncorr", "Corrected": "Corr", "corrected": "corr", "receive": "recv",
    "recoveries": "recov", "integrity": "integr", "Congestion": "Cong", "physical": "phys", "errors": "err",
    "Time in": "In", "Time at": "At", "Memory": "Mem", "memory": "mem", "processes": "procs", "Interface": "Iface",
}  # fmt: skip
"""Short forms for narrow tables, those that lose least first."""
_TIMES = ("us", "ms")
"""Totals of times and of traffic say nothing that is worth a row."""


class Shape(NamedTuple):
    """Widths of a table."""

    title: int
    cell: int
    fit: int
    """Devices in one block."""
    trend: int
    """Cells of the trend, 0 without one."""
    beside: tuple[str, ...] = ()
    """What stands between devices and trend: `peers`, `mark`."""


class _Focus(NamedTuple):
    """The device that trend, peers and mark are about: the one under the cursor, else the worst."""

    at: int
    peers: np.ndarray
    """Rows that it is compared with."""


def shape(view: View, names: Sequence[str], *, counts: bool = False) -> Shape:
    """Return the widths with which all devices stand side by side if that can be; where there is room, what peers have,
    what was counted since the mark if the table `counts`, and a trend."""
    longest = max((width(name) for name in names), default=1)
    wide = max(9, min(18, longest + 2))
    trend = _LEAST_TREND if view.past is not None else 0
    wanted = ("mark",) if view.mark is not None and counts else ()
    if len(names) > 1 or len(view.snapshot.nodes) > 1:
        wanted = (*wanted, "peers")
    # Narrower cells are worth it when more stands beside them then.
    beside_them = [trend + _BESIDE * count for count in range(len(wanted), 0, -1)]
    forms = [(26, cell, least) for least in beside_them for cell in (wide, 8)]
    for title, cell, least in (*forms, (26, wide, 0), (22, 8, 0), (18, 7, 0)):
        cell = max(cell, min(longest + 1, 18))
        rest = view.cells - title - 4 - cell * len(names)
        if rest < least:
            continue
        beside = wanted[: max(0, (rest - trend) // _BESIDE)]
        rest -= _BESIDE * len(beside)
        return Shape(
            title, cell, max(1, len(names)), min(_TREND, rest - 3) if rest >= _LEAST_TREND else 0, beside[::-1]
        )
    cell = max(8, min(18, longest + 1))
    return Shape(22, cell, max(1, (view.cells - 26) // cell), 0)


def lost_rows(table: Table, part: range) -> np.ndarray:
    """Return which devices are gone: most of what is read of them is LOST."""
    block = table.reasons[:, part.start : part.stop]
    silent = (block == Reason.UNSUPPORTED) | (block == Reason.WAITING) | (block == Reason.ABSENT)
    lost: np.ndarray = 2 * (block == Reason.LOST).sum(axis=0) > (~silent).sum(axis=0)
    return lost


class _Sorted(NamedTuple):
    shown: list[tuple[int, Metric, np.ndarray]]
    same: list[Metric]
    zero: list[Metric]
    absent: dict[Reason, list[Metric]]


def _sort(view: View, scope: Scope, metrics: list[Metric], lost: np.ndarray) -> _Sorted:
    """Tell metrics that need a row from those that a word is enough for."""
    table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    rows = np.arange(part.start, part.stop)[~lost]
    out = _Sorted([], [], [], {})
    for metric in metrics:
        column = table.index[metric.id]
        levels = view.metric_levels(metric)
        worst = int(np.where(levels > Level.MISSING, levels, 0)[~lost].max(initial=0))
        # A device that does not have it says nothing about those that have.
        having = rows[table.reasons[column, rows] != Reason.UNSUPPORTED]
        reasons, values = table.reasons[column, having], table.values[column, having]
        first = Reason(int(reasons[0])) if reasons.size else Reason.UNSUPPORTED if rows.size else Reason.LOST
        counted = metric.kind is Kind.COUNTER and table.totals[table.counter_index[metric.id], having].any()
        if first is Reason.HUNG and (reasons == first).all():
            # A row of one word for each of forty values hides what is known.
            out.absent.setdefault(first, []).append(metric)
        elif worst > Level.MISSING or (reasons != first).any() or (first is Reason.ONE_READING and counted):
            out.shown.append((worst, metric, levels))
        elif first is not Reason.PRESENT:
            out.absent.setdefault(first, []).append(metric)
        elif (values != values[0]).any() or counted:
            out.shown.append((0, metric, levels))
        elif values[0] == 0 and metric.kind in (Kind.COUNTER, Kind.GAUGE):
            out.zero.append(metric)
        elif metric.kind in (Kind.STATE, Kind.INFO):
            out.same.append(metric)
        else:
            out.shown.append((0, metric, levels))
    out.shown.sort(key=lambda entry: -entry[0])
    return out


def metric_table(
    view: View, section: str, scope: Scope, names: Sequence[str], title: str = "", leave_out: Collection[str] = ()
) -> list[Line]:
    """Return the table of all metrics of `scope` but `leave_out`; `names` are the heads of its columns."""
    snapshot = view.snapshot
    table, part = snapshot.tables[scope], snapshot.rows(view.node, scope)
    metrics = [m for m in snapshot.catalogue.values() if m.id in table.index and m.id not in leave_out]
    lost = lost_rows(table, part)
    found = _sort(view, scope, metrics, lost)
    form = shape(view, names, counts=any(_has_totals(metric) for _, metric, _ in found.shown))
    focus = _focus(view, scope, form, lost)
    lines: list[Line] = []
    hung = len(found.absent.pop(Reason.HUNG, ()))
    if hung:
        hung += len(found.absent.pop(Reason.WAITING, ()))
        said = f" {view.glyphs.level(Level.HUNG)} the driver does not answer: {hung} values are not known"
        lines.append((Piece(said, Tone.HUNG),))
    for start in range(0, len(part) if found.shown else 0, form.fit):
        block = range(start, min(start + form.fit, len(part)))
        if lines:
            lines.append(())
        lines.append(_head(view, form, title, names, block, lost, focus))
        for worst, metric, levels in found.shown:
            if _only_total(view, scope, metric):
                lines.append(_totals(view, section, scope, form, block, metric, lost, focus, alone=True))
                continue
            lines.append(_row(view, section, scope, form, block, (worst, metric, levels), lost, focus))
            if _has_totals(metric):
                lines.append(_totals(view, section, scope, form, block, metric, lost, focus))

    def named(metric: Metric, with_value: bool = False) -> Piece:
        reasons = table.reasons[table.index[metric.id], part.start : part.stop]
        at = int(np.argmax(reasons == Reason.PRESENT))
        title = title_in_text(metric.title)
        text = f"{title} {value_text(metric, table.get(metric.id, part[at]))}" if with_value else title
        return Piece(text, Tone.NORMAL, Spot(section, scope, metric.id, at))

    lines += flowed(view, "alike: " if len(part) > 1 else "", [named(metric, with_value=True) for metric in found.same])
    lines += flowed(view, "all 0: " if len(part) > 1 else "0: ", [named(metric) for metric in found.zero])
    for reason, some in sorted(found.absent.items()):
        if reason is not Reason.LOST:
            words = {Reason.UNSUPPORTED: "not given", Reason.ONE_READING: "one reading so far"}
            lines += flowed(view, f"{words.get(reason, REASON_WORDS[reason])}: ", [named(metric) for metric in some])
    return lines


def _has_totals(metric: Metric) -> bool:
    return metric.kind is Kind.COUNTER and metric.worse == "high" and metric.unit not in _TIMES


def _focus(view: View, scope: Scope, form: Shape, lost: np.ndarray) -> _Focus:
    """Return the device under the cursor, else the worst, else the first, and its peers where they are shown."""
    at = _trended(view, scope, lost)
    part = view.snapshot.rows(view.node, scope)
    shown = "peers" in form.beside and at < len(part)
    return _Focus(at, peers_of(view.assessment, scope, part[at]) if shown else np.empty(0, dtype=np.int64))


def _trended(view: View, scope: Scope, lost: np.ndarray) -> int:
    if view.focus is not None and view.focus.scope is scope and view.focus.position < len(lost):
        return view.focus.position
    levels = np.where(lost, 0, view.levels(scope))
    return int(levels.argmax()) if levels.size and not lost[int(levels.argmax())] else int(np.argmin(lost))


def _beside(form: Shape, **texts: tuple[str, Tone]) -> list[Piece]:
    """Return the cells beside those of the devices."""
    pieces = []
    for name in form.beside:
        text, tone = texts.get(name, ("", Tone.NORMAL))
        pieces.append(Piece(cut(text, _BESIDE - 1, "").rjust(_BESIDE), tone))
    return pieces


def _head(
    view: View, form: Shape, title: str, names: Sequence[str], block: range, lost: np.ndarray, focus: _Focus
) -> Line:
    pieces = [Piece(f"   {pad(title, form.title)}", Tone.QUIET)]
    for at in block:
        name = cut(names[at], form.cell - 1, view.glyphs.ellipsis)
        if lost[at]:
            name = f"{view.glyphs.level(Level.LOST)}{name}"
        pieces.append(Piece(name.rjust(form.cell), Tone.LOST if lost[at] else Tone.QUIET))
    pieces += _beside(form, peers=("peers", Tone.QUIET), mark=("mark", Tone.QUIET))
    if form.trend and view.past is not None:
        span = f", {span_text(view.past.seconds)}" if view.past.seconds else ""
        pieces.append(Piece(f"   {names[focus.at]}{span}", Tone.QUIET))
    return tuple(pieces)


def _row(
    view: View,
    section: str,
    scope: Scope,
    form: Shape,
    block: range,
    entry: tuple[int, Metric, np.ndarray],
    lost: np.ndarray,
    focus: _Focus,
) -> Line:
    worst, metric, levels = entry
    glyphs, table, part = view.glyphs, view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    values = [table.get(metric.id, part[at]) for at in block]
    tops = [abs(shown(metric, value)) for value in values if not isinstance(value, Missing)]
    divisor, unit = common_unit(metric, max(tops, default=0.0))
    title = _titled(metric.title, "" if unit in COUNTED else unit, form.title, glyphs.ellipsis)
    loud = worst > Level.MISSING
    pieces = [
        Piece(f" {glyphs.level(worst) if loud else ' '} ", level_tone(worst)),
        Piece(title, Tone.PLAIN if loud else Tone.QUIET),
    ]
    usual = _usual(table, metric, part)
    for at, value in zip(block, values, strict=True):
        spot = Spot(section, scope, metric.id, at)
        if lost[at]:
            pieces += _right(glyphs.dash, form.cell, Tone.NORMAL, spot)
            continue
        level = int(levels[at])
        if isinstance(value, Missing):
            word = REASON_CELLS[value.reason]
            word = _SHORT.get(word, word) if form.cell <= 7 else word
            pieces += _right(word, form.cell, level_tone(REASON_LEVELS[value.reason]), spot)
            continue
        text = cell_text(metric, value, divisor)
        text = cut(_SHORT.get(text, text) if form.cell <= 7 else text, form.cell - 2, glyphs.ellipsis)
        if level > Level.MISSING:
            text = glyphs.level(level) + text
        tone = Tone.PLAIN if usual is not None and abs(value - usual) > _UNLIKE * abs(usual) else Tone.QUIET
        pieces += _right(text, form.cell, level_tone(level) if level > Level.MISSING else tone, spot)
    median = median_of(table, metric.id, focus.peers) if "peers" in form.beside and not metric.words else None
    pieces += _beside(form, peers=("" if median is None else cell_text(metric, median, divisor), Tone.QUIET))
    if form.trend and view.past is not None and not metric.words:
        _, past = view.past.series(scope, metric.id, part[focus.at])
        bar = bars(past, form.trend, glyphs) if len(past) > 1 else ""
        if bar:
            pieces.append(Piece(f"   {bar}", Tone.PLAIN if loud else Tone.NORMAL))
    return tuple(pieces)


def _usual(table: Table, metric: Metric, part: range) -> float | None:
    """Return the median of a metric among the devices, None where there are too few to say what is usual."""
    column = table.index[metric.id]
    here = slice(part.start, part.stop)
    values = table.values[column, here][table.reasons[column, here] == Reason.PRESENT]
    return float(np.median(values)) if values.size > 2 else None


def _titled(title: str, unit: str, cells: int, ellipsis: str) -> str:
    """Return title and unit in `cells`; what is cut is the title."""
    if not unit:
        return pad(_shortened(title, cells, ellipsis), cells)
    return pad(f"{_shortened(title, cells - width(unit) - 1, ellipsis)} {unit}", cells)


def _shortened(title: str, cells: int, ellipsis: str) -> str:
    """Return a title in `cells`: with short forms of its words as far as that is needed, then cut."""
    for word, short in _SHORTER.items():
        if width(title) <= cells:
            break
        title = title.replace(word, short)
    return cut(title, cells, ellipsis)


def _right(text: str, cells: int, tone: Tone, spot: Spot) -> list[Piece]:
    return [Piece(" " * (cells - width(text))), Piece(text, tone, spot)]


def _only_total(view: View, scope: Scope, metric: Metric) -> bool:
    """Tell whether of a counter only what it has counted is worth a row: errors that stand still, or no rate yet."""
    if metric.kind is not Kind.COUNTER or metric.unit in _TIMES:
        return False
    table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    column = table.index[metric.id]
    present = table.reasons[column, part.start : part.stop] == Reason.PRESENT
    if metric.worse != "high":
        return not present.any()
    return not table.values[column, part.start : part.stop][present].any()


def _is_too_many(metric: Metric, total: int | Missing) -> bool:
    return metric.critical_total is not None and not isinstance(total, Missing) and total >= metric.critical_total


def _totals(
    view: View,
    section: str,
    scope: Scope,
    form: Shape,
    block: range,
    metric: Metric,
    lost: np.ndarray,
    focus: _Focus,
    *,
    alone: bool = False,
) -> Line:
    table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    title = f"{_shortened(metric.title, form.title - 7, view.glyphs.ellipsis)}, total" if alone else "  total"
    glyphs, critical = view.glyphs, level_tone(Level.CRITICAL)
    totals = [table.total(metric.id, part[at]) for at in block]
    beyond = [not lost[at] and _is_too_many(metric, total) for at, total in zip(block, totals, strict=True)]
    pieces = [
        Piece(f" {glyphs.level(Level.CRITICAL)} ", critical) if any(beyond) else Piece("   "),
        Piece(pad(title, form.title), Tone.PLAIN if any(beyond) else Tone.QUIET if alone else Tone.NORMAL),
    ]
    for at, total, loud in zip(block, totals, beyond, strict=True):
        spot = Spot(section, scope, metric.id, at)
        if lost[at]:
            text, tone = glyphs.dash, Tone.NORMAL
        elif isinstance(total, Missing):
            text, tone = REASON_CELLS[total.reason], level_tone(REASON_LEVELS[total.reason])
        elif total in metric.pins:
            text, tone = "pinned", Tone.PLANNED
        else:
            sign = glyphs.level(Level.CRITICAL) if loud else ""
            text, tone = sign + total_text(metric, total), critical if loud else Tone.NORMAL
        pieces += _right(cut(text, form.cell - 1, glyphs.ellipsis), form.cell, tone, spot)
    if "mark" in form.beside and view.mark is not None and not lost[focus.at]:
        since = view.mark.since(view.snapshot, scope, metric.id, part[focus.at])
        if isinstance(since, Missing):
            pieces += _beside(form, mark=(REASON_CELLS[since.reason], Tone.NORMAL))
        else:
            pieces += _beside(form, mark=(f"+{total_text(metric, since)}", Tone.PLAIN if since else Tone.QUIET))
    return tuple(pieces)
