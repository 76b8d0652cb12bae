"""The answer of `decode` as rows: what happened, to whom, how bad, what to check; evidence; what was read."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.ui.present.decoded_events import SEVERITY_LEVELS, also_rows, evidence_rows, ranks_text
from stethoscope.ui.present.decoded_read import read_rows
from stethoscope.ui.present.spans import Row, Span, Tone, fit, level_tone, row_width, spread
from stethoscope.ui.present.transport import transport_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stethoscope.model.finding import Fact
    from stethoscope.model.logs import Culprit, Log, LogVerdict
    from stethoscope.session.decode import Decoded
    from stethoscope.ui.present.spans import Glyphs

_INDENT = 6
_LABEL = 9
_WIDEST = 120
"""Sentences that are longer are hard to read."""
_TOLD = 60
"""A fact that holds so much of its line says nothing more than the line, which stands below."""


def answer_rows(
    decoded: Decoded,
    glyphs: Glyphs,
    width: int,
    *,
    every: bool = False,
    is_cut: bool = True,
    each_rank: bool = False,
) -> list[Row]:
    """Return the whole answer for a terminal of `width` cells, one row a line.

    `every` shows each event instead of each kind; without `is_cut` lines of the log stand in full; `each_rank` shows
    the transport of every rank.
    """
    blocks = [
        list(_verdict(decoded.verdict, glyphs, width)),
        list(_reasons(decoded, glyphs, width)),
        list(_alike(decoded, width)),
        evidence_rows(decoded, glyphs, width, every=every, is_cut=is_cut),
        transport_rows(decoded.log, glyphs, width, each=each_rank),
        [] if every else also_rows(decoded, glyphs, width),
        read_rows(decoded, glyphs, width),
    ]
    rows: list[Row] = []
    for block in blocks:
        if block:
            rows += [(), *block] if rows else block
    return [fit(row, width, glyphs.ellipsis) if row_width(row) > width else row for row in rows] if is_cut else rows


def verdict_rows(decoded: Decoded, glyphs: Glyphs, width: int) -> list[Row]:
    """Return the head of the answer: what happened, and why it is believed."""
    return [*_verdict(decoded.verdict, glyphs, width), (), *_reasons(decoded, glyphs, width)]


def _verdict(verdict: LogVerdict, glyphs: Glyphs, width: int) -> Iterator[Row]:
    level = SEVERITY_LEVELS[verdict.severity]
    tone = level_tone(level)
    word = verdict.severity.value if verdict.severity not in (Severity.INFO, Severity.NONE) else ""
    head = (
        Span(f"{glyphs.level(level)} {word:<{_INDENT - 2}}" if word else f"{glyphs.level(level)} ", tone),
        Span(verdict.root_cause, Tone.STRONG),
    )
    sure = (Span(f"sure {verdict.confidence:.2f}", Tone.QUIET),)
    yield spread(head, sure, min(width, _WIDEST)) if row_width(head) + 12 < width else head
    for line in textwrap.wrap(verdict.summary, min(width, _WIDEST) - _INDENT, break_on_hyphens=False):
        yield (Span(" " * _INDENT), Span(line, Tone.TITLE))


def _reasons(decoded: Decoded, glyphs: Glyphs, width: int) -> Iterator[Row]:
    verdict = decoded.verdict
    yield from _labelled("who", [culprits_text(verdict.culprits)] if verdict.culprits else [], width)
    yield from _labelled("because", _facts(verdict.supports, decoded.log), width)
    yield from _labelled("against", _facts(verdict.contradicts, decoded.log), width)
    checks = verdict.next_checks
    numbered = [f"{number} {check}" for number, check in enumerate(checks, 1)] if len(checks) > 1 else checks
    yield from _labelled("check", numbered, width, hang=2 if len(checks) > 1 else 0)
    yield from _labelled("settles" if verdict.root_cause != "healthy" else "not seen", verdict.missing, width)
    for number, other in enumerate(decoded.alternatives):
        text = f"{other.confidence:.2f} {other.root_cause}: {other.summary}"
        yield from _labelled("or" if not number else "", [text], width, tone=Tone.QUIET, hang=5)


def _alike(decoded: Decoded, width: int) -> Iterator[Row]:
    if decoded.similar:
        # Answers of which nobody asked the past need not wait for it.
        from stethoscope.ui.present.incident_alike import alike_rows

        matches = [match.as_json() for match in decoded.similar]
        yield from alike_rows(matches, min(width, _WIDEST), _LABEL + 1, " like")


def culprits_text(culprits: Iterable[Culprit]) -> str:
    """Return who did it in words: `gpu-007/ib/mlx5_3, rank 17`; ranks of one host together."""
    places: dict[str, list[int]] = {}
    for culprit in culprits:
        place = culprit.place or "/".join(part for part in (culprit.host, culprit.device) if part)
        ranks = places.setdefault(place, [])
        if culprit.rank is not None and culprit.rank not in ranks:
            ranks.append(culprit.rank)
    return "; ".join(", ".join(part for part in (place, ranks_text(ranks)) if part) for place, ranks in places.items())


def _facts(facts: Iterable[Fact], log: Log) -> list[str]:
    """Return the facts that say more than the line they come from."""
    texts: dict[str, list[str]] = {}
    for event in log.events:
        for place in (f"{log.files[event.file].name}:{event.line}", f"line {event.line}"):
            texts.setdefault(place, []).append(event.text)
    found: dict[str, Fact] = {}
    for fact in facts:
        lines = texts.get(fact.source, [])
        is_line = fact.fact.endswith("line of it") and any(line.startswith(str(fact.value)) for line in lines)
        if not is_line and not any(line[:_TOLD] in fact.fact for line in lines if line):
            found.setdefault(fact.fact, fact)
    return [_fact(fact) for fact in found.values()]


def _fact(fact: Fact) -> str:
    said = fact.fact
    if fact.expected and str(fact.value) not in said:
        said = f"{said}: {fact.value} (expected {fact.expected})"
    where = fact.where if fact.where and fact.where not in said else ""
    place = ", ".join(part for part in (where, fact.source.rpartition("/")[2]) if part)
    return f"{said} [{place}]" if place else said


def _labelled(label: str, texts: Iterable[str], width: int, *, hang: int = 0, tone: Tone = Tone.PLAIN) -> Iterator[Row]:
    room = max(20, min(width, _WIDEST) - _LABEL - 2)
    for text in texts:
        for number, line in enumerate(textwrap.wrap(text, room - hang, break_on_hyphens=False)):
            yield (
                Span(f"  {label:<{_LABEL}}", Tone.QUIET),
                Span((" " * hang if number else "") + line, tone),
            )
            label = ""
