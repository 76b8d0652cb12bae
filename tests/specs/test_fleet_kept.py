"""Large fleet files are understood once, and again whenever anything about them changes."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.specs import fleet_kept
from stethoscope.specs.compiled import write
from stethoscope.specs.fleet import read_fleet
from stethoscope.specs.fleet_kept import LARGE, kept_fleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.specs.fleet import Fleet

WHOLE = """\
schema: stethoscope.fleet/1
name: demo
simulated: true
defaults: {user: sim, port: 2222, identity_file: ~/id, known_hosts: kh, interval: 2s, gpus: 8, sudo: -n}
groups:
  all: {nodes: "gpu-[0001-1000]", pod: pod-01, jump: bastion, ports: {"mlx5_[0-3]": {rail: "{n}", leaf: "l-{rack}"}}}
  rack-01: {nodes: "gpu-[0001-0002]", rack: rack-01, ib_ports: 4, ib_gbps: 400, job_logs: /shared/%j.out}
slurm: {via: "kim@login:2200"}
hosts:
"""
HOSTS = "".join(f"  gpu-{number:04}: {{address: 127.0.{number // 256}.{number % 256}}}\n" for number in range(1, 1001))


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "stethoscope" / "compiled"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(WHOLE + HOSTS)
    return file


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    files: list[str] = []

    def noted(path: str | Path) -> Fleet:
        files.append(str(path))
        return read_fleet(path)

    monkeypatch.setattr(fleet_kept, "read_fleet", noted)
    return files


def test_it_is_the_same_fleet_and_read_once(path: Path, cache: Path, read: list[str]) -> None:
    expected = read_fleet(path)
    assert kept_fleet(path) == kept_fleet(str(path)) == expected
    assert read == [str(path)]
    (file,) = cache.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_changed_file_is_read_again(path: Path, read: list[str]) -> None:
    kept_fleet(path)
    path.write_text((WHOLE + HOSTS).replace("user: sim", "user: kim"))
    assert kept_fleet(path).nodes[0].user == "kim"
    assert len(read) == 2


def test_what_is_meant_from_another_place_is_read_again(
    path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_fleet(path)
    monkeypatch.setenv("HOME", "/elsewhere")
    assert kept_fleet(path).nodes[0].identity_file == "/elsewhere/id"
    monkeypatch.chdir(path.parent)
    assert kept_fleet(path.name).nodes[0].known_hosts == "kh"
    assert len(read) == 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-9]),
        lambda file: write(file, {"name": "x", "nodes": [{"name": 7}]}),
        lambda file: write(file, []),
    ],
)
def test_a_broken_form_is_no_fleet(path: Path, cache: Path, read: list[str], spoil: Callable[[Path], object]) -> None:
    expected = kept_fleet(path)
    (file,) = cache.iterdir()
    spoil(file)
    assert kept_fleet(path) == expected
    assert len(read) == 2


def test_a_small_file_is_not_kept(path: Path, cache: Path) -> None:
    path.write_text(WHOLE + HOSTS[: LARGE // 2].rpartition("\n")[0])
    assert kept_fleet(path) == read_fleet(path)
    assert not cache.exists()


def test_what_is_wrong_with_a_file_is_said_every_time(path: Path, tmp_path: Path) -> None:
    path.write_text(WHOLE + HOSTS + "  gpu-x: {port: 99999}\n")
    for _ in range(2):
        with pytest.raises(DataError, match=r"fleet.yaml:1010:\d+"):
            kept_fleet(path)
    with pytest.raises(DataError, match="No such file"):
        kept_fleet(tmp_path / "none.yaml")
