"""The gate for remote text: nothing that moves the cursor, hides, reorders or breaks an encoder comes through."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.text import LIMIT, clean, clean_json, clean_lines, clean_page


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain text", "plain text"),
        ("", ""),
        ("a\tb\nc\r\nd", "a b c d"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0;0;0\x1b\\after", "after"),
        ("\x9b31mred", "red"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bcreset", "reset"),
        ("a\x00b\x07c\x08d\x7fe", "abcde"),
        ("abc\u202edef", "abcdef"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("soft\u00adhyphen", "softhyphen"),
        ("line\u2028paragraph\u2029next\x85end", "line paragraph next end"),
        ("no\u00a0break", "no break"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("e\u0301", "e\u0301"),
        ("z" + "\u0301" * 50, "z" + "\u0301" * 3),
        ("\u0301first", "first"),
        ("a \u0301\u0301b e\u0301", "a b e\u0301"),
        ("显卡掉线", "显卡掉线"),
        ("\U000e0041tag", "tag"),
        (b"bytes \xff here", "bytes \ufffd here"),
        (b"\x1b[2Jcleared", "cleared"),
        ("\x1b[", ""),
        ("\x1b", ""),
    ],
)  # fmt: skip
def test_what_comes_out(dirty: str | bytes, expected: str) -> None:
    assert clean(dirty) == expected


def test_long_text_ends_in_an_ellipsis() -> None:
    assert clean("x" * 5000) == "x" * (LIMIT - 1) + "…"
    assert clean("abcdef", 4) == "abc…"
    assert clean("abcd", 4) == "abcd"
    assert clean("显卡掉线了", 4) == "显卡掉…"
    assert clean("abc", 0) == ""


def test_an_unterminated_sequence_swallows_no_more_than_its_limit() -> None:
    assert clean("\x1b]0;" + "x" * 5000 + "seen", 10_000).endswith("seen")


def test_a_flood_is_cut_before_it_is_worked_on() -> None:
    assert len(clean(b"\x1b[31m" * 10_000_000, 100)) <= 100


texts = st.text() | st.text(
    st.sampled_from("\x1b[]();m0123;?\x07\x9b\x9c\\ab \t\n\u202e\u200b\u0301\ud800\x85\U000e0041")
)


@given(texts | st.binary(), st.integers(0, 60))
def test_the_gate(dirty: str | bytes, limit: int) -> None:
    text = clean(dirty, limit)
    assert len(text) <= limit
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in text)
    assert clean(text, limit) == text
    assert clean(text.strip(), limit) == text.strip()
    assert len(text.encode()) >= len(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_ascii_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("a\n\tb\tc\n", "a\n\tb\tc\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        ("progress 1%\rprogress 2%\n", "progress 1% progress 2%\n"),
        ("\x1b[31mred\x1b[m\n\x1b]0;title\x07x\u202ey", "red\nxy"),
        (b"\xff\xfe\n", "\ufffd\ufffd\n"),
        ("\u2028one line\x85still", " one line still"),
        ("", ""),
    ],
)
def test_several_lines(dirty: str | bytes, expected: str) -> None:
    assert clean_lines(dirty) == expected


@given(texts | st.binary())
def test_the_gate_for_several_lines(dirty: str | bytes) -> None:
    text = clean_lines(dirty, 300)
    assert len(text) <= 300
    assert not any(
        unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in set(text) - {"\n", "\t"}
    )
    assert clean_lines(text, 300) == text


def test_a_page_is_kept_to_the_letter_unless_a_terminal_would_obey_it() -> None:
    page = "a\r\n\u3000全角\tb  \n\n👩\u200d🔧 e\u0301\xa0x\n"
    assert clean_page(page) == page
    assert clean_page("a\x1b[31m\r\nb  ") == "a\nb  "
    assert clean_page("a\u202eb") == "ab"
    assert clean_page("") == ""


def test_what_json_holds_is_cleaned_whole_and_keeps_its_shape() -> None:
    long = "x" * (LIMIT + 10)
    said = {"\x1b[31mnode": ["a\x07b", {"text": "one\x1b]0;t\x07\ttwo\nthree"}, 3, 1.5, None, True, long], 7: ""}
    assert clean_json(said) == {
        "node": ["ab", {"text": "one\ttwo\nthree"}, 3, 1.5, None, True, long],
        "7": "",
    }
    assert clean_json(["one\ntwo", long], clean) == ["one two", clean(long)]
