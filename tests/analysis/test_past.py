"""What slow counters counted over hours and weeks: changes, resets, swapped boards, and time in which nobody looked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.layout import Layout
from stethoscope.analysis.past import Past
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.past import DAY_S, SLOT_S
from stethoscope.model.rows import identities
from tests.builders import MONO, WALL, catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.past import Standing

DOWNED, PORT = "ib_link_downed", "gpu-001/ib/mlx5_1"
ROW = 1
HOUR_S = 3600.0


def at(after_s: float, total: int | Reason, metric: str = DOWNED, place: str = PORT) -> FleetSnapshot:
    """A fleet of two nodes, `after_s` seconds later, with one total set."""
    given_total = {(place, metric): total} if not isinstance(total, Reason) else None
    missing = {(place, metric): total} if isinstance(total, Reason) else None
    made = fleet(2, totals=given_total, set=missing)
    nodes = tuple(replace(node, frame_mono=MONO + after_s, frame_wall=WALL + after_s) for node in made.nodes)
    return replace(made, wall=WALL + after_s, mono=MONO + after_s, nodes=nodes)


class Watching:
    """A past that is shown one snapshot after the other."""

    def __init__(self, past: Past | None = None) -> None:
        self.past = past or Past(catalogue())
        self._layout: Layout | None = None

    def see(self, snapshot: FleetSnapshot) -> Watching:
        if self._layout is None or not self._layout.fits(snapshot):
            self._layout = Layout(snapshot)
        self.past.take(snapshot, self._layout)
        return self

    def changed(self, window_s: float, after_s: float, row: int = ROW, metric: str = DOWNED) -> float:
        return float(self.past.change(metric, window_s, WALL + after_s)[0][row])


def test_what_was_counted_within_the_window() -> None:
    watching = Watching()
    for hour, total in enumerate([3, 3, 4, 4, 6, 6, 6]):
        watching.see(at(hour * HOUR_S, total))
    assert watching.changed(12 * HOUR_S, 6 * HOUR_S) == 3
    assert watching.changed(3 * HOUR_S, 6 * HOUR_S) == 2
    assert watching.changed(HOUR_S, 6 * HOUR_S) == 0
    changed, last, ages = watching.past.change(DOWNED, 12 * HOUR_S, WALL + 6 * HOUR_S)
    assert (changed[0], last[ROW], ages[ROW]) == (0, 6, 6 * HOUR_S)


@pytest.mark.parametrize(
    ("totals", "counted"),
    [
        pytest.param([200, 3], 3, id="reset: what it shows was counted since"),
        pytest.param([5, Reason.PERMISSION, 9], 4, id="unreadable for a while"),
        pytest.param([254, 255, 255], 1, id="at its end"),
        pytest.param([Reason.UNSUPPORTED, Reason.UNSUPPORTED], np.nan, id="never known"),
        pytest.param([Reason.UNSUPPORTED, 40], 0, id="first known late: nothing counted"),
    ],
)
def test_totals_that_fall_or_are_missing(totals: list[int | Reason], counted: float) -> None:
    watching = Watching()
    for minute, total in enumerate(totals):
        watching.see(at(60.0 * minute, total))
    assert watching.changed(2 * HOUR_S, 600) == pytest.approx(counted, nan_ok=True)


def test_looks_only_once_a_minute() -> None:
    watching = Watching().see(at(0, 1)).see(at(5, 2))
    assert watching.changed(2 * HOUR_S, 5) == 0
    assert watching.see(at(61, 2)).changed(2 * HOUR_S, 61) == 1


def test_what_came_while_nobody_looked_is_as_old_as_the_last_look() -> None:
    watching = Watching().see(at(0, 1)).see(at(3 * DAY_S, 9))
    assert watching.changed(12 * HOUR_S, 3 * DAY_S) == 0
    assert watching.changed(4 * DAY_S, 3 * DAY_S) == 8


def test_a_board_that_was_swapped_begins_anew_and_its_neighbour_goes_on() -> None:
    metric, place = "gpu_remapped_rows_corr", "gpu-001/gpu/1"

    def swapped(after_s: float, total: int) -> FleetSnapshot:
        snapshot = at(after_s, total, metric, place)
        gpus = list(snapshot.nodes[0].gpus)
        gpus[1] = msgspec.structs.replace(gpus[1], uuid="GPU-new")
        return replace(snapshot, nodes=(replace(snapshot.nodes[0], gpus=tuple(gpus)), snapshot.nodes[1]))

    watching = Watching().see(at(0, 4, metric, place)).see(swapped(60, 90))
    assert watching.changed(HOUR_S * 2, 60, metric=metric) == 0
    assert watching.past.change(metric, HOUR_S, WALL + 60)[2][:3].tolist() == [60, 0, 60]
    assert watching.see(swapped(120, 92)).changed(HOUR_S * 2, 120, metric=metric) == 2


def test_old_changes_are_merged_by_days_and_count_on() -> None:
    watching = Watching()
    for day in range(40):
        watching.see(at(day * DAY_S, 2 * day))
    # Each look a day after the last: what was counted is as old as the look before.
    assert watching.changed(30 * DAY_S, 39 * DAY_S) == pytest.approx(60, abs=2)
    assert watching.changed(7 * DAY_S, 39 * DAY_S) == pytest.approx(14, abs=2)


def test_what_is_unsaved_makes_another_past_equal() -> None:
    watching = Watching()
    for minute, total in enumerate([7, 7, 8, 12]):
        watching.see(at(60.0 * minute, total))
    standings, changes, seen = watching.past.take_unsaved()
    assert watching.past.take_unsaved()[:2] == ([], [])
    slot = (WALL + 120) // SLOT_S * SLOT_S
    assert [tuple(change) for change in changes] == [
        (DOWNED, "gpu-001", "mlx5_1:1", slot, 1.0),
        (DOWNED, "gpu-001", "mlx5_1:1", slot, 4.0),
    ]
    again = Past(catalogue())
    again.put(standings, changes, seen)
    other = Watching(again).see(at(300, 13))
    assert other.changed(2 * HOUR_S, 300) == 6
    assert other.past.change(DOWNED, HOUR_S, WALL + 300)[2][ROW] == 300


def test_what_is_taken_node_by_node_is_what_is_taken_at_once() -> None:
    def seen_twice() -> Past:
        watching = Watching()
        for minute, total in enumerate([7, 7, 8, 12]):
            watching.see(at(60.0 * minute, total))
        return watching.past

    standings, changes, _ = seen_twice().take_unsaved()
    past, parts = seen_twice(), []
    while (part := past.take_unsaved(1))[0]:
        assert len({standing.node for standing in part[0]}) == 1
        assert {change.node for change in part[1]} <= {part[0][0].node}
        assert set(part[2]) == {part[0][0].node}
        parts.append(part)
    assert len(parts) == 2
    assert part[1] == []
    assert set(part[2]) == {"gpu-001", "gpu-002"}
    assert [change for _, some, _ in parts for change in some] == changes

    def told(all_of: list[Standing]) -> list[str]:
        return sorted(f"{one.node} {one.scope} {one.devices} {one.first} {one.last}" for one in all_of)

    assert told([standing for some, _, _ in parts for standing in some]) == told(standings)


def test_what_a_device_counted_before_it_was_gone_is_kept() -> None:
    metric, place = "gpu_remapped_rows_corr", "gpu-001/gpu/1"

    def swapped(after_s: float) -> FleetSnapshot:
        snapshot = at(after_s, 1, metric, place)
        gpus = list(snapshot.nodes[0].gpus)
        gpus[1] = msgspec.structs.replace(gpus[1], uuid="GPU-new")
        return replace(snapshot, nodes=(replace(snapshot.nodes[0], gpus=tuple(gpus)), snapshot.nodes[1]))

    first = at(0, 4, metric, place)
    old = identities(first.nodes[0], Scope.GPU)[1]
    watching = Watching().see(first).see(at(60, 6, metric, place)).see(swapped(120))
    standings, changes, _ = watching.past.take_unsaved()
    assert [(change.device, change.amount) for change in changes] == [(old, 2.0)]
    assert all(old not in standing.devices for standing in standings)


@given(st.lists(st.integers(0, 200), min_size=2, max_size=30))
def test_a_counter_that_only_grows_has_counted_what_lies_between_its_ends(steps: list[int]) -> None:
    watching = Watching()
    totals = np.cumsum(steps).tolist()
    for minute, total in enumerate(totals):
        watching.see(at(60.0 * minute, total, "ib_symbol_error"))
    after_s = 60.0 * (len(totals) - 1)
    assert watching.changed(5 * HOUR_S, after_s, metric="ib_symbol_error") == totals[-1] - totals[0]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([60.0, 900.0, 7200.0])), min_size=2, max_size=30))
def test_what_stands_says_the_same(steps: list[tuple[int, float]]) -> None:
    watching, window_s, at_s, total = Watching(), 2 * HOUR_S, 0.0, 0
    before = snapshot = at(0, 0)
    told: dict[tuple[object, ...], tuple[list[float], list[float], list[bool]]] = {}
    for more, after_s in steps:
        at_s, total = at_s + after_s, total + more
        snapshot = at(at_s, total)
        # Where nothing moved the columns are those of before.
        snapshot = snapshot if more else replace(snapshot, tables=before.tables)
        watching.see(snapshot)
        before = snapshot
        changed, last, ages = watching.past.change(DOWNED, window_s, WALL + at_s)
        says = (changed.tolist(), last.tolist(), (ages >= window_s - SLOT_S).tolist())
        assert last[ROW] == total
        assert told.setdefault(watching.past.standing(DOWNED, window_s, WALL + at_s), says) == says


def test_metrics_that_are_not_kept_are_refused() -> None:
    past = Past(catalogue())
    assert past.keeps(DOWNED)
    assert not past.keeps("gpu_temp")
    assert {catalogue()[name].scope for name in catalogue() if past.keeps(name)} >= {Scope.DISK, Scope.GPU, Scope.PORT}
