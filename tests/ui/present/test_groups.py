"""Groups, folds and filters: every node that fits has its place, and what the cursor is on keeps its line."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stethoscope.model.ids import node_of
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.scheduler import Job, SchedulerState
from stethoscope.ui.present.arrange import FOLD, HEAD, Kind
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.cursor import cursor_line
from stethoscope.ui.present.grid import FleetGrid, Target
from stethoscope.ui.present.groups import groups_of, natural, title
from stethoscope.ui.present.spans import ASCII, UNICODE, plain, to_ascii, width
from stethoscope.ui.present.view import FOLDS, GROUPS, SORTS, View
from tests.builders import MONO, WALL, fleet
from tests.ui.scenes import hostile, troubled

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot


def with_jobs(snapshot: FleetSnapshot, jobs: dict[str, tuple[str, ...]]) -> FleetSnapshot:
    """Return the snapshot with jobs on its nodes, which are in the partitions `gpu` and, every other one, `debug`."""
    by_node = {name: tuple(job for job, names in jobs.items() if name in names) for name in snapshot.by_name}
    return replace(
        snapshot,
        jobs=tuple(
            Job(job, name=f"train-{job}", user="kim", state="running", nodes=names) for job, names in jobs.items()
        ),
        nodes=tuple(
            replace(
                node,
                scheduler=SchedulerState(
                    ("allocated",), jobs=by_node[node.name], partitions=("gpu", "debug")[: 1 + node.index % 2]
                ),
            )
            for node in snapshot.nodes
        ),
    )


def grid_of(
    snapshot: FleetSnapshot, view: View, *, cells: int = 200, height: int = 50, pinned: str | None = None, at: float = 0
) -> FleetGrid:
    view.metric = view.metric or "gpu_sm_clock"
    grid = FleetGrid(view, UNICODE)
    grid.update(assess(snapshot, MONO + at), WALL, cells, height, pinned)
    return grid


def texts(grid: FleetGrid) -> list[str]:
    return [plain(grid.row(line, None)).rstrip() for line in range(len(grid.lines))]


def placed(grid: FleetGrid) -> list[tuple[str, str]]:
    """Return (group, node) for each node's own line and for each node that a line hides."""
    return [
        (line.group, name)
        for line in grid.arranged
        if line.kind is Kind.NODE or line.hides
        for name in grid.members(line)
    ]


SICK = {(f"gpu-{n:03}/gpu/0", "gpu_temp"): 95.0 for n in (3, 11, 12)}
IDLE = {
    (f"gpu-{n:03}/gpu/{gpu}", metric): value
    for n in (9, 10, 14)
    for gpu in range(8)
    for metric, value in (("gpu_sm_clock", 345.0), ("gpu_util", 0.0))
}


@cache
def sick_sample() -> FleetSnapshot:
    return fleet(24, per_rack=8, set=SICK)


@cache
def sample() -> FleetSnapshot:
    snapshot = fleet(24, per_rack=8, set=SICK | IDLE, lost=["gpu-020"], waiting=["gpu-021"])
    return with_jobs(snapshot, {"41": ("gpu-001", "gpu-002", "gpu-003"), "42": ("gpu-003", "gpu-017")})


@given(
    group=st.sampled_from(GROUPS),
    sort=st.sampled_from(SORTS),
    fold=st.sampled_from(FOLDS),
    height=st.integers(0, 80),
    text=st.sampled_from(["", "gpu-00", "*1", "temp>90", "temp<90", "state=lost", "rack=rack-02", "no such", "temp>"]),
    pinned=st.sampled_from([None, "gpu-003", "gpu-010", FOLD, f"{HEAD}rack-02", f"{FOLD}rack-01", "gone"]),
    later=st.booleans(),
    toggles=st.lists(st.integers(0, 40), max_size=3),
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_node_is_lost_or_doubled(
    group: str, sort: str, fold: str, height: int, text: str, pinned: str | None, later: bool, toggles: list[int]
) -> None:
    snapshot = sample()
    view = View("gpu_temp", group=group, sort=sort, fold=fold, filter=text)
    grid = grid_of(snapshot, view, height=height, pinned=pinned)
    for number in toggles:
        if grid.arranged:
            line = grid.arranged[number % len(grid.arranged)]
            if line.kind is not Kind.NODE:
                grid.toggle(line)
                grid.update(assess(snapshot, MONO), WALL, 200, height, pinned)
    if later:
        grid.update(assess(sick_sample(), MONO + 4), WALL, 200, height, pinned)
        grid.update(assess(snapshot, MONO + 8), WALL, 200, height, pinned)
    fits = set(grid.fitting())
    found = Counter(placed(grid))
    assert set(found.values()) <= {1}
    if group == "leaf":
        wanted = {
            (leaf, node.name) for node in snapshot.nodes if node.name in fits for leaf in set(node.leaves.values())
        }
        assert set(found) == wanted
    else:
        assert Counter(name for _, name in found) == Counter(fits)
    assert len(set(grid.lines)) == len(grid.lines)
    for line in range(len(grid.lines)):
        assert width(plain(grid.row(line, None))) <= 200


def test_a_rack_has_a_line_with_medians_and_counts() -> None:
    snapshot = fleet(24, set={("gpu-002/gpu/1", "gpu_sm_clock"): 1410, ("gpu-002/gpu/1", "gpu_temp"): 95.0})
    rows = texts(grid_of(snapshot, View(group="rack"), cells=140, height=20))
    assert rows[0].startswith(" ▲ rack-01      1980▲1980 1980")
    assert rows[0].endswith("8 nodes  ▲ 1")
    assert rows[1].startswith(" ▲   gpu-002    1980▲1410 1980")
    assert rows[2].startswith(" ·   7 more     1980 1980 1980")
    assert rows[2].endswith("like their peers  gpu-[001,003-008]")
    assert rows[3].startswith(" · rack-02      1980 1980")
    assert rows[3].endswith("8 nodes · like their peers")
    assert len(rows) == 5


def test_the_worst_rack_is_first_and_by_name_the_first_one() -> None:
    snapshot = fleet(24, set={("gpu-020/gpu/0", "gpu_temp"): 95.0})
    heads = [line.group for line in grid_of(snapshot, View(group="rack")).arranged if line.kind is Kind.HEAD]
    assert heads == ["rack-03", "rack-01", "rack-02"]
    for sort in ("name", "group"):
        grid = grid_of(snapshot, View(group="rack", sort=sort))
        assert [line.group for line in grid.arranged if line.kind is Kind.HEAD] == ["rack-01", "rack-02", "rack-03"]


def test_jobs_and_partitions_come_from_the_scheduler() -> None:
    grid = grid_of(sample(), View(group="job", fold="all"))
    heads = {line.group: grid.members(line) for line in grid.arranged if line.kind is Kind.HEAD}
    assert heads["41"] == ["gpu-001", "gpu-002"]
    assert heads["41 42"] == ["gpu-003"]
    assert heads["42"] == ["gpu-017"]
    assert len(heads[""]) == 20
    rows = {line.key: plain(grid.row(place, None)) for place, line in enumerate(grid.arranged)}
    assert "job 41 " in rows[f"{HEAD}41"]
    assert rows[f"{HEAD}41"].endswith("2 nodes · like their peers · train-41 (kim)")
    assert "no job" in rows[HEAD]
    names = [group.name for group in groups_of(sample(), "partition")]
    assert names == ["gpu", "gpu debug"]
    assert title("partition", "gpu") == "partition gpu"


def test_by_leaf_a_node_stands_as_its_ports_do() -> None:
    snapshot = fleet(8, set={("gpu-003/ib/mlx5_5", "ib_symbol_error"): 41.0, ("gpu-005/gpu/1", "gpu_temp"): 95.0})
    grid = grid_of(snapshot, View(group="leaf", fold="all"), cells=140)
    first = grid.arranged[0]
    assert (first.kind, first.group) == (Kind.HEAD, "leaf-01-5")
    rows = texts(grid)
    assert rows[0].endswith("8 nodes  ▲ 1")
    assert rows[1].split()[:3] == ["▲", "gpu-003", "▲"]
    assert "ib/mlx5_5 symbol errors 41/s" in rows[1]
    assert rows[3].endswith("8 nodes · like their peers")
    assert len(rows) == 10
    assert [target.scope for target in grid.targets()] == [Scope.NODE, *[Scope.PORT] * 8]
    both = fleet(8, per_rack=4, set={("gpu-006/ib/mlx5_5", "ib_symbol_error"): 41.0}, lost=["gpu-001"])
    heads = [line.group for line in grid_of(both, View(group="leaf")).arranged if line.kind is Kind.HEAD]
    assert heads[:2] == ["leaf-02-5", "leaf-01-0"]


def test_a_group_opens_and_closes() -> None:
    grid = grid_of(fleet(16), View(group="rack", fold="all"))
    assert grid.lines == [f"{HEAD}rack-01", f"{HEAD}rack-02"]

    def toggle() -> None:
        grid.toggle(grid.arranged[0])
        grid.update(assess(fleet(16), MONO), WALL, 200, 50, None)

    toggle()
    assert grid.lines == [f"{HEAD}rack-01", *(f"gpu-{n:03}" for n in range(1, 9)), f"{HEAD}rack-02"]
    toggle()
    assert grid.lines == [f"{HEAD}rack-01", f"{HEAD}rack-02"]


def test_the_row_under_the_cursor_keeps_its_place_in_its_group_and_is_not_folded() -> None:
    grid = grid_of(fleet(16), View(group="rack", fold="none"))
    assert grid.lines[9:12] == [f"{HEAD}rack-02", "gpu-009", "gpu-010"]
    before = grid.lines.index("gpu-010")
    sick = fleet(16, set={("gpu-010/gpu/0", "gpu_temp"): 95.0, ("gpu-016/gpu/0", "gpu_temp"): 95.0})
    grid.update(assess(sick, MONO + 4), WALL, 200, 50, "gpu-010")
    assert grid.lines.index("gpu-010") == before
    grid.view.fold = "all"
    grid.update(assess(fleet(16), MONO + 5), WALL, 200, 50, "gpu-010")
    assert "gpu-010" in grid.lines
    grid.update(assess(fleet(16), MONO + 5), WALL, 200, 50, None)
    assert "gpu-010" not in grid.lines


def test_jumping_visits_what_deviates_and_goes_round() -> None:
    grid = grid_of(sample(), View("gpu_temp", sort="name"))
    seen, place = [], 0
    for _ in range(4):
        found = grid.next_wrong(place, 1)
        assert found is not None
        seen.append(grid.lines[found])
        place = found
    assert seen == ["gpu-003", "gpu-011", "gpu-012", "gpu-020"]
    assert grid.lines[grid.next_wrong(0, -1) or 0] == "gpu-020"
    assert grid_of(fleet(4), View()).next_wrong(0, 1) is None
    closed = grid_of(fleet(16, set={("gpu-012/gpu/0", "gpu_temp"): 95.0}), View(group="rack", sort="name"))
    head = next(line for line in closed.arranged if line.group == "rack-02")
    closed.toggle(head)
    closed.update(assess(closed.snapshot, MONO), WALL, 200, 50, None)
    assert closed.lines[closed.next_wrong(0, 1) or 0] == f"{HEAD}rack-02"


def test_the_cursor_line_of_a_group_names_its_nodes_and_the_median() -> None:
    grid = grid_of(fleet(16), View(group="rack"))
    grid.marked |= {"gpu-001", "gpu-002"}
    line = plain(cursor_line(grid, f"{HEAD}rack-01", Target(Scope.GPU, 3), WALL, 200))
    assert line == " rack-01  gpu 3: median 1980 MHz · 2 selected · 8 nodes: gpu-[001-008]"


def test_a_line_of_nodes_that_differ_has_no_median() -> None:
    half = {(f"gpu-00{node}/gpu/{gpu}", "gpu_sm_clock"): 345.0 for node in (1, 2) for gpu in (0, 1)}
    few = {(f"gpu-00{node}/gpu/1", "gpu_sm_clock"): 1980.0 for node in (1, 2)}
    grid = grid_of(fleet(4, per_rack=4, set=half | few), View(group="rack", fold="all"), cells=140)
    assert texts(grid)[0].split()[2:5] == ["≠", "1980", "1980"]
    line = plain(cursor_line(grid, f"{HEAD}rack-01", Target(Scope.GPU, 0), WALL, 200))
    assert line == " rack-01  gpu 0: 345 MHz to 1980 MHz · 4 nodes: gpu-[001-004]"
    grid = grid_of(fleet(4, per_rack=4, set=half), View(group="rack", fold="all", density="cells"), cells=60)
    assert "≠≠" in texts(grid)[0]


def test_one_that_differs_among_many_leaves_the_median() -> None:
    grid = grid_of(fleet(8, set={("gpu-001/gpu/0", "gpu_sm_clock"): 345.0}), View(group="rack"), cells=140)
    assert texts(grid)[0].split()[2:4] == ["1980", "1980"]


@cache
def busy() -> FleetSnapshot:
    return with_jobs(troubled(24), {"7": ("gpu-001", "gpu-002")})


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("cells", [40, 80, 120, 200, 300])
@pytest.mark.parametrize("density", ["auto", "numbers", "cells"])
def test_lines_of_groups_fit_and_stand_in_their_columns(group: str, cells: int, density: str) -> None:
    for metric in ("gpu_sm_clock", "ib_symbol_error", "cpu_iowait"):
        view = View(metric, group=group, fold="all", density=density)
        grid = grid_of(busy(), view, cells=cells)
        assert grid.layout is not None
        for number, line in enumerate(grid.arranged):
            row = grid.row(number, None)
            assert width(plain(row)) <= max(cells, grid.layout.before_what)
            ascii_row = to_ascii(plain(row))
            assert ascii_row
            if line.kind is not Kind.NODE and grid.layout.what > 8:
                words = "nodes" if line.kind is Kind.HEAD else "like"
                place = plain(row).find(words[:3], grid.layout.before_what - 2)
                assert place >= grid.layout.before_what or line.kind is Kind.IDLE or place == -1


def test_columns_are_found_under_the_mouse() -> None:
    for density, cells in (("auto", 200), ("cells", 200), ("cells", 80), ("auto", 80)):
        grid = grid_of(troubled(), View(density=density), cells=cells)
        assert grid.layout is not None
        for target in grid.targets():
            row = grid.row(0, target)
            before, marked = 0, False
            for span in row:
                if span.selected and span.text.strip():
                    marked = True
                    break
                before += width(span.text)
            assert not marked or grid.layout.at(before) == target


def test_hostile_words_stay_words() -> None:
    evil = with_jobs(hostile(), {"\x1b[31m": (next(iter(hostile().by_name)),)})
    for group in GROUPS:
        grid = grid_of(evil, View(group=group, fold="none"), cells=160)
        assert len(grid.lines) >= len(evil.nodes)
        for number in range(len(grid.lines)):
            grid.row(number, Target(Scope.NODE))


def test_ascii_is_ascii_in_groups_too() -> None:
    view = View("gpu_sm_clock", group="rack", fold="all")
    grid = FleetGrid(view, ASCII)
    grid.update(assess(troubled(), MONO), WALL, 160, 50, None)
    assert [row for row in map(to_ascii, texts(grid)) if not row.isascii()] == []


def test_numbers_in_names_count() -> None:
    assert sorted(["rack-10", "rack-9", "rack-1", "a"], key=natural) == ["a", "rack-1", "rack-9", "rack-10"]
    assert sorted(["1a", "a1", "2"], key=natural)


def test_a_missing_value_is_no_median() -> None:
    snapshot = fleet(2, per_rack=2, set={(f"gpu-00{n}/gpu/0", "gpu_sm_clock"): Reason.UNSUPPORTED for n in (1, 2)})
    row = texts(grid_of(snapshot, View(group="rack", fold="all"), cells=140))[0]
    assert row.split()[2:5] == ["?", "1980", "1980"]
    assert node_of("gpu-001/gpu/0") == "gpu-001"
