"""Three texts make one, and nobody's words are lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stethoscope.specs.incident_merge import marked_at, merged

BASE = "a\nb\nc\nd\n"


def test_changes_at_other_lines_are_both_taken() -> None:
    assert merged(BASE, "A\nb\nc\nd\n", "a\nb\nc\nd\ne\n") == ("A\nb\nc\nd\ne\n", 0)


def test_changes_of_the_same_line_stand_both() -> None:
    text, conflicts = merged(BASE, "a\nmine\nc\nd\n", "a\ntheirs\nc\nd\n")
    assert (text, conflicts) == ("a\n<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> theirs\nc\nd\n", 1)
    assert marked_at(text) == 2
    assert marked_at(BASE) is None


def test_the_same_change_of_both_is_one() -> None:
    assert merged(BASE, "a\nx\nc\nd\n", "a\nx\nc\nd\n") == ("a\nx\nc\nd\n", 0)


LINES = st.lists(st.sampled_from(["a", "b", "c", "光"]), max_size=8).map(lambda lines: "".join(f"{x}\n" for x in lines))


@given(LINES, LINES, LINES)
def test_no_line_of_anybody_is_lost(base: str, ours: str, theirs: str) -> None:
    text, conflicts = merged(base, ours, theirs)
    if not conflicts:
        again, none = merged(base, theirs, ours)
        assert (again, none) == (text, 0)
    for said in (ours, theirs):
        for line in set(said.splitlines()) - set(base.splitlines()):
            assert line in text.splitlines()
    assert merged(base, base, theirs) == (theirs, 0)
    assert merged(base, ours, base) == (ours, 0)
