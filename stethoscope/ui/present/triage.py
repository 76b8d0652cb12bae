"""One step of the guided triage: the question, the facts, the answer that they give, and what could be measured."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.analysis.triage_ask import CHOSEN, SKIPPED
from stethoscope.analysis.triage_flow import NOT_KNOWN
from stethoscope.clock import duration, from_iso, hms
from stethoscope.errors import StethoscopeError
from stethoscope.model.ids import node_of
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.ui.present.numbers import fact_cells
from stethoscope.ui.present.probe import cost
from stethoscope.ui.present.spans import Row, Span, Tone, cut, fit, pad, spread, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stethoscope.analysis.triage_ask import Asked, AskStep, Weighed
    from stethoscope.model.finding import Fact
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric
    from stethoscope.model.verdict import Verdict, Wanted
    from stethoscope.session.ondemand import OnDemandRuns
    from stethoscope.ui.present.spans import Glyphs

WIDE = 110
"""From so many cells on a fact is one line of a table."""
_WIDEST = 160
_VALUE, _EXPECTED, _WHERE, _AGE = 20, 18, 24, 6
_SHOWN_S = 300.0
"""For so long it is said what was measured."""
_UNITS = re.compile(
    r"(?<=\d) (?=(?:[smhd]|ms|[kMG]?Hz|[kMGT]?i?B|[GM]b/s|[GM]B/s|W|°C|dBm|events?|times)\b|%)|(?<=\d [smh]) (?=ago\b)"
)
"""Blanks at which a line does not end."""
_TONES = {"+": Tone.PLAIN, "-": Tone.WARNING, "?": Tone.QUIET}


class Around(NamedTuple):
    """What a step is shown with."""

    catalogue: Mapping[str, Metric]
    now: float
    costs: Mapping[str, str]
    """What running costs, of each probe that the console can run."""
    why_not: str = ""
    """Why nothing can be run here at all."""
    running: tuple[str, ...] = ()
    """What is being measured now, in words."""
    measured: tuple[str, ...] = ()
    """What was measured, in words."""
    told: tuple[str, ...] = ()
    """What else one should know: that answers of before were resumed, that one has not watched for long."""
    lost: Mapping[str, float] = {}
    """Nodes that do not answer, and since when (wall seconds): nobody knows now what they said before."""

    def lost_s(self, fact: Fact) -> float | None:
        """Return for how long the node of a fact has been lost that was seen before that, None for any other."""
        since = self.lost.get(node_of(fact.where)) if fact.where else None
        seen = from_iso(fact.at)
        return None if since is None or (seen is not None and seen > since + 1) else max(0.0, self.now - since)


def broken(text: str, cells: int, *, max_lines: int | None = None, placeholder: str = " ...") -> list[str]:
    """Return a text in lines of at most `cells`, no number parted from its unit."""
    whole = _UNITS.sub("\u00a0", text)
    lines = textwrap.wrap(whole, cells, break_on_hyphens=False, max_lines=max_lines, placeholder=placeholder)
    return [line.replace("\u00a0", " ") for line in lines]


def around_of(
    snapshot: FleetSnapshot,
    now: float,
    runs: OnDemandRuns | None,
    mono: float,
    *,
    why_not: str = "",
    told: tuple[str, ...] = (),
) -> Around:
    """Return what a step is shown with where `runs` measures, None for nothing that does, which `why_not` tells."""
    catalogue = snapshot.catalogue
    lost = {
        node.name: node.link.since
        for node in snapshot.nodes
        if node.frames and not (node.link.state.is_live or node.link.state.is_pending)
    }
    if runs is None:
        return Around(catalogue, now, {}, why_not, told=told, lost=lost)
    why_not, costs = why_not or runs.why_not, {}
    try:
        costs = {probe.id: cost(probe) for probe in runs.probes.values()}
    except StethoscopeError as error:
        why_not = str(error)
    last = sorted(runs.results.values(), key=lambda result: -result.at)[:3]
    measured = tuple(
        f"measured {result.probe} at {result.aim.place or result.aim.node}: {result.status.value}, "
        f"{max(0.0, now - result.at):.0f} s ago"
        for result in last
        if now - result.at < _SHOWN_S
    )
    running = tuple(batch.progress(mono) for batch in runs.batches)
    return Around(catalogue, now, costs, why_not, running, measured, told, lost)


def triage_title(asked: Asked | None, focus: str, now: float, cells: int) -> Row:
    """Return the top line: which flow, about whom."""
    about = (asked.place if asked is not None else "") or focus or "the whole fleet"
    words = asked.title if asked is not None else ""
    left = (Span(" Triage", Tone.TITLE), Span(f"  {words}" if words else ""), Span(f"  {about}", Tone.QUIET))
    return spread(left, (Span(f"{hms(now)} UTC ", Tone.QUIET),), cells)


def crumbs(asked: Asked, cells: int, glyphs: Glyphs) -> Row:
    """Return the way through the flow: what was answered, where one stands, what comes."""
    row: list[Span] = [Span(" ")]
    for number, step in enumerate(asked.steps):
        if number:
            row.append(Span(" > ", Tone.QUIET))
        if step.how:
            said = "skipped" if step.how == SKIPPED else step.answer
            row += [Span(f"{step.id}: ", Tone.QUIET), Span(said, Tone.STRONG if step.how == CHOSEN else Tone.PLAIN)]
        elif number == asked.at:
            row.append(Span(f"{step.id} ?", Tone.TITLE))
        else:
            row.append(Span(step.id, Tone.QUIET))
    row += [Span(" > ", Tone.QUIET), Span("verdict", Tone.TITLE if asked.at == len(asked.steps) else Tone.QUIET)]
    return fit(row, cells, glyphs.ellipsis)


def step_rows(asked: Asked, around: Around, glyphs: Glyphs, cells: int, *, why: bool = False) -> list[Row]:
    """Return the step that is to be answered, or that there is none."""
    wide = min(cells, _WIDEST)
    rows: list[Row] = [crumbs(asked, wide, glyphs), ()]
    rows[1:1] = [(Span(f" {line}", Tone.QUIET),) for told in around.told for line in broken(told, wide - 2)]
    if asked.at >= len(asked.steps):
        rows += _end(asked, wide)
        return [fit(row, cells, glyphs.ellipsis) for row in rows]
    step = asked.steps[asked.at]
    rows += [
        (Span(f" {asked.at + 1}  " if not number else "    ", Tone.TITLE), Span(line, Tone.STRONG))
        for number, line in enumerate(broken(step.question, wide - 6))
    ]
    rows.append(())
    rows += fact_rows(step.facts, around, glyphs, wide, asked.place)
    if not step.facts:
        rows.append((Span("    nothing that was looked at speaks for an answer", Tone.QUIET),))
    rows.append(())
    rows += _proposal(step, asked, wide)
    rows += _measurable(step.wanted, around, glyphs, wide)
    if why:
        rows += [(), *_why(step, asked, wide)]
    return [fit(row, cells, glyphs.ellipsis) for row in rows]


def _end(asked: Asked, cells: int) -> Iterator[Row]:
    verdict = asked.found.verdict
    if not asked.steps:
        words = "No flow asks about what is there."
    elif verdict.root_cause == HEALTHY:
        words = "All questions are answered."
    else:
        words = "All questions are answered: enter shows the verdict."
    yield (Span(f" {words}", Tone.STRONG),)
    yield ()
    for line in broken(verdict_sentence(verdict), cells - 4):
        yield (Span(f"    {line}"),)


def verdict_sentence(verdict: Verdict) -> str:
    """Return a verdict as one sentence with how sure it is."""
    return f"{verdict.summary.rstrip('.')}.  Sure {verdict.confidence:.2f}."


# ---- facts


def fact_rows(facts: Sequence[Weighed], around: Around, glyphs: Glyphs, cells: int, place: str = "") -> list[Row]:
    """Return facts as a table: what they do to the answer, what, value, expected, where, age; `place` is what all of
    it is about."""
    facts = [each if around.lost_s(each.fact) is None else replace(each, sign="?") for each in facts]
    rows: list[Row] = []
    if cells >= WIDE and facts:
        what = cells - _VALUE - _EXPECTED - _WHERE - _AGE - 14
        head = f"{'':<{what + 8}}{'value':<{_VALUE}}  {'expected':<{_EXPECTED}}  {'where':<{_WHERE}}  age"
        rows.append((Span(head, Tone.QUIET),))
        for each in facts:
            rows += _wide(each, around, glyphs, what)
        return rows
    for each in facts:
        rows += _narrow(each, around, glyphs, cells, place)
    return rows


def _wide(each: Weighed, around: Around, glyphs: Glyphs, room: int) -> Iterator[Row]:
    what, value = fact_texts(each.fact, around)
    lines = broken(what, room) or [""]
    short = width(value) <= _VALUE
    tone = _TONES.get(each.sign, Tone.PLAIN)
    for number, line in enumerate(lines):
        if number:
            yield (Span(f"      {line}", tone),)
            continue
        yield (
            Span(f"    {_sign(each.sign)} ", tone),
            Span(f"{pad(line, room)}  ", tone),
            Span(f"{pad(value if short else '', _VALUE)}  ", tone),
            Span(f"{pad(each.fact.expected, _EXPECTED, glyphs.ellipsis)}  ", Tone.QUIET),
            Span(f"{pad(each.fact.where, _WHERE, glyphs.ellipsis)}  ", Tone.QUIET),
            Span(age_text(each.fact.at, around.now, glyphs), Tone.QUIET),
        )
    if not short:
        yield (Span(f"      {cut(value, room + _VALUE + _EXPECTED, glyphs.ellipsis)}", Tone.QUIET),)


def _narrow(each: Weighed, around: Around, glyphs: Glyphs, cells: int, place: str) -> Iterator[Row]:
    what, value = fact_texts(each.fact, around)
    tone = _TONES.get(each.sign, Tone.PLAIN)
    beside = [f"expected {each.fact.expected}" if each.fact.expected else "", each.fact.where]
    age = age_text(each.fact.at, around.now, glyphs)
    beside += [f"{age} ago" if each.fact.at else ""]
    text = f"{what}: {value}" if value else what
    lines = broken(text, cells - 8, max_lines=2, placeholder=glyphs.ellipsis) or [""]
    for number, line in enumerate(lines):
        yield (Span(f"    {_sign(each.sign)} " if not number else "      ", tone), Span(line, tone))
    words = f" {glyphs.dot} ".join(part for part in beside if part)
    if words and words != place:
        yield (Span(f"      {words}", Tone.QUIET),)


def fact_texts(fact: Fact, around: Around) -> tuple[str, str]:
    """Return what a fact is about and its value, as far as anybody knows it now."""
    what, value = fact_cells(fact, around.catalogue)
    lost_s = around.lost_s(fact)
    if lost_s is None:
        return what, value
    was = f", was {value}" if value else ""
    return what, f"unknown: lost {duration(lost_s) if lost_s >= 99.5 else f'{lost_s:.0f} s'} ago{was}"


def _sign(sign: str) -> str:
    return "−" if sign == "-" else sign


def age_text(at: str, now: float, glyphs: Glyphs) -> str:
    """Return how old something is that was seen at the ISO time `at`; a dash where nobody says."""
    moment = from_iso(at)
    if moment is None:
        return glyphs.dash
    age_s = max(0.0, now - moment)
    return duration(age_s) if age_s >= 99.5 else f"{age_s:.0f} s"


# ---- the answer, and what would settle it


def _proposal(step: AskStep, asked: Asked, cells: int) -> Iterator[Row]:
    verdict = asked.found.verdict
    if step.proposed == NOT_KNOWN:
        words, sure = "I cannot tell from what is there.", ""
    else:
        because = f". {verdict.summary.rstrip('.')}" if step.decides and verdict.root_cause != UNKNOWN else ""
        words = f"I would say: {step.proposed}{because}."
        sure = f"  Sure {step.confidence:.2f}."
    settled = ", ".join(dict.fromkeys(one.probe for one in step.wanted))
    more = f" Measuring {settled} would settle it." if settled and step.confidence < 0.9 else ""
    for line in broken(f"{words}{sure}{more}", cells - 6):
        yield (Span(f"    {line}", Tone.STRONG),)


def wanted_words(one: Wanted, around: Around, dot: str) -> str:
    """Return a measurement in words: what would be run where, what it settles, what it costs."""
    if node_of(one.place) in around.lost:
        return f"{one.probe} at {one.place}: {one.settles} (not now: {node_of(one.place)} does not answer)"
    if one.probe in around.costs and not around.why_not:
        return f"{one.probe} at {one.place}: {one.settles} ({around.costs[one.probe].replace('·', dot)})"
    by_hand = one.command or one.probe
    return f"by hand at {one.place}: {by_hand}: {one.settles}"


def _measurable(wanted: Sequence[Wanted], around: Around, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    said = [*around.running, *around.measured]
    if wanted or said:
        yield ()
    for line in said:
        yield (Span(f"    {cut(line, cells - 6, glyphs.ellipsis)}", Tone.QUIET),)
    label = "m "
    for one in wanted:
        runs = one.probe in around.costs and not around.why_not and node_of(one.place) not in around.lost
        lines = broken(wanted_words(one, around, glyphs.dot), cells - 8)
        for number, line in enumerate(lines):
            key = label if runs and not number else "  "
            yield (Span(f"    {key}", Tone.KEY), Span(line, Tone.QUIET))
        label = "  " if runs else label
    if wanted and around.why_not:
        yield (Span(f"    nothing can be measured from here: {around.why_not}", Tone.QUIET),)


def _why(step: AskStep, asked: Asked, cells: int) -> Iterator[Row]:
    where = f" ({asked.file.rpartition('/')[2]})" if asked.file else ""
    words = f"why: the flow {asked.flow}{where}, step {step.id}, takes the first answer whose condition holds"
    for line in broken(words, cells - 6):
        yield (Span(f"    {line}", Tone.QUIET),)
    for text in step.why:
        for number, line in enumerate(broken(text, cells - 10)):
            yield (Span(f"      {'  ' if number else ''}{line}", Tone.PLAIN if text.startswith("+") else Tone.QUIET),)
