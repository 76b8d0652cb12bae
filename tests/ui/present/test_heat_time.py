"""Heat over time: columns of time, lines of nodes, and what a cell says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stethoscope.analysis.history import History
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Reason
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.grid import FleetGrid
from stethoscope.ui.present.heat_lines import cell_line, findings_row, heat_row, legend_row, times_row, title_row
from stethoscope.ui.present.heat_time import MORE, HeatPicture, NodeSeries, picture_of
from stethoscope.ui.present.spans import ASCII, UNICODE, Glyphs, Span, Tone, plain, row_width
from stethoscope.ui.present.view import View
from tests.builders import WALL, catalogue, fleet
from tests.ui.scenes import finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from tests.builders import Value

CLOCK, TEMP = "gpu_sm_clock", "gpu_temp"
NODES = 12


def snapshot_at(number: int, value: Value, metric: str, every_s: float, **more: object) -> FleetSnapshot:
    passed = number * every_s
    made = fleet(NODES, set={("gpu-003/gpu/2", metric): value}, **more)  # type: ignore[arg-type]
    return replace(made, mono=1000.0 + passed, wall=WALL + passed)


class Scene:
    """A grid with a history, and its picture."""

    def __init__(
        self,
        values: Sequence[Value],
        metric: str = CLOCK,
        cells: int = 100,
        height: int = 40,
        every_s: float = 5.0,
        glyphs: Glyphs = UNICODE,
        **chosen: str,
    ) -> None:
        self.history = History(catalogue())
        for number, value in enumerate(values):
            self.snapshot = snapshot_at(number, value, metric, every_s)
            assert self.history.take(self.snapshot)
        self.grid = FleetGrid(View(metric=metric, **chosen), glyphs)
        self.series = NodeSeries()
        self.cells, self.height = cells, height
        self.make()

    def make(self, pinned: str | None = None) -> HeatPicture:
        assessment = assess(self.snapshot, 1000.0)
        self.grid.update(assessment, self.snapshot.wall, self.cells, 100, None)
        self.series.update(self.history, assessment, self.grid.metric)
        self.picture = picture_of(self.grid, self.series, self.cells, self.height, pinned)
        return self.picture

    def row(self, name: str, cursor: int | None = None) -> str:
        keys = [line.key for line in self.picture.lines]
        return plain(heat_row(self.grid, self.picture, keys.index(name), cursor))

    def said(self, name: str, column: int, cells: int = 160) -> str:
        line = [line.key for line in self.picture.lines].index(name)
        now = self.snapshot.mono
        return plain(cell_line(self.grid, self.picture, self.history, line, column, now, cells))


def test_a_cell_is_the_worst_device_at_that_time() -> None:
    scene = Scene([1980, 1980, 1590, 1200, 1980], cells=250)
    assert scene.picture.step_s == 5
    assert scene.row("gpu-003") == " · gpu-003  ██▓░█"
    assert scene.row("gpu-001") == " · gpu-001  █████"
    spans = heat_row(scene.grid, scene.picture, [line.key for line in scene.picture.lines].index("gpu-003"), None)
    assert spans[2:] == (
        Span("██", Tone.FAINT),
        Span("▓", Tone.HEAT_4),
        Span("░", Tone.HEAT_0),
        Span("█", Tone.FAINT),
    )
    assert scene.said("gpu-003", 3) == (" gpu-003  02:14:22 UTC · SM clock 1200 MHz, gpu/2 · median of all 1980 MHz")
    assert scene.said("gpu-003", 0).startswith(" gpu-003  02:14:07 UTC, 15 s ago · SM clock 1980 MHz, gpu/0 · ")


def test_columns_span_more_where_there_is_less_room_and_what_was_short_stays() -> None:
    values: list[Value] = [1980] * 181
    values[90] = 1200
    narrow = Scene(values, cells=79)
    assert (narrow.picture.step_s, narrow.picture.columns) == (15, 61)
    assert narrow.row("gpu-003").count("░") == 1
    assert row_width(heat_row(narrow.grid, narrow.picture, 0, None)) <= 79
    wide = Scene(values, cells=199)
    assert (wide.picture.step_s, wide.picture.columns) == (5, 181)
    assert row_width(heat_row(wide.grid, wide.picture, 0, None)) <= 199


def test_a_gap_has_its_own_sign_and_is_no_zero() -> None:
    scene = Scene([1980, 1980], cells=250)
    lost = fleet(NODES, lost=["gpu-003"], links={"gpu-003": Link(LinkState.UNREACHABLE, WALL, "gone")})
    scene.snapshot = replace(lost, mono=1010.0, wall=WALL + 10)
    scene.history.take(scene.snapshot)
    scene.make()
    assert scene.row("gpu-003") == " – gpu-003  ██?"
    assert scene.said("gpu-003", 2) == " gpu-003  02:14:17 UTC · no value · median of all 1980 MHz"
    scene.snapshot = snapshot_at(40, 1980, CLOCK, 5.0)
    scene.history.take(scene.snapshot)
    scene.make()
    assert scene.row("gpu-001") == " · gpu-001  ███" + "?" * 37 + "█", "nothing was heard for three minutes"


def test_samples_that_come_a_little_late_leave_no_gap() -> None:
    scene = Scene([1980] * 60, cells=250, every_s=5.4)
    assert scene.picture.step_s == 5
    assert set(scene.row("gpu-001")[12:]) == {"█"}


def test_limits_of_the_metric_are_marked() -> None:
    scene = Scene([62, 84, 84], metric=TEMP, cells=250)
    assert scene.row("gpu-003").endswith("▲▲")
    assert plain(legend_row(scene.grid, 100)).startswith(" GPU temperature °C   30 ░░▒▒▓▓██ 90 ")
    assert plain(legend_row(scene.grid, 100)).endswith("? no value   ▲ warning   ")
    assert "GPU temperature 84 °C, gpu/2 · median of all 62 °C" in scene.said("gpu-003", 2)


def test_times_stand_above_their_columns() -> None:
    scene = Scene([1980] * 181, cells=199)
    times = plain(times_row(scene.grid, scene.picture, 200))
    place = times.index("02:20") - 12
    begin = (scene.picture.first + place) * scene.picture.step_s + scene.snapshot.wall - scene.snapshot.mono
    assert begin <= WALL + 353 < begin + scene.picture.step_s, "02:20:00 is in that column"
    assert plain(times_row(scene.grid, scene.picture, 200)).startswith("   node     ")
    title = plain(title_row(scene.grid, scene.picture, scene.snapshot.wall, 120, None))
    assert "heat over time  lowest GPU of each node, 15 min, 5 s a column" in title


def test_findings_are_marked_where_they_began() -> None:
    scene = Scene([1980] * 13, cells=250)
    found = (finding("P1", "gpu-003/gpu/2", "thermal", "2026-03-14T02:14:37Z"), finding("P0", "x", "y", "?"))
    scene.snapshot = replace(scene.snapshot, findings=found)
    scene.make()
    assert plain(findings_row(scene.grid, scene.picture)) == "   found          ▲      "
    assert scene.said("gpu-003", 6).endswith(" · median of all 1980 MHz · ▲ P1 thermal")
    assert "thermal" not in scene.said("gpu-003", 7)


def test_what_is_alike_shares_a_line_where_there_are_too_many() -> None:
    values: list[Value] = [1980, 1200]
    whole = Scene(values, height=NODES)
    assert len(whole.picture.lines) == NODES
    few = Scene(values, height=4)
    assert [line.key for line in few.picture.lines] == ["gpu-003", "gpu-001", "gpu-002", MORE]
    assert few.row(MORE) == " · 9 more   ██"
    assert few.said(MORE, 1).startswith(" 9 nodes  02:14:12 UTC · median 1980 MHz · alike: gpu-[")
    assert "gpu-012" in [line.key for line in few.make("gpu-012").lines], "the cursor stands there"
    assert len(Scene(values, height=4, fold="none").picture.lines) == NODES
    assert len(Scene(values, fold="all").picture.lines) == 2


def test_a_filter_and_the_order_are_those_of_the_fleet() -> None:
    scene = Scene([1980], sort="name", filter="gpu-01*")
    assert [line.key for line in scene.picture.lines] == ["gpu-010", "gpu-011", "gpu-012"]


def test_only_new_samples_are_looked_at() -> None:
    scene = Scene([1980, 1200])
    kept = dict(scene.series._kept)
    scene.snapshot = snapshot_at(2, 1500, CLOCK, 5.0)
    scene.history.take(scene.snapshot)
    scene.make()
    assert all(scene.series._kept[mono][1] is values for mono, (_, values) in kept.items())
    assert scene.series.values[:, 2].tolist() == [1980, 1200, 1500]


def test_before_a_device_came_there_was_no_value_of_it() -> None:
    scene = Scene([1980, 1980])
    values = scene.series.values
    assert values.shape == (2, NODES)
    waiting = fleet(NODES, waiting=["gpu-012"])
    history = History(catalogue())
    history.take(replace(waiting, mono=1000.0))
    scene.history = history
    scene.snapshot = replace(fleet(NODES), mono=1005.0)
    history.take(scene.snapshot)
    scene.make()
    assert np.isnan(scene.series.values[0, 11])
    assert scene.series.values[1].tolist() == [1980] * NODES


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("cells", [40, 79, 199])
def test_every_metric_of_the_fleet_fits(glyphs: Glyphs, cells: int) -> None:
    scene = Scene([1980, Reason.HUNG, 1200], cells=cells, glyphs=glyphs)
    for metric in scene.snapshot.catalogue.values():
        if metric.fleet and metric.id in scene.snapshot.tables[metric.scope].index:
            scene.grid.view.metric = metric.id
            picture = scene.make()
            rows = [heat_row(scene.grid, picture, line, 0) for line in range(len(picture.lines))]
            rows += [times_row(scene.grid, picture, cells), legend_row(scene.grid, cells)]
            rows += [cell_line(scene.grid, picture, scene.history, 0, picture.columns - 1, scene.snapshot.mono, cells)]
            assert all(row_width(row) <= cells for row in rows)
            if glyphs is ASCII:
                assert all(plain(row).isascii() for row in rows[: len(picture.lines)])


def test_without_samples_there_are_no_columns() -> None:
    scene = Scene([1980])
    scene.history = History(catalogue())
    picture = scene.make()
    assert picture.columns == 0
    assert scene.row("gpu-001") == " · gpu-001  "
