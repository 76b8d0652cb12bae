"""What reaches the terminal is the difference, and the terminal then shows the whole."""

from __future__ import annotations

import random

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from stethoscope.ui.paint import Picture

STYLES = [
    Style(),
    Style.parse("color(244) on color(233)"),
    Style.parse("bold color(203) on color(233)"),
    Style.parse("bold reverse color(255) on color(233)"),
    Style.parse("color(110)"),
    Style.parse("dim italic underline strike"),
]
SYSTEM = ColorSystem.EIGHT_BIT
texts = st.text(st.sampled_from("ab ·█✖全界e\u0301\x1b\x9b\n"), max_size=6)
rows = st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=8)


def strip(row: list[tuple[str, Style]], cells: int) -> Strip:
    return Strip([Segment(text, style) for text, style in row]).adjust_cell_length(cells, Style())


def looks(screen: pyte.Screen) -> list[list[object]]:
    return [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]


def shown(sent: str) -> pyte.Screen:
    screen = pyte.Screen(20, 3)
    screen.reset_mode(pyte.modes.DECAWM)
    pyte.Stream(screen).feed(sent)
    return screen


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), rows, st.sampled_from([(0, 20), (0, 9), (9, 11), (4, 3)])), max_size=12))
def test_differences_add_up_to_the_whole(updates: list[tuple[int, list[tuple[str, Style]], tuple[int, int]]]) -> None:
    picture, whole = Picture(), Picture()
    in_parts, at_once = "", ""
    for y, row, (x, cells) in updates:
        drawn = strip(row, cells)
        in_parts += picture.draw(x, y, cells, drawn, SYSTEM)
        whole.forget()
        at_once += whole.draw(x, y, cells, drawn, SYSTEM)
    assert looks(shown(in_parts)) == looks(shown(at_once))


@given(rows)
def test_no_control_character_is_sent(row: list[tuple[str, Style]]) -> None:
    sent = Picture().draw(0, 0, 20, Strip([Segment(text, style) for text, style in row]), SYSTEM)
    text = pyte.Screen(20, 1)
    pyte.Stream(text).feed(sent)
    assert "\x9b" not in sent
    assert "\n" not in sent
    bare = sent.replace("\x1b[", "")
    assert "\x1b" not in bare


def test_nothing_is_sent_for_the_same_strip_or_an_equal_one() -> None:
    picture = Picture()
    row = [("abc", STYLES[1])]
    first = strip(row, 20)
    assert picture.draw(0, 0, 20, first, SYSTEM) != ""
    assert picture.draw(0, 0, 20, first, SYSTEM) == ""
    assert picture.draw(0, 0, 20, strip(row, 20), SYSTEM) == ""


def test_one_changed_number_costs_a_few_bytes() -> None:
    picture = Picture()
    picture.draw(0, 4, 20, strip([("1980 1980 1980 1980", STYLES[1])], 20), SYSTEM)
    sent = picture.draw(0, 4, 20, strip([("1980 1980 1965 1980", STYLES[1])], 20), SYSTEM)
    assert sent == "\x1b[5;13H\x1b[38;5;244;48;5;233m65\x1b[m"


def test_a_strip_is_drawn_again_after_another_one_covered_it() -> None:
    picture = Picture()
    below, above = strip([("below below below", STYLES[1])], 20), strip([("above", STYLES[2])], 5)
    picture.draw(0, 0, 20, below, SYSTEM)
    picture.draw(10, 0, 5, above, SYSTEM)
    assert "w bel" in picture.draw(0, 0, 20, below, SYSTEM)
    assert "above" in picture.draw(10, 0, 5, above, SYSTEM)


def test_random_screens_of_many_updates_stay_right() -> None:
    rng = random.Random(7)
    picture, sent, lines = Picture(), "", {}
    for _ in range(400):
        y = rng.randrange(3)
        row = [(rng.choice(["1980", "1410", "····", "全", " "]), rng.choice(STYLES)) for _ in range(4)]
        lines[y] = strip(row, 20)
        sent += picture.draw(0, y, 20, lines[y], SYSTEM)
    fresh = "".join(Picture().draw(0, y, 20, line, SYSTEM) for y, line in lines.items())
    assert looks(shown(sent)) == looks(shown(fresh))
