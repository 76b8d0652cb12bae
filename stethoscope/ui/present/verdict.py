"""The verdict card: at most three hypotheses, each with what speaks for it and against it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import NONE
from stethoscope.clock import hms, iso
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.text import clean
from stethoscope.ui.present.assess import SEVERITY_LEVELS
from stethoscope.ui.present.finding_card import escaped
from stethoscope.ui.present.finding_words import span_words
from stethoscope.ui.present.incident_alike import alike_rows, lemon_rows
from stethoscope.ui.present.spans import Level, Row, Span, Tone, fit, level_tone, plain, spread, width
from stethoscope.ui.present.triage import Around, age_text, broken, fact_texts, wanted_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.analysis.triage_ask import Asked
    from stethoscope.model.finding import Fact
    from stethoscope.model.incident import Lemon
    from stethoscope.model.verdict import Verdict
    from stethoscope.ui.present.spans import Glyphs

_LABEL = 11
_WIDEST = 150
_MOST_FACTS, _FEWER_FACTS, _LONGEST = 6, 3, 180
_PLACES = ("1st", "2nd", "3rd")


def verdict_title(asked: Asked, now: float, cells: int) -> Row:
    """Return the top line."""
    about = asked.place or "the whole fleet"
    left = (Span(" Verdict", Tone.TITLE), Span(f"  {about}", Tone.QUIET))
    return spread(left, (Span(f"{hms(now)} UTC ", Tone.QUIET),), cells)


def verdict_rows(asked: Asked, around: Around, glyphs: Glyphs, cells: int, lemons: Sequence[Lemon] = ()) -> list[Row]:
    """Return the card; what matters most stands first. `lemons` are the culprits that keep coming back."""
    wide, found = min(cells, _WIDEST), asked.found
    verdict = found.verdict
    rows: list[Row] = [*_head(asked, around.now, glyphs, wide)]
    for line in around.told:
        rows += _labelled("", line, wide, Tone.QUIET)
    rows.append(())
    rows += _reasons(verdict, around, glyphs, wide, _MOST_FACTS)
    rows += lemon_rows(lemons, wide, _LABEL, glyphs.level(Level.WARNING))
    rows += alike_rows(found.similar, wide, _LABEL)
    for number, one in enumerate(found.wanted):
        rows += _labelled("settle" if not number else "", wanted_words(one, around, glyphs.dot), wide)
    for line in (*around.running, *around.measured):
        rows += _labelled("", line, wide, Tone.QUIET)
    if not found.wanted and verdict.root_cause == UNKNOWN:
        rows += _labelled("settle", "nothing is known that would: keep logs and recordings", wide)
    for number, action in enumerate(found.actions):
        rows += _labelled("do" if not number else "", f"{number + 1}. {action}", wide, Tone.STRONG)
    for number, other in enumerate(found.alternatives[:2]):
        rows.append(())
        rows += _other(other, _PLACES[number + 1], around, glyphs, wide)
    for number, other in enumerate(found.also):
        if not number:
            rows.append(())
        text = f"{other.severity.value} {other.root_cause}: {other.summary}"
        rows += _labelled("also" if not number else "", text, wide, Tone.QUIET)
    if asked.steps:
        rows.append(())
        for number, step in enumerate(asked.steps):
            by = {"accepted": " (you agreed)", "chosen": " (you said so)", "skipped": " (skipped)"}.get(step.how, "")
            words = f"{step.question} {step.answer}{by}"
            rows += _labelled("the way" if not number else "", words, wide, Tone.QUIET)
    return [fit(row, cells, glyphs.ellipsis) for row in rows]


def _head(asked: Asked, now: float, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    verdict = asked.found.verdict
    level = SEVERITY_LEVELS[verdict.severity]
    tone = level_tone(level)
    word = verdict.severity.value if verdict.severity.value.startswith("P") else ""
    sign = f" {glyphs.level(level)} {word:<3}" if word else f" {glyphs.level(0)} "
    right = f"{verdict.root_cause}  {verdict.confidence:.2f} "
    text = _sentence(verdict)
    room = cells - width(sign) - 1
    fits = width(text) + width(right) + 3 <= room
    lines = broken(text, max(20, room)) or [""]
    if fits:
        yield spread((Span(sign, tone), Span(f" {lines[0]}", Tone.STRONG)), (Span(right, Tone.TITLE),), cells)
    else:
        for number, line in enumerate(lines):
            yield (Span(sign if not number else " " * width(sign), tone), Span(f" {line}", Tone.STRONG))
        yield (Span(" " * (width(sign) + 1)), Span(f"{verdict.root_cause}, sure {verdict.confidence:.2f}", Tone.TITLE))
    told = []
    if verdict.affected:
        told.append(f"{'on the nodes of' if asked.trouble == NONE else 'felt by'} {', '.join(verdict.affected)}")
    elif verdict.root_cause not in (HEALTHY, UNKNOWN):
        told.append("no job is known to feel it")
    if verdict.since is not None:
        told.append(f"since {hms(verdict.since)} UTC, for {span_words(max(0.0, now - verdict.since))}")
    # The rows about it may stand below the screen.
    before = next((str(one["id"]) for one in asked.found.similar if one.get("status") != "reference"), "")
    if before:
        told.append(f"like {clean(before, 40)}")
    if told:
        yield (Span(" " * (width(sign) + 1)), Span(f" {glyphs.dot} ".join(told), Tone.QUIET))


def _sentence(verdict: Verdict) -> str:
    if verdict.root_cause == HEALTHY:
        return "Nothing is wrong that can be seen from here"
    return verdict.summary


def _reasons(verdict: Verdict, around: Around, glyphs: Glyphs, cells: int, most: int) -> Iterator[Row]:
    label = "looked at" if verdict.root_cause == HEALTHY else "known" if verdict.root_cause == UNKNOWN else "because"
    for name, facts, room in ((label, verdict.supports, most), ("against", verdict.contradicts, 3)):
        for number, fact in enumerate(facts[:room]):
            yield from _labelled(name if not number else "", fact_words(fact, around, glyphs), cells)
    for number, (cause, because) in enumerate(verdict.rules_out):
        yield from _labelled("not" if not number else "", f"{cause}: {because}", cells)


def _other(verdict: Verdict, place: str, around: Around, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    head = f"{verdict.confidence:.2f}  {verdict.root_cause}  {verdict.summary}"
    yield from _labelled(f"{place} guess", head, cells, Tone.STRONG)
    yield from _reasons(verdict, around, glyphs, cells, _FEWER_FACTS)
    if verdict.next_checks:
        yield from _labelled("settle", ", ".join(verdict.next_checks), cells)


def fact_words(fact: Fact, around: Around, glyphs: Glyphs) -> str:
    """Return a fact as one line: what, value, expected, where, age."""
    what, value = fact_texts(fact, around)
    text = f"{what}: {value}" if value else what
    expected = f"expected {fact.expected}" if fact.expected else ""
    age = f"{age_text(fact.at, around.now, glyphs)} ago" if fact.at else ""
    return f" {glyphs.dot} ".join(part for part in (text, expected, fact.where, age) if part)


def _labelled(label: str, text: str, cells: int, tone: Tone = Tone.PLAIN) -> Iterator[Row]:
    lines = broken(text[: 2 * _LONGEST], max(20, cells - _LABEL - 3), max_lines=3)
    for line in lines or [""]:
        yield (Span(f" {label:<{_LABEL}}", Tone.QUIET), Span(line, tone))
        label = ""


# ---- out of the console


def verdict_text(asked: Asked, around: Around, glyphs: Glyphs, cells: int = 110, lemons: Sequence[Lemon] = ()) -> str:
    """Return the card as text."""
    rows: Sequence[Row] = verdict_rows(asked, around, glyphs, cells, lemons)
    return "\n".join(clean(plain(row), 4 * cells).rstrip() for row in rows) + "\n"


def verdict_markdown(asked: Asked, fleet: str, around: Around, glyphs: Glyphs, lemons: Sequence[Lemon] = ()) -> str:
    """Return the card as Markdown, its own words quoted so that nothing in them is markup."""
    verdict = asked.found.verdict
    severity = f"{verdict.severity.value} " if verdict.severity.value.startswith("P") else ""
    lines = [
        f"# {escaped(clean(f'{severity}{verdict.root_cause}: {_sentence(verdict)}', 300))}",
        "",
        f"- fleet: {escaped(clean(fleet, 200))}",
        f"- about: {escaped(clean(asked.place or 'the whole fleet', 200))}",
        f"- written: {iso(around.now)}",
        "",
        "```text",
        *(line.replace("```", "'''") for line in verdict_text(asked, around, glyphs, lemons=lemons).splitlines()),
        "```",
    ]
    return "\n".join(lines) + "\n"
