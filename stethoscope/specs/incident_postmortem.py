"""An incident out of a post-mortem in Markdown: its text stays whole, what is understood of it becomes fields."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError
from stethoscope.model.incident_body import sections
from stethoscope.specs.incident_columns import TEXTS, field_of
from stethoscope.specs.incident_import import assemble
from stethoscope.specs.incident_words import moment_at_start, moment_in, zone_in
from stethoscope.specs.load import loads
from stethoscope.text import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.specs.incident_import import Imported, Options

_TITLE = re.compile(r" {0,3}#[ \t]+(.+?)[ \t]*#*[ \t]*")
_HEADING = re.compile(r" {0,3}#{2,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
_LABEL = re.compile(
    r"^(?:inc-[\w-]+|(?:post[- ]?)?incident|post[- ]?mortem|rca|retrospective|(?:故障|事故)?(?:报告|复盘)(?:报告)?)"
    r"\s*(?:report|review|analysis)?\s*[:：–—-]\s*",
    re.IGNORECASE,
)
_KEYED = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?(?:\*\*|__)?([^*_:：|`]{1,40}?)(?:\*\*|__)?[ \t]*"
    r"(?::(?:\*\*|__)?[ \t]+|：(?:\*\*|__)?[ \t]*)(\S.*)"
)
_CELLS = re.compile(r"[ \t]*\|([^|]{1,60})\|([^|]+)\|[ \t]*")
_KEYED_BELOW = ("metadata", "incident", "info", "key facts", "基本信息", "概况")
_DAY_S = 86400.0
_LONGEST_FIX = 600
_STAGES = {
    "resolved": (
        r"\b(?:resolved|all clear|closed|back to normal|whole again|fully recovered|replaced|swapped)\b"
        r"|\b(?:outage|incident|impact) (?:ends?|ended|over)\b|已解决|恢复正常|故障恢复|故障结束|已更换|更换完成"
    ),
    "mitigated": (
        r"\b(?:mitigat\w+|work went on|(?:job|training) (?:restarted|resumed|back)|restarted the job|workaround)\b"
        r"|缓解|重启任务|恢复训练|任务恢复"
    ),
    "located": r"\b(?:root cause|identified|located|diagnosed|pinpointed|narrowed down|cause known)\b|定位|根因",
    "detected": r"\b(?:alert\w*|page[ds]?|paging|pagers?|detected|noticed|reported|first seen|woke)\b|告警|报警|发现",
    "began": (
        r"\b(?:outage|incident|impact|trouble|errors?|failures?)\W+(?:begins?|began|starts?|started)\b"
        r"|故障(?:开始|发生)"
    ),
}
"""Stage -> words of a line of a timeline that is about it; the first that fits counts."""


def read_postmortem(text: str, where: str, options: Options) -> Imported:
    """Return the incident that a Markdown text is about."""
    front, text, offset = _front(text, where)
    title, body = _titled(text)
    options = replace(options, zone=zone_in(text) or options.zone)
    named: dict[str, str] = {}
    for name, said in [*front.items(), *_keyed(body)]:
        named.setdefault(name, said)
    for section in sections(body):
        name = field_of(section.title)
        if not name or name in TEXTS or not section.text or name in named:
            continue
        named[name] = _paragraph(section.text) if name != "root_cause" else section.text.splitlines()[0]
    if title:
        named["title"] = _LABEL.sub("", title) or title
    named.setdefault("title", where.rsplit("/", 1)[-1].rsplit(".", 1)[0].replace("-", " ").replace("_", " "))
    for stage, when in _timeline(body, named, options).items():
        named.setdefault(stage, repr(when))
    others = [(name, said) for name, said in front.items() if name not in named]
    kept = "".join(f"- {name}: {said}\n" for name, said in front.items() if name.startswith("?"))
    body = body.strip("\n") + "\n" if body.strip() else ""
    if kept:
        body = f"{body}\n## Imported\n\n{kept.replace('- ?', '- ')}"
    return assemble(named, others, f"{where}:{offset}", options, whole=clean_text(text).strip(), body=clean_text(body))


def _front(text: str, where: str) -> tuple[dict[str, str], str, int]:
    """Return what stands in the front matter by field (`?NAME` for what is none), the text behind it, and its line."""
    if not text.startswith("---\n") or "\n---" not in text[4:]:
        return {}, text, 1
    head, _, rest = text[4:].partition("\n---")
    try:
        data = loads(head, where).data
    except DataError:
        # Other tools' front matter need not be what our files are: it stays in the text.
        return {}, text, 1
    if not isinstance(data, dict):
        return {}, text, 1
    found: dict[str, str] = {}
    for key, value in data.items():
        name = field_of(str(key))
        found[name if name and name not in found else f"?{key}"] = _said(value)
    return found, rest.partition("\n")[2], head.count("\n") + 3


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return "" if value is None else str(value)


def _titled(text: str) -> tuple[str, str]:
    """Return the first heading of the highest level, and the text without it."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        found = _TITLE.fullmatch(line.rstrip("\r\n"))
        if found is None and not any(before.strip() for before in lines[:number]):
            # One that stands first is the title whatever its level.
            found = _HEADING.fullmatch(line.rstrip("\r\n"))
        if found is not None and not (field_of(found[1]) and "#" * 2 in line):
            return found[1].strip(), "".join([*lines[:number], *lines[number + 1 :]])
        if line.strip().startswith(("```", "~~~")):
            break
    return "", text


def _keyed(body: str) -> Iterator[tuple[str, str]]:
    """Yield what `Key: value` lines and rows of two cells say by field, above the first heading and in a section that
    is about the whole."""
    for section in sections(body):
        if section.title and field_of(section.title) != "summary" and section.title.casefold() not in _KEYED_BELOW:
            continue
        for line in section.text.splitlines():
            found = _KEYED.fullmatch(line) or _CELLS.fullmatch(line)
            name = field_of(found[1]) if found is not None else ""
            if found is not None and name and name not in TEXTS:
                yield name, found[2].strip().strip("*` ")


def _timeline(body: str, named: dict[str, str], options: Options) -> dict[str, float]:
    """Return the stages that the lines of a timeline tell: the first that is about each, the last for the end."""
    text = next((one.text for one in sections(body, 6) if field_of(one.title) == "timeline"), "")
    day = before = first = None
    for name in ("began", "date", "detected"):
        try:
            day = moment_in(named.get(name, ""), options.zone, day_first=options.day_first)
        except ValueError:
            continue
        if day is not None:
            break
    found: dict[str, float] = {}
    for line in text.splitlines():
        plain = line.strip().lstrip("-*+|# \t")
        read = moment_at_start(plain, before or day, options.zone)
        if read is None:
            with suppress(ValueError):
                # A day on a line of its own is that of the times below it.
                alone = re.split(r"[*_(（:：|]", plain, maxsplit=1)[0]
                moved = moment_in(alone, options.zone, day_first=options.day_first)
                day, before = (day, before) if moved is None else (moved, None)
            continue
        when, said = read
        if before is not None and when < before and before - when < _DAY_S:
            # A time without a date after midnight.
            when += _DAY_S
        before = when
        stage = next((stage for stage, words in _STAGES.items() if re.search(words, said, re.IGNORECASE)), "")
        first = when if first is None else first
        if stage == "resolved":
            found[stage] = when
        elif stage:
            found.setdefault(stage, when)
    return found if first is None else {"began": first, **found}


def _paragraph(text: str) -> str:
    kept = text.split("\n\n", 1)[0].strip()
    return kept if len(kept) <= _LONGEST_FIX else kept[: _LONGEST_FIX - 1] + "…"
