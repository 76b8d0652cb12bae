"""What people type to find an incident is read as they mean it, and nothing they type is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stethoscope.specs.incident_query import FIELDS, Named, Query, Span, Term, Words, parse_query, with_words

NOW = 1_773_454_447.0
"""2026-03-14T02:14:07Z"""


def _said(text: str, *, typing: bool = False) -> list[list[str]]:
    """Return the terms of each clause in a short form."""
    return [[_short(term) for term in clause] for clause in parse_query(text, NOW, typing=typing).clauses]


def _short(term: Term) -> str:
    what, no = term.what, "-" if term.no else ""
    if isinstance(what, Words):
        return f"{no}{what.text}{'*' if what.begins else ''}"
    if isinstance(what, Named):
        return f"{no}{what.field}={'|'.join(what.values)}"
    return f"{no}>={what.after:.0f}" if what.after is not None else f"{no}<{what.before:.0f}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", []),
        ("optic  degraded", [["optic"], ["degraded"]]),
        ("掉卡\u3000降频", [["掉卡"], ["降频"]]),
        ('"fell off" “two words” bus', [["fell off"], ["two words"], ["bus"]]),
        ('"not closed', [["not closed"]]),
        ('-cable -"a b" NOT x -status:open', [["-cable"], ["-a b"], ["-x"], ["-status=open"]]),
        ("a OR b OR xid:79 c", [["a", "b", "xid=79"], ["c"]]),
        ("OR a AND b OR", [["a"], ["b"]]),
        ("or a-b - c", [["or"], ["a-b"], ["-"], ["c"]]),
        ("opt* *", [["opt*"], ["*"]]),
        ("XID:79,48 Node:GPU-1", [["xid=79|48"], ["node=gpu-1"]]),
        ("node:gpu-[001-003],x", [["node=gpu-001|gpu-002|gpu-003|x"]]),
        ('tag:"a, b",c author:\'x', [["tag=a, b|c"], ["author='x"]]),
        ("status:closed is:reference", [["status=resolved"], ["status=reference"]]),
        ("status：open", [["status=open"]]),
        ("xid: node:,", []),
        ("http://x:8/y", [["http://x:8/y"]]),
    ],
)
def test_what_is_typed_is_what_is_meant(text: str, said: list[list[str]]) -> None:
    assert _said(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("after:2026", ">=1767225600"),
        ("after:2026-03", ">=1772323200"),
        ("before:2026-03-14", "<1773446400"),
        ("after:2026-03-14T02:14:07Z", ">=1773454447"),
        ("after:today", ">=1773446400"),
        ("before:yesterday", "<1773360000"),
        ("after:7d", ">=1772849647"),
        ("-after:2w", "->=1772244847"),
    ],
)
def test_times(text: str, said: str) -> None:
    assert _said(text) == [[said]]


def test_only_the_last_word_that_is_being_typed_may_go_on() -> None:
    assert _said("gpu opt", typing=True) == [["gpu"], ["opt*"]]
    assert _said("a OR opt", typing=True) == [["a", "opt*"]]
    assert _said("gpu opt ", typing=True) == [["gpu"], ["opt"]]
    assert _said('"gpu opt"', typing=True) == [["gpu opt"]]
    assert _said("xid:79", typing=True) == [["xid=79"]]


@pytest.mark.parametrize(
    ("text", "note", "mended"),
    [
        ("sev:P0", 'no field "sev": did you mean severity?', "severity:P0"),
        ("nod:gpu-1", 'no field "nod": did you mean node?', "node:gpu-1"),
        ("status:opne x", 'no status "opne": did you mean open?', "status:open x"),
        ("is:incident", 'no status "incident"; there are open, mitigated, resolved, reference', "is:incident"),
        ("root_cuase:x", 'no field "root_cuase": did you mean root_cause?', "root_cause:x"),
        ("foo:bar", 'no field "foo"; looked for as words', "foo:bar"),
        ("after:soon", 'after: "soon" is no time: write 2026-03, 2026-03-14 or 7d', "after:soon"),
        ("before:2026-13", 'before: "2026-13" is no time: write 2026-03, 2026-03-14 or 7d', "before:2026-13"),
        ("node:gpu-[1-", 'cannot read node set "gpu-[1-"', "node:gpu-[1-"),
    ],
)
def test_what_is_not_understood_is_said(text: str, note: str, mended: str) -> None:
    query = parse_query(text, NOW)
    assert len(query.notes) == 1
    assert query.notes[0].startswith(note)
    assert with_words(query, query.changes) == mended


def test_a_query_of_a_thousand_words_is_cut() -> None:
    query = parse_query("a " * 1000, NOW)
    assert len(query.clauses) == 64
    assert query.notes == ("only the first 64 words are looked for",)


_PIECES = some.lists(
    some.sampled_from(["OR", "AND", "NOT", "-", '"', "“", "*", ":", ",", "[", "]", "(", ")", "掉卡", "\x00", "\u3000"])
    | some.sampled_from([f"{field}:" for field in FIELDS])
    | some.text(max_size=12),
    max_size=12,
).flatmap(lambda pieces: some.sampled_from(["", " "]).map(lambda gap: gap.join(pieces)))


@given(_PIECES, some.booleans())
def test_nothing_that_is_typed_is_an_error(text: str, typing: bool) -> None:
    query = parse_query(text, NOW, typing=typing)
    assert isinstance(query, Query)
    for clause in query.clauses:
        assert clause
        for term in clause:
            what = term.what
            assert isinstance(what, Words | Named | Span)
            if isinstance(what, Words):
                assert 0 <= what.start <= what.end <= len(query.text)
