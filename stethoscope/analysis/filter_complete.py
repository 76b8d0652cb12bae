"""What can stand where the cursor is in a filter: names, then signs, then the values that this fleet has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.analysis.filter_said import node_words
from stethoscope.analysis.filter_values import MISSING, NONE, REASON_VALUES, VALUE_WORDS, bare, names, read_name
from stethoscope.analysis.filter_words import COMPARING, OPEN, Token, quoted, tokens
from stethoscope.model.fields import FIELDS, QUANTIFIERS, SCOPE_WORDS
from stethoscope.model.metric import REASON_WORDS, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric

MOST = 60
"""Candidates at the most."""
_FOR_WORDS, _FOR_NUMBERS = ("=", "~", "!=", "!~"), (">", ">=", "<", "<=", "=", "!=")
_SETS = ("job", "user", "partition", "finding", "severity")


class Completion(NamedTuple):
    """The characters `start` .. `end` of a filter, and what may stand in their place."""

    start: int
    end: int
    candidates: list[str]

    def applied(self, text: str, candidate: str) -> tuple[str, int]:
        """Return `text` with `candidate` in place, and where the cursor then is."""
        return text[: self.start] + candidate + text[self.end :], self.start + len(candidate)


def complete(text: str, cursor: int, snapshot: FleetSnapshot) -> list[str]:
    """Return what can stand in place of the word at `cursor`, the likeliest first; `completion` says where that is."""
    return completion(text, cursor, snapshot).candidates


def completion(text: str, cursor: int, snapshot: FleetSnapshot) -> Completion:
    """Return the word at `cursor`, as far as the cursor, and what can stand in its place."""
    cursor = max(0, min(cursor, len(text)))
    before = tokens(text[:cursor])
    word = (
        before.pop()
        if before and before[-1].end == cursor and (before[-1].is_word or before[-1].kind == OPEN)
        else None
    )
    start, said = (word.start, word.text) if word is not None else (cursor, "")
    end = next((token.end for token in tokens(text) if token.start == start and token.is_word), cursor)
    return Completion(start, max(cursor, end), _candidates(before, said, snapshot)[:MOST])


def meaning_of(candidate: str, catalogue: Mapping[str, Metric]) -> str:
    """Return what a candidate that is a name stands for, in a few words; empty for another one."""
    subject = read_name(candidate.rstrip("=~!<>").lower(), names(catalogue))
    if isinstance(subject, str):
        return FIELDS[subject]
    if subject is None:
        return ""
    metric = subject[0]
    unit = metric.shown_unit if not metric.words else ""
    return f"{metric.title}{f', {unit}' if unit else ''}: {metric.meaning}"


def _candidates(before: list[Token], said: str, snapshot: FleetSnapshot) -> list[str]:
    known = names(snapshot.catalogue)
    last = before[-1] if before else None
    if last is None or last.text in ("&", "|", "!", "(", "["):
        return _first_words(said, known, snapshot, _open_scope(before))
    if last.text in COMPARING and not last.is_word:
        subject = read_name(before[-2].text.lower(), known) if len(before) > 1 and before[-2].is_word else None
        if subject is None:
            return []
        values = _field_values(subject, snapshot) if isinstance(subject, str) else _values(*subject, snapshot)
        return [quoted(value) for value in _near(said, values)]
    if said:
        return []
    is_value = len(before) > 1 and before[-2].text in COMPARING and not before[-2].is_word
    subject = read_name(last.text.lower(), known) if last.is_word and not is_value else None
    return list(_signs(subject)) if subject is not None else ["&", "|", *_closing(before)]


def _open_scope(before: list[Token]) -> Scope | None:
    """Return the scope of the brackets that the cursor stands in."""
    for place in range(len(before) - 1, 0, -1):
        token = before[place]
        if not token.is_word and token.text == "]":
            return None
        if not token.is_word and token.text == "[":
            return SCOPE_WORDS.get(before[place - 1].text.lower())
    return None


def _first_words(said: str, known: dict[str, Metric], snapshot: FleetSnapshot, scope: Scope | None) -> list[str]:
    """Return what a condition can begin with; inside of brackets what there is of such a device comes first."""
    subject = read_name(said.lower(), known) if said else None
    signs = [f"{said}{sign}" for sign in _signs(subject)] if subject is not None else []
    short = [name for name, metric in known.items() if name == metric.alias]
    fields = [name for name in FIELDS if name != "device"]
    if scope is not None:
        own = [name for name in known if known[name].scope is scope and (said or name == known[name].alias)]
        of_nodes = [name for name in short if known[name].scope is Scope.NODE]
        words = list(dict.fromkeys(["device", *own, *fields, *of_nodes]))
        return list(dict.fromkeys([*signs, *_near(said, words)])) if said else words
    forms = [*(f"{word}(" for word in QUANTIFIERS), *(f"{word}[" for word in SCOPE_WORDS)]
    if not said:
        return [*fields, *short, *forms]
    hosts = [quoted(node.name) for node in snapshot.nodes]
    return list(dict.fromkeys([*signs, *_near(said, [*fields, *short, *forms, *known, *hosts])]))


def _signs(subject: str | tuple[Metric, str]) -> tuple[str, ...]:
    if isinstance(subject, str):
        return (*_FOR_WORDS, *_FOR_NUMBERS[:4]) if subject == "severity" else _FOR_WORDS
    return _FOR_WORDS if subject[0].words else _FOR_NUMBERS


def _near(said: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin with what was said, then those that hold it; small and large letters are alike."""
    wanted = said.lower()
    begin: list[str] = []
    hold: list[str] = []
    for word in words:
        lowered = word.lower()
        if lowered != wanted and wanted in lowered:
            (begin if lowered.startswith(wanted) else hold).append(word)
    return [*begin, *hold]


def _field_values(name: str, snapshot: FleetSnapshot) -> list[str]:
    if name == "device":
        return []
    if name in VALUE_WORDS:
        return [*VALUE_WORDS[name]]
    if name == "host":
        return [node.name for node in snapshot.nodes]
    words = set(node_words(name, snapshot))
    some = {word for said in words if said for word in ((said,) if isinstance(said, str) else said)}
    return [*sorted(some), *([NONE] if name in _SETS else []), *([MISSING] if words & {None, ""} else [])]


def _values(metric: Metric, which: str, snapshot: FleetSnapshot) -> list[str]:
    limits = [word for word in ("warn", "critical") if which == "value" and getattr(metric, word) is not None]
    states = [bare(word) for _, word in metric.words]
    return [*states, *([NONE] if metric.bitmask else []), *limits, *_reasons(metric, snapshot)]


def _reasons(metric: Metric, snapshot: FleetSnapshot) -> list[str]:
    """Return the reasons for which values of `metric` are missing now."""
    table = snapshot.tables[metric.scope]
    if metric.id not in table.index:
        return []
    here = {bare(REASON_WORDS[Reason(int(code))]) for code in np.unique(table.reasons[table.index[metric.id]]) if code}
    return [MISSING, *(word for word in REASON_VALUES if word in here)] if here else []


def _closing(before: list[Token]) -> list[str]:
    """Return the sign that closes what is open."""
    open_signs: list[str] = []
    for token in before:
        if token.is_word:
            continue
        if token.text in "([":
            open_signs.append(")" if token.text == "(" else "]")
        elif token.text in ")]" and open_signs:
            open_signs.pop()
    return open_signs[-1:]
