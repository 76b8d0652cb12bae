"""Incidents as one file for the morning: what happened when, what shows it, why, what mended it, what prevents it.

Markdown is made here; HTML is that Markdown, rendered without anything that a text of an incident could make a
browser do: raw HTML is shown as text, pictures are left out, there is no script and nothing is fetched.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from stethoscope.clock import iso
from stethoscope.model.incident import Status
from stethoscope.model.incident_body import lines_of, sections
from stethoscope.specs.incident_columns import field_of
from stethoscope.text import clean, clean_text
from stethoscope.ui.present.incident_text import STAGES, first_words, span, stamp, took_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stethoscope.model.incident import Incident

_CHAPTERS = {
    "summary": "summary", "impact": "impact", "timeline": "timeline", "evidence": "evidence", "symptoms": "evidence",
    "root_cause": "cause", "resolution": "fix", "done": "fix", "prevention": "prevention",
}  # fmt: skip
"""Field that a heading stands for -> chapter."""
_ALSO = {
    "events": "timeline", "what was seen": "evidence", "path": "cause", "analysis": "cause", "排查过程": "cause",
    "处理过程": "fix", "预防": "prevention",
}  # fmt: skip
_MOST_PLACES = 3
_HEADING = re.compile(r"( {0,3})(#{1,6})(?=[ \t])")
_STAGE_WORDS = {
    "began": "it began",
    "detected": "first seen",
    "located": "place and cause known",
    "mitigated": "work went on",
    "resolved": "whole again",
}


def report_md(incidents: Sequence[Incident], meanings: Mapping[str, str], now: float) -> str:
    """Return incidents as Markdown, ending in a line feed; several begin with a table of them. `meanings` are those of
    root causes."""
    if len(incidents) == 1:
        return "\n".join([*_incident(incidents[0], meanings, 1, now), "---", "", _foot(now), ""])
    lines = [f"# {len(incidents)} incidents", ""]
    if incidents:
        lines += [
            ", ".join(f"{n} {status}" for status, n in Counter(one.status.value for one in incidents).items()),
            "",
        ]
        rows = [
            (one.id, _day(one), one.severity.value, one.status.value, one.title, one.root_cause, ", ".join(one.places))
            for one in incidents
        ]
        lines += [*_table(("id", "when", "severity", "status", "what", "cause", "where"), rows), ""]
    for one in incidents:
        lines += _incident(one, meanings, 2, now)
    return "\n".join([*lines, "---", "", _foot(now), ""])


def report_html(incidents: Sequence[Incident], meanings: Mapping[str, str], now: float) -> str:
    """Return the same as one HTML page that needs nothing beside itself."""
    title = f"{incidents[0].id} {clean(incidents[0].title)}" if len(incidents) == 1 else f"{len(incidents)} incidents"
    return _PAGE.format(title=html.escape(title), style=_STYLE, content=_rendered(report_md(incidents, meanings, now)))


def _rendered(markdown: str) -> str:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
    renderer: Any = reader.renderer
    # Whom a link leads to learns nothing of the page that it stands on.
    renderer.rules["link_open"] = _link
    return str(reader.render(markdown))


def _link(tokens: Any, index: int, _options: Any, _env: Any) -> str:
    target = str(tokens[index].attrGet("href") or "")
    return f'<a href="{html.escape(target)}" rel="noopener noreferrer">'


def _incident(one: Incident, meanings: Mapping[str, str], level: int, now: float) -> Iterator[str]:
    head = "#" * level
    yield f"{head} {_inline(one.id)}: {_inline(one.title) or '(no title)'}"
    yield ""
    told = {"summary": "", "impact": "", "timeline": "", "evidence": "", "cause": "", "fix": "", "prevention": ""}
    rest = []
    for section in sections(clean_text(one.body)):
        chapter, text = _chapter_of(section.title), _below(section.text, level + 2)
        if chapter is None:
            rest.append((section.title, text))
        elif text and text != one.resolution.strip():
            # What an imported text says in a chapter of its own, and the field besides, is said once.
            named = f"{head}## {_inline(section.title)}\n\n{text}" if chapter != section.title.casefold() else text
            told[chapter] += f"\n\n{named}" if told[chapter] else named
    yield _in_short(one, meanings, told["cause"], now)
    yield ""
    yield from _table(("", ""), [(name, text) for name, text in _facts(one) if text])
    yield ""
    if one.symptoms:
        told["evidence"] = f"Seen: {', '.join(_code(name) for name in one.symptoms)}\n\n{told['evidence']}"
    if one.resolution:
        told["fix"] = f"{_closed(clean_text(one.resolution))}\n\n{told['fix']}"
    if one.root_cause or not told["cause"]:
        told["cause"] = f"{_cause(one, meanings)}\n\n{told['cause']}"
    told["timeline"] = f"{_timeline(one)}\n\n{told['timeline']}"
    for chapter, text in told.items():
        if not text and chapter in ("summary", "impact"):
            continue
        yield f"{head}# {chapter.capitalize()}"
        yield ""
        yield text.strip("\n") or "Nothing is written down."
        yield ""
    for title, text in rest:
        yield f"{head}# {_inline(title) if title else 'Notes'}"
        yield ""
        yield text
        yield ""


def _in_short(one: Incident, meanings: Mapping[str, str], cause: str, now: float) -> str:
    """Return what somebody has to know who reads no further: whether it is over, what it was, what fixed it; `cause` is
    what its text says of that."""
    where = f" on {', '.join(map(_code, one.places[:_MOST_PLACES]))}" if one.places else ""
    more = f" and {len(one.places) - _MOST_PLACES} more" if len(one.places) > _MOST_PLACES else ""
    if one.root_cause:
        meaning = f": {meanings[one.root_cause]}" if one.root_cause in meanings else ""
        was = f"It {'is' if one.is_reference else 'was'} {_code(one.root_cause)}{where}{more}{meaning}."
    else:
        was = f"What it was: {_first(cause)}" if _first(cause) else "What it was is not known."
    helped = {Status.RESOLVED: "What fixed it", Status.REFERENCE: "What helps"}.get(one.status, "What helped so far")
    fixed = f"{helped}: {_first(one.resolution)}" if _first(one.resolution) else ""
    # A line each: whoever reads it in an editor, in a mail or on a page sees them apart.
    return "  \n".join(part for part in (_how_far(one, now), was, fixed) if part)


def _how_far(one: Incident, now: float) -> str:
    times = one.times
    word, began = ("it began", times.began) if times.began is not None else ("it was seen", times.detected)
    if one.status is Status.REFERENCE:
        return "**A well-known kind**, no night of this fleet."
    if one.status is Status.RESOLVED:
        if times.resolved is None or began is None or times.resolved < began:
            return "**Resolved**."
        return f"**Resolved** {span(times.resolved - began)} after {word}."
    if one.status is Status.MITIGATED:
        since = "" if times.mitigated is None else f" since {stamp(times.mitigated)[:16]} UTC"
        return f"**Mitigated**: work goes on{since}, but what was broken is not whole yet."
    return (
        "**Open**." if began is None else f"**Open** for {span(max(0.0, now - began))}, since {stamp(began)[:16]} UTC."
    )


def _first(text: str) -> str:
    return _inline(first_words(text))


def _facts(one: Incident) -> Iterator[tuple[str, str]]:
    yield "status", one.status.value
    yield "severity", one.severity.value
    yield "what was broken", one.component
    yield "where", ", ".join(map(_code, one.places))
    yield "around it", ", ".join(map(_code, one.around))
    yield "nodes", _code(one.nodes) if one.nodes else ""
    yield "fleet", one.fleet
    yield "job", one.job
    yield "took", ", ".join(took_words(one))
    yield "tags", ", ".join(one.tags)
    yield "links", ", ".join(f"{link.how} {link.to}" for link in one.links)
    yield "author", one.author
    if one.redacted:
        yield (
            "note",
            f"{one.redacted} secrets were taken out of the text"
            if one.redacted > 1
            else ("1 secret was taken out of the text"),
        )


def _cause(one: Incident, meanings: Mapping[str, str]) -> str:
    if not one.root_cause:
        return "Not known."
    sure = "" if one.confidence is None else f" ({one.confidence:.0%} sure when it was recorded)"
    meaning = f": {meanings[one.root_cause]}" if one.root_cause in meanings else ""
    return f"{_code(one.root_cause)}{meaning}{sure}."


def _timeline(one: Incident) -> str:
    known = [(name, when) for name in STAGES if (when := getattr(one.times, name)) is not None]
    if not known:
        return "No time is known."
    rows = [
        (stamp(when), "" if when < known[0][1] + 1 else f"+{span(when - known[0][1])}", _STAGE_WORDS[name])
        for name, when in known
    ]
    return "\n".join(_table(("UTC", "after", "what"), rows))


def _chapter_of(title: str) -> str | None:
    return _ALSO.get(title.casefold().strip(" :：")) or _CHAPTERS.get(field_of(title))


def _below(text: str, level: int) -> str:
    """Return Markdown whose headings are at least of `level`, and whose blocks of code all end."""

    def deeper(found: re.Match[str]) -> str:
        return found[1] + "#" * min(6, max(len(found[2]), level))

    lines, fence = [], ""
    for line, is_code, behind in lines_of(text):
        lines.append(line if is_code else _HEADING.sub(deeper, line, count=1))
        fence = behind
    # One that is never closed would swallow every chapter behind it.
    return "\n".join([*lines, fence] if fence else lines)


def _closed(text: str) -> str:
    return _below(text, 6)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_inline(cell) for cell in row)} |"


def _inline(text: str) -> str:
    """Return a text that stays within its cell or heading."""
    return clean(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "\\<").strip()


def _code(text: str) -> str:
    return f"`{text}`" if text and "`" not in text else text


def _day(one: Incident) -> str:
    return "" if one.at is None else stamp(one.at)[:16]


def _foot(now: float) -> str:
    return f"Written {iso(now)}. Times are UTC."


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; } h3 { font-size: 1.1rem; }
h2, h3 { border-top: 1px solid #8886; padding-top: .6rem; margin-top: 1.6rem; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
th:empty { display: none; }
code, pre { font: .9em/1.4 ui-monospace, monospace; } pre { overflow-x: auto; padding: .6rem; background: #8881; }
blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid #8886; }
@media print { body { max-width: none; margin: 0; } pre { white-space: pre-wrap; } }
"""
_PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{content}</body>
</html>
"""
