"""What slow counters counted stays on disk: over restarts, kills, shared use, and files that are broken."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stethoscope.errors import DataError
from stethoscope.model.metric import Scope
from stethoscope.model.past import DAY_S, KEEP_S, Change, Standing
from stethoscope.store.slow import SlowFile

if TYPE_CHECKING:
    from pathlib import Path

WALL = 1_773_360_000.0
"""Midnight of a day."""
METRIC = "ib_link_downed"


def standing(last: float, first: float = WALL, devices: tuple[str, ...] = ("mlx5_0:1",)) -> Standing:
    numbers = np.full(len(devices), last)
    return Standing("gpu-001", Scope.PORT, devices, np.full(len(devices), first), {METRIC: numbers})


def change(amount: float, slot: float = WALL, device: str = "mlx5_0:1") -> Change:
    return Change(METRIC, "gpu-001", device, slot, amount)


@pytest.fixture
def file(tmp_path: Path) -> SlowFile:
    return SlowFile(tmp_path / "history" / "prod.db", "prod")


def test_nothing_is_kept_yet(file: SlowFile) -> None:
    assert file.read(WALL) == ([], [], {})
    assert not file.path.exists()


def test_what_is_saved_comes_back(file: SlowFile) -> None:
    file.save([standing(4)], [change(1), change(2, WALL + 600)], {"gpu-001": WALL + 700})
    standings, changes, seen = file.read(WALL + 700)
    assert [(kept.node, kept.scope, kept.devices) for kept in standings] == [("gpu-001", Scope.PORT, ("mlx5_0:1",))]
    assert standings[0].last[METRIC].tolist() == [4]
    assert standings[0].first.tolist() == [WALL]
    assert changes == [change(1), change(2, WALL + 600)]
    assert seen == {"gpu-001": WALL + 700}
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_two_consoles_book_a_change_once(file: SlowFile) -> None:
    one, two = file, SlowFile(file.path, "prod")
    one.save([standing(4)], [], {})
    two.save([standing(4, WALL + 50)], [], {})
    # Both see the total go from 4 to 7; the second a little later, at 8.
    one.save([standing(7)], [change(3)], {})
    two.save([standing(8, WALL + 50)], [change(3), change(1, WALL + 600)], {})
    standings, changes, _ = file.read(WALL + 700)
    assert changes == [change(3), change(1, WALL + 600)]
    assert (standings[0].last[METRIC].tolist(), standings[0].first.tolist()) == ([8], [WALL])


def test_a_reset_between_two_saves_loses_nothing_of_what_came_after_it(file: SlowFile) -> None:
    file.save([standing(200)], [], {})
    file.save([standing(3)], [change(3)], {})
    assert file.read(WALL)[1] == [change(3)]


def test_what_is_old_is_merged_by_days_and_what_is_very_old_is_forgotten(file: SlowFile) -> None:
    now = WALL + 10 * DAY_S + 7200
    entries = [change(1, WALL + 600), change(2, WALL + 1200), change(4, now - 600), change(9, now - KEEP_S - 600)]
    file.save([standing(7)], entries, {})
    assert file.read(now)[1] == [change(3, WALL), change(4, now - 600)]
    assert file.read(now)[1] == [change(3, WALL), change(4, now - 600)]


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be looked at" * 40])
def test_a_file_that_is_none_of_ours(file: SlowFile, content: bytes) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes(content)
    if not content:
        file.save([standing(1)], [change(1)], {})
        assert file.read(WALL)[1] == [change(1)]
        return
    with pytest.raises(DataError, match=r"prod\.db: cannot be read"):
        file.read(WALL)
    with pytest.raises(DataError, match=r"prod\.db: cannot be written"):
        file.save([standing(1)], [change(1)], {})
    aside = file.set_aside(WALL)
    assert aside.read_bytes() == content
    file.save([standing(1)], [change(1)], {})
    assert file.read(WALL)[1] == [change(1)]


def test_that_of_another_fleet_is_not_taken(file: SlowFile) -> None:
    file.save([standing(1)], [], {})
    with pytest.raises(DataError, match="of another kind or fleet"):
        SlowFile(file.path, "other").read(WALL)


def test_rows_that_somebody_broke_are_an_error_and_no_traceback(file: SlowFile) -> None:
    file.save([standing(1)], [], {})
    with sqlite3.connect(file.path) as database:
        database.execute("update standing set packed = x'0011'")
    database.close()
    with pytest.raises(DataError, match="cannot be read"):
        file.read(WALL)


_WRITER = """
import sys
from pathlib import Path
import numpy as np
from stethoscope.model.metric import Scope
from stethoscope.model.past import Change, Standing
from stethoscope.store.slow import SlowFile

file = SlowFile(Path(sys.argv[1]), "prod")
for total in range(1, 100000):
    last = {"ib_link_downed": np.array([float(total)])}
    file.save(
        [Standing("gpu-001", Scope.PORT, ("mlx5_0:1",), np.array([1.0]), last)],
        [Change("ib_link_downed", "gpu-001", "mlx5_0:1", float(total), 1.0)],
        {},
    )
    print(total, flush=True)
"""


def test_kill_9_in_the_midst_of_writing_costs_nothing_that_was_saved(file: SlowFile) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(file.path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = 0
    while told < 20:
        told = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    said = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait()
    told = int(said[-1]) if said else told
    standings, changes, _ = file.read(0.0)
    total = standings[0].last[METRIC][0]
    assert total in (told, told + 1)
    assert sum(entry.amount for entry in changes) == total
