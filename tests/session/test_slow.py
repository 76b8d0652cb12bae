"""What slow counters counted outlives the console: read at the start, saved now and then and at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.layout import Layout
from stethoscope.clock import FixedClock
from stethoscope.model.frame import Frame
from stethoscope.session.slow import SAVE_S, GuardedPast, SlowKeeper
from stethoscope.store.slow import SlowFile
from tests.builders import MONO, WALL, catalogue, fleet

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot

METRIC, PLACE, ROW = "ib_link_downed", "gpu-001/ib/mlx5_1", 1
DAY_S = 86_400.0


def at(after_s: float, total: int) -> FleetSnapshot:
    made = fleet(1, totals={(PLACE, METRIC): total})
    nodes = tuple(replace(node, frame_mono=MONO + after_s) for node in made.nodes)
    return replace(made, wall=WALL + after_s, mono=MONO + after_s, nodes=nodes)


class Console:
    """One console on the fleet, at a time that the test says."""

    def __init__(self, path: Path, after_s: float = 0.0) -> None:
        self.clock = FixedClock(WALL + after_s)
        self.past = GuardedPast(catalogue())
        self.keeper = SlowKeeper(self.past, "prod", self.clock, SlowFile(path, "prod"))
        self.keeper.start()
        self.waited()

    def waited(self) -> None:
        assert self.keeper._busy is not None
        self.keeper._busy.result(10)

    def see(self, after_s: float, total: int) -> float:
        snapshot = at(after_s, total)
        self.past.take(snapshot, Layout(snapshot))
        return float(self.past.change(METRIC, 30 * DAY_S, snapshot.wall)[0][ROW])


def test_weeks_are_seen_by_consoles_of_some_minutes(tmp_path: Path) -> None:
    path = tmp_path / "history" / "prod.db"
    for day, total in enumerate([3, 3, 5, 6]):
        console = Console(path, day * DAY_S)
        counted = console.see(day * DAY_S, total)
        console.keeper.stop()
        assert console.keeper.take_notices() == []
    assert counted == 3


def test_it_is_saved_every_five_minutes(tmp_path: Path) -> None:
    path = tmp_path / "prod.db"
    console = Console(path)
    console.see(0, 3)
    console.see(60, 4)
    console.keeper.on_frame(Frame("gpu-001", WALL, MONO, b""))
    assert not path.exists()
    console.clock.advance(SAVE_S)
    console.keeper.on_frame(Frame("gpu-001", WALL, MONO, b""))
    console.waited()
    # Nothing else of this console comes: it was killed.
    assert Console(path, 600).see(600, 6) == 3


def test_a_file_that_is_none_of_ours_is_set_aside_and_said(tmp_path: Path) -> None:
    path = tmp_path / "prod.db"
    path.write_bytes(b"hello" * 1000)
    console = Console(path)
    notices = console.keeper.take_notices()
    assert [notice.split(":")[0] for notice in notices[:1]] == ["what slow counters counted before is not used"]
    assert notices[1].endswith(f".broken-{int(WALL)} now")
    console.see(0, 3)
    console.see(60, 5)
    console.keeper.stop()
    assert Console(path, 120).see(120, 5) == 2


def test_what_cannot_be_saved_is_said_once_and_saved_later(tmp_path: Path) -> None:
    path = tmp_path / "there" / "prod.db"
    (tmp_path / "there").write_text("a file where a directory should be")
    console = Console(path)
    console.see(0, 3)
    console.see(60, 5)
    console.keeper._save()
    console.keeper._save()
    assert len(console.keeper.take_notices()) == 1
    (tmp_path / "there").unlink()
    console.keeper.stop()
    assert Console(path, 120).see(120, 5) == 2


def test_nothing_is_remembered_before_the_past_was_read(tmp_path: Path) -> None:
    past = GuardedPast(catalogue())
    snapshot = at(0, 3)
    past.take(snapshot, Layout(snapshot))
    assert past.change(METRIC, DAY_S, WALL)[0].size == 0
    with pytest.raises(KeyError):
        past.change("gpu_temp", DAY_S, WALL)
