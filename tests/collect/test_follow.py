"""Logs that grow, are rotated, and are cut back."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

from stethoscope.collect.files import find_logs
from stethoscope.collect.follow import Follower

if TYPE_CHECKING:
    from pathlib import Path


def more(follower: Follower) -> list[tuple[bytes, bool]]:
    return [(grown.data, grown.is_fresh) for grown in follower.more()]


def test_growth(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    follower = Follower(find_logs([str(path)])[0])
    assert more(follower) == [(b"one\n", True)]
    assert more(follower) == []
    with path.open("ab") as file:
        file.write(b"tw")
    assert more(follower) == [(b"tw", False)]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert more(follower) == [(b"o\n", False)]
    follower.close()


def test_rotation_reads_the_old_file_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    follower = Follower(find_logs([str(path)])[0])
    more(follower)
    with path.open("ab") as file:
        file.write(b"last\n")
    path.rename(tmp_path / "a.log.1")
    path.write_bytes(b"new\n")
    assert more(follower) == [(b"last\n", False), (b"new\n", True)]
    follower.close()


def test_between_two_names_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    follower = Follower(find_logs([str(path)])[0])
    more(follower)
    path.unlink()
    assert more(follower) == []
    path.write_bytes(b"again\n")
    assert more(follower) == [(b"again\n", True)]
    follower.close()


def test_a_file_that_was_cut_back_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\n")
    follower = Follower(find_logs([str(path)])[0])
    more(follower)
    os.truncate(path, 0)
    assert more(follower) == []
    path.write_bytes(b"x\n")
    assert more(follower) == [(b"x\n", True)]
    follower.close()


def test_an_empty_file_waits_for_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    follower = Follower(find_logs([str(path)])[0])
    assert more(follower) == []
    path.write_bytes(b"x\n")
    assert more(follower) == [(b"x\n", True)]
    follower.close()


def test_what_cannot_grow_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(b"one\n"))
    follower = Follower(find_logs([str(path)])[0])
    assert more(follower) == [(b"one\n", True)]
    assert follower.is_over
    assert more(follower) == []
