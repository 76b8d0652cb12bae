"""What is remembered of slow counters, as it is told: amounts by windows, places, and files that cannot be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from stethoscope.cli.growth import command
from stethoscope.model.metric import Scope
from stethoscope.model.past import DAY_S, Change, Standing
from stethoscope.paths import of_fleet
from stethoscope.session.growth import growth_json, remembered
from stethoscope.store.slow import SlowFile
from tests.builders import WALL, catalogue

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def save(fleet: str = "prod") -> SlowFile:
    file = SlowFile(of_fleet("history", fleet, "db"), fleet)
    numbers = np.array([61.0, 4.0])
    first = np.full(2, WALL - 40 * DAY_S)
    standing = Standing("gpu-001", Scope.DISK, ("nvme0n1", "nvme1n1"), first, {"smart_reallocated_sectors": numbers})
    changes = [
        Change("smart_reallocated_sectors", "gpu-001", "nvme0n1", WALL - 20 * DAY_S, 10.0),
        Change("smart_reallocated_sectors", "gpu-001", "nvme0n1", WALL - 2 * DAY_S, 11.0),
        Change("smart_reallocated_sectors", "gpu-001", "nvme0n1", WALL - 90 * DAY_S, 7.0),
        Change("ib_link_downed", "gpu-002", "mlx5_3:2", WALL - 3600, 2.0),
    ]
    file.save([standing], changes, {"gpu-001": WALL})
    return file


def test_what_moved_the_latest_first() -> None:
    save()
    found = remembered(catalogue(), WALL)
    told = [(row.place, row.metric.id, row.total, row.amounts) for row in found.rows]
    assert told == [
        ("gpu-002/ib/mlx5_3:2", "ib_link_downed", None, (2, 2, 2)),
        ("gpu-001/disk/nvme0n1", "smart_reallocated_sectors", 61, (0, 11, 21)),
    ]
    assert (found.fleets, found.devices, found.errors) == (("prod",), 2, ())
    change = growth_json(found, "now")["changes"][1]
    assert (change["where"], change["in_7d"], change["in_30d"]) == ("gpu-001/disk/nvme0n1", 11, 21)


def test_a_file_that_cannot_be_read_costs_itself(state: Path) -> None:
    save()
    (state / "stethoscope" / "history" / "other-0.db").write_bytes(b"hello" * 2000)
    found = remembered(catalogue(), WALL)
    assert len(found.rows) == 2
    assert [str(error).rpartition("/")[2].split(":")[0] for error in found.errors] == ["other-0.db"]


def test_one_fleet_of_several() -> None:
    save()
    save("test fleet/2")
    assert remembered(catalogue(), WALL, fleet="test fleet/2").fleets == ("test fleet/2",)
    assert remembered(catalogue(), WALL).fleets == ("prod", "test fleet/2")


def test_the_verb_says_it_in_words_and_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.clock.SystemClock.wall", lambda clock: WALL)
    nothing = CliRunner().invoke(command, [], standalone_mode=False)
    assert (nothing.return_value, nothing.stderr) == (
        0,
        "nothing is remembered: no console or check on a real fleet has run here\n",
    )
    save()
    said = CliRunner().invoke(command, [], standalone_mode=False)
    assert said.stdout.splitlines() == [
        "where                 what                 24 h  7 d  30 d  stands at",
        "gpu-002/ib/mlx5_3:2   Link downs             +2   +2    +2          ?",
        "gpu-001/disk/nvme0n1  Reallocated sectors        +11   +21         61",
    ]
    one = CliRunner().invoke(command, ["--json", "--node", "gpu-002"], standalone_mode=False)
    document = json.loads(one.stdout)
    assert document["schema"] == "stethoscope.growth/1"
    assert [change["where"] for change in document["changes"]] == ["gpu-002/ib/mlx5_3:2"]
    (of_fleet("history", "prod", "db").parent / "x.db").write_bytes(b"no" * 4000)
    assert CliRunner().invoke(command, [], standalone_mode=False).return_value == 65
