"""What was chosen is kept by fleet, and nothing that a file holds can break the next start."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from stethoscope.session.view_state import SCHEMA, ViewState

if TYPE_CHECKING:
    from pathlib import Path


def test_each_fleet_has_its_own(tmp_path: Path) -> None:
    one, other = ViewState("prod a", tmp_path), ViewState("prod/a", tmp_path)
    assert one.load() == {}
    one.save({"view": {"sort": "name"}, "selected": ["gpu-001"]})
    assert ViewState("prod a", tmp_path).load()["selected"] == ["gpu-001"]
    assert other.load() == {}
    assert one.path.parent == other.path.parent == tmp_path
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [one.path.name]


@pytest.mark.parametrize("fleet", ["", "../../etc/passwd", "a\x00b", "x" * 500, "\ud83d"])
def test_a_fleet_of_any_name_has_a_file_in_the_directory(fleet: str, tmp_path: Path) -> None:
    state = ViewState(fleet, tmp_path)
    state.save({"view": {}})
    assert state.path.parent == tmp_path
    assert ViewState(fleet, tmp_path).load()["view"] == {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"schema":"other/1"}', b" " * 5_000_000]
)
def test_what_cannot_be_read_is_nothing(content: bytes, tmp_path: Path) -> None:
    state = ViewState("f", tmp_path)
    state.path.write_bytes(content)
    state.named_path.write_bytes(content)
    assert state.load() == {}
    assert state.named() == {}


def test_named_views_are_for_all_fleets(tmp_path: Path) -> None:
    ViewState("a", tmp_path).save_named("heat", {"metric": "gpu_temp"})
    ViewState("b", tmp_path).save_named("clock", {"metric": "gpu_sm_clock"})
    assert list(ViewState("c", tmp_path).named()) == ["clock", "heat"]
    ViewState("b", tmp_path).save_named("heat", {"metric": "gpu_mem_temp"})
    assert ViewState("a", tmp_path).named()["heat"] == {"metric": "gpu_mem_temp"}
    state = ViewState("a", tmp_path)
    state.named_path.write_text(json.dumps({"schema": SCHEMA, "views": {"a\x1b": {}, "b": 7, "c": {}}}))
    assert state.named() == {"c": {}}


def test_where_nothing_can_be_written_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="exists"):
        ViewState("f", tmp_path / "file").save({})
