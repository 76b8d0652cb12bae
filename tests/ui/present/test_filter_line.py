"""The filter while it is typed: its text, the mark below a mistake, candidates, and the history."""

from __future__ import annotations

import pytest

from stethoscope.analysis.filter import FilterError, compile_filter, complete, meaning_of
from stethoscope.ui.present.filter_line import (
    MOST_REMEMBERED,
    FilterLine,
    Recall,
    below_row,
    remembered,
    typed_row,
)
from stethoscope.ui.present.spans import ASCII, UNICODE, Tone, plain, row_width
from tests.builders import catalogue, fleet


def line(text: str, cursor: int | None = None, **more: object) -> FilterLine:
    error = None
    try:
        compile_filter(text, catalogue())
    except FilterError as mistake:
        error = mistake
    given = {"fits": 12, "nodes": 2_000, **more}
    return FilterLine(text, len(text) if cursor is None else cursor, error, **given)  # type: ignore[arg-type]


def test_the_text_and_how_many_nodes_fit() -> None:
    row = typed_row(line("temp>85", hidden=3), 80, UNICODE)
    assert plain(row) == " / temp>85" + " " * 20 + "12 of 2,000 nodes · 3 with something wrong hidden "
    assert [span.text for span in row if span.selected] == [" "]
    assert [span.text for span in typed_row(line("temp>85", 2), 80, UNICODE) if span.selected] == ["m"]
    assert plain(typed_row(line("temp>85", hidden=3), 48, UNICODE)).endswith("      12 of 2,000 nodes ")


def test_a_mistake_is_marked_in_the_text_and_told_below_it() -> None:
    typed = line("temp>85 & hots~gpu")
    assert [span.text for span in typed_row(typed, 80, UNICODE) if span.tone is Tone.WARNING] == ["hots"]
    assert plain(typed_row(typed, 80, UNICODE)).endswith("before: 12 of 2,000 nodes ")
    assert plain(below_row(typed, 80, UNICODE)) == '             ↑ unknown name "hots"; did you mean "host"?'
    assert plain(below_row(typed, 80, ASCII)).lstrip().startswith("^ unknown")


def test_a_mistake_far_right_is_told_left_of_its_mark_or_from_the_start() -> None:
    far = line("a" * 40 + " | x | tmep>8")
    assert plain(below_row(far, 60, UNICODE)) == '        unknown name "tmep"; did you mean "temp"? ↑'
    assert plain(below_row(line("a & tmep>8"), 44, UNICODE)) == '   unknown name "tmep"; did you mean "temp"?'


def test_what_is_unfinished_is_no_mistake() -> None:
    typed = line("temp>85 &")
    assert typed.is_unfinished
    assert all(span.tone is not Tone.WARNING for span in typed_row(typed, 80, UNICODE))
    assert plain(below_row(typed, 80, UNICODE)) == "   a condition is missing"
    assert plain(below_row(line("temp>", candidates=["warn"]), 80, UNICODE)) == "   warn  "
    assert plain(below_row(line("state=lo", candidates=["lost"]), 80, UNICODE)) == "   lost  "
    assert not line("state=lo").is_unfinished
    assert not line("state=lo | x", candidates=["xid"]).is_unfinished
    assert plain(below_row(line("gpu-0"), 80, UNICODE)).strip() == ""


def test_the_chosen_candidate_is_always_seen() -> None:
    words = complete("", 0, fleet(1))
    for chosen in range(len(words)):
        row = below_row(line("", candidates=words, chosen=chosen), 60, UNICODE)
        assert [span.text for span in row if span.selected] == [words[chosen]]
        assert row_width(row) <= 60
    assert not any(span.selected for span in below_row(line("", candidates=words), 60, UNICODE))


@pytest.mark.parametrize("cells", [1, 5, 20, 40, 80, 300])
def test_it_fits_at_any_width(cells: int) -> None:
    for text in ("", "temp>85 & hots~x", "宽" * 40, "x\x1b[31m>3", "e\u0301" * 30, "a" * 400 + "=1", "temp>" * 9):
        for cursor in range(0, len(text) + 1, 7):
            typed = line(text, cursor, candidates=complete(text, cursor, fleet(3)), chosen=0, hidden=1)
            for row in (typed_row(typed, cells, UNICODE), below_row(typed, cells, UNICODE)):
                assert row_width(row) <= cells
                assert "\x1b" not in plain(row)
        if cells >= 20:
            assert sum(span.selected for span in typed_row(line(text, 3), cells, UNICODE)) == 1


def test_what_the_chosen_candidate_stands_for() -> None:
    words = complete("te", 2, fleet(1))
    meaning = meaning_of(words[0], catalogue())
    assert meaning == "GPU temperature, C: Core temperature. Where the driver gives a margin, the margin says more."
    row = plain(below_row(line("te", candidates=words, chosen=0, meaning=meaning), 160, UNICODE))
    assert row.startswith("   temp  state  mem_temp  port_state  ")
    assert row.endswith(f"  {meaning} ")
    for chosen in range(len(words)):
        for cells in (60, 80, 120):
            shown = below_row(line("te", candidates=words, chosen=chosen, meaning=meaning), cells, UNICODE)
            assert [span.text for span in shown if span.selected] == [words[chosen]]
            assert row_width(shown) <= cells
    narrow = below_row(line("te", candidates=words, chosen=0, meaning=meaning), 40, UNICODE)
    assert "GPU temperature" not in plain(narrow)
    assert meaning_of("host~", catalogue()) == "name of the node"
    assert meaning_of("port_state=", catalogue()).startswith("Port state: Logical state")
    assert (meaning_of("gpu-001", catalogue()), meaning_of("", catalogue())) == ("", "")


def test_history_is_short_and_has_nothing_twice() -> None:
    assert remembered(["b", "a"], " a ") == ["a", "b"]
    assert remembered(["b"], "  ") == ["b"]
    many = [str(number) for number in range(99)]
    assert remembered(many, "new") == ["new", *many][:MOST_REMEMBERED]


def test_going_back_through_what_begins_alike() -> None:
    recall = Recall(["temp>90", "host~a", "temp>85"], "temp")
    assert [recall.older(), recall.older(), recall.older()] == ["temp>90", "temp>85", "temp>85"]
    assert [recall.newer(), recall.newer(), recall.newer()] == ["temp>90", "temp", "temp"]
    assert Recall([], "x").older() == "x"
