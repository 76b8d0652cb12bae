"""What the console says of links, and the key that tries one again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.model.frame import Link, LinkState
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.present.assess import assess, link_words
from stethoscope.ui.present.lines import top_line
from stethoscope.ui.present.spans import UNICODE, plain
from tests.ui.consoles import StillSession
from tests.ui.scenes import troubled

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot


class Retried(StillSession):
    """Takes down what is tried again."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        super().__init__(snapshot)
        self.asked: list[str] = []

    def retry(self, node: str) -> None:
        self.asked.append(node)


def with_link(link: Link) -> FleetSnapshot:
    """Return a fleet whose first node has `link`."""
    snapshot = troubled()
    first = replace(snapshot.nodes[0], link=link, frame_mono=None)
    return replace(snapshot, nodes=(first, *snapshot.nodes[1:]))


def test_a_link_says_for_how_long_and_when_it_is_tried_again() -> None:
    wall = troubled().wall
    refused = Link(LinkState.REFUSED, wall - 90, "n1:22 refuses connections", wall + 13.2, 4)
    node = with_link(refused).nodes[0]
    assert link_words(node, wall) == "refused 90 s · n1:22 refuses connections"
    assert link_words(node, wall, next_try=True) == "refused 90 s · next try in 14 s · n1:22 refuses connections"
    silent = with_link(Link(LinkState.SILENT, wall - 14, "no line since 02:13:53 UTC")).nodes[0]
    assert link_words(silent, wall) == "silent 14 s · no line since 02:13:53 UTC"
    cut = with_link(Link(LinkState.FLOODING, wall - 3, "too much", wall + 600)).nodes[0]
    assert link_words(cut, wall, next_try=True) == "flooding, cut 3.0 s · next try in 10 m · too much"
    back = with_link(Link(LinkState.LIVE, wall - 3, "back after reboot; no Python, using sh")).nodes[0]
    assert link_words(back, wall) == "live · back after reboot; no Python, using sh"


def test_read_only_stands_in_the_top_line() -> None:
    snapshot = replace(troubled(), read_only=True)
    for cells, words in ((200, "  READ-ONLY"), (80, " RO ")):
        row = plain(top_line(assess(snapshot, snapshot.mono), snapshot.wall, cells, UNICODE, paused=False))
        assert words in row
        assert len(row) <= cells
    assert "READ-ONLY" not in plain(
        top_line(assess(troubled(), snapshot.mono), snapshot.wall, 200, UNICODE, paused=False)
    )


async def test_r_tries_the_node_under_the_cursor_and_that_of_the_node_screen() -> None:
    wall = troubled().wall
    session = Retried(with_link(Link(LinkState.REFUSED, wall - 90, "refuses", wall + 13, 4)))
    name = session.now.nodes[0].name
    live = next(node.name for node in session.now.nodes if node.link.state is LinkState.LIVE)

    async def open_session() -> Retried:
        return session

    app = StethoscopeApp(open_session, "test", clock=session.clock)
    async with app.run_test(size=(120, 40)) as pilot:
        while app.fleet_screen.grid is None:
            await asyncio.sleep(0.01)
            app.pull()
        app.fleet_screen.set_filter(name)
        await pilot.press("r")
        assert session.asked == [name]
        await pilot.press("enter")
        app.pull()
        await pilot.pause()
        await pilot.press("r")
        assert session.asked == [name, name]
        await pilot.press("escape")
        app.fleet_screen.set_filter(live)
        await pilot.press("r")
        assert session.asked == [name, name], "there is nothing to try"
