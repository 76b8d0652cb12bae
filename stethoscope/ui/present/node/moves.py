"""Where the cursor of the node screen can stand, and where it goes from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.ui.present.spans import width

if TYPE_CHECKING:
    from stethoscope.ui.present.node.page import Page
    from stethoscope.ui.present.node.view import Line, Spot


class Stand(NamedTuple):
    """A place for the cursor on a page."""

    line: int
    x: int
    spot: Spot
    words: str = ""
    """What stands there, where it is no value."""


def stands(line: Line, number: int) -> list[Stand]:
    """Return the places of one line, from left to right."""
    found, x = [], 0
    for piece in line:
        if piece.spot is not None:
            found.append(Stand(number, x, piece.spot, piece.words))
        x += width(piece.text)
    return found


def find(page: Page, spot: Spot | None, near: int = 0) -> Stand | None:
    """Return where `spot` stands, the place nearest to line `near` when it stands at several; without it the first
    place of the page, None on a page without any."""
    here = [stand for number, line in enumerate(page.lines) for stand in stands(line, number) if stand.spot == spot]
    if here:
        return min(here, key=lambda stand: abs(stand.line - near))
    if spot is not None and not spot.is_section:
        # A value that is not shown any more: the line of its section.
        return find(page, type(spot)(spot.section), near)
    return first(page)


def first(page: Page) -> Stand | None:
    """Return the first place of a page."""
    return next((stand for number, line in enumerate(page.lines) for stand in stands(line, number)), None)


def last(page: Page) -> Stand | None:
    """Return the last place of a page, in its left column."""
    for number in range(len(page.lines) - 1, -1, -1):
        left = [stand for stand in stands(page.lines[number], number) if stand.x < page.split]
        if left:
            return left[0]
    return None


def vertical(page: Page, at: Stand, lines: int, x: int) -> Stand:
    """Return the place `lines` lines below `at` (above, when negative) in the same column of the page, the one nearest
    to `x` there; it stops at the ends."""
    step = 1 if lines > 0 else -1
    left = abs(lines)
    goal, number = at, at.line
    while left > 0:
        number += step
        if not 0 <= number < len(page.lines):
            break
        same = [s for s in stands(page.lines[number], number) if (s.x < page.split) == (at.x < page.split)]
        if same:
            goal = min(same, key=lambda stand: abs(stand.x - x))
            left = abs(lines) - abs(number - at.line) if abs(lines) > 1 else 0
    return goal


def sideways(page: Page, at: Stand, columns: int) -> Stand:
    """Return the next place of the same line."""
    line = stands(page.lines[at.line], at.line)
    place = next((number for number, stand in enumerate(line) if stand.x == at.x), 0)
    return line[max(0, min(len(line) - 1, place + columns))]
