"""Searches the index: a query as SQL, the best first, with the words around what fits and typing mistakes mended."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw

from stethoscope.model.incident import Hit, Search
from stethoscope.specs.incident_query import Named, Query, Span, Term, Words, parse_query, with_words
from stethoscope.store.incident_db import BROKEN, tokens_of
from stethoscope.store.incident_snippet import Snippets
from stethoscope.store.incident_tables import asked
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.store.incident_index import IncidentIndex

REFERENCE_WEIGHT = 0.5
"""What a well-known kind of incident counts beside one of this fleet that fits as well."""
KEY_WORDS = 12
"""Words of a text that stand for it when what looks like it is looked for."""
LIKE_LIMIT = 60
_LONGEST_TEXT = 20_000
_SCORED = """SELECT row, -rank, began, reference, incident.id FROM words JOIN incident ON incident.row = words.rowid
             WHERE words MATCH ?"""
_WITH_TERM = "SELECT row FROM term WHERE field IN (SELECT value FROM json_each(?))"
_UNSCORED = "SELECT row, 1.0, began, reference, id FROM incident WHERE"
_BARE = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff]+")
_NUMBERED = ("node", "gpu", "port", "place", "leaf", "rack", "pod", "job", "xid", "sxid")
"""Fields of names that differ in their number: one that is like another is not that one."""
_COMPARED = 1000
_RESERVED = {"AND", "OR", "NOT", "NEAR"}


def search(index: IncidentIndex, query: Query, limit: int, again: Callable[[str], Query]) -> Search:
    """Return what fits `query`; `again` reads a text as a query, for the one with its typing mistakes mended.

    Raises apsw.Error where the index is broken.
    """
    finder = _Finder(index)
    rows = finder.rows(query)
    changes = list(query.changes) if rows else [*query.changes, *finder.unknown(query)]
    notes = [*query.notes, *finder.notes]
    suggestion = "" if rows and not changes else finder.suggestion(query, changes, len(rows), again)
    if index.waiting:
        notes.append(f"{index.waiting:,} files are not read yet")
    return Search(finder.hits(query, rows[:limit]), len(rows), 0.0, suggestion, tuple(dict.fromkeys(notes)))


def more_like(index: IncidentIndex, tokens: Sequence[str], but: str = "") -> list[tuple[str, float]]:
    """Return ids of incidents that share some of `tokens` and how much of them, from 0 to 1, the likest first.

    A rare token counts more than one that many incidents have.
    """
    db = index.database.connection
    total = max(db.execute("SELECT count(*) FROM incident").get or 0, 1)
    weights = {}
    for token in dict.fromkeys(tokens):
        documents = db.execute("SELECT doc FROM vocabulary WHERE term = ?", (token,)).get
        if documents:
            weights[token] = math.log(1 + total / documents)
    if not weights:
        return []
    best = sorted(weights, key=lambda token: (-weights[token], token))[:KEY_WORDS]
    found: dict[int, float] = {}
    whole = sum(weights[token] for token in best)
    rows = [
        row
        for (row,) in db.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?",
            (" OR ".join(map(_quoted, best)), LIKE_LIMIT),
        )
    ]
    listed = json.dumps(rows)
    for token in best:
        hits = db.execute(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid IN (SELECT value FROM json_each(?))",
            (_quoted(token), listed),
        )
        for (row,) in hits:
            found[row] = found.get(row, 0.0) + weights[token] / whole
    shown = db.execute(
        "SELECT row, id FROM incident WHERE NOT hidden AND row IN (SELECT value FROM json_each(?))", (listed,)
    )
    likes = [(identity, found.get(row, 0.0)) for row, identity in shown if identity != but]
    return sorted(likes, key=lambda like: (-like[1], like[0]))


def key_tokens(index: IncidentIndex, about: str) -> list[str]:
    """Return the tokens of an incident, by its id, or of a text, that tell it from others."""
    row = index.database.connection.execute("SELECT row FROM incident WHERE id = ? AND NOT hidden", (about,)).get
    if row is not None:
        words = index.database.words
        return [token for _, token in words.key_tokens(row, limit=KEY_WORDS, columns=("title", "fix", "signs", "body"))]
    return [token for token in _tokens(about[:_LONGEST_TEXT]) if not token.isdecimal()]


def _tokens(text: str) -> list[str]:
    return [token for _, _, token in tokens_of(text.encode("utf-8", "replace"))]


class _Finder:
    def __init__(self, index: IncidentIndex) -> None:
        self._index = index
        self._db = index.database.connection
        self.notes: list[str] = []
        self._has_words: dict[str, bool] = {}

    def rows(self, query: Query) -> list[tuple[int, float]]:
        """Return row and score of all that fits, the best first."""
        match, conditions, values = self._sql(query)
        # What stands there is of this module; what people typed is bound.
        where = " AND ".join(["NOT hidden", *conditions])
        rows: Any
        if match:
            rows = self._db.execute(f"{_SCORED} AND {where}", (match, *values))
        else:
            rows = self._db.execute(f"{_UNSCORED} {where}", values)
        scored = [
            (score * REFERENCE_WEIGHT if reference else score, -(began or 0.0), identity, row)
            for row, score, began, reference, identity in rows
        ]
        # Beside the best one: what people would not tell apart is one, and then the newest is first.
        best = max(scored, default=(1.0,))[0] or 1.0
        ranked = [(-round(score / best, 2), began, identity, row) for score, began, identity, row in scored]
        ranked.sort()
        return [(row, -score) for score, _, _, row in ranked]

    def _sql(self, query: Query) -> tuple[str, list[str], list[Any]]:
        matches: list[str] = []
        conditions: list[str] = []
        values: list[Any] = []
        for clause in query.clauses:
            terms = [term for term in clause if self._means_something(term)]
            if not terms:
                continue
            if all(isinstance(term.what, Words) and not term.no for term in terms):
                matches.append(f"({' OR '.join(_match(term.what) for term in terms if isinstance(term.what, Words))})")
                continue
            parts = []
            for term in terms:
                part, its = self._condition(term)
                parts.append(f"NOT ({part})" if term.no else part)
                values += its
            conditions.append(f"({' OR '.join(parts)})")
        return " AND ".join(matches), conditions, values

    def _means_something(self, term: Term) -> bool:
        if not isinstance(term.what, Words):
            return True
        text = term.what.text
        if text not in self._has_words:
            self._has_words[text] = bool(_tokens(text))
            if text.strip() and not self._has_words[text]:
                self.notes.append(f'"{text[:40]}" has no letter or digit to look for')
        return self._has_words[text]

    def _condition(self, term: Term) -> tuple[str, list[Any]]:
        what = term.what
        if isinstance(what, Words):
            return "row IN (SELECT rowid FROM words WHERE words MATCH ?)", [_match(what)]
        if isinstance(what, Span):
            sign, wall = (">=", what.after) if what.after is not None else ("<", what.before)
            return f"coalesce(began {sign} ?, 0)", [wall]
        return self._named(what)

    @staticmethod
    def _named(what: Named) -> tuple[str, list[Any]]:
        fields: tuple[str, ...] = ()
        exact, parts, values = [], [], []
        for value in what.values:
            fields, word = asked(what.field, value.removesuffix("*"))
            if value.endswith("*"):
                parts.append("(value >= ? AND value < ?)")
                values += [word, word + "\U0010ffff"]
            else:
                exact.append(word)
        if exact:
            parts.append("value IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(exact))
        one_of = " OR ".join(parts)
        return f"row IN ({_WITH_TERM} AND ({one_of}))", [json.dumps(fields), *values]

    def hits(self, query: Query, rows: Sequence[tuple[int, float]]) -> tuple[Hit, ...]:
        incidents = self._index.rows([row for row, _ in rows])
        around = Snippets(
            term.what for clause in query.clauses for term in clause if not term.no and isinstance(term.what, Words)
        )
        return tuple(Hit(incidents[row], score, around.of(incidents[row])) for row, score in rows if row in incidents)

    def unknown(self, query: Query) -> list[tuple[int, int, str]]:
        """Say which values no incident has, and return what of the query the nearest ones would change."""
        changes = []
        for clause in query.clauses:
            for term in clause:
                what = term.what
                if not isinstance(what, Named) or term.no or what.field in ("status", "severity", "id"):
                    continue
                where, values = self._named(what)
                if self._db.execute(f"{_UNSCORED} {where} LIMIT 1", values).get or "*" in what.values:
                    continue
                near = self._nearest(what)
                end = f": did you mean {near}?" if near else ""
                self.notes.append(f'no incident has {what.field} "{", ".join(what.values)[:40]}"{end}')
                if near:
                    said = f'"{near}"' if " " in near else near
                    changes.append((what.start, what.end, f"{what.field}:{said}"))
        return changes

    def _nearest(self, what: Named) -> str:
        if len(what.values) != 1:
            return ""
        fields, word = asked(what.field, what.values[0])
        start = word.removesuffix(what.values[0])
        known = [
            value
            for (value,) in self._db.execute(
                "SELECT DISTINCT value FROM term WHERE field IN (SELECT value FROM json_each(?)) AND value >= ?",
                (json.dumps(fields), start),
            )
            if value.startswith(start)
        ]
        plain = _plain_numbers(word)
        # gpu-14 is gpu-014; then what begins so, then what has it in it.
        for fits in (
            lambda value: _plain_numbers(value) == plain,
            lambda value: what.field not in _NUMBERED and value.startswith(word),
            lambda value: what.field not in _NUMBERED and word.removeprefix(start) in value,
        ):
            if found := min(
                (value for value in known if fits(value)), key=lambda value: (len(value), value), default=""
            ):
                return str(found.removeprefix(start))
        if what.field in _NUMBERED or len(known) > _COMPARED:
            return ""
        from difflib import get_close_matches

        return "".join(one.removeprefix(start) for one in get_close_matches(word, known, n=1, cutoff=0.75))

    def suggestion(
        self, query: Query, changes: list[tuple[int, int, str]], count: int, again: Callable[[str], Query]
    ) -> str:
        """Return the query with `changes` made and its typing mistakes mended, empty where that finds no more than
        `count`."""
        for run in _runs(query):
            asks = " ".join(words.text for words in run)
            said = self._index.database.words.query_suggest(asks, 0)
            other = " ".join(said.replace('"', " ").split()) if said else ""
            if other and other.casefold() != asks.casefold():
                changes.append((run[0].start, run[-1].end, other))
        if not changes:
            return ""
        text = with_words(query, changes)
        mended = again(text)
        return text if len(_Finder(self._index).rows(mended)) > count else ""


def _plain_numbers(text: str) -> str:
    return re.sub(r"\d+", lambda found: found[0].lstrip("0"), text)


def _runs(query: Query) -> list[list[Words]]:
    """Return the plain words that stand beside each other: `fabric manger` is mended as a whole."""
    runs: list[list[Words]] = [[]]
    for clause in query.clauses:
        what = clause[0].what
        if len(clause) == 1 and not clause[0].no and isinstance(what, Words) and _is_plain(what, query):
            runs[-1].append(what)
        else:
            runs.append([])
    return [run for run in runs if run]


def _is_plain(words: Words, query: Query) -> bool:
    bare = _BARE.fullmatch(words.text) and words.text not in _RESERVED
    return bool(bare) and not words.phrase and not query.text[: words.end].endswith("*")


def _match(words: Words) -> str:
    return _quoted(words.text) + (" *" if words.begins else "")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _going_on(query: Query) -> Query | None:
    """Return the query with a value that goes on, where it ends in one: `node:gpu-0` of who is typing."""
    what = query.clauses[-1][-1].what if query.clauses else None
    if not isinstance(what, Named) or what.end < len(query.text) or what.values[-1].endswith("*"):
        return None
    longer = replace(what, values=(*what.values[:-1], f"{what.values[-1]}*"))
    *others, last = query.clauses[-1]
    clauses = (*query.clauses[:-1], (*others, replace(last, what=longer)))
    return replace(query, clauses=clauses, notes=(), changes=())


def searched(index: IncidentIndex, text: str, now: float, limit: int, *, typing: bool = False) -> Search:
    """Return what fits the text of a query, as `search`; never fails but for a broken index (`BROKEN`)."""
    query = parse_query(text, now, typing=typing)
    try:
        found = search(index, query, limit, lambda mended: parse_query(mended, now, typing=typing))
        if typing and not found.total and (more := _going_on(query)) is not None:
            longer = search(index, more, limit, lambda _: more)
            return found if not longer.total else longer
        return found
    except BROKEN:
        raise
    except apsw.Error as error:
        return Search((), 0, 0.0, "", (*query.notes, f"could not be searched for: {clean(str(error))}"))
