"""Parts of a screen drawn from the lines in them: what comes of it is what Textual draws from all lines."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from textual._compositor import Compositor
from textual.geometry import Region

from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.narrow import NarrowCompositor
from tests.builders import fleet
from tests.ui.consoles import StillSession

if TYPE_CHECKING:
    from textual._compositor import ChopsUpdate


def drawn(update: ChopsUpdate | None) -> dict[tuple[int, int], tuple[str, str]]:
    """Return the text and style that an update draws, by line and column."""
    assert update is not None
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for y, first, last in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is None or x > last or end <= first:
                continue
            at = x
            for text, style, _ in strip:
                for character in text:
                    if at < min(end, last):
                        cells[y, at] = character, str(style)
                    at += 1
    return cells


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_it_draws_what_textual_draws(size: tuple[int, int]) -> None:
    async def open_session() -> StillSession:
        return StillSession(fleet(90))

    app, chance = StethoscopeApp(open_session, "test"), random.Random(1)
    async with app.run_test(size=size) as pilot:
        while app.fleet_screen.grid is None or not app.fleet_screen.grid.lines:
            app.pull()
            await pilot.pause(0.01)
        await pilot.press("o", "o", "j", "j")
        await pilot.pause()
        compositor = app.fleet_screen._compositor
        assert isinstance(compositor, NarrowCompositor)
        for _ in range(60):
            changed = set()
            for _ in range(chance.randint(1, 4)):
                x, y = chance.randrange(size[0]), chance.randrange(size[1])
                width, height = chance.randint(1, size[0] - x), chance.randint(1, min(3, size[1] - y))
                changed.add(Region(x, y, width, height))
            compositor._dirty_regions = set(changed)
            told = compositor.render_partial_update()
            compositor._dirty_regions = set(changed)
            wanted = drawn(Compositor.render_partial_update(compositor))
            got = drawn(told)
            asked = {(y, x) for part in changed for y in part.line_range for x in part.column_range}
            assert {place: got[place] for place in asked} == {place: wanted[place] for place in asked}


async def test_a_key_asks_for_the_lines_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_session() -> StillSession:
        return StillSession(fleet(90))

    app = StethoscopeApp(open_session, "test")
    async with app.run_test(size=(200, 60)) as pilot:
        while app.fleet_screen.grid is None or not app.fleet_screen.grid.lines:
            app.pull()
            await pilot.pause(0.01)
        app.fleet_screen.chosen.fold = "none"
        app.fleet_screen.draw()
        await pilot.pause()
        lines: list[int] = []
        view = app.fleet_screen.view
        render = view.render_lines
        monkeypatch.setattr(view, "render_lines", lambda crop: (lines.append(crop.height), render(crop))[1])
        await pilot.press("j")
        await pilot.pause()
        assert lines == [2]


def test_nothing_that_changed_is_nothing_to_draw() -> None:
    assert NarrowCompositor().render_partial_update() is None
