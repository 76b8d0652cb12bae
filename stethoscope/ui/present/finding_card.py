"""The card of one finding: all that is known of it, as rows and as text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.clock import duration, from_iso, hms, iso
from stethoscope.paths import bundled
from stethoscope.text import clean
from stethoscope.ui.present.curve import CELLS, curve_of
from stethoscope.ui.present.finding_words import (
    alert_of,
    evidence_text,
    sign,
    span_words,
    standing_words,
    sure_words,
    times_words,
)
from stethoscope.ui.present.incident_alike import alike_rows, lemon_rows
from stethoscope.ui.present.lines import finding_place
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, fit, plain, spread, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stethoscope.analysis.history import History
    from stethoscope.model.finding import Fact, Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.incident import Lemon
    from stethoscope.model.night import Entry
    from stethoscope.specs.rule import Rule
    from stethoscope.ui.present.spans import Glyphs

_LABEL = 9
_WIDEST = 150
_MOST_PLACES = 12
_MOST_FACTS = 24


class Known(NamedTuple):
    """What a card is written from."""

    snapshot: FleetSnapshot
    wall: float
    history: History | None = None
    rule_of: Callable[[str], Rule | None] = lambda _: None
    """Finds a rule by its id."""
    similar: Sequence[Mapping[str, Any]] = ()
    """What looks like it in the past, as `Match.as_json` writes it."""
    lemons: Sequence[Lemon] = ()
    """Which of its places keep coming back."""


def card_rows(entry: Entry, known: Known, glyphs: Glyphs, cells: int) -> list[Row]:
    """Return all that is known of a finding; what matters most stands first."""
    wide = min(cells, _WIDEST)
    finding, now = entry.finding, known.wall
    rows = [*_head(entry, now, glyphs, wide)]
    for label, text, tone in _parts(entry, known, glyphs):
        rows += _labelled(label, text, wide, tone)
    rows += _evidence(entry, known, glyphs, wide)
    rows += lemon_rows(known.lemons, wide, _LABEL, glyphs.level(Level.WARNING))
    rows += alike_rows(known.similar, wide, _LABEL, "before")
    if alert := alert_of(finding):
        rows += _labelled("alert", alert, wide)
    for number, held in enumerate(finding.held):
        rows += _labelled("" if number else "held", f"{held}  (not called: this console changes nothing)", wide)
    rows += _rule(finding, known, wide)
    for number, line in enumerate(entry.logged):
        rows += _labelled("" if number else "log", f"{hms(line.at)} {line.text}", wide)
    for number, note in enumerate(entry.notes):
        rows += _labelled("" if number else "notes", f"{hms(note.at)} {note.by}: {note.text}", wide)
    return [fit(row, cells, glyphs.ellipsis) for row in rows]


def _head(entry: Entry, now: float, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    finding, quiet = entry.finding, entry.standing(now).value != "loud"
    text, tone = sign(finding, glyphs, quiet=quiet)
    place = cut(finding_place(finding), max(12, cells // 3), glyphs.ellipsis)
    state = standing_words(entry, now) or f"for {span_words(now - entry.since)}"
    left = (Span(text, tone), Span(f" {place}  ", Tone.STRONG))
    lines = textwrap.wrap(finding.summary, max(20, cells - width(text + place) - 4), break_on_hyphens=False) or [""]
    yield spread((*left, Span(lines[0], tone)), (Span(f"{state} ", Tone.QUIET),), cells)
    for line in lines[1:]:
        yield (Span(" " * (width(text + place) + 3)), Span(line, tone))
    if sum(width(part.text) for part in left) + width(lines[0]) + width(state) + 3 > cells:
        yield (Span(f" {'':<{_LABEL}}{state}", Tone.QUIET),)


def _parts(entry: Entry, known: Known, glyphs: Glyphs) -> Iterator[tuple[str, str, Tone]]:
    finding, now = entry.finding, known.wall
    day = iso(entry.since)
    today = iso(now)[:10] == day[:10]
    end = entry.cleared_at
    length = f"for {span_words((now if end is None else end) - entry.since)}"
    when = f"{hms(entry.since) if today else day} UTC, {length}"
    if end is not None:
        when += f", until {hms(end)}"
    yield "since", when, Tone.PLAIN
    if entry.times > 1:
        before = [f"{hms(since)} for {span_words(end - since)}" for since, end in entry.spans[:-1] if end is not None]
        more = entry.times - 1 - len(before)
        earlier = f" and {more} more" if more > 0 else ""
        yield "", f"{times_words(entry.times)}; before: {', '.join(reversed(before))}{earlier}", Tone.PLAIN
    if entry.worst.rank < finding.severity.rank:
        yield "", f"it was {entry.worst.value} at its worst", Tone.PLAIN
    yield "sure", f"{finding.confidence:.2f}  {sure_words(finding.confidence)}", Tone.PLAIN
    if finding.cause:
        others = [other for other in known.snapshot.findings if other.cause == finding.cause and other.id != finding.id]
        alike = [other for other in others if other.state == "active"]
        also = f"; {len(alike)} other finding{'s' if len(alike) > 1 else ''} with it" if alike else ""
        yield "cause", f"likely {finding.cause}, which these places share{also}", Tone.STRONG
    if finding.root_cause and finding.root_cause != "healthy":
        yield "" if finding.cause else "cause", finding.root_cause, Tone.PLAIN
    if finding.explained:
        count = finding.explained
        yield "explains", f"{count:,} other finding{'s that are' if count > 1 else ' that is'} not listed", Tone.PLAIN
    yield "where", where_text(finding), Tone.PLAIN
    if finding.offers:
        yield "offers", ", ".join(finding.offers), Tone.PLAIN
    if entry.acknowledged is not None or entry.snoozed is not None:
        said = [
            f"acknowledged by {entry.acknowledged.by} {hms(entry.acknowledged.at)} as {entry.acknowledged.severity}"
            if entry.acknowledged is not None
            else "",
            f"snoozed by {entry.snoozed.by} {hms(entry.snoozed.at)} until "
            + ("it changes" if entry.snoozed.until is None else hms(entry.snoozed.until))
            if entry.snoozed is not None
            else "",
        ]
        yield "seen", f" {glyphs.dot} ".join(filter(None, said)), Tone.PLAIN


def where_text(finding: Finding) -> str:
    """Return where a finding is: its places when they are few, else the nodes and how many places."""
    if len(finding.where) <= _MOST_PLACES:
        return ", ".join(finding.where)
    nodes = len({place.partition("/")[0] for place in finding.where})
    places = f", {len(finding.where):,} places" if len(finding.where) > nodes else ""
    return f"{finding.nodes}: {nodes:,} nodes{places}"


def _evidence(entry: Entry, known: Known, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    finding, label, is_marked = entry.finding, "evidence", False
    many = len({fact.where for fact in finding.evidence}) > 1 or len(finding.where) > 1
    for fact in finding.evidence[:_MOST_FACTS]:
        text = evidence_text(fact, known.snapshot.catalogue)
        about = [fact.where] if many and fact.where else []
        age = _age(fact, known.wall)
        about += [f"{age} old"] if age else []
        room = max(8, min(CELLS, cells - _LABEL - 36))
        curve = curve_of(known.snapshot, known.history, fact.fact, fact.where, entry.since, glyphs, room)
        if curve is not None:
            about.append(curve.text)
            is_marked |= curve.is_marked
        beside = f" {glyphs.dot} ".join(about)
        lines = _wrapped(text, cells)
        fits = len(lines) == 1 and _LABEL + 4 + width(text) + width(beside) <= cells
        for number, line in enumerate(lines):
            more = Span(f"   {beside}" if fits and beside else "", Tone.QUIET)
            yield (Span(f" {label:<{_LABEL}}", Tone.QUIET), Span(("  " if number else "") + line), more)
            label = ""
        if beside and not fits:
            yield (Span(f" {'':<{_LABEL}}  {cut(beside, cells - _LABEL - 4, glyphs.ellipsis)}", Tone.QUIET),)
    if len(finding.evidence) > _MOST_FACTS:
        yield (Span(f" {'':<{_LABEL}}and {len(finding.evidence) - _MOST_FACTS} more", Tone.QUIET),)
    if is_marked:
        yield (Span(f" {'':<{_LABEL}}| marks {hms(entry.since)}, since when it is so", Tone.QUIET),)


def _age(fact: Fact, wall: float) -> str:
    at = from_iso(fact.at)
    if at is None:
        return ""
    age = wall - at
    return duration(age) if age >= 99.5 else f"{max(0.0, age):.0f} s"


def _rule(finding: Finding, known: Known, cells: int) -> Iterator[Row]:
    rule = known.rule_of(finding.rule)
    if rule is None:
        yield from _labelled("rule", finding.rule, cells)
        return
    yield from _labelled("rule", f"{rule.id}: {rule.description}", cells)
    # A rule that ships is named as the repository has it, an operator's by its whole path.
    where = rule.where.removeprefix(f"{bundled('playbooks').parent}/")
    yield from _labelled("", f"in {where}", cells, Tone.QUIET)


def _labelled(label: str, text: str, cells: int, tone: Tone = Tone.PLAIN) -> Iterator[Row]:
    for line in _wrapped(text, cells):
        yield (Span(f" {label:<{_LABEL}}", Tone.QUIET), Span(line, tone))
        label = ""


def _wrapped(text: str, cells: int) -> list[str]:
    return textwrap.wrap(text, max(20, cells - _LABEL - 2), break_on_hyphens=False) or [""]


def card_text(entry: Entry, known: Known, glyphs: Glyphs, cells: int = 100) -> str:
    """Return the card as text."""
    return "\n".join(clean(plain(row), 4 * cells).rstrip() for row in card_rows(entry, known, glyphs, cells)) + "\n"


def card_markdown(entry: Entry, known: Known, glyphs: Glyphs) -> str:
    """Return the card as Markdown, with its own words quoted so that nothing in them is markup."""
    finding = entry.finding
    title = clean(f"{finding.severity.value} {finding_place(finding)}: {finding.summary}", 300)
    lines = [
        f"# {escaped(title)}",
        "",
        f"- finding: `{finding.id.replace('`', '')}`",
        f"- fleet: {escaped(clean(known.snapshot.fleet, 200))}",
        f"- written: {iso(known.wall)}",
        "",
        "```text",
        *(line.replace("```", "'''") for line in card_text(entry, known, glyphs).splitlines()),
        "```",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return `text` with everything quoted that is markup in Markdown."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|!" else letter for letter in text)
