"""What is set aside comes back byte by byte, from a file that nobody else sees, or from memory where there can be
none."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stethoscope.store import aside as module
from stethoscope.store.aside import NOWHERE, Aside, length_of

if TYPE_CHECKING:
    from pathlib import Path


def pieces(count: int, seed: int = 1) -> list[bytes]:
    random = np.random.default_rng(seed)
    return [random.bytes(int(length)) for length in random.integers(0, 9_000, count)]


@pytest.fixture(params=["file", "memory"])
def near(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "file":
        return tmp_path
    (tmp_path / "file").write_bytes(b"")
    return tmp_path / "file" / "no directory"


def test_each_piece_comes_back(near: Path) -> None:
    aside, told = Aside(near), pieces(300)
    places = [*aside.keep(told[:100]), *aside.keep([]), *aside.keep(told[100:101]), *aside.keep(told[101:])]
    assert [aside.at(place) for place in places] == told
    assert length_of(np.array(places)) == sum(map(len, told))


def test_the_file_has_no_name_and_is_for_the_user_alone(tmp_path: Path) -> None:
    one, beside = Aside(tmp_path), Aside(tmp_path / "a.sthr")
    for aside in (one, beside):
        aside.keep([b"x"])
        assert aside._file is not None
        found = os.fstat(aside._file.fileno())
        assert (stat.S_IMODE(found.st_mode), found.st_nlink, found.st_dev) == (0o600, 0, tmp_path.stat().st_dev)
    assert [*tmp_path.iterdir()] == []


def test_what_nobody_wants_any_more_takes_no_room(near: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROOM", 2**16)
    monkeypatch.setattr(module, "_ROOM_IN_MEMORY", 2**16)
    monkeypatch.setattr(module, "_READ", 2**15)
    aside, random = Aside(near), np.random.default_rng(2)
    wanted: tuple[Any, ...] = tuple(np.full(70, NOWHERE, np.int64) for _ in range(2))
    told: dict[tuple[int, int], bytes] = {}
    largest = 0
    for turn in range(60):
        news = {(int(random.integers(2)), int(random.integers(70))): piece for piece in pieces(20, turn)}
        for (part, at), place in zip(news, aside.keep([*news.values()]), strict=True):
            wanted[part][at] = place
        told |= news
        if aside.is_full:
            aside.move(*wanted)
        largest = max(largest, aside._size)
        assert all(aside.at(int(wanted[part][at])) == piece for (part, at), piece in told.items())
    assert largest < 3 * sum(map(len, told.values())) + 2**17
    assert (wanted[0] == NOWHERE).any() == (len({at for part, at in told if part == 0}) < 70)


def test_a_full_disk_takes_nothing_that_was_told(tmp_path: Path) -> None:
    aside, told = Aside(tmp_path), pieces(40)
    places = aside.keep(told[:20])
    file: Any = aside._file

    class Full:
        """The file, on a disk that has no room any more."""

        seek, read, close = file.seek, file.read, file.close

        def write(self, data: Any) -> int:
            """Take a part of it."""
            if len(data) > 10_000:
                return int(file.write(data[:10_000]))
            raise OSError(28, "no space left on device")

    aside._file = Full()  # type: ignore[assignment]
    places += aside.keep(told[20:])
    assert file.closed
    assert [aside.at(place) for place in places] == told
    wanted = np.array(places)
    aside.move(wanted)
    assert [aside.at(place) for place in wanted.tolist()] == told


def test_what_is_closed_is_gone_and_may_begin_anew(near: Path) -> None:
    aside = Aside(near)
    aside.keep(pieces(9))
    file = aside._file
    aside.close()
    assert file is not None
    assert file.closed
    aside.close()
    (place,) = aside.keep([b"new"])
    assert aside.at(place) == b"new"


def test_what_a_disk_has_lost_is_empty(tmp_path: Path) -> None:
    aside, told = Aside(tmp_path), pieces(9)
    wanted = np.array(aside.keep(told))
    assert aside._file is not None
    os.ftruncate(aside._file.fileno(), sum(map(len, told[:5])))
    assert [aside.at(place) for place in wanted.tolist()] == [*told[:5], b"", b"", b"", b""]
    aside.keep([b"new"])
    assert len(aside.at(int(wanted[-1]))) == len(told[-1])
