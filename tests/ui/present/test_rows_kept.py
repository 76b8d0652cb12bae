"""Rows are drawn again only when they say something else, and of a large fleet only the latest are kept."""

from __future__ import annotations

from dataclasses import replace

from stethoscope.ui.present import grid as module
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.grid import FleetGrid
from stethoscope.ui.present.spans import UNICODE
from stethoscope.ui.present.view import View
from tests.builders import fleet


def test_the_rows_that_are_visible_are_kept_and_no_more() -> None:
    snapshot = fleet(300)
    grid = FleetGrid(View(metric="gpu_temp", group="none", fold="none"), UNICODE)
    grid.update(assess(snapshot, snapshot.mono), snapshot.wall, 160, 40, None)
    lines = [number for number, line in enumerate(grid.arranged) if len(line.nodes) == 1]
    assert len(lines) == 300
    rows = [grid.row(line, None) for line in lines]
    assert len(grid._cache) == len(grid._said) == module._MOST_KEPT
    assert grid.row(lines[-40], None) is rows[-40]
    # What is drawn anew stays longer than what was not.
    changed = replace(snapshot, nodes=tuple(replace(node, version=node.version + 1) for node in snapshot.nodes))
    grid.update(assess(changed, changed.mono), changed.wall, 160, 40, None)
    again = grid.row(lines[-200], None)
    assert again == rows[-200]
    for line in lines[:200]:
        grid.row(line, None)
    assert grid.row(lines[-200], None) is again
    assert grid.row(lines[0], None) == rows[0]
