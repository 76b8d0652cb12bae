"""Distances from the peers and from the mark: their numbers, scales, signs and words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from stethoscope.model.mark import Mark
from stethoscope.model.metric import Reason
from stethoscope.model.scheduler import SchedulerState
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.cursor import cursor_line
from stethoscope.ui.present.grid import FleetGrid
from stethoscope.ui.present.legend import legend_line
from stethoscope.ui.present.spans import ASCII, UNICODE, Span, Tone, plain
from stethoscope.ui.present.view import View
from tests.builders import fleet
from tests.ui.scenes import troubled

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.present.deviation import Deviation

CLOCK, TEMP, SYMBOLS, DATA = "gpu_sm_clock", "gpu_temp", "ib_symbol_error", "ib_port_xmit_data"


def grid_of(
    snapshot: FleetSnapshot, mode: str, metric: str = CLOCK, mark: Mark | None = None, cells: int = 160, **chosen: str
) -> FleetGrid:
    grid = FleetGrid(View(metric=metric, mode=mode, **chosen), UNICODE)
    grid.mark = mark
    grid.update(assess(snapshot, snapshot.mono), snapshot.wall, cells, 40, None)
    return grid


def away(grid: FleetGrid) -> Deviation:
    assert grid.deviation is not None
    return grid.deviation


def row_of(grid: FleetGrid, name: str) -> str:
    return plain(grid.row(grid.lines.index(name), None))


def with_jobs(snapshot: FleetSnapshot, **jobs: str) -> FleetSnapshot:
    nodes = [
        replace(node, scheduler=SchedulerState(("allocated",), jobs=(job,)))
        if (job := jobs.get(node.name.replace("-", "_")))
        else node
        for node in snapshot.nodes
    ]
    return replace(snapshot, nodes=tuple(nodes))


def test_cells_say_how_far_they_are_from_the_peers() -> None:
    grid = grid_of(troubled(24), "peers")
    assert row_of(grid, "gpu-011").startswith(" ▲ gpu-011        0    0    0    0 ▲−29    0    0    0      · · ·")
    assert row_of(grid, "gpu-020").startswith(" • gpu-020        0    0 •−11    0 ")
    assert row_of(grid, "gpu-009").startswith(" ✖ gpu-009        ‖    ‖    ‖ "), "missing stays missing"
    assert plain(legend_line(grid, 160)).startswith(" SM clock, deviation from peers   −30 % ↓↓·↑↑ +30 %  ")
    distances = away(grid)
    assert distances.tones[[83, 84, 154]].tolist() == [Tone.NORMAL, Tone.WARNING, Tone.PLANNED]
    assert (distances.top, distances.unit, distances.reasons[64]) == (30.0, "%", Reason.HUNG)
    line = plain(cursor_line(grid, "gpu-011", grid.targets()[5], grid.snapshot.wall, 200))
    assert "SM clock 1410 MHz · peers 1980 MHz · −29 % from peers · " in line


def test_temperatures_differ_in_degrees() -> None:
    grid = grid_of(fleet(4, set={("gpu-002/gpu/1", TEMP): 71, ("gpu-003/gpu/1", TEMP): 52.5}), "peers", TEMP)
    distances = away(grid)
    assert [distances.text(row) for row in (8, 9, 17)] == ["0", "+9", "−9.5"]
    assert distances.tones[[8, 9, 17]].tolist() == [Tone.NORMAL, Tone.WARNING, Tone.HEAT_7]
    assert distances.sentence(9) == "+9 °C from peers"
    assert plain(legend_line(grid, 100)).startswith(" GPU temperature, deviation from peers   −10 ↓↓·↑↑ +10 °C")


def test_within_the_usual_scatter_nothing_is_loud() -> None:
    noise = {(f"gpu-00{node}/gpu/{gpu}", "gpu_power_draw"): 600 + 10 * gpu for node in (1, 2) for gpu in range(8)}
    distances = away(grid_of(fleet(2, set=noise), "peers", "gpu_power_draw"))
    assert not distances.beyond.any()
    assert [distances.text(row) for row in (0, 7)] == ["−6", "+6"]
    far = away(grid_of(fleet(2, set=noise | {("gpu-001/gpu/0", "gpu_power_draw"): 200}), "peers", "gpu_power_draw"))
    assert far.beyond.nonzero()[0].tolist() == [0]


def test_a_job_is_compared_with_itself_and_a_small_one_with_all_of_its_kind() -> None:
    slow = {(f"gpu-00{node}/gpu/{gpu}", CLOCK): 1000 for node in (1, 2) for gpu in range(8)}
    alone = {(f"gpu-006/gpu/{gpu}", CLOCK): Reason.UNSUPPORTED for gpu in range(2, 8)}
    snapshot = fleet(6, set=slow | alone | {("gpu-002/gpu/3", CLOCK): 900})
    everybody = away(grid_of(snapshot, "peers"))
    assert [everybody.text(row) for row in (0, 11, 16)] == ["−49", "−55", "0"]
    jobs = away(grid_of(with_jobs(snapshot, gpu_001="1", gpu_002="1", gpu_006="2"), "peers"))
    assert [jobs.text(row) for row in (0, 11, 16, 40)] == ["0", "−10", "0", "0"]


def test_without_peers_there_is_no_distance() -> None:
    few = {(f"gpu-001/gpu/{gpu}", CLOCK): Reason.UNSUPPORTED for gpu in range(3, 8)}
    distances = away(grid_of(fleet(1, set=few), "peers"))
    assert math.isnan(distances.values[0])
    assert distances.reasons[[0, 3]].tolist() == [Reason.WAITING, Reason.UNSUPPORTED]
    assert distances.sentence(0) == "too few peers"
    assert distances.sentence(3) == ""


def test_words_differ_or_do_not() -> None:
    throttled = fleet(2, set={("gpu-001/gpu/2", "gpu_clocks_event_reasons"): 0x40})
    grid = grid_of(throttled, "peers", "gpu_clocks_event_reasons")
    distances = away(grid)
    assert [distances.text(row) for row in (1, 2)] == ["same", "thermal"]
    assert (distances.sentence(1), distances.sentence(2)) == ("the same as most peers", "another than most peers")
    assert distances.scale(UNICODE) == ()


def test_gauges_since_the_mark() -> None:
    before, now = fleet(4), fleet(4, set={("gpu-002/gpu/1", TEMP): 88, ("gpu-002/gpu/2", TEMP): Reason.LOST})
    grid = grid_of(replace(now, wall=before.wall + 60), "mark", TEMP, Mark.of(before))
    assert row_of(grid, "gpu-002").startswith(" – gpu-002        0 ▲+26    –    0    0 ")
    assert plain(legend_line(grid, 160)).startswith(
        " GPU temperature, change since the mark 02:14:07   −30 ↓↓·↑↑ +30 °C "
    )
    assert away(grid).sentence(9) == "+26 °C since the mark"


def test_a_mark_may_be_set_twice_at_one_moment() -> None:
    now = fleet(4)
    grid = grid_of(now, "mark", TEMP, Mark.of(now))
    row = row_of(grid, "gpu-002")
    grid.mark = Mark.of(now)
    grid.update(assess(now, now.mono), now.wall, 160, 40, None)
    assert row_of(grid, "gpu-002") == row


def test_what_all_did_is_a_change_since_the_mark_and_none_from_the_peers() -> None:
    slow = {(f"gpu-00{node}/gpu/{gpu}", CLOCK): 1400 for node in range(1, 5) for gpu in range(8)}
    mark, now = Mark.of(fleet(4)), fleet(4, set=slow)
    assert away(grid_of(now, "mark", CLOCK, mark)).beyond.all()
    assert not away(grid_of(now, "peers", CLOCK, mark)).beyond.any()


def test_counters_since_the_mark() -> None:
    port = "gpu-002/ib/mlx5_1"
    before, now = fleet(2, totals={(port, SYMBOLS): 100}), fleet(2, totals={(port, SYMBOLS): 141})
    grid = grid_of(now, "mark", SYMBOLS, Mark.of(before))
    distances = away(grid)
    assert [distances.text(row) for row in (8, 9)] == ["0", "+41"]
    assert distances.tones[[8, 9]].tolist() == [Tone.NORMAL, Tone.WARNING]
    assert plain(legend_line(grid, 160)).startswith(
        " Symbol errors, counted since the mark 02:14:07   0 ·↑↑ +50 errors"
    )
    assert distances.sentence(9) == "+41 errors since the mark"
    back = away(grid_of(fleet(2), "mark", SYMBOLS, Mark.of(before)))
    assert (back.reasons[9], back.sentence(9)) == (Reason.RESET, "reset")
    still = away(grid_of(before, "mark", DATA, Mark.of(before)))
    assert (still.text(0), still.top) == ("0", 1.0)


def test_without_a_mark_it_says_how_to_set_one() -> None:
    grid = grid_of(fleet(4), "mark", TEMP)
    assert plain(legend_line(grid, 80)).startswith(" GPU temperature  no mark is set: M sets one ")
    assert row_of(grid, "gpu-001").startswith(" · gpu-001        ?    ?    ? ")
    assert away(grid).sentence(0) == "no mark is set: M sets one"


def test_one_cell_has_a_sign_for_the_direction() -> None:
    snapshot = fleet(4, set={("gpu-002/gpu/1", CLOCK): 1410, ("gpu-003/gpu/2", CLOCK): 2300})
    grid = grid_of(snapshot, "peers", cells=80, density="cells")
    assert row_of(grid, "gpu-002").startswith("· gpu-002   ·↓······ ")
    assert row_of(grid, "gpu-003").startswith("· gpu-003   ··↑····· ")
    spans = grid.row(grid.lines.index("gpu-002"), None)
    assert Span("↓", Tone.WARNING) in spans
    other = FleetGrid(grid.view, ASCII)
    other.update(assess(snapshot, snapshot.mono), snapshot.wall, 80, 40, None)
    assert plain(other.row(other.lines.index("gpu-002"), None)).startswith(". gpu-002   .v...... ")


def test_sorted_by_value_the_farthest_comes_first() -> None:
    snapshot = fleet(4, set={("gpu-003/gpu/1", TEMP): 50, ("gpu-002/gpu/1", TEMP): 66})
    grid = grid_of(snapshot, "peers", TEMP, sort="value")
    assert grid.lines[:2] == ["gpu-003", "gpu-002"]
    assert "farthest first" in plain(legend_line(grid, 160))


@pytest.mark.parametrize("mode", ["peers", "mark"])
@pytest.mark.parametrize("density", ["numbers", "cells"])
def test_folded_nodes_have_the_median_of_their_distances(mode: str, density: str) -> None:
    snapshot = fleet(60)
    grid = grid_of(snapshot, mode, CLOCK, Mark.of(snapshot), density=density, fold="all")
    text = plain(grid.row(len(grid.lines) - 1, None))
    assert "60 more" in text
    assert ("    0    0" if density == "numbers" else "· · · ·") in text


@pytest.mark.parametrize("mode", ["peers", "mark"])
def test_every_metric_of_the_fleet_has_distances(mode: str) -> None:
    snapshot = troubled(24)
    mark = Mark.of(replace(snapshot, wall=snapshot.wall - 60))
    for metric in snapshot.catalogue.values():
        if metric.fleet and metric.id in snapshot.tables[metric.scope].index:
            grid = grid_of(snapshot, mode, metric.id, mark)
            rows = [plain(grid.row(line, None)) for line in range(len(grid.lines))]
            assert rows
            assert away(grid).top > 0
            assert "nan" not in "".join(rows)


def test_a_card_of_another_kind_has_other_peers() -> None:
    snapshot = fleet(4, set={(f"gpu-004/gpu/{gpu}", CLOCK): 1400 for gpu in range(8)})
    assert away(grid_of(snapshot, "peers")).text(24) == "−29"
    other = tuple(msgspec.structs.replace(gpu, name="NVIDIA A100") for gpu in snapshot.nodes[3].gpus)
    mixed = replace(snapshot, nodes=(*snapshot.nodes[:3], replace(snapshot.nodes[3], gpus=other)))
    assert away(grid_of(mixed, "peers")).text(24) == "0"
