"""One incident as rows for people: what it was, when, where, what fixed it, and what was written about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.model.incident import Status
from stethoscope.ui.present.spans import Span, Tone
from stethoscope.ui.present.wrapped import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stethoscope.model.incident import Incident
    from stethoscope.ui.present.spans import Glyphs, Row

INDENT = 10
"""Cells of the words in front of each line."""
SEVERITY_TONES = {
    Severity.P0: Tone.CRITICAL,
    Severity.P1: Tone.WARNING,
    Severity.P2: Tone.PLANNED,
    Severity.INFO: Tone.QUIET,
    Severity.NONE: Tone.QUIET,
}
STATUS_TONES = {
    Status.OPEN: Tone.WARNING,
    Status.MITIGATED: Tone.PLANNED,
    Status.RESOLVED: Tone.QUIET,
    Status.REFERENCE: Tone.QUIET,
}
STAGES = ("began", "detected", "located", "mitigated", "resolved")
"""Times of an incident in their order."""


def stamp(wall: float) -> str:
    """Return wall seconds as `2026-03-14 02:14:07` (UTC)."""
    return datetime.fromtimestamp(wall, UTC).isoformat(" ", "seconds")[:19]


def span(seconds: float) -> str:
    """Return how long something took, as a report of it says it: `22 s`, `41 m`, `1 h 52 m`, `3 d 4 h`."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} m"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60} m" if minutes % 60 else f"{minutes // 60} h"
    return f"{hours // 24} d {hours % 24} h" if hours % 24 and hours < 2400 else f"{hours // 24} d"


def took_words(incident: Incident) -> list[str]:
    """Return how long the stages took as words: `detected in 22 s`, and what cannot be told left out."""
    from stethoscope.analysis.incident_stats import spans_of  # lists and searches do without

    spans = spans_of(incident)
    told = (
        ("detected after", spans.detect_s),
        ("located in", spans.locate_s),
        ("work on after", spans.mitigate_s),
        ("repaired in", spans.repair_s),
    )
    return [f"{word} {span(seconds)}" for word, seconds in told if seconds is not None]


def incident_rows(
    incident: Incident,
    cells: int,
    glyphs: Glyphs,
    meanings: Mapping[str, str],
    linked: Sequence[tuple[str, str]] = (),
) -> list[Row]:
    """Return a whole incident as rows of at most `cells`; `meanings` are those of root causes, `linked` the incidents
    that name it, with how."""
    rows: list[Row] = [
        (
            Span(incident.id, Tone.STRONG),
            Span("  "),
            Span(incident.severity.value, SEVERITY_TONES[incident.severity]),
            Span("  "),
            Span(incident.status.value, STATUS_TONES[incident.status]),
        )
    ]
    rows += [(Span(line, Tone.TITLE),) for line in wrap(incident.title or "(no title)", cells)]
    rows.append(())
    for name, text in _named(incident, glyphs, meanings):
        rows += labelled(name, text, cells)
    for number, (other, how) in enumerate(linked):
        rows += labelled("" if number else "named by", f"{other} ({how})", cells)
    if incident.body.strip():
        rows.append(())
        rows += body_rows(incident.body, cells)
    return rows


def labelled(name: str, text: str, cells: int, tone: Tone = Tone.PLAIN) -> list[Row]:
    """Return a text of any number of lines with its name in front of the first."""
    rows: list[Row] = []
    for line in text.splitlines() or [""]:
        for part in wrap(line, cells - INDENT):
            rows.append((Span(f"{'' if rows else name:<{INDENT}}", Tone.QUIET), Span(part, tone)))
    return rows


def body_rows(body: str, cells: int) -> list[Row]:
    """Return Markdown as it stands, its headings loud; a longer line is broken below its own beginning."""
    rows: list[Row] = []
    for line in body.strip("\n").splitlines():
        text = line.expandtabs(4).rstrip()
        begin = text[: len(text) - len(text.lstrip())][: cells // 2]
        tone = Tone.TITLE if text.startswith("#") else Tone.PLAIN
        rest = begin + ("  " if text.lstrip().startswith(("- ", "* ", "+ ")) else "")
        rows += [(Span(part, tone),) for part in wrap(text, cells, begin, rest)]
    return rows


def _named(incident: Incident, glyphs: Glyphs, meanings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    cause = incident.root_cause
    told = f"{cause}: {meanings[cause]}" if cause in meanings else cause
    yield "cause", told or first_words(cause_text(incident.body)) or "nobody knows yet"
    yield from _told("part", incident.component)
    around = f" ({', '.join(incident.around)})" if incident.around else ""
    yield from _told("where", ", ".join(incident.places) + around if incident.places else around.strip(" ()"))
    yield from _told("nodes", incident.nodes)
    yield from _told("fleet", incident.fleet)
    yield from _told("job", incident.job)
    yield from _told("seen", ", ".join(incident.symptoms))
    if incident.confidence is not None:
        yield "sure", f"{incident.confidence:.0%} when it was recorded"
    for number, line in enumerate(time_lines(incident)):
        yield "" if number else "times", line
    yield from _told("took", f" {glyphs.dot} ".join(took_words(incident)))
    yield (
        "fixed by",
        incident.resolution or ("nothing yet" if incident.status is Status.OPEN else "nobody wrote it down"),
    )
    yield from _told("tags", ", ".join(incident.tags))
    for number, link in enumerate(incident.links):
        yield "" if number else "links", f"{link.how} {link.to}"
    yield from _told("author", incident.author)
    if incident.redacted:
        yield "note", f"{_counted(incident.redacted, 'secret')} taken out of its text when it was recorded"
    for key, value in incident.extra:
        yield "more" if key == incident.extra[0][0] else "", f"{key}: {value}"


def cause_text(body: str) -> str:
    """Return what the text of an incident says below a heading that is about its cause, or nothing."""
    from stethoscope.model.incident_body import sections  # lists and searches do without
    from stethoscope.specs.incident_columns import field_of

    return next((one.text for one in sections(body) if field_of(one.title) == "root_cause"), "")


def first_words(text: str, longest: int = 200) -> str:
    """Return the first line of a text that says something, without the marks of Markdown before it."""
    from stethoscope.text import clean_text

    lines = (line.replace("**", "").strip(" \t-*>") for line in clean_text(text).splitlines())
    line = next((line for line in lines if line and not line.startswith(("#", "```", "~~~"))), "")
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def time_lines(incident: Incident) -> list[str]:
    """Return the known times of an incident, `began      2026-03-14 02:10:58 UTC`, the later ones with how long after
    the first."""
    known = [(name, when) for name in STAGES if (when := getattr(incident.times, name)) is not None]
    lines = []
    for name, when in known:
        after = when - known[0][1]
        later = f"  +{span(after)}" if after >= 1 else ""
        lines.append(f"{name:<9}  {stamp(when)} UTC{later}")
    if incident.times.recorded is not None:
        lines.append(f"recorded   {stamp(incident.times.recorded)} UTC")
    return lines


def _told(name: str, text: str) -> Iterator[tuple[str, str]]:
    if text:
        yield name, text


def _counted(number: int, word: str) -> str:
    return f"1 {word} was" if number == 1 else f"{number} {word}s were"


def joined(parts: Sequence[str], glyphs: Glyphs) -> str:
    """Return parts of a line with the dot between them."""
    return f" {glyphs.dot} ".join(part for part in parts if part)
