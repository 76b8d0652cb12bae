"""Opening logs: every compression by its content, names of all kinds, and files that are broken or none."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stethoscope.collect.files import BLOCK, LogReader, LogSource, find_logs, in_turn, natural
from stethoscope.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b"".join(b"line %d of a log\n" % n for n in range(5000))
PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "two gzips": gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]),
    "zstd": zstandard.compress(TEXT),
    "two zstds": zstandard.compress(TEXT[:1000]) + zstandard.compress(TEXT[1000:]),
    "xz": lzma.compress(TEXT),
    "bzip2": bz2.compress(TEXT),
}


def read(path: Path) -> tuple[bytes, LogReader]:
    reader = LogReader(LogSource(str(path), str(path), path.stat().st_size))
    return b"".join(reader.blocks()), reader


@pytest.mark.parametrize("kind", PACKED)
def test_all_compressions_by_their_content(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(PACKED[kind])
    data, reader = read(path)
    assert data == TEXT
    assert (reader.trouble, reader.raw_bytes) == ("", len(PACKED[kind]))


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_what_was_cut_off_gives_what_is_there(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(PACKED[kind][: len(PACKED[kind]) * 2 // 3])
    data, reader = read(path)
    assert TEXT.startswith(data)
    assert reader.trouble == f"the {kind} data end in the middle"


def test_a_few_bytes_that_stand_for_many_come_in_blocks(tmp_path: Path) -> None:
    for name, packed in (
        ("a", gzip.compress(bytes(1) + b"x" * 50_000_000)),
        ("b", zstandard.compress(b"x" * 50_000_000)),
    ):
        (tmp_path / name).write_bytes(packed)
        reader = LogReader(LogSource(name, str(tmp_path / name)))
        sizes = [len(block) for block in reader.blocks()]
        assert sum(sizes) >= 50_000_000
        assert max(sizes) <= BLOCK + 64 * 1024


@pytest.mark.parametrize(("coding", "text"), [("utf-16", "Fehler: größer\n"), ("utf-16-le", "\ufeffboo\n")])
def test_sixteen_bits(coding: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(text.encode(coding))
    assert read(tmp_path / "a.log")[0].decode() == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x7fELF" + bytes(100), "not a text: a program"),
        (b"PK\x03\x04" + bytes(100), "not a text: a zip archive"),
        (b"LPKSHHRH" + bytes(100), "not a text: a binary journal: read it with journalctl --file"),
        (bytes(1000), "not a text: nothing but zeros"),
        (bytes(range(32)) * 20, "not a text: binary data"),
        (bytes(257) + b"ustar" + bytes(300), "not a text: a tar archive; unpack it first"),
    ],
)
def test_what_is_no_log(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    data, reader = read(tmp_path / "a")
    assert (data, reader.trouble, reader.is_refused) == (b"", why, True)


def test_zeros_of_a_crash_and_old_codings_are_text(tmp_path: Path) -> None:
    for content in (bytes(5000) + TEXT, "größer\n".encode("latin-1") * 50, b""):
        (tmp_path / "a").write_bytes(content)
        assert read(tmp_path / "a")[0] == content


def test_an_unreadable_file_costs_only_itself(tmp_path: Path) -> None:
    reader = LogReader(LogSource("gone", str(tmp_path / "gone")))
    assert list(reader.blocks()) == []
    assert reader.trouble == "No such file or directory"
    os.mkfifo(tmp_path / "pipe")
    assert [source.name for source in find_logs([str(tmp_path)])] == []


def test_names(tmp_path: Path) -> None:
    for name in ("rank10.log", "rank2.log", "sub/rank1.log", ".hidden", "sub/.git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x\n")
    whole = [source.name.removeprefix(f"{tmp_path}/") for source in find_logs([str(tmp_path)])]
    assert whole == ["rank2.log", "rank10.log", "sub/rank1.log"]
    fits = find_logs([f"{tmp_path}/rank*.log", str(tmp_path / "rank2.log"), "-"])
    assert [source.name.rpartition("/")[2] for source in fits] == ["rank2.log", "rank10.log", "stdin"]
    assert fits[0].size == 2
    with pytest.raises(DataError, match="nothing: no such file"):
        find_logs(["nothing"])
    with pytest.raises(DataError, match="no file fits this pattern"):
        find_logs([f"{tmp_path}/*.nothing"])


def test_a_name_that_looks_like_a_pattern_is_a_file_when_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "a[1].log").write_text("x\n")
    assert [source.path for source in find_logs([str(tmp_path / "a[1].log")])] == [str(tmp_path / "a[1].log")]


def test_what_was_rotated_away_comes_first() -> None:
    names = ["kern.log", "kern.log.1", "kern.log.10.gz", "kern.log.2.gz", "rank.1", "rank.2"]
    assert in_turn(names) == ["kern.log.10.gz", "kern.log.2.gz", "kern.log.1", "kern.log", "rank.1", "rank.2"]


def test_numbers_in_names_are_numbers() -> None:
    assert sorted(["r10", "r9", "r", "10", "9a"], key=natural) == ["9a", "10", "r", "r9", "r10"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), kind=st.sampled_from(["", "gzip", "zstd", "xz", "bzip2"]), at=st.integers(0, 300))
def test_broken_data_never_raise(data: bytes, kind: str, at: int, tmp_path: Path) -> None:
    whole = PACKED[kind][:at] + data if kind else data
    (tmp_path / "fuzz").write_bytes(whole)
    read(tmp_path / "fuzz")


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "fine.log").write_text("x\n")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    found = find_logs([str(tmp_path)])
    assert [source.name for source in found] == [str(tmp_path / "fine.log"), str(tmp_path / "gone.log")]
    reader = LogReader(found[1])
    assert (list(reader.blocks()), reader.trouble) == ([], "No such file or directory")
