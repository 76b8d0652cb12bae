"""The mark on disk and in the session: it outlives the console, is private, and never in the way."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
import zstandard

from stethoscope.errors import DataError
from stethoscope.model.mark import Mark
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.session.mark import MarkFile, MarkKeeper
from tests.builders import fleet

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot


def counted(symbols: int) -> FleetSnapshot:
    return replace(fleet(2, totals={("gpu-002/ib/mlx5_1", "ib_symbol_error"): symbols}))


def since(mark: Mark | None, snapshot: FleetSnapshot) -> int | Missing:
    assert mark is not None
    return mark.since(replace(snapshot, wall=snapshot.wall + 60), Scope.PORT, "ib_symbol_error", 9)


def test_a_mark_outlives_the_session(tmp_path: Path) -> None:
    file = MarkFile("test", tmp_path)
    assert file.read() is None
    file.write(Mark.of(counted(100)))
    kept = MarkFile("test", tmp_path).read()
    assert kept is not None
    assert (kept.fleet, kept.wall) == ("test", counted(0).wall)
    assert since(kept, counted(142)) == 42
    assert since(kept, counted(7)) == Missing(Reason.RESET)
    file.clear()
    file.clear()
    assert file.read() is None


def test_it_is_private_and_in_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = MarkFile("../a b/c")
    file.write(Mark.of(replace(counted(1), fleet="../a b/c")))
    assert file.path.parent == tmp_path / "stethoscope" / "marks"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]
    assert file.read() is not None


def test_fleets_with_similar_names_have_marks_of_their_own(tmp_path: Path) -> None:
    names = ["a/b", "a_b", "a b", ".a_b", "", "/" * 300]
    assert len({MarkFile(name, tmp_path).path for name in names}) == len(names)
    assert all(MarkFile(name, tmp_path).path.parent == tmp_path for name in names)


@pytest.mark.parametrize("content", [b"", b"junk", zstandard.compress(b"junk"), zstandard.compress(b"\x80")])
def test_a_file_that_is_no_mark_is_told(tmp_path: Path, content: bytes) -> None:
    file = MarkFile("test", tmp_path)
    file.path.write_bytes(content)
    with pytest.raises(DataError, match="not a mark"):
        file.read()
    keeper = MarkKeeper(file)
    assert keeper.mark is None
    assert keeper.take_notices()[0].startswith("the mark is not used, M sets another: ")
    assert keeper.take_notices() == []
    keeper.set(counted(5))
    assert since(file.read(), counted(6)) == 1


def test_a_mark_whose_rows_are_not_in_its_tables_is_refused(tmp_path: Path) -> None:
    file = MarkFile("test", tmp_path)
    file.write(Mark.of(counted(100)))
    content = msgspec.msgpack.decode(zstandard.decompress(file.path.read_bytes(), max_output_size=2**24))
    content["nodes"]["gpu-002"]["first"]["ib_port"] = 12
    file.path.write_bytes(zstandard.compress(msgspec.msgpack.encode(content)))
    with pytest.raises(DataError, match="the rows of gpu-002 are outside of the table"):
        file.read()


def test_the_mark_of_another_fleet_is_refused(tmp_path: Path) -> None:
    other = MarkFile("other", tmp_path)
    other.write(Mark.of(replace(counted(100), fleet="other")))
    other.path.rename(MarkFile("test", tmp_path).path)
    with pytest.raises(DataError, match="of another kind or fleet"):
        MarkFile("test", tmp_path).read()


def test_what_cannot_be_kept_is_told_and_holds_in_this_console(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keeper = MarkKeeper(MarkFile("test", tmp_path / "file"))
    keeper.take_notices()
    keeper.set(counted(100))
    assert since(keeper.mark, counted(142)) == 42
    assert keeper.take_notices()[0].startswith("the mark will be lost with this console: ")


async def test_it_is_written_beside_the_event_loop(tmp_path: Path) -> None:
    file = MarkFile("test", tmp_path)
    keeper = MarkKeeper(file)
    for symbols in (1, 2, 3):
        keeper.set(counted(symbols))
    await asyncio.get_running_loop().shutdown_default_executor()
    assert since(file.read(), counted(10)) == 7


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keeper = MarkKeeper()
    keeper.set(counted(1))
    keeper.clear()
    assert keeper.mark is None
    assert list(tmp_path.iterdir()) == []


def test_values_of_what_does_not_count_are_kept_and_older_files_are_read_without(tmp_path: Path) -> None:
    file = MarkFile("test", tmp_path)
    mark = Mark.of(fleet(2, set={("gpu-002/gpu/1", "gpu_temp"): 71.5, ("gpu-001/gpu/0", "gpu_temp"): Reason.HUNG}))
    file.write(mark)
    kept = file.read()
    assert kept is not None
    temperatures = kept.values[Scope.GPU].values[kept.values[Scope.GPU].metrics.index("gpu_temp")]
    assert temperatures[9] == 71.5
    assert temperatures[0] != temperatures[0], "it was missing"
    old = msgspec.msgpack.decode(zstandard.decompress(file.path.read_bytes()))
    old["schema"] = "stethoscope.mark/1"
    del old["values"]
    file.path.write_bytes(zstandard.compress(msgspec.msgpack.encode(old)))
    first = file.read()
    assert first is not None
    assert first.values == {}
    assert since(first, counted(142)) == 142
