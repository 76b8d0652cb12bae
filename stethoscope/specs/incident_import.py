"""Incidents out of other people's words: what is understood becomes fields, and what is not stands in the body."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.errors import UsageError
from stethoscope.model.finding import Severity
from stethoscope.model.ids import expand, fold
from stethoscope.model.incident import Incident, Link, Status, Times
from stethoscope.specs.incident_columns import TEXTS, field_of
from stethoscope.specs.incident_words import (
    component_of,
    moment_in,
    on_day,
    root_cause_of,
    severity_of,
    span_of,
    status_of,
    time_of_day,
    xids_in,
)
from stethoscope.text import clean, clean_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY = "imported_key"
"""Key of the front matter that tells a thing that was imported from one that was not, so that it comes once."""
FROM = "imported_from"
STAGES = ("began", "detected", "located", "mitigated", "resolved")
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_DAY_S = 86400.0
_CODES = frozenset({
    "done", "fixed", "wont fix", "wont do", "wontfix", "duplicate", "cannot reproduce", "incomplete", "unresolved",
    "completed", "complete", "resolved", "solved", "closed", "none", "declined", "invalid", "known error", "已解决",
    "已完成", "已关闭", "完成",
})  # fmt: skip
_HIGH = re.compile(rb"[\x80-\xff]+")
_ID_LIKE = re.compile(r"[a-z0-9]+(?:[._][a-z0-9_]+)+")
_NODES = re.compile(r"[A-Za-z0-9][\w.\-\[\]]*(?:[,;\s]+[A-Za-z0-9][\w.\-\[\]]*)*")
_PLACE = re.compile(r"[A-Za-z0-9][\w.\-]*(?:/[\w.:\-]+)+")


@dataclass(frozen=True, slots=True)
class Options:
    """How a source is to be read."""

    now: float
    """Wall seconds of the import."""
    zone: tzinfo = UTC
    """Of times that name none."""
    day_first: bool | None = None
    """What `3/4/2026` means; None refuses it."""
    fleet: str = ""
    """Where the source names none."""
    root_causes: frozenset[str] = frozenset()
    """Ids that are known."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field -> head of the column, where the usual names do not tell."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One incident out of a source."""

    incident: Incident
    where: str
    """`FILE:LINE`."""
    notes: tuple[str, ...] = ()
    """What was not understood, and stands in the body."""

    @property
    def key(self) -> str:
        """Return what tells that it was imported before."""
        return str(dict(self.incident.extra).get(KEY, ""))


def decoded(raw: bytes) -> str:
    """Return the text of a file that came from anywhere: UTF-8 or UTF-16, else what spreadsheets write."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    with suppress(UnicodeDecodeError):
        return raw.decode("utf-8-sig")
    # Chinese text has its bytes above 127 in pairs, western text has them one by one.
    runs = [len(run) for run in _HIGH.findall(raw)]
    if sum(length % 2 == 0 for length in runs) * 2 > len(runs):
        with suppress(UnicodeDecodeError):
            return raw.decode("gb18030")
    return raw.decode("cp1252", "replace")


def assemble(
    named: Mapping[str, str],
    others: Sequence[tuple[str, str]],
    where: str,
    options: Options,
    *,
    whole: str,
    body: str | None = None,
    spelled: Mapping[str, str] | None = None,
) -> Imported:
    """Return the incident that texts by field make; with a `body` they are all in it already, else what is no field
    of an incident makes it. `whole` is all of the source, by which it is known again."""
    notes: list[str] = []
    kept = list(others)
    spelled = spelled or {}

    def keep(name: str, said: str = "") -> None:
        kept.append((spelled.get(name) or name.replace("_", " "), named[name]))
        if said:
            notes.append(said)

    times, unread = _times(named, options)
    for name, said in unread.items():
        keep(name, said)
    severity, status = severity_of(named.get("severity", "")), status_of(named.get("status", ""))
    for name, read in (("severity", severity), ("status", status)):
        if named.get(name) and read is None:
            keep(name, f'{name} "{clean(named[name], 40)}" is not known')
    cause, part = (
        root_cause_of(named.get("root_cause", ""), options.root_causes),
        component_of(named.get("component", "")),
    )
    if named.get("root_cause") and not cause:
        keep("root_cause")
    if named.get("component") and not part:
        keep("component")
    if _is_code(named.get("resolution", "")):
        # How a ticket was closed is not what fixed anything.
        keep("resolution")
        named = {**named, "resolution": ""}
        status = status or status_of(kept[-1][1])
    nodes, places = _where(named)
    for name in ("nodes", "places", "gpu", "port"):
        if named.get(name) and name not in nodes[1]:
            keep(name)
    ticket = clean(named.get("ticket", ""), 200)
    if status is None:
        ended = times.resolved is not None or bool(named.get("resolution"))
        status = Status.RESOLVED if ended else Status.MITIGATED if times.mitigated is not None else Status.OPEN
    every = " ".join([*named.values(), *(text for _, text in others), body or ""])
    seen = [word for word in re.split(r"[,;\s]+", named.get("symptoms", "")) if _ID_LIKE.fullmatch(word)]
    if named.get("symptoms") and " ".join(seen) != named["symptoms"].replace(",", " ").strip():
        keep("symptoms")
    bare = [
        f"xid.{int(word)}" for word in re.split(r"[,;\s]+", named.get("symptoms", "")) if re.fullmatch(r"\d{2,3}", word)
    ]
    links = [Link("ticket", ticket)] if ticket else []
    links += [Link("url", word) for word in named.get("link", "").split() if word.startswith(("http://", "https://"))]
    if named.get("link") and not any(link.how == "url" for link in links):
        keep("link")
    if times == Times(recorded=options.now):
        notes.append("no time of it is known: it counts as of today")
    key = hashlib.sha256((f"ticket\x1f{ticket}" if ticket else whole).encode(errors="replace")).hexdigest()[:16]
    incident = Incident(
        id=_id(key, times, options.now),
        title=_title(named, where),
        status=status,
        root_cause=cause,
        component=part,
        fleet=clean(named.get("fleet", "") or options.fleet, 100),
        times=times,
        nodes=nodes[0],
        places=places,
        job=clean(named.get("job", ""), 100),
        symptoms=tuple(dict.fromkeys([*seen, *bare, *xids_in(every)])),
        resolution=clean_text(named.get("resolution", "")).strip(),
        tags=tuple(dict.fromkeys(clean(tag, 60) for tag in re.split(r"[,;]\s*|\s+", named.get("tags", "")) if tag)),
        links=tuple(links),
        author=clean(named.get("author", ""), 100),
        body=body if body is not None else _body(named, kept),
        # Where it was on this machine is nobody else's business.
        extra=((FROM, clean(where.rsplit("/", 1)[-1], 300)), (KEY, key)),
        severity=severity or Severity.P1,
    )  # fmt: skip
    return Imported(incident, where, tuple(notes))


def _times(named: Mapping[str, str], options: Options) -> tuple[Times, dict[str, str]]:
    found: dict[str, float] = {}
    unread: dict[str, str] = {}
    day = None
    if named.get("date"):
        try:
            day = moment_in(named["date"], options.zone, day_first=options.day_first)
        except ValueError as error:
            unread["date"] = f"date: {error}"
    before = day
    for stage in STAGES:
        text = named.get(stage, "")
        if not text:
            continue
        try:
            when = moment_in(text, options.zone, day_first=options.day_first)
        except ValueError as error:
            of_day = time_of_day(text)
            if before is None or of_day is None or of_day[1]:
                unread[stage] = f"{stage}: {error}"
                continue
            try:
                when = on_day(before, of_day[0], options.zone)
            except (ValueError, OverflowError):
                unread[stage] = f"{stage}: {error}"
                continue
            # A night goes over midnight.
            when += _DAY_S if found and when < before else 0.0
        if when is not None:
            found[stage] = before = when
    if day is not None and "began" not in found:
        # A day alone is when it began, unless something finer is known of that day.
        found["began"] = min([day, *found.values()]) if not found else min(found.values())
    span = span_of(named.get("duration", ""))
    if named.get("duration") and (span is None or "resolved" in found or "began" not in found):
        unread["duration"] = "" if span is not None else f'duration "{clean(named["duration"], 40)}" is no span of time'
    elif span is not None:
        found["resolved"] = found["began"] + span
    return Times(**found, recorded=options.now), unread


def _where(named: Mapping[str, str]) -> tuple[tuple[str, set[str]], tuple[str, ...]]:
    """Return the folded nodes with the fields that were understood, and the places."""
    understood: set[str] = set()
    names: list[str] = []
    if _NODES.fullmatch(named.get("nodes", "")):
        try:
            names = expand(re.sub(r"[;\s]+", ",", re.sub(r"\s*,\s*", ",", named["nodes"])))
            understood.add("nodes")
        except UsageError:
            names = []
    words = [word for word in re.split(r"[,;\s]+", named.get("places", "")) if word]
    places = [word.strip("`") for word in words if _PLACE.fullmatch(word.strip("`"))]
    if places and len(places) == len(words):
        understood.add("places")
    for name, kind in (("gpu", "gpu"), ("port", "ib")):
        text = named.get(name, "").strip()
        short = re.fullmatch(
            r"(?:gpu)?[ #]*(\d{1,2})" if kind == "gpu" else r"([A-Za-z]\w*(?::\d+)?)", text, re.IGNORECASE
        )
        if short is not None and len(names) == 1:
            places.append(f"{names[0]}/{kind}/{short[1]}")
            understood.add(name)
    return (fold(names), understood), tuple(dict.fromkeys(places))


def _is_code(text: str) -> bool:
    """Tell whether a resolution is a word for how a ticket was closed: `Done`, `Won't Fix`, `Solved (Permanently)`."""
    word = re.sub(r"[^a-z\u4e00-\u9fff ]+", "", text.split("(", 1)[0].casefold()).strip()
    return word in _CODES


def _title(named: Mapping[str, str], where: str) -> str:
    for name in ("title", "summary", "symptoms", "root_cause"):
        lines = [line for line in clean_text(named.get(name, "")).splitlines() if line.strip()]
        if lines:
            return clean(lines[0].strip("#* "), 160)
    return clean(f"Imported from {where}", 160)


def _id(key: str, times: Times, now: float) -> str:
    known = [getattr(times, stage) for stage in STAGES if getattr(times, stage) is not None]
    number, letters = int(key, 16), ""
    for _ in range(5):
        number, rest = divmod(number, len(_LETTERS))
        letters += _LETTERS[rest]
    return f"INC-{iso(known[0] if known else now)[:10]}-{letters}"


def _body(named: Mapping[str, str], kept: Sequence[tuple[str, str]]) -> str:
    parts = []
    for name, heading in TEXTS.items():
        text = clean_text(named.get(name, "")).strip()
        # A summary that is the title needs no place of its own.
        if text and not (name == "summary" and not named.get("title") and "\n" not in text and len(text) <= 160):
            parts.append(f"## {heading}\n\n{text}\n")
    for name, heading in (("symptoms", "What was seen"), ("root_cause", "Cause")):
        parts += [f"## {heading}\n\n{clean_text(text).strip()}\n" for head, text in kept if field_of(head) == name]
    rest = [(head, text) for head, text in kept if field_of(head) not in ("symptoms", "root_cause")]
    if rest:
        lines = []
        for head, text in rest:
            first, *more = clean_text(text).splitlines() or [""]
            lines += [f"- {clean(head, 100)}: {first}", *(f"  {line}" for line in more)]
        parts.append("## Imported\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)
