"""What is sent to a node, packed and unpacked again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.collect import packed
from stethoscope.model import wire

_WORDS = st.sampled_from([*packed.PHRASES, "x", "ret", "\n", "return return", "'gpus'"])
_TEXT = st.lists(_WORDS, max_size=40).map(lambda words: "".join(words).encode())


@settings(max_examples=40)
@given(st.lists(_TEXT, min_size=1, max_size=3), st.lists(_TEXT, min_size=1, max_size=3))
def test_unpacking_gives_the_texts_back(first: list[bytes], later: list[bytes]) -> None:
    start, rest = packed.pack(first, later)
    assert wire.unpack(start + rest) == [*first, *later]
    # The first part has all of the first texts, though not the others.
    assert wire.unpack(start)[: len(first)] == first


def test_the_first_part_is_no_longer_than_it_must_be() -> None:
    first, later = [b"a" * 50, b"b\n"], [bytes(range(32, 127)) * 20]
    start, _ = packed.pack(first, later)
    assert len(wire.unpack(start[:-1])) < 3 <= len(wire.unpack(start))


def test_phrases_are_in_the_words_of_those_before_them_and_only_what_comes_again_is_one() -> None:
    phrases, content = packed.spoken(b"return x return y once", ["return ", "once", "x return "])
    assert (phrases, content) == (b"return ", b"\x80x \x80y once")
    phrases, content = packed.spoken(b"not in, not in", ["in", "not in"])
    assert (phrases, content) == (b"in\1not \x80", b"\x81, \x81")


@pytest.mark.parametrize("text", ["ä".encode(), b"a\0b", b"a\1b"])
def test_what_cannot_be_packed_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="ASCII"):
        packed.pack([text], [b"x"])


@pytest.mark.parametrize("junk", [b"\xff\xff\xff", b"not deflate at all"])
def test_junk_is_not_unpacked(junk: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.unpack(junk)


def test_groups_survive_being_written_densely() -> None:
    run = {"id": "r", "argv": ["a", "-b"], "limit": 5, "sudo": 1, "each": "/d*"}
    groups = [
        {"name": "a", "s": 30, "read": [["/x", "only ^a b"], ["/y", ""]], "run": []},
        {"name": "b", "s": 60, "read": [], "run": [run]},
    ]
    dense = wire.dense(groups)
    assert dense == [
        ["a", 30, {"only ^a b": "/x", "": "/y"}],
        ["b", 60, {}, ["r", "a -b", 5, 1, "/d*"]],
    ]
    assert wire.loose(dense) == groups
    # What is read once a minute or less often keeps its interval.
    assert [group["s"] for group in wire.loose(dense, 2)] == [60, 60]


@pytest.mark.parametrize("groups", [7, [7], [["a"]], [["a", 30]], [["a", 30, {}, ["x"]]], [["a", "30", []]]])
def test_broken_groups_are_none(groups: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.loose(groups)
