"""Where files are: the bundled ones in a checkout, the user's by XDG, private ones readable by the user alone."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.paths import bundled, cache_dir, config_dir, data_dir, state_dir, write_private

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(("kind", "file"), [("playbooks", "metrics.yaml"), ("probes", "stream.py")])
def test_bundled_files_are_found(kind: str, file: str) -> None:
    assert (bundled(kind) / file).is_file()


@pytest.mark.parametrize(
    ("find", "variable", "default"),
    [
        (config_dir, "XDG_CONFIG_HOME", ".config"),
        (state_dir, "XDG_STATE_HOME", ".local/state"),
        (data_dir, "XDG_DATA_HOME", ".local/share"),
        (cache_dir, "XDG_CACHE_HOME", ".cache"),
    ],
)
def test_xdg(find: Callable[[], Path], variable: str, default: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/srv/x")
    assert find() == Path("/srv/x/stethoscope")
    for nothing in ("", "relative/path"):
        monkeypatch.setenv(variable, nothing)
        assert find() == Path.home() / default / "stethoscope"
    monkeypatch.delenv(variable)
    assert find() == Path.home() / default / "stethoscope"


def test_a_private_file_is_private_from_the_start_and_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "new" / "known_hosts"
    write_private(path, b"one")
    assert path.read_bytes() == b"one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["known_hosts"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    (path / "inside").touch()
    with pytest.raises(OSError, match="taken"):
        write_private(path, b"content")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
