"""The small trend of a row: on the metric's scale, of the worst device, stepping with time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.history import History
from stethoscope.model.metric import Reason
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.grid import FleetGrid
from stethoscope.ui.present.layout import headline
from stethoscope.ui.present.spans import ASCII, UNICODE, Glyphs, Tone, plain
from stethoscope.ui.present.view import View
from tests.builders import MONO, WALL, catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from tests.builders import Value

CLOCK = "gpu_sm_clock"


def moment(mono: float, value: Value, metric: str = CLOCK) -> FleetSnapshot:
    return replace(fleet(3, set={("gpu-002/gpu/3", metric): value}), mono=mono)


def remembered(*values: Value, every_s: float = 60.0, metric: str = CLOCK) -> tuple[History, FleetSnapshot]:
    history = History(catalogue())
    snapshot = moment(0, 0)
    for number, value in enumerate(values):
        snapshot = moment(60.0 + number * every_s, value, metric)
        assert history.take(snapshot)
    return history, snapshot


def grid_of(
    history: History | None, snapshot: FleetSnapshot, metric: str = CLOCK, cells: int = 220, glyphs: Glyphs = UNICODE
) -> FleetGrid:
    grid = FleetGrid(View(metric=metric), glyphs)
    grid.history = history
    grid.update(assess(snapshot, snapshot.mono), snapshot.wall, cells, 40, None)
    return grid


def bars(grid: FleetGrid, name: str) -> str:
    return grid.trends.bars(grid.snapshot, grid.snapshot.node(name))


def test_bars_are_those_of_the_worst_device_on_the_scale_of_the_metric() -> None:
    grid = grid_of(*remembered(1980, 1590, 1200, Reason.HUNG, 1980))
    assert grid.trends.span_s == 300
    # Five minutes have three cells each: a minute between two samples leaves cells without one.
    assert bars(grid, "gpu-002") == "  █  ▅  ▁  █  █", "the others have a value where this one has none"
    assert bars(grid, "gpu-001") == "  █  █  █  █  █"


def test_what_was_short_does_not_vanish() -> None:
    values: list[Value] = [1980] * 180
    values[100] = 1200
    grid = grid_of(*remembered(*values, every_s=5.0))
    assert grid.trends.span_s == 900
    assert bars(grid, "gpu-002") == "████████▁██████"
    assert bars(grid_of(*remembered(*[30] * 30, 95, every_s=5.0, metric="gpu_temp"), "gpu_temp"), "gpu-002")[-1] == "█"


def test_a_gap_is_blank() -> None:
    history, _ = remembered(1980, 1980)
    gone = replace(fleet(3, lost=["gpu-002"]), mono=180.0)
    history.take(gone)
    back = moment(240, 1980)
    history.take(back)
    grid = grid_of(history, back)
    assert grid.trends.span_s == 180
    assert bars(grid, "gpu-002") == "    █         █"
    assert bars(grid, "gpu-001") == "    █    █    █"


def test_the_column_is_there_where_there_is_room_and_a_history() -> None:
    history, snapshot = remembered(1980, 1200)
    wide = grid_of(history, snapshot)
    assert wide.layout is not None
    assert "   3 min             what" in plain(headline(wide.layout, "3 min"))
    head = plain(headline(wide.layout, "3 min")).index("3 min")
    row = plain(wide.row(wide.lines.index("gpu-002"), None))
    assert row[head : head + 15] == bars(wide, "gpu-002")
    assert row[head + 14] == "▁"
    for narrow in (grid_of(history, snapshot, cells=120), grid_of(None, snapshot)):
        assert narrow.layout is not None
        assert not narrow.layout.trend
    words = grid_of(history, snapshot, "gpu_clocks_event_reasons")
    assert words.layout is not None
    assert not words.layout.trend
    ascii_row = plain(
        (lambda grid: grid.row(grid.lines.index("gpu-002"), None))(grid_of(history, snapshot, glyphs=ASCII))
    )
    assert ascii_row[head : head + 15].isascii()


def test_bars_are_made_again_only_when_there_is_another_sample() -> None:
    history, snapshot = remembered(1980, 1980)
    grid = grid_of(history, snapshot)
    before = grid.trends.version
    grid.update(assess(snapshot, snapshot.mono + 1), snapshot.wall + 1, 220, 40, None)
    assert grid.trends.version == before
    history.take(moment(180, 1200))
    grid.update(assess(snapshot, snapshot.mono + 2), snapshot.wall + 2, 220, 40, None)
    assert grid.trends.version == before + 1
    assert bars(grid, "gpu-002")[-1] == "▁"


def test_what_moved_alike_everywhere_is_not_loud() -> None:
    snapshot = fleet(4, set={("gpu-002/gpu/0", "gpu_temp"): 95.0})
    grid = FleetGrid(View(metric="gpu_sm_clock"), UNICODE)
    grid.history = History(catalogue())
    grid.update(assess(snapshot, MONO), WALL, 200, 50, None)
    grid.trends.bars = lambda snapshot, node: "▁▁▇▇"  # type: ignore[method-assign]
    assert grid.layout is not None
    assert grid.layout.trend
    tones = {
        grid.lines[place]: next(span.tone for span in grid.row(place, None) if "▇" in span.text) for place in range(4)
    }
    assert tones["gpu-002"] is Tone.PLAIN
    assert {tone for name, tone in tones.items() if name != "gpu-002"} == {Tone.FAINT}


def test_nodes_drawn_together_have_the_bars_of_each_alone() -> None:
    history, snapshot = remembered(1980, 1590, 1200, Reason.HUNG, 1980)
    together, alone = grid_of(history, snapshot), grid_of(history, snapshot)
    together.trends.draw(snapshot, snapshot.nodes)
    assert all(together.trends.has(node) for node in snapshot.nodes)
    assert not alone.trends.has(snapshot.nodes[0])
    for node in reversed(snapshot.nodes):
        assert bars(together, node.name) == bars(alone, node.name)
