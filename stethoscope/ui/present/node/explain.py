"""The lines below the node screen: everything that is known of what the cursor stands on."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.clock import duration, hms
from stethoscope.model.metric import REASON_WORDS, Kind, Missing, Reason, Scope
from stethoscope.text import clean
from stethoscope.ui.present.assess import peers_median
from stethoscope.ui.present.node.judge import COMPARED, MAXIMA, expectation, limit_text
from stethoscope.ui.present.node.trend import trend_text
from stethoscope.ui.present.numbers import total_text, value_text
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, level_tone, width

if TYPE_CHECKING:
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.node.view import Spot, View

_SHARE_S = 300.0
"""Throttle reasons are told with how much of this time they took."""
_REASONS = {
    Reason.UNSUPPORTED: "not given by this device, driver or kernel",
    Reason.PERMISSION: "this user may not read it",
    Reason.HUNG: "the driver does not answer",
    Reason.LOST: "the device does not answer any more",
    Reason.ERROR: "could not be read",
    Reason.UNREACHABLE: "the node cannot be reached",
    Reason.ONE_READING: "a rate needs a second reading",
    Reason.RESET: "the counter went back: the rate of this interval is not known",
    Reason.SATURATED: "the counter stands at its highest value: it cannot tell of more",
    Reason.WAITING: "not read yet",
    Reason.ABSENT: "there is no such device here",
}
_TIMES = {0x4: "sw_power_cap", 0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake"}
"""Bits of the throttle reasons whose time the driver counts."""


class Said(NamedTuple):
    """One thing that is said."""

    text: str
    tone: Tone = Tone.QUIET


def explain(view: View, spot: Spot | None, words: str, cells: int, height: int) -> list[Row]:
    """Return exactly `height` rows about `spot`; `words` are those that stand there, where it is no value."""
    if spot is None:
        return [()] * height
    if not spot.is_value:
        said = [Said(words, Tone.PLAIN)] if words else []
        if spot.is_section:
            said.append(Said("enter opens and closes this section, a all of them"))
        return _packed(view, said, cells, height)
    return _packed(view, about_value(view, spot, cells), cells, height)


def _packed(view: View, parts: list[Said], cells: int, height: int) -> list[Row]:
    """Return parts one after the other with dots between them, a part on the next row when it does not fit."""
    rows: list[list[Span]] = [[Span(" ")]]
    used = 1
    room = cells - 1
    dot = f" {view.glyphs.dot} "
    queue = list(parts)
    while queue:
        text, tone = queue.pop(0)
        lead = dot if used > 1 else ""
        if used + width(lead + text) <= room:
            rows[-1] += [Span(lead, Tone.QUIET), Span(text, tone)]
            used += width(lead + text)
        elif len(rows) < height:
            if used == 1:
                kept = _words_that_fit(text, room - 1)
                rows[-1].append(Span(kept, tone))
                queue.insert(0, Said(text[len(kept) :].lstrip(), tone))
            else:
                queue.insert(0, Said(text, tone))
            rows.append([Span(" ")])
            used = 1
        else:
            rows[-1].append(Span(cut(lead + text, room - used, view.glyphs.ellipsis), tone))
            break
    return [tuple(row) for row in rows] + [()] * (height - len(rows))


def _words_that_fit(text: str, cells: int) -> str:
    kept = ""
    for word in text.split(" "):
        more = f"{kept} {word}" if kept else word
        if width(more) > cells:
            break
        kept = more
    return kept or cut(text, cells, "")


def about_value(view: View, spot: Spot, cells: int) -> list[Said]:
    """Return everything that is known of a value, the most important first."""
    assert spot.scope is not None
    snapshot, node = view.snapshot, view.node
    metric, rows = snapshot.catalogue[spot.metric], snapshot.rows(node, spot.scope)
    if spot.position >= len(rows):
        return [Said("this device is gone", Tone.LOST)]
    row, table = rows[spot.position], snapshot.tables[spot.scope]
    value = table.get(metric.id, row)
    level = int(view.metric_levels(metric)[spot.position]) if metric.id != "node_data_age" else 0
    text = value_text(metric, value)
    tone = level_tone(level) if level > Level.MISSING else Tone.PLAIN
    parts = [
        Said(snapshot.place(node, spot.scope, spot.position), Tone.STRONG),
        Said(f"{metric.title} {text}", tone),
    ]
    if isinstance(value, Missing):
        parts.append(Said(_REASONS.get(value.reason, REASON_WORDS[value.reason]), tone))
    elif level > Level.MISSING and limit_text(metric, level):
        parts.append(Said(limit_text(metric, level), tone))
    parts += _compared(view, spot, metric, value, row)
    parts += _aged(view, metric)
    if metric.kind is Kind.COUNTER:
        parts += _counted(view, spot, metric, row)
    if metric.id == "gpu_clocks_event_reasons" and not isinstance(value, Missing) and isfinite(value):
        parts += _throttled(view, spot, row, int(value))
    if metric.id == "gpu_temp" and "gpu_temp_margin" in table.index:
        margin = table.get("gpu_temp_margin", row)
        if not isinstance(margin, Missing):
            words = (
                "left until the clocks are lowered" if margin >= 0 else "over the point where the clocks are lowered"
            )
            parts.append(Said(f"margin {abs(margin):.0f} °C {words}"))
    if view.past is not None:
        trend = trend_text(metric, view.past.series(spot.scope, metric.id, row), min(60, cells - 4), view.glyphs)
        if trend:
            parts.append(Said(trend, Tone.PLAIN))
    if metric.meaning:
        parts.append(Said(metric.meaning))
    return parts


def _compared(view: View, spot: Spot, metric: Metric, value: float | Missing, row: int) -> list[Said]:
    assert spot.scope is not None
    if metric.id in COMPARED.get(spot.scope, ()) or metric.id in MAXIMA:
        expected = expectation(view, spot.scope, metric.id, spot.position)
        if expected is not None:
            low = not isinstance(value, Missing) and value < expected.value
            said = (
                f"{value_text(metric, expected.value)} at {expected.source}"
                if expected.agree
                else (f"{expected.whose} {value_text(metric, expected.value)}")
            )
            return [Said(said, Tone.WARNING if low else Tone.QUIET)]
    if isinstance(value, Missing) or metric.bitmask or metric.kind is Kind.INFO or metric.id == "boot_time":
        return []
    median = peers_median(view.assessment, spot.scope, metric.id, row)
    return [Said(f"peers {value_text(metric, median)}")] if median is not None else []


def _aged(view: View, metric: Metric) -> list[Said]:
    """Return how old a value is, when that is more than its interval."""
    mono = view.assessment.now_mono
    age_s = view.snapshot.age_s(view.node, metric.id, mono)
    if age_s is None or not view.snapshot.is_stale(view.node, metric.id, mono):
        return []
    part = view.node.parts.get(metric.group)
    usual = f", usually every {duration(part.every_s)}" if part is not None else ""
    return [Said(f"read {duration(age_s)} ago{usual}".replace(".0 s", " s"), Tone.STALE)]


def _counted(view: View, spot: Spot, metric: Metric, row: int) -> list[Said]:
    """Return what a counter counted: since connected, since the mark, in all."""
    assert spot.scope is not None
    table = view.snapshot.tables[spot.scope]
    place = table.counter_index[metric.id]
    total = table.total(metric.id, row)
    if isinstance(total, Missing):
        return []
    parts = []
    first_at = float(table.first_at[row])
    if first_at == first_at:
        since = int(table.since_first[place, row])
        parts.append(Said(f"+{total_text(metric, since)} in {duration(view.wall - first_at)} since connected"))
    parts += _since_mark(view, spot, metric)
    parts.append(Said(f"total {total_text(metric, total)}"))
    if total in metric.pins:
        parts.append(Said("pinned: stands at its highest value and cannot tell of more", Tone.PLANNED))
    return parts


def _since_mark(view: View, spot: Spot, metric: Metric) -> list[Said]:
    mark = view.mark
    if mark is None:
        return []
    row = view.snapshot.rows(view.node, metric.scope)[spot.position]
    since = mark.since(view.snapshot, metric.scope, metric.id, row)
    when = f"since mark {hms(mark.wall)}"
    if isinstance(since, Missing):
        return [Said(f"{_SINCE.get(since.reason, REASON_WORDS[since.reason])} {when}")]
    remark = mark.remark(view.node)
    text = f"+{total_text(metric, since)} {when}" + (f" ({remark})" if remark else "")
    return [Said(text, Tone.PLAIN if since else Tone.QUIET)]


_SINCE = {
    Reason.RESET: "counter set back",
    Reason.ABSENT: "another device",
    Reason.WAITING: "not known",
    Reason.SATURATED: "pinned",
}


def _throttled(view: View, spot: Spot, row: int, code: int) -> list[Said]:
    """Return each reason that is set or was, in words, with how much of the last minutes it took."""
    assert spot.scope is not None
    metric, table = view.snapshot.catalogue[spot.metric], view.snapshot.tables[Scope.GPU]
    parts = []
    for bit, word in metric.words:
        share = view.past.share(spot.scope, metric.id, row, bit, _SHARE_S) if view.past is not None else None
        counted = f"gpu_throttle_time_{_TIMES[bit]}" if bit in _TIMES else ""
        exact = table.get(counted, row) if counted in table.index else Missing(Reason.ABSENT)
        if not isinstance(exact, Missing):
            timed = view.snapshot.catalogue[counted]
            if code & bit or exact > 0:
                parts.append(Said(f"{word} {value_text(timed, exact)} of the time since the last reading", Tone.PLAIN))
        elif code & bit or share:
            took = f", {share:.0%} of the last {_SHARE_S / 60:.0f} min" if share is not None else ""
            parts.append(Said(f"{word}{took}", Tone.PLAIN))
    return parts


def as_text(view: View, spot: Spot, words: str) -> str:
    """Return what stands under the cursor as one line for the clipboard."""
    if not spot.is_value:
        return clean(words, 4000)
    return clean(f" {view.glyphs.dot} ".join(part.text for part in about_value(view, spot, 120)), 4000)
