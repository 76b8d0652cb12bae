"""What incidents add up to, drawn in a terminal: bars for how many, curves for when, and how long what took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.ui.present.incident_text import span, stamp
from stethoscope.ui.present.spans import Span, Tone, cut, pad
from stethoscope.ui.present.wrapped import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.analysis.incident_stats import Count, Stats, Took
    from stethoscope.model.incident import Lemon
    from stethoscope.ui.present.spans import Glyphs, Row

_NAME = 26
_NUMBER = 6
_STAGE = 10
_MOST = 15
"""Rows of one group; the rest is counted."""
_CURVE = 24
_WIDEST = 110
_WIDEST_PERIOD = 4
_PARTS = "▏▎▍▌▋▊▉█"


def stats_rows(
    stats: Stats, cells: int, glyphs: Glyphs, most: int = _MOST, lemons: Sequence[Lemon] = ()
) -> Iterator[Row]:
    """Yield the rows of what incidents add up to, at most `cells` wide; `most` rows a group, 0 for all."""
    yield (Span(_head(stats), Tone.STRONG),)
    if not stats.n:
        return
    for line in wrap(_counted(stats, glyphs), cells):
        yield (Span(line),)
    each = max(1, min(_WIDEST_PERIOD, _CURVE // max(1, len(stats.periods))))
    periods = min(len(stats.periods), _CURVE // each)
    cells = min(cells, _WIDEST)
    bar = max(6, cells - _NAME - _NUMBER - periods * each - 4)
    largest = max((count.n for counts in (stats.causes, stats.components) for count in counts), default=1)
    if periods:
        said = f"by {stats.step}, {_span_words(stats.periods[-periods:], stats.step, glyphs)}"
        yield ()
        yield (Span(f"{said:>{cells}}", Tone.QUIET),)
    for title, counts in (("cause", stats.causes), ("what was broken", stats.components)):
        yield (Span(title, Tone.TITLE),)
        kept = counts if not most else counts[:most]
        for count in kept:
            yield _bar_row(
                count, largest, bar, _curve(count.over_time[-periods:], each, glyphs) if periods else "", glyphs
            )
        if len(kept) < len(counts):
            rest = counts[len(kept) :]
            yield (Span(f"and {len(rest)} more with {sum(count.n for count in rest)}", Tone.QUIET),)
        yield ()
    yield (Span(f"{'time to':<{_STAGE}}{'median':>10}{'mean':>10}{'longest':>10}{'known of':>17}", Tone.TITLE),)
    stages = (
        ("detect", stats.detect, "fault to first sign"),
        ("locate", stats.locate, "sign to verdict"),
        ("mitigate", stats.mitigate, "sign to work on"),
        ("repair", stats.repair, "sign to whole again"),
    )
    for name, took, from_to in stages:
        yield _took_row(name, took, stats.n, from_to)
    yield ()
    yield (Span("comes back", Tone.TITLE),)
    if not stats.repeats:
        yield (Span("no node and no part came twice", Tone.QUIET),)
    kept_repeats = stats.repeats if not most else stats.repeats[:most]
    for repeat in kept_repeats:
        causes = ", ".join(f"{name} {n}" if n > 1 else name for name, n in repeat.causes)
        last = "" if repeat.last is None else f"last {stamp(repeat.last)[:10]}  "
        text = f"{pad(repeat.place, _NAME, glyphs.ellipsis)}{repeat.n:>{_NUMBER}}  {last}{causes}"
        yield (Span(cut(text, cells, glyphs.ellipsis)),)
    if len(kept_repeats) < len(stats.repeats):
        yield (Span(f"and {len(stats.repeats) - len(kept_repeats)} more", Tone.QUIET),)
    if lemons:
        yield ()
        yield (Span("lemons", Tone.TITLE),)
        for lemon in lemons[:most] if most else lemons:
            for line in wrap(lemon.advice, cells, pad(f"{lemon.place}  ", _NAME), " " * _NAME):
                yield (Span(line, Tone.WARNING),)


def _head(stats: Stats) -> str:
    left = f", {stats.references} references not counted" if stats.references else ""
    left += f", {stats.same} told twice" if stats.same else ""
    if not stats.n:
        return f"no incident{left}"
    several = "1 incident" if stats.n == 1 else f"{stats.n:,} incidents"
    if stats.first is None or stats.last is None:
        return f"{several}{left}"
    first, last = stamp(stats.first)[:10], stamp(stats.last)[:10]
    return f"{several}, {first}{left}" if first == last else f"{several}, {first} to {last}{left}"


def _counted(stats: Stats, glyphs: Glyphs) -> str:
    parts = [f"{name} {n}" for name, n in (*stats.by_status, *stats.by_severity)]
    return f" {glyphs.dot} ".join(parts)


def _bar_row(count: Count, largest: int, bar: int, curve: str, glyphs: Glyphs) -> Row:
    drawn = _bar(count.n / largest, bar, glyphs)
    return (
        Span(pad(count.name, _NAME, glyphs.ellipsis), Tone.QUIET if count.name == "unknown" else Tone.PLAIN),
        Span(f"{count.n:>{_NUMBER}}  "),
        Span(pad(drawn, bar), Tone.PLAIN),
        Span("  "),
        Span(curve, Tone.QUIET),
    )


def _bar(share: float, cells: int, glyphs: Glyphs) -> str:
    if glyphs.rule.isascii():
        return "#" * max(1, round(share * cells))
    eighths = max(1, round(share * cells * 8))
    whole, part = divmod(eighths, 8)
    return _PARTS[-1] * whole + (_PARTS[part - 1] if part else "")


def _curve(values: Sequence[int], each: int, glyphs: Glyphs) -> str:
    """Return a height of `each` cells for each period; none at all is a blank."""
    largest, steps = max(values, default=0), len(glyphs.spark) - 1
    return "".join((glyphs.spark[round(value / largest * steps)] if value else " ") * each for value in values)


def _span_words(periods: Sequence[str], step: str, glyphs: Glyphs) -> str:
    short = 4 if step == "year" else 7 if step in ("month", "quarter") else 10
    first, last = periods[0][:short], periods[-1][:short]
    return first if first == last else f"{first} {glyphs.dash} {last}"


def _took_row(name: str, took: Took | None, of: int, from_to: str) -> Row:
    if took is None:
        return (Span(f"{name:<{_STAGE}}{'not known':>10}", Tone.QUIET),)
    spans = "".join(f"{span(seconds):>10}" for seconds in (took.median_s, took.mean_s, took.longest_s))
    known = f"{took.n:,} of {of:,}"
    return (Span(f"{name:<{_STAGE}}{spans}{known:>17}"), Span(f"  {from_to}", Tone.QUIET))
