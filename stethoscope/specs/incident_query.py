"""What people type to find an incident: words, "phrases", -not, OR, begin*, and `field:value`.

`xid:79 node:gpu-[001-004] cause:ib_link_fault after:2026-03 -is:reference optic OR transceiver`. Everything has to fit;
what stands on both sides of OR is one thing, as are the values between commas. Nothing that is typed is an error: what
is not understood is said in a note and looked for as a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.model.incident import Status
from stethoscope.specs.duration import spoken_s
from stethoscope.specs.moment import wall_of
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

FIELDS = (
    "id", "node", "gpu", "port", "place", "leaf", "rack", "pod", "job", "xid", "sxid", "sig", "rule", "cause",
    "component", "severity", "status", "tag", "fleet", "author", "ticket", "link", "after", "before", "is",
)  # fmt: skip
"""What can stand before a colon."""
_AS_IN_FILES = {
    "root_cause": "cause", "places": "place", "around": "place", "nodes": "node", "symptoms": "sig", "symptom": "sig",
    "tags": "tag", "links": "link",
}  # fmt: skip
"""What the files call some of them."""
LONGEST = 4096
"""Characters of a query that are read."""
MOST_TERMS = 64

_FIELD = re.compile(r"([A-Za-z_]{2,20})[:：](.*)", re.DOTALL)
_STATES = tuple(status.value for status in Status)
_CLOSED = {"closed": Status.RESOLVED.value, "done": Status.RESOLVED.value, "fixed": Status.RESOLVED.value}
_SEVERITIES = tuple(severity.value.lower() for severity in Severity)
_MONTH = re.compile(r"(\d{4})(?:-(\d{1,2}))?")
_QUOTES = {'"': '"', "“": "”", "”": "”", "「": "」"}
_DAY_S = 86400.0
_XID = re.compile(r"(s?xid)[-#]?(\d{1,5})", re.IGNORECASE)
_CJK = re.compile(r"[\u2e80-\u312f\u31f0-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_LETTER = re.compile(r"[A-Za-zＡ-Ｚａ-ｚ]")


@dataclass(frozen=True, slots=True)
class Words:
    """Words that stand beside each other in a text, in this order."""

    text: str
    begins: bool = False
    """The last of them may go on."""
    phrase: bool = False
    """They stood in quotes."""
    start: int = 0
    """Where they stand in `Query.text`, with `end`."""
    end: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    """A field that has one of the values; one that ends in `*` is the beginning of a value."""

    field: str
    values: tuple[str, ...]
    start: int = dataclass_field(default=0, compare=False)
    """Where it stands in `Query.text`, with `end`."""
    end: int = dataclass_field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Span:
    """A time that an incident began at: from `after`, before `before` (wall seconds)."""

    after: float | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; with `no` it must not hold."""

    what: Words | Named | Span
    no: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for."""

    text: str
    """What was typed, cleaned: places of words count in this."""
    clauses: tuple[tuple[Term, ...], ...] = ()
    """All of these hold, of each at least one term."""
    notes: tuple[str, ...] = ()
    """What was not understood."""
    changes: tuple[tuple[int, int, str], ...] = ()
    """Parts of the text, from and to, and what they are when their typing mistakes are mended."""


def parse_query(text: str, now: float, *, typing: bool = False) -> Query:
    """Return what `text` asks for; `now` (wall seconds) is what `after:7d` counts from.

    With `typing` the last word may be the beginning of one. Never fails.
    """
    reader = _Reader(clean(text, LONGEST), now)
    reader.read()
    query = reader.query()
    return _still_typing(query) if typing else query


def with_words(query: Query, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return the text of `query` with the parts between two places written otherwise."""
    text = query.text
    for start, end, other in sorted(changes, reverse=True):
        text = text[:start] + other + text[end:]
    return text


def _still_typing(query: Query) -> Query:
    if not query.clauses:
        return query
    *others, last = query.clauses[-1]
    what = last.what
    if not isinstance(what, Words) or what.phrase or what.begins or what.end < len(query.text):
        return query
    going_on = Term(Words(what.text, True, False, what.start, what.end), last.no)
    return replace(query, clauses=(*query.clauses[:-1], (*others, going_on)))


class _Reader:
    def __init__(self, text: str, now: float) -> None:
        self.text, self.now, self.at = text, now, 0
        self.clauses: list[list[Term]] = []
        self.notes: list[str] = []
        self.changes: list[tuple[int, int, str]] = []
        self._start = 0
        self._or = self._no = False

    def query(self) -> Query:
        clauses = tuple(map(tuple, self.clauses))
        return Query(self.text, clauses, tuple(dict.fromkeys(self.notes)), tuple(self.changes))

    def read(self) -> None:
        count = 0
        while (piece := self._piece()) is not None:
            if count >= MOST_TERMS:
                self.notes.append(f"only the first {MOST_TERMS} words are looked for")
                return
            start, raw, quoted = piece
            if not quoted and raw in ("OR", "|", "||"):
                self._or = bool(self.clauses)
            elif not quoted and raw == "NOT":
                self._no = not self._no
            elif quoted or raw not in ("AND", "&", "&&", "+"):
                count += 1
                self._take(start, raw, quoted)

    def _piece(self) -> tuple[int, str, bool] | None:
        """Return the next piece between spaces, or in quotes, with the place where it starts."""
        text = self.text
        while self.at < len(text) and text[self.at].isspace():
            self.at += 1
        if self.at < len(text) - 1 and text[self.at] == "-" and not text[self.at + 1].isspace():
            self._no = not self._no
            self.at += 1
        start = self.at
        if start >= len(text):
            return None
        if text[start] in _QUOTES:
            self.at = self._behind_quote(start)
            return start, text[start + 1 : self.at].rstrip(_QUOTES[text[start]]), True
        depth = 0
        while self.at < len(text) and (depth or not text[self.at].isspace()):
            character = text[self.at]
            if character in _QUOTES and text[self.at - 1] in ":：,":
                self.at = self._behind_quote(self.at)
                continue
            # A node set may have spaces between its brackets; a bracket that is not closed ends nothing.
            if character == "[" and text.find("]", self.at) > 0:
                depth = 1
            elif character == "]":
                depth = 0
            self.at += 1
        return start, text[start : self.at], False

    def _behind_quote(self, start: int) -> int:
        end = self.text.find(_QUOTES[self.text[start]], start + 1)
        return len(self.text) if end < 0 else end + 1

    def _take(self, start: int, raw: str, quoted: bool) -> None:
        what: Words | Named | Span | None = None
        self._start = start
        field = None if quoted else _FIELD.fullmatch(raw)
        if field is not None:
            name = _AS_IN_FILES.get(field[1].lower(), field[1].lower())
            if name in FIELDS:
                what = self._named(name, field[2])
                if what is None:
                    self._or = self._no = False
                    return
            elif not field[2].startswith("//"):
                self._no_such("field", field[1], (*FIELDS, *_AS_IN_FILES), "looked for as words")
        if what is None:
            words = self._words(start, raw, quoted)
            if len(words) > 1 and not self._no:
                self._add([Term(words[0])])
                self.clauses += [_both_ways(one) for one in words[1:]]
                return
            # What must not be there is what was typed.
            what = words[0] if len(words) == 1 else replace(words[0], text=raw.rstrip("*"), end=self.at)
            terms = _both_ways(what)
            if self._no and not self._or:
                self.clauses += [[replace(term, no=True)] for term in terms]
                self._no = False
            else:
                self._add([Term(what, no=True)] if self._no else terms)
            return
        self._add([Term(what, self._no)])

    def _add(self, terms: list[Term]) -> None:
        if self._or:
            self.clauses[-1] += terms
        else:
            self.clauses.append(terms)
        self._or = self._no = False

    def _words(self, start: int, raw: str, quoted: bool) -> list[Words]:
        """Return what is looked for side by side. Where languages meet in one word (`gpu掉卡`) each is one of its own:
        hardly a text has them so."""
        begins = not quoted and len(raw) > 1 and raw.endswith("*")
        text = raw.rstrip("*") if begins else raw
        if quoted or not _CJK.search(text) or not _LETTER.search(text):
            return [Words(text, begins, quoted, start, self.at)]
        parts: list[list[int]] = []
        is_alone = True
        for place, end in _runs_of(text):
            has_letter = bool(_LETTER.search(text, place, end))
            # `3号卡` stays whole.
            if parts and not is_alone and not has_letter:
                parts[-1][1] = end
            else:
                parts.append([place, end])
            is_alone = has_letter
        return [
            Words(text[place:end], begins and end == len(text), False, start + place, start + end)
            for place, end in parts
        ]

    def _named(self, name: str, said: str) -> Named | Span | None:
        values = tuple(value for value in map(_unquoted, _split(said)) if value)
        if not values:
            return None
        if name in ("after", "before"):
            return self._span(name, values[0])
        if name in ("is", "status"):
            name, values = "status", self._known("status", values, _STATES, _CLOSED)
        elif name == "severity":
            values = self._known(name, values, _SEVERITIES, {})
        elif name == "node":
            values = tuple(one for value in values for one in self._nodes(value))
        return Named(name, tuple(dict.fromkeys(value.casefold() for value in values)), self._start, self.at)

    def _known(
        self, name: str, values: tuple[str, ...], known: tuple[str, ...], others: dict[str, str]
    ) -> tuple[str, ...]:
        found = []
        for value in values:
            word = others.get(value.lower(), value.lower())
            begins = word.removesuffix("*")
            if not (word in known or (word != begins and any(one.startswith(begins) for one in known))):
                self._no_such(name, value, (*known, *others), f"there are {', '.join(known)}")
            found.append(word)
        return tuple(found)

    def _no_such(self, what: str, word: str, known: Iterable[str], otherwise: str = "") -> None:
        from difflib import get_close_matches

        known = list(known)
        begins = [one for one in known if one.startswith(word.lower())]
        near = begins[:1] or get_close_matches(word.lower(), known, n=1, cutoff=0.5)
        end = f": did you mean {near[0]}?" if near else f"; {otherwise}" if otherwise else ""
        self.notes.append(f'no {what} "{clean(word, 40)}"{end}')
        place = self.text.find(word, self._start, self.at)
        if near and place >= 0:
            self.changes.append((place, place + len(word), near[0]))

    def _nodes(self, value: str) -> list[str]:
        if "[" not in value:
            return [value]
        from stethoscope.errors import UsageError
        from stethoscope.model.ids import expand

        try:
            return expand(value)
        except UsageError as error:
            self.notes.append(clean(str(error)))
            return [value]

    def _span(self, name: str, value: str) -> Span | None:
        try:
            wall = _wall(value, self.now)
        except (ValueError, OverflowError, OSError):
            self.notes.append(f'{name}: "{clean(value, 40)}" is no time: write 2026-03, 2026-03-14 or 7d')
            return None
        return Span(after=wall) if name == "after" else Span(before=wall)


def _runs_of(text: str) -> list[tuple[int, int]]:
    """Return the parts of a text that are of one kind of letters, from and to."""
    edges = sorted({0, len(text), *(edge for found in _CJK.finditer(text) for edge in found.span())})
    return list(pairwise(edges))


def _both_ways(words: Words) -> list[Term]:
    """Return a word, and beside `xid79` what everybody else writes: `Xid 79`."""
    code = _XID.fullmatch(words.text) if not words.phrase else None
    others = [replace(words, text=f"{code[1]} {code[2]}", phrase=True)] if code else []
    return [Term(words), *map(Term, others)]


def _wall(value: str, now: float) -> float:
    word = value.lower()
    midnight = now - now % _DAY_S
    if word in ("today", "yesterday"):
        return midnight - (_DAY_S if word == "yesterday" else 0.0)
    if month := _MONTH.fullmatch(word):
        return datetime(int(month[1]), int(month[2] or 1), 1, tzinfo=UTC).timestamp()
    try:
        return wall_of(value.upper())
    except ValueError:
        return now - spoken_s(word)


def _split(said: str) -> list[str]:
    """Return the values between commas that stand in no bracket and no quotes."""
    values, depth, quote, current = [], 0, "", ""
    for character in said:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES and not current:
            quote = _QUOTES[character]
        elif character in "[]":
            depth = 1 if character == "[" else 0
        elif character in ",，" and not depth:
            values.append(current)
            current = ""
            continue
        current += character
    return [*values, current]


def _unquoted(value: str) -> str:
    value = value.strip()
    if value[:1] in _QUOTES:
        return value[1:].removesuffix(_QUOTES[value[0]]).strip()
    return value
