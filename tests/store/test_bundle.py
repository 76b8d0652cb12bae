"""Bundles: one file with everything, for the user alone, in which nothing can be changed unseen."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest
import zstandard

from stethoscope.errors import DataError
from stethoscope.store import bundle as store
from stethoscope.store.bundle import Bundle, Member, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

HEAD = {"fleet": "prod-a", "root_cause": "ib_link_fault"}


def written(path: Path, *, text: bytes = b"a verdict") -> Path:
    large = path.with_suffix(".raw")
    large.write_bytes(b"line\n" * 100_000)
    write_bundle(path, HEAD, [Member("verdict.md", "to read", text), Member("recording.sthr", "lines", large)])
    return path


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def rewritten(path: Path, parts: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_what_is_written_is_read_again_and_is_for_the_user_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "deep" / "night.bundle") if (tmp_path / "deep").mkdir() is None else tmp_path
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == ["night.bundle", "night.raw"], "no rest is left"
    bundle = Bundle(path)
    assert bundle.head["fleet"] == "prod-a"
    assert list(bundle.members) == ["verdict.md", "recording.sthr"]
    assert bundle.read("verdict.md") == b"a verdict"
    bundle.extract("recording.sthr", tmp_path / "out.sthr")
    assert (tmp_path / "out.sthr").read_bytes() == b"line\n" * 100_000
    assert all(name.endswith(".zst") for name in members(path))
    bundle.close()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = written(tmp_path / "a.bundle")
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        written(path, text=b"another")
    assert path.read_bytes() == before


def test_a_member_that_was_changed_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.bundle")
    parts = members(path)
    parts["verdict.md.zst"] = zstandard.compress(b"a verdikt")
    with pytest.raises(DataError, match=r"verdict\.md is not what the manifest says"):
        Bundle(rewritten(path, parts)).read("verdict.md")
    parts["verdict.md.zst"] = b"no frame"
    with pytest.raises(DataError, match="damaged"):
        Bundle(rewritten(path, parts)).read("verdict.md")
    del parts["verdict.md.zst"]
    with pytest.raises(DataError, match=r"no verdict\.md"):
        Bundle(rewritten(path, parts)).read("verdict.md")


def test_lines_of_the_manifest_can_be_added_and_not_taken_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.bundle")
    parts = members(path)
    lines = zstandard.decompress(parts["manifest.jsonl.zst"], 1 << 20).splitlines(keepends=True)
    parts["manifest.jsonl.zst"] = zstandard.compress(lines[0] + lines[2])
    with pytest.raises(DataError, match="line 2 of the manifest was changed"):
        Bundle(rewritten(path, parts))


def test_a_bomb_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.bundle")
    monkeypatch.setattr(store, "LARGEST", 1000)
    with pytest.raises(DataError, match="larger than"):
        Bundle(path).extract("recording.sthr", tmp_path / "out")
    monkeypatch.setattr(store, "LARGEST_TEXT", 2000)
    with pytest.raises(DataError, match="larger than"):
        Bundle(path).read("recording.sthr")


@pytest.mark.parametrize("content", [b"", b"no tar at all", b"\0" * 10_240])
def test_what_is_no_bundle_says_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"no bundle|no manifest"):
        Bundle(path)
    with pytest.raises(DataError):
        Bundle(tmp_path / "not there")
